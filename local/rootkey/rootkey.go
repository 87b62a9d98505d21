// Package rootkey opens the root key of a local installation. It rejects a key that does not belong to the data. With
// a wrong key, the installation would start, but no consumer would be recognized and no sealed value could be opened.
//
// The engine stores a check value of the key with the data (seal.RootKeyHash). This hash does not reveal the key. A
// backup contains the data and the key.
//
// Package seal defines the use of keys and the format of their files. This package has this file only.
package rootkey

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	sharedrootkey "github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// Name is the name of the key's file in a data directory. NextName is the
// name of the file with the next key during a rotation of the root key.
const (
	Name     = "root.key"
	NextName = Name + seal.NextFile
)

// Engine contains the data that is sealed under the key.
type Engine interface {
	Notes
	SetNotes(set map[string][]byte, remove ...string) error
	// Empty reports whether nothing was ever stored.
	Empty() (bool, error)
}

var _ Engine = (*embedded.Backend)(nil)

// checkNoteKey is the name of the engine's note with the check value of the key.
const checkNoteKey = "root-key"

// Open reads the key at path. If the key is missing and the engine is empty, it creates a key. If the engine has
// data, and the key is missing or belongs to another installation, it returns an error that says what to do.
func Open(ctx context.Context, path string, engine Engine) (*seal.File, error) {
	empty, err := engine.Empty()
	if err != nil {
		return nil, err
	}
	key := seal.ExistingFile(path)
	if empty {
		key = seal.OpenFile(path)
	}
	switch _, err := key.Root(ctx); {
	case errors.Is(err, fs.ErrNotExist) && !empty:
		return nil, missingError(path)
	case err != nil:
		return nil, err
	}
	stored, err := engine.Note(checkNoteKey)
	if err != nil {
		return nil, err
	}
	check, err := seal.RootKeyHash(ctx, key)
	switch {
	case err != nil:
		return nil, err
	case stored == nil:
		// Store the check value before data is sealed under the key.
		return key, engine.SetNotes(map[string][]byte{checkNoteKey: []byte(check)})
	case string(stored) == check:
		return key, nil
	}
	// A rotation ends in two steps: it first changes the note, and
	// then the file. If it was interrupted in between, finish it here.
	if err := Check(ctx, path, engine); err != nil {
		return nil, err
	}
	return key, seal.OpenFiles(path).Promote(ctx, stored)
}

func missingError(path string) error {
	return fmt.Errorf("the root key %s is missing, and the data beside it was sealed under it: put a copy of that file "+
		"back, or restore a backup, which holds both, into another data directory", path)
}

// CheckExisting returns the error that Open would return for the
// key at path and an engine that has data. It changes no files.
func CheckExisting(ctx context.Context, path string, engine Notes) error {
	switch _, err := seal.ExistingFile(path).Root(ctx); {
	case errors.Is(err, fs.ErrNotExist):
		return missingError(path)
	case err != nil:
		return err
	}
	stored, err := StoredCheck(engine)
	if err != nil || stored == "" { // Open adopts the key
		return err
	}
	return Check(ctx, path, engine)
}

// Source returns the source of the root keys at path. During a rotation there are two keys. Call Open first.
func Source(path string, engine Engine, table *store.Table, now func() time.Time) *sharedrootkey.Source {
	return sharedrootkey.NewFile(path, table, now, func(check string) error {
		return engine.SetNotes(map[string][]byte{checkNoteKey: []byte(check)})
	})
}

// StoredCheck returns the check value (seal.RootKeyHash) that is stored in the engine, or "" if there is none.
func StoredCheck(engine Notes) (string, error) {
	stored, err := engine.Note(checkNoteKey)
	return string(stored), err
}

// Files returns the files of root keys: path and, during a rotation, the file of the next key.
func Files(path string) ([]string, error) {
	out := []string{path}
	switch _, err := os.Lstat(path + seal.NextFile); {
	case err == nil:
		out = append(out, path+seal.NextFile)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return out, nil
}

// Notes are the notes of an engine.
type Notes interface {
	Note(key string) ([]byte, error)
}

// Check returns an error unless one of the key files contains the key whose check value is stored in the engine. The
// engine must already store a check value, as it does after Open. Check changes no files.
func Check(ctx context.Context, path string, engine Notes) error {
	stored, err := engine.Note(checkNoteKey)
	if err != nil {
		return err
	}
	files, err := Files(path)
	if err != nil {
		return err
	}
	for _, file := range files {
		check, err := seal.RootKeyHash(ctx, seal.ExistingFile(file))
		if err != nil {
			return err
		}
		if string(stored) == check {
			return nil
		}
	}
	return errors.New("the root key is not the one that the data beside it was sealed under: put the right root.key " +
		"back, or restore a backup, which holds both, into another data directory")
}
