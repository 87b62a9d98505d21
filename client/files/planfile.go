package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/disk"
)

// private is the mode of what a person alone may read: a plan has what an account holds, though no secret.
const private = 0o600

// planBegins is how the file of a plan does.
const planBegins = "{\n \"format\": "

// digest is of everything else in a plan: a plan that was edited, or is torn, is not applied.
func (p *Plan) digest() string {
	of := *p
	of.Digest = ""
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(&of); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Write writes the plan into a file for its owner alone, whole or not at all. One that is there is replaced only where nothing of it
// has been applied.
func (p *Plan) Write(path string) error {
	if _, err := os.Lstat(path + progressSuffix); err == nil {
		return usage("%s was begun to be applied, as %s says: go on with `gatewright apply %s`, or give the new plan another name", path, path+progressSuffix, path)
	}
	switch plan, err := isPlan(path); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return usage("%s is there and cannot be read, and is not written over: %w", path, disk.Cause(err))
	case !plan:
		return usage("%s is there and is no plan, and is not written over", path)
	}
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return writeFile(path, append(text, '\n'), private)
}

// isPlan reports whether a file begins as a plan does. It is opened only where it is a file: a pipe would wait for ever.
func isPlan(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	there, err := os.Open(path) //nolint:gosec // G304: a file that the user names
	if err != nil {
		return false, err
	}
	defer func() { _ = there.Close() }()
	begin := make([]byte, len(planBegins))
	n, _ := io.ReadFull(there, begin)
	return string(begin[:n]) == planBegins, nil
}

// writeFile writes a file whole or not at all: beside it first, and then in its place.
func writeFile(path string, text []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return usage("%s cannot be written: %w", path, disk.Cause(err))
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = disk.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("%s cannot be written: %w", path, disk.Cause(err))
	}
	return nil
}

// Load reads a plan, and refuses one that is not as it was written.
func Load(path string) (*Plan, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, usage("%s cannot be read: %w", path, disk.Cause(err))
	}
	defer func() { _ = root.Close() }()
	const mostPlan = 1 << 30
	text, err := regular(root, filepath.Base(path), mostPlan)
	if err != nil {
		return nil, usage("%s cannot be read: %w", path, disk.Cause(err))
	}
	var p Plan
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&p); err != nil || p.Format == 0 {
		return nil, exit.With(exit.Invalid, fmt.Errorf("%s is no plan, or not all of one: `gatewright plan --out %s` writes it", path, path))
	}
	if p.Format != planFormat {
		return nil, exit.With(exit.Invalid, fmt.Errorf("%s is a plan of gatewright %s, which this one does not read: plan again", path, p.Version))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || p.Digest != p.digest() {
		return nil, exit.With(exit.Invalid, fmt.Errorf("%s is not as it was written, and is not applied: plan again", path))
	}
	return &p, nil
}

// Counts says how many changes of each kind there are.
func (p *Plan) Counts() (created, changed, deleted int) {
	for _, c := range p.Changes {
		switch c.Do {
		case Create:
			created++
		case Update:
			changed++
		default:
			deleted++
		}
	}
	return created, changed, deleted
}

// Summary says it in a line.
func (p *Plan) Summary() string {
	created, changed, deleted := p.Counts()
	if len(p.Changes) == 0 {
		return "no changes"
	}
	return fmt.Sprintf("%d to create, %d to change, %d to delete", created, changed, deleted)
}

// Document is the plan for a program: what changes, without the requests that do it.
func (p *Plan) Document() ([]byte, error) {
	type change struct {
		Do     string           `json:"do"`
		Kind   string           `json:"kind"`
		Name   []string         `json:"name"`
		Fields []FieldChange    `json:"fields,omitempty"`
		Goes   map[string]int64 `json:"goes,omitempty"`
	}
	created, changed, deleted := p.Counts()
	d := struct {
		Changes     []change       `json:"changes"`
		Summary     map[string]int `json:"summary"`
		Extra       []string       `json:"extra"`
		NotCompared int            `json:"notCompared"`
	}{Changes: []change{}, Summary: map[string]int{Create: created, Update: changed, Delete: deleted}, Extra: append([]string{}, p.Extra...), NotCompared: p.NotCompared}
	for _, c := range p.Changes {
		d.Changes = append(d.Changes, change{c.Do, c.Kind, c.Name, c.Fields, c.Goes})
	}
	document, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	return document, nil
}
