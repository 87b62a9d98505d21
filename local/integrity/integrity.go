// Package integrity reads all data of a data directory and reports damaged parts. It compares every block of the
// store's tables with its checksum, every object in the directory with its digest, and the root key with the check
// value in the store.
//
// The package does not repair data: operators must restore damaged
// data from a backup. Package preflight has the quick checks of every start.
//
// Read this file first, then throttle.go, which limits the read rate, and daily.go for the check in the background.
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
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// Source is the data directory to check.
type Source struct {
	Dir string
	// Objects reports whether the objects are files in the directory, and not in S3.
	Objects bool
	// BytesPerSecond is the maximum rate at which the check reads. 0 means no limit.
	BytesPerSecond int64
}

// Bytes returns the total size of the store's files and, if Objects is true, of the objects.
func (s Source) Bytes() (int64, error) {
	n, err := folderBytes(filepath.Join(s.Dir, datadir.Engine))
	if err != nil || !s.Objects {
		return n, err
	}
	objects, err := folderBytes(filepath.Join(s.Dir, datadir.Objects))
	return n + objects, err
}

// Live has the parts of a data directory that a process has open.
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

// Objects is the bucket with the objects. *files.Bucket implements it.
type Objects interface {
	// Retain keeps the contents of deleted objects until release is called.
	Retain() (release func() error)
}

var (
	_ Engine  = (*embedded.Backend)(nil)
	_ Objects = (*files.Bucket)(nil)
)

// Report contains the amount of data that a check has read, and the damaged parts.
type Report struct {
	// StoreBytes is the size of the store's files. Objects and ObjectBytes are the number
	// and the size of the objects' contents. Objects with the same content count once.
	StoreBytes, ObjectBytes int64
	Objects                 int
	// Damage contains an error of one line for each damaged part.
	Damage []error
}

// addDamage adds an error to the report. It adds each part of a joined error separately.
func (r *Report) addDamage(err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, part := range joined.Unwrap() {
			r.addDamage(part)
		}
		return
	}
	r.Damage = append(r.Damage, errors.New(strings.Join(strings.Fields(err.Error()), " ")))
}

// CheckOffline checks a directory that no other process uses. The caller must hold the directory's
// lock. CheckOffline changes no files. The error is nil if the check finished, with or without damage.
func CheckOffline(ctx context.Context, s Source) (Report, error) {
	var r Report
	err := r.read(ctx, s, filepath.Join(s.Dir, datadir.Engine), func(engine *embedded.Backend) error {
		empty, err := engine.Empty() //nolint:contextcheck // Empty only reads memory and local files
		if err != nil || empty {
			return err
		}
		return rootkey.CheckExisting(ctx, filepath.Join(s.Dir, rootkey.Name), engine)
	})
	return r, err
}

// CheckOnline checks a consistent copy of the data in a directory that this process uses. Writes continue meanwhile,
// and deleted data stays on the disk until the check ends. workName is the name of a folder in the directory.
// CheckOnline creates the copy in this folder, as hard links. Simultaneous checks need different names.
func CheckOnline(ctx context.Context, s Source, l Live, workName string) (r Report, err error) {
	folder, err := staging.Open(filepath.Join(s.Dir, workName))
	if err != nil {
		return r, fmt.Errorf("check the data: %w", err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	if l.Objects != nil {
		release := l.Objects.Retain()
		defer func() { err = errors.Join(err, release()) }()
	}
	if err := l.Engine.Checkpoint(ctx, folder.Path(datadir.Engine)); err != nil {
		return r, r.record(ctx, err)
	}
	err = r.read(ctx, s, folder.Path(datadir.Engine), func(*embedded.Backend) error {
		path := filepath.Join(s.Dir, rootkey.Name)
		if rootkey.CheckExisting(ctx, path, l.Engine) == nil {
			return nil
		}
		// Try again: the first attempt fails if the last step of a rotation happens between its reads of the key file and of
		// the store.
		return rootkey.CheckExisting(ctx, path, l.Engine)
	})
	return r, err
}

// RemoveStale removes the copy of a check that was killed. Its hard links keep files on the disk that the store has
// deleted.
func RemoveStale(folder string) error {
	if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	stale, err := staging.Open(folder)
	if err != nil {
		return err
	}
	return stale.Close()
}

// read opens the store in folder, and reads and checks all data.
func (r *Report) read(
	ctx context.Context, s Source, folder string, checkKey func(*embedded.Backend) error,
) (err error) {
	limit := newThrottle(ctx, s.BytesPerSecond)
	if r.StoreBytes, err = folderBytes(folder); err != nil {
		return err
	}
	engine, err := embedded.Open(ctx, embedded.Options{Dir: folder, ReadOnly: true, FS: throttledFS{vfs.Default, limit}})
	if err != nil {
		return r.record(ctx, err)
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if err := r.record(ctx, checkKey(engine)); err != nil {
		return err
	}
	var unrelatedErr error // an error that ends the check, because it does not mean damage
	err = engine.EachDamage(ctx, func(damage error) bool {
		unrelatedErr = r.record(ctx, damage)
		return unrelatedErr == nil
	})
	if err = cmp.Or(err, unrelatedErr); err != nil {
		return err
	}
	if !s.Objects {
		return nil
	}
	return r.record(ctx, files.Contents(engine, func(digest string, bytes int64) error {
		r.Objects++
		r.ObjectBytes += bytes
		return r.record(ctx,
			checkObject(limit, filepath.Join(s.Dir, datadir.Objects, filepath.FromSlash(files.ContentPath(digest))), digest))
	}))
}

// record adds err to the report and returns nil. It returns an error that ends the check if ctx has ended (the cause),
// or if err does not mean that data is damaged (unrelatedErrors).
func (r *Report) record(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case slices.ContainsFunc(unrelatedErrors(), func(unrelated error) bool { return errors.Is(err, unrelated) }):
		return err
	}
	r.addDamage(err)
	return nil
}

// unrelatedErrors returns the errors that prevent a check, but do not mean that data is damaged.
func unrelatedErrors() []error {
	return []error{
		embedded.ErrInUse, store.ErrOutcomeUnknown, fs.ErrPermission,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS,
	}
}

// checkObject returns an error if the file at path does not exist or does not have the given digest.
func checkObject(t *throttle, path, digest string) error {
	file, err := os.Open(path) //nolint:gosec // G304: a file of the installation
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing, although it is the content of an object", path)
	}
	if err != nil {
		return fmt.Errorf("read an object: %w", disk.Cause(err))
	}
	defer func() { _ = file.Close() }()
	got := sha256.New()
	switch _, err := io.Copy(got, t.reader(file)); {
	case err != nil:
		return fmt.Errorf("read %s: %w", path, disk.Cause(err))
	case hex.EncodeToString(got.Sum(nil)) != digest:
		return fmt.Errorf("%s is damaged: its content does not match its digest", path)
	}
	return nil
}

// folderBytes returns the size of all files in a folder and its subfolders.
func folderBytes(folder string) (n int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				n += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile, or missing; a missing file is reported when it is opened
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look at the files of the data: %w", disk.Cause(err))
	}
	return n, nil
}
