// Package integrity reads all data of a data directory and reports which parts are
// damaged. It compares every block of the store's tables with its checksum, every object
// with its digest, and the root key with the check value in the store.
//
// What it is not: a repair. Damaged data come back with a backup. Package preflight
// has the quick checks of every start.
//
// Read this file first, then pace.go, which limits how fast it reads, and daily.go for the
// check in the background.
package integrity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/staging"
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// Source is a data directory.
type Source struct {
	Dir string
	// Objects reports whether the objects are files of the directory.
	Objects bool
	// BytesPerSecond limits how fast the check reads. 0 means no limit.
	BytesPerSecond int64
}

// Bytes returns the size of the store's files and, if they are files of the directory, of the objects.
func (s Source) Bytes() (int64, error) {
	n, err := bytesOf(filepath.Join(s.Dir, datadir.Engine))
	if err != nil || !s.Objects {
		return n, err
	}
	objects, err := bytesOf(filepath.Join(s.Dir, datadir.Objects))
	return n + objects, err
}

// Live is what a process has opened in a data directory.
type Live struct {
	Engine Engine
	// Objects is nil if the objects are in S3.
	Objects Objects
}

// Engine is the store; *embedded.Backend is one.
type Engine interface {
	rootkey.Notes
	Checkpoint(ctx context.Context, dir string) error
}

// Objects are the objects; *files.Bucket has them.
type Objects interface {
	// Retain keeps the contents of deleted objects until release is called.
	Retain() (release func() error)
}

var (
	_ Engine  = (*embedded.Backend)(nil)
	_ Objects = (*files.Bucket)(nil)
)

// Report says how much a check has read, and which parts are damaged.
type Report struct {
	// StoreBytes is the size of the store's files. Objects and ObjectBytes are the number and
	// the size of the objects' contents, each counted once.
	StoreBytes, ObjectBytes int64
	Objects                 int
	// Damage has an error of one line for each damaged part.
	Damage []error
}

// damaged adds an error to the report. It adds each part of a joined error as an error of its own.
func (r *Report) damaged(err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			r.damaged(one)
		}
		return
	}
	r.Damage = append(r.Damage, errors.New(strings.Join(strings.Fields(err.Error()), " ")))
}

// AtRest checks a directory that no process uses. The caller holds the directory's lock. AtRest
// changes nothing. The error is nil if the check finished, whatever it found.
func AtRest(ctx context.Context, s Source) (Report, error) {
	var r Report
	err := r.read(ctx, s, filepath.Join(s.Dir, datadir.Engine), func(engine *embedded.Backend) error {
		empty, err := engine.Empty() //nolint:contextcheck // notes are read from memory and tables of this process
		if err != nil || empty {
			return err
		}
		return rootkey.CheckOver(ctx, filepath.Join(s.Dir, rootkey.Name), engine)
	})
	return r, err
}

// Running checks a directory that this process uses, as it is at one moment. Writes go on
// meanwhile, and deleted data stay on the disk until the check ends. work is the name of the
// folder in the directory for a copy of links. Two checks at a time need different names.
func Running(ctx context.Context, s Source, l Live, work string) (r Report, err error) {
	folder, err := staging.Open(filepath.Join(s.Dir, work))
	if err != nil {
		return r, fmt.Errorf("check the data: %w", err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	if l.Objects != nil {
		release := l.Objects.Retain()
		defer func() { err = errors.Join(err, release()) }()
	}
	if err := l.Engine.Checkpoint(ctx, folder.Path(datadir.Engine)); err != nil {
		return r, r.found(ctx, err)
	}
	err = r.read(ctx, s, folder.Path(datadir.Engine), func(*embedded.Backend) error {
		path := filepath.Join(s.Dir, rootkey.Name)
		if rootkey.CheckOver(ctx, path, l.Engine) == nil {
			return nil
		}
		return rootkey.CheckOver(ctx, path, l.Engine) // the first one may have met the last step of a rotation
	})
	return r, err
}

// RemoveLeft removes the copy that a killed check left. The copy keeps files on the disk that the store has deleted.
func RemoveLeft(folder string) error {
	if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	left, err := staging.Open(folder)
	if err != nil {
		return err
	}
	return left.Close()
}

// read opens the store in a folder and reads everything.
func (r *Report) read(ctx context.Context, s Source, folder string, key func(*embedded.Backend) error) (err error) {
	pace := newPace(ctx, s.BytesPerSecond)
	if r.StoreBytes, err = bytesOf(folder); err != nil {
		return err
	}
	engine, err := embedded.Open(ctx, embedded.Options{Dir: folder, ReadOnly: true, FS: pacedFS{vfs.Default, pace}})
	if err != nil {
		return r.found(ctx, err)
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if err := r.found(ctx, key(engine)); err != nil {
		return err
	}
	var other error // says nothing about the data
	err = engine.EachDamage(ctx, func(damage error) bool {
		other = r.found(ctx, damage)
		return other == nil
	})
	if err = cmp.Or(err, other); err != nil {
		return err
	}
	if !s.Objects {
		return nil
	}
	return r.found(ctx, files.Contents(engine, func(digest string, bytes int64) error {
		r.Objects++
		r.ObjectBytes += bytes
		return r.found(ctx, whole(pace, filepath.Join(s.Dir, datadir.Objects, filepath.FromSlash(files.ContentPath(digest))), digest))
	}))
}

// found adds err to the report and returns nil, or returns it if it says nothing about the data.
func (r *Report) found(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case slices.ContainsFunc(others(), func(other error) bool { return errors.Is(err, other) }):
		return err
	}
	r.damaged(err)
	return nil
}

// others returns the errors that keep a check from finishing and say nothing about the data.
func others() []error {
	return []error{
		embedded.ErrInUse, store.ErrLost, fs.ErrPermission,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS,
	}
}

// whole returns an error unless the file at path exists and has the given digest.
func whole(p *pace, path, digest string) error {
	file, err := os.Open(path) //nolint:gosec // G304: a file of the installation
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing, although it is the content of an object", path)
	}
	if err != nil {
		return fmt.Errorf("read an object: %w", disk.Cause(err))
	}
	defer func() { _ = file.Close() }()
	got := sha256.New()
	switch _, err := io.Copy(got, p.reader(file)); {
	case err != nil:
		return fmt.Errorf("read %s: %w", path, disk.Cause(err))
	case hex.EncodeToString(got.Sum(nil)) != digest:
		return fmt.Errorf("%s is damaged: its content does not match its digest", path)
	}
	return nil
}

// bytesOf returns the size of all files in a folder and its subfolders.
func bytesOf(folder string) (n int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				n += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile, or missing, which opening it reports
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look at the files of the data: %w", disk.Cause(err))
	}
	return n, nil
}
