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

	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// Name is the key's file in a data directory.
const Name = "root.key"

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
		return nil, fmt.Errorf("the root key %s is missing, and the data beside it was sealed under it: put a copy of that file back, or restore a backup, which holds both, into another data directory", path)
	case err != nil:
		return nil, err
	}
	known, err := engine.Note(checkNote)
	if err != nil {
		return nil, err
	}
	if known != nil {
		return key, Check(ctx, key, engine)
	}
	hash, err := hashOf(ctx, key)
	if err != nil {
		return nil, err
	}
	// On disk before anything is sealed.
	return key, engine.SetNotes(map[string][]byte{checkNote: []byte(hash)})
}

// Notes are those of an engine.
type Notes interface {
	Note(key string) ([]byte, error)
}

// Check refuses a key that is not the one of an engine that Open has opened. It
// changes nothing.
func Check(ctx context.Context, key seal.KeySource, engine Notes) error {
	hash, err := hashOf(ctx, key)
	if err != nil {
		return err
	}
	known, err := engine.Note(checkNote)
	if err == nil && string(known) != hash {
		err = errors.New("the root key is not the one that the data beside it was sealed under: put the right root.key back, or restore a backup, which holds both, into another data directory")
	}
	return err
}

func hashOf(ctx context.Context, key seal.KeySource) (string, error) {
	return seal.NewHasher(key, "root-key").Hash(ctx, "the key of this data")
}
