// Package backup writes all of a local installation into one file, while it runs,
// and makes a data directory of such a file elsewhere.
//
// The file is a tar archive compressed by zstd: a manifest, and then the files it
// lists, with their sizes and digests, in that order. It holds a checkpoint of the
// engine, the contents that the objects in that checkpoint name, the root key and
// an account key: who has the file has the installation.
//
// What it holds: everything that was answered before the backup began, each
// commit whole; and every object that a record of it names. An interrupted backup
// leaves no file of its name, an interrupted restore no directory. Of a file that
// was cut, damaged or made by somebody else nothing is put in place.
//
// What it is not: encrypted, or incremental.
//
// Read backup.go first, then manifest.go and restore.go. docs/backup.md is for who
// uses it; docs/decisions/0032-backups-are-one-tar-file.md says why this form.
package backup

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/staging"
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
	sharedrootkey "github.com/gatewright/gatewright/shared/store/rootkey"
)

// Source is what is backed up: a data directory, and what the process that has
// it has opened there.
type Source struct {
	Dir     string
	Engine  Engine
	Objects Objects
	Now     func() time.Time
}

// Engine is the table; *embedded.Backend is one.
type Engine interface {
	rootkey.Notes
	Checkpoint(ctx context.Context, dir string) error
}

// Objects are the objects; *files.Bucket has them.
type Objects interface {
	// Retain keeps the contents of what is deleted until release is called.
	Retain() (release func() error)
}

var (
	_ Engine  = (*embedded.Backend)(nil)
	_ Objects = (*files.Bucket)(nil)
)

// Summary says what is in a backup.
type Summary struct {
	MadeOn  time.Time
	Objects int   // contents, of which several objects may have the same
	Bytes   int64 // of all files, before compression
}

// Create writes a backup to a file, which has its name once it is whole and on
// disk, in place of the file that had it before; a link is followed. What is no file
// is refused, and what lies in the data directory dir, where it would take the place
// of what is backed up, or be lost with it; "" is for data that are in no directory. write writes the backup, as Write does or
// the process that has the data.
func Create(name, dir string, write func(io.Writer) error) (err error) {
	if name, err = target(name, dir); err != nil {
		return err
	}
	work, err := staging.Open(name + ".unfinished")
	if err != nil {
		return fmt.Errorf("make the backup %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	draft := work.Path("file")
	file, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode) //nolint:gosec // G304: the operator names the file
	if err != nil {
		return fmt.Errorf("make the backup %s: %w", name, err)
	}
	if err := write(file); err != nil {
		return errors.Join(err, file.Close())
	}
	err = errors.Join(file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(draft, name)
	}
	if err == nil {
		err = disk.SyncFolder(filepath.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("make the backup %s: %w", name, err)
	}
	return nil
}

// target is the file to which a name leads.
func target(name, dir string) (string, error) {
	path, err := staging.Resolve(name)
	if err != nil {
		return "", err
	}
	if err := apart(path, dir); err != nil {
		return "", err
	}
	switch at, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", fmt.Errorf("look at %s: %w", path, err)
	case !at.Mode().IsRegular():
		return "", fmt.Errorf("%s is a folder, a device or a link to nothing: name a file, which is replaced, or one that is not there yet", path)
	}
	return path, nil
}

// apart refuses a file in the data directory; "" is for data that are in none.
func apart(path, dir string) error {
	if dir == "" {
		return nil
	}
	dir, err := staging.Resolve(dir)
	if err != nil {
		return err
	}
	if below, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(below) {
		return fmt.Errorf("%s lies in the data directory: name a file elsewhere, best on another disk", path)
	}
	return nil
}

// Write writes a backup. The installation goes on meanwhile; the contents of
// deleted objects stay on its disk until the end. A second one at a time is refused.
func Write(ctx context.Context, s Source, to io.Writer) (sum Summary, err error) {
	work, err := staging.Open(filepath.Join(s.Dir, "backup"))
	if err != nil {
		return sum, fmt.Errorf("make a backup: %w", err)
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	// Before the checkpoint: a rotation takes a key away when nothing is under it any more, and not before.
	keys := map[string][]byte{}
	if err := rootkey.Check(ctx, filepath.Join(s.Dir, rootkey.Name), s.Engine); err != nil {
		return sum, err
	}
	if err := keysNow(ctx, s.Dir, keys); err != nil {
		return sum, err
	}
	// In this order: every content that the checkpoint names is there, and stays.
	release := s.Objects.Retain()
	defer func() { err = errors.Join(err, release()) }()
	if err := s.Engine.Checkpoint(ctx, work.Path(datadir.Engine)); err != nil {
		return sum, err
	}
	if err := keysNow(ctx, s.Dir, keys); err != nil {
		return sum, err
	}
	m, err := list(ctx, s, keys, work)
	if err != nil {
		return sum, err
	}
	return m.summary(), m.write(ctx, to, func(name string) (io.ReadCloser, error) {
		if within(datadir.Engine, name) || keyName(name) {
			return os.Open(work.Path(filepath.FromSlash(name)))
		}
		return os.Open(filepath.Join(s.Dir, filepath.FromSlash(name)))
	})
}

// keyName reports whether a file of a backup is one of root keys.
func keyName(name string) bool { return name == rootkey.Name || name == rootkey.NextName }

// keysNow reads the root keys that there are, by their checks.
func keysNow(ctx context.Context, dir string, into map[string][]byte) error {
	path := filepath.Join(dir, rootkey.Name)
	for _, file := range []string{path + seal.NextFile, path} {
		its := seal.ExistingFile(file)
		key, err := its.Root(ctx)
		if errors.Is(err, fs.ErrNotExist) && file != path {
			continue
		}
		if err != nil {
			return err
		}
		check, err := seal.Check(ctx, its)
		if err != nil {
			return err
		}
		into[check] = key
	}
	return nil
}

// writeKeys lays the root keys of a checkpoint beside it: that which its engine notes, and while it is rotated the other one. A
// rotation that begins or ends meanwhile is seen before the checkpoint or after it.
func writeKeys(ctx context.Context, engine *embedded.Backend, keys map[string][]byte, work *staging.Folder) error {
	noted, err := rootkey.Noted(engine)
	if err != nil {
		return err
	}
	status, err := sharedrootkey.InFile(work.Path(rootkey.Name), store.New(engine, store.Options{Random: rand.Reader, Now: time.Now}), time.Now, nil).Status(ctx)
	if err != nil {
		return err
	}
	for check, key := range keys {
		name := rootkey.NextName
		if check == noted {
			name = rootkey.Name
		} else if status.Other == 0 && !status.Rotating() {
			continue
		}
		if err := os.WriteFile(work.Path(name), key, fileMode); err != nil {
			return fmt.Errorf("copy the root key: %w", err)
		}
	}
	return rootkey.Check(ctx, work.Path(rootkey.Name), engine)
}

// list makes the manifest of a checkpoint and what belongs to it.
func list(ctx context.Context, s Source, keys map[string][]byte, work *staging.Folder) (*manifest, error) {
	m := &manifest{Product: product, Format: format, MadeOn: s.Now().UTC().Truncate(time.Second)}
	folder := work.Path(datadir.Engine)
	err := filepath.WalkDir(folder, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(work.Path(), at)
		if err != nil {
			return err
		}
		return m.add(ctx, filepath.ToSlash(below), at)
	})
	if err != nil {
		return nil, fmt.Errorf("list the store's files: %w", err)
	}
	// Reading it shows that the copy opens, and that no table is damaged: a backup that cannot be restored must not
	// replace one that is good.
	engine, err := embedded.Open(ctx, embedded.Options{Dir: folder, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	if err = engine.Verify(ctx); err == nil {
		err = writeKeys(ctx, engine, keys, work)
	}
	for _, name := range []string{rootkey.Name, rootkey.NextName, datadir.AccountKey} {
		if err != nil {
			break
		}
		folder := work.Path()
		if !keyName(name) {
			folder = s.Dir
		}
		err = m.add(ctx, name, filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) && name != rootkey.Name {
			err = nil // the next start makes an account's key; and there is one root key but while it is rotated
		}
	}
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	err = files.Contents(engine, func(digest string, bytes int64) error {
		m.Files = append(m.Files, entry{path.Join(datadir.Objects, files.ContentPath(digest)), bytes, digest})
		return ctx.Err()
	})
	if err := errors.Join(err, engine.Close()); err != nil {
		return nil, fmt.Errorf("list the objects: %w", err)
	}
	return m, m.check()
}

// add lists a file that does not change.
func (m *manifest) add(ctx context.Context, name, at string) error {
	file, err := os.Open(at) //nolint:gosec // G304: a file of the installation
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer func() { _ = file.Close() }()
	digest := sha256.New()
	bytes, err := io.Copy(digest, staging.Reader(ctx, file))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	m.Files = append(m.Files, entry{name, bytes, hex.EncodeToString(digest.Sum(nil))})
	return nil
}

// write writes the archive of a manifest, and refuses a file that has become
// another one.
func (m *manifest) write(ctx context.Context, to io.Writer, open func(name string) (io.ReadCloser, error)) error {
	compressed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	archive := tar.NewWriter(compressed)
	err = m.writeSelf(archive)
	for _, e := range m.Files {
		if err != nil {
			break
		}
		err = e.write(ctx, archive, m.MadeOn, open)
	}
	if err != nil {
		return err // what was written has no end, and passes for no backup
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return nil
}

func (e entry) write(ctx context.Context, archive *tar.Writer, on time.Time, open func(name string) (io.ReadCloser, error)) error {
	file, err := open(e.Name)
	if err != nil {
		return fmt.Errorf("read %s: %w", e.Name, err)
	}
	defer func() { _ = file.Close() }()
	if err := archive.WriteHeader(header(e.Name, e.Bytes, on)); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	digest := sha256.New()
	_, err = io.Copy(io.MultiWriter(archive, digest), staging.Reader(ctx, file))
	switch {
	case errors.Is(err, tar.ErrWriteTooLong), err == nil && hex.EncodeToString(digest.Sum(nil)) != e.SHA256:
		return fmt.Errorf("the file %s of the data directory is damaged, and the backup is not made: restore the last one into another data directory", e.Name)
	case err != nil:
		return fmt.Errorf("write %s to the backup: %w", e.Name, err)
	}
	return nil
}

func header(name string, bytes int64, on time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: bytes, Mode: int64(fileMode), ModTime: on}
}
