// Package rootkey opens the root key of a local installation, and refuses
// another one over data that was sealed under it. Everything would look right with
// a foreign key, until no consumer is known any more and nothing sealed opens.
//
// The engine holds a hash that only the key gives, beside the data: who has the
// files without the key learns nothing from it, and a backup carries both.
//
// What it is not: what keys are for, and how their files look, is package seal's.
// This file is all of it.
package rootkey

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
	sharedrootkey "github.com/gatewright/gatewright/shared/store/rootkey"
)

// Name is the key's file in a data directory, NextName that of the next one, while the root key is rotated.
const (
	Name     = "root.key"
	NextName = Name + seal.NextFile
)

// Engine is where the data lies that the key belongs to.
type Engine interface {
	Notes
	SetNotes(set map[string][]byte, remove ...string) error
	// Empty reports whether nothing was ever stored.
	Empty() (bool, error)
}

var _ Engine = (*embedded.Backend)(nil)

// checkNote is where the engine holds the key's hash.
const checkNote = "root-key"

// Open reads the key at path, and makes one for an engine that is empty. Over data
// it refuses an absent key and one of another installation with a sentence that
// says what to do, and makes none.
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
		return nil, missing(path)
	case err != nil:
		return nil, err
	}
	known, err := engine.Note(checkNote)
	if err != nil {
		return nil, err
	}
	hash, err := seal.Check(ctx, key)
	switch {
	case err != nil:
		return nil, err
	case known == nil:
		// On disk before anything is sealed.
		return key, engine.SetNotes(map[string][]byte{checkNote: []byte(hash)})
	case string(known) == hash:
		return key, nil
	}
	// A rotation ends in two steps: the note, and the file.
	if err := Check(ctx, path, engine); err != nil {
		return nil, err
	}
	return key, seal.OpenFiles(path).Settle(ctx, known)
}

func missing(path string) error {
	return fmt.Errorf("the root key %s is missing, and the data beside it was sealed under it: put a copy of that file back, or restore a backup, which holds both, into another data directory", path)
}

// CheckOver returns the error that Open would return for the key at path and an engine that holds data. It changes nothing.
func CheckOver(ctx context.Context, path string, engine Notes) error {
	switch _, err := seal.ExistingFile(path).Root(ctx); {
	case errors.Is(err, fs.ErrNotExist):
		return missing(path)
	case err != nil:
		return err
	}
	known, err := Noted(engine)
	if err != nil || known == "" { // Open adopts the key
		return err
	}
	return Check(ctx, path, engine)
}

// Source gives the root keys at path of what was opened by Open: two while they are rotated.
func Source(path string, engine Engine, table *store.Table, now func() time.Time) *sharedrootkey.Source {
	return sharedrootkey.InFile(path, table, now, func(check string) error {
		return engine.SetNotes(map[string][]byte{checkNote: []byte(check)})
	})
}

// Noted gives the check (seal.Check) of the key that an engine holds to be the one in the key file, "" for none.
func Noted(engine Notes) (string, error) {
	known, err := engine.Note(checkNote)
	return string(known), err
}

// Files are the files of the root keys that there are at path: that one, and while it is rotated the next one.
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

// Notes are those of an engine.
type Notes interface {
	Note(key string) ([]byte, error)
}

// Check refuses key files of which none is that of an engine that Open has opened. It
// changes nothing.
func Check(ctx context.Context, path string, engine Notes) error {
	known, err := engine.Note(checkNote)
	if err != nil {
		return err
	}
	files, err := Files(path)
	if err != nil {
		return err
	}
	for _, file := range files {
		hash, err := seal.Check(ctx, seal.ExistingFile(file))
		if err != nil {
			return err
		}
		if string(known) == hash {
			return nil
		}
	}
	return errors.New("the root key is not the one that the data beside it was sealed under: put the right root.key back, or restore a backup, which holds both, into another data directory")
}
