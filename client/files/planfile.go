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
	"github.com/gatewright/gatewright/shared/base/disk"
)

// privateMode is the mode of files that only their owner can read. A plan shows the content of an account, but no
// secrets.
const privateMode = 0o600

// planPrefix is the beginning of each plan file.
const planPrefix = "{\n \"format\": "

// digest returns a hash of all members of a plan except Digest. It detects a plan that was edited or is incomplete.
func (p *Plan) digest() string {
	unsigned := *p
	unsigned.Digest = ""
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(&unsigned); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Write writes the plan to a file that only its owner can read, in one step. It replaces an existing plan only if no
// call of Apply has started with that plan. It never replaces a file that is not a plan.
func (p *Plan) Write(path string) error {
	if _, err := os.Lstat(path + progressSuffix); err == nil {
		return usageError("%s was begun to be applied, as %s says: go on with `gatewright apply %s`, or give the new plan "+
			"another name", path, path+progressSuffix, path)
	}
	switch isPlanFile, err := isPlan(path); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return usageError("%s is there and cannot be read, and is not written over: %w", path, disk.Cause(err))
	case !isPlanFile:
		return usageError("%s is there and is no plan, and is not written over", path)
	}
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return writeFile(path, append(text, '\n'), privateMode)
}

// isPlan reports whether a file begins like a plan. It opens only regular files, because opening a pipe could block
// forever.
func isPlan(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	f, err := os.Open(path) //nolint:gosec // G304: a file that the user names
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	prefix := make([]byte, len(planPrefix))
	n, _ := io.ReadFull(f, prefix)
	return string(prefix[:n]) == planPrefix, nil
}

// writeFile writes a file in one step: it writes a temporary file in the same folder and renames it.
func writeFile(path string, text []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return usageError("%s cannot be written: %w", path, disk.Cause(err))
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

// Load reads a plan. It refuses a plan that was modified after it was written, and a plan in the format of another
// release.
func Load(path string) (*Plan, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, usageError("%s cannot be read: %w", path, disk.Cause(err))
	}
	defer func() { _ = root.Close() }()
	const maxPlanSize = 1 << 30
	text, err := readRegular(root, filepath.Base(path), maxPlanSize)
	if err != nil {
		return nil, usageError("%s cannot be read: %w", path, disk.Cause(err))
	}
	var p Plan
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&p); err != nil || p.Format == 0 {
		return nil, exit.WithCode(exit.Invalid,
			fmt.Errorf("%s is no plan, or not all of one: `gatewright plan --out %s` writes it", path, path))
	}
	if p.Format != planFormat {
		return nil, exit.WithCode(exit.Invalid,
			fmt.Errorf("%s is a plan of gatewright %s, which this one does not read: plan again", path, p.Version))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || p.Digest != p.digest() {
		return nil, exit.WithCode(exit.Invalid, fmt.Errorf("%s is not as it was written, and is not applied: plan again",
			path))
	}
	return &p, nil
}

// Counts returns the numbers of changes that create, change and delete an object.
func (p *Plan) Counts() (created, changed, deleted int) {
	for _, c := range p.Changes {
		switch c.Action {
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

// Summary returns the counts in one line.
func (p *Plan) Summary() string {
	created, changed, deleted := p.Counts()
	if len(p.Changes) == 0 {
		return "no changes"
	}
	return fmt.Sprintf("%d to create, %d to change, %d to delete", created, changed, deleted)
}

// Document returns the plan as JSON for programs. It has the changes, but not their requests.
func (p *Plan) Document() ([]byte, error) {
	type change struct {
		Action     string           `json:"do"`
		Kind       string           `json:"kind"`
		Name       []string         `json:"name"`
		Fields     []FieldChange    `json:"fields,omitempty"`
		Dependents map[string]int64 `json:"goes,omitempty"`
	}
	created, changed, deleted := p.Counts()
	d := struct {
		Changes     []change       `json:"changes"`
		Summary     map[string]int `json:"summary"`
		Extra       []string       `json:"extra"`
		NotCompared int            `json:"notCompared"`
	}{
		Changes: []change{}, Summary: map[string]int{Create: created, Update: changed, Delete: deleted},
		Extra: append([]string{}, p.Unlisted...), NotCompared: p.NotCompared,
	}
	for _, c := range p.Changes {
		d.Changes = append(d.Changes, change{c.Action, c.Kind, c.Name, c.Fields, c.Dependents})
	}
	document, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("write the plan: %w", err)
	}
	return document, nil
}
