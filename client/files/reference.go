package files

import (
	"errors"
	"os"
	"path"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/lazy"
)

const (
	fromEnv  = "fromEnv"
	fromFile = "fromFile"
)

// maxReferencedFile is the maximum size of a file that a reference names, in bytes.
const maxReferencedFile = 1 << 20

// Reference says where the value of a field is, if it is not in the file. A plan stores a secret's Reference, and not
// its value.
type Reference struct {
	Env string `json:"fromEnv,omitempty"`
	// A relative File is relative to the folder In and within In. If it is a link, its target is within In, too. An
	// absolute File can be anywhere, and In is empty.
	File string `json:"fromFile,omitempty"`
	In   string `json:"in,omitempty"`
}

// String returns a description for people.
func (r Reference) String() string {
	if r.Env != "" {
		return "the variable " + r.Env + " of the environment"
	}
	return "the file " + r.File
}

var envVariableName = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readReference reads a YAML object whose first member is fromEnv or fromFile as a Reference. If the object has further
// members or an invalid value, readReference reports a problem, and ok is false. For any other YAML value, isRef is
// false and ok is true.
func (r *reader) readReference(n *yaml.Node) (ref *Reference, isRef, ok bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 || n.Content[0].Value != fromEnv &&
		n.Content[0].Value != fromFile {
		return nil, false, true
	}
	key, value := n.Content[0], n.Content[1]
	switch {
	case len(n.Content) != 2:
		r.addProblemAt(n, "A value comes from one place: %s or %s, and nothing beside it.", fromEnv, fromFile)
	case value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str" || value.Value == "":
		r.addProblemAt(value, "%s has to be a text.", key.Value)
	case key.Value == fromEnv && !envVariableName().MatchString(value.Value):
		r.addProblemAt(value, "%s is the name of a variable of the environment, such as SHOP_TOKEN.", fromEnv)
	case key.Value == fromEnv:
		return &Reference{Env: value.Value}, true, true
	case path.IsAbs(value.Value) || filepath.IsAbs(value.Value):
		return &Reference{File: filepath.Clean(value.Value)}, true, true
	default:
		name := path.Join(path.Dir(r.file), value.Value)
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			r.addProblemAt(value, "%s leads out of the folder with the files: put it there, or name it from the root (/…).",
				value.Value)
			return nil, false, false
		}
		return &Reference{File: name, In: r.dir}, true, true
	}
	return nil, false, false
}

// Value reads the value from the environment, or from the file without its last line break. It returns an error if the
// value is empty. The error never contains a part of the value.
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
	text, err := readRegular(root, name, maxReferencedFile)
	if err != nil {
		return "", errors.New(r.String() + " cannot be read: " + disk.Cause(err).Error())
	}
	value := trimNewline(text)
	if value == "" {
		return "", errors.New(r.String() + " is empty")
	}
	return value, nil
}

// trimNewline returns the text of a file without its last line break, which editors add.
func trimNewline(text []byte) string {
	for _, suffix := range []string{"\n", "\r"} {
		if n := len(text); n > 0 && string(text[n-1:]) == suffix {
			text = text[:n-1]
		}
	}
	return string(text)
}
