package files

import (
	"errors"
	"os"
	"path"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/lazy"
)

const (
	fromEnv  = "fromEnv"
	fromFile = "fromFile"
)

// mostReferred bounds what a reference's file has, in bytes.
const mostReferred = 1 << 20

// Reference says where the value of a field comes from, which stands in no file. It is what a plan has of a secret.
type Reference struct {
	Env string `json:"fromEnv,omitempty"`
	// File is within the folder In where it is relative, through no link that leads out of it; any file where it is absolute.
	File string `json:"fromFile,omitempty"`
	In   string `json:"in,omitempty"`
}

// String is how a person is told of it.
func (r Reference) String() string {
	if r.Env != "" {
		return "the variable " + r.Env + " of the environment"
	}
	return "the file " + r.File
}

var environmentName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reference is what an object says that has fromEnv or fromFile alone; is is false for any other value, and ok where it is told what
// is wrong with it.
func (r *reader) reference(n *yaml.Node) (from *Reference, is, ok bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 || n.Content[0].Value != fromEnv && n.Content[0].Value != fromFile {
		return nil, false, true
	}
	key, value := n.Content[0], n.Content[1]
	switch {
	case len(n.Content) != 2:
		r.wrong(n, "A value comes from one place: %s or %s, and nothing beside it.", fromEnv, fromFile)
	case value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str" || value.Value == "":
		r.wrong(value, "%s has to be a text.", key.Value)
	case key.Value == fromEnv && !environmentName().MatchString(value.Value):
		r.wrong(value, "%s is the name of a variable of the environment, such as SHOP_TOKEN.", fromEnv)
	case key.Value == fromEnv:
		return &Reference{Env: value.Value}, true, true
	case path.IsAbs(value.Value) || filepath.IsAbs(value.Value):
		return &Reference{File: filepath.Clean(value.Value)}, true, true
	default:
		name := path.Join(path.Dir(r.file), value.Value)
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			r.wrong(value, "%s leads out of the folder with the files: put it there, or name it from the root (/…).", value.Value)
			return nil, false, false
		}
		return &Reference{File: name, In: r.dir}, true, true
	}
	return nil, false, false
}

// Value reads what it stands for, without the end of its last line. The error names no part of it.
func (r Reference) Value(getenv func(string) string) (string, error) {
	if r.Env != "" {
		value := getenv(r.Env)
		if value == "" {
			return "", errors.New(r.String() + " is not set, or empty")
		}
		return value, nil
	}
	dir, name := r.In, filepath.FromSlash(r.File)
	if dir == "" {
		dir, name = filepath.Dir(name), filepath.Base(name)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", errors.New(r.String() + " cannot be read: " + disk.Cause(err).Error())
	}
	defer func() { _ = root.Close() }()
	text, err := regular(root, name, mostReferred)
	if err != nil {
		return "", errors.New(r.String() + " cannot be read: " + disk.Cause(err).Error())
	}
	value := oneText(text)
	if value == "" {
		return "", errors.New(r.String() + " is empty")
	}
	return value, nil
}

// oneText is what a file holds, without the end of its last line, which editors add.
func oneText(text []byte) string {
	for _, end := range []string{"\n", "\r"} {
		if n := len(text); n > 0 && string(text[n-1:]) == end {
			text = text[:n-1]
		}
	}
	return string(text)
}
