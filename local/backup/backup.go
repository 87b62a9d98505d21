// Package backup writes all data of a local installation to one file, while the product runs or not, and restores a
// data directory from such a file.
//
// The file is a tar archive, compressed with zstd. It begins with a manifest, which lists all other files with their
// sizes and digests. They follow in the same order: a checkpoint of the engine, the root key (two root keys during a
// rotation), the key of the first account if there is one, and the contents of the objects in that checkpoint. With
// these keys, a reader of the file has access to all data of the installation.
//
// A backup contains every commit that was acknowledged before the backup began, no partial commits, and every object
// that its records name. If a backup is interrupted, it does not create or replace the file with its name. If a restore
// is interrupted, or the file is truncated, damaged or of another program, the restore does not create the data
// directory.
//
// Backups are not encrypted, and not incremental.
//
// Read backup.go first, then manifest.go and restore.go. docs/backup.md is for
// operators; docs/decisions/0032-backups-are-one-tar-file.md explains the format.
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
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	sharedrootkey "github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// Source is the data to back up: a data directory, and the parts of it that this process has open.
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

// Objects is the bucket with the objects. *files.Bucket implements it.
type Objects interface {
	// Retain keeps the contents of deleted objects until release is called.
	Retain() (release func() error)
}

var (
	_ Engine  = (*embedded.Backend)(nil)
	_ Objects = (*files.Bucket)(nil)
)

// Summary describes the content of a backup.
type Summary struct {
	CreatedOn time.Time
	Objects   int   // number of contents: objects with the same content count once
	Bytes     int64 // of all files, before compression
}

// Create writes a backup to a new file. name is the path of the file. The file gets this name only when it is complete
// and on disk, and then replaces an earlier file. Create follows symbolic links. It rejects names of folders and
// devices. It also rejects a file in the data directory dir, where the backup could overwrite the data or be lost with
// it. dir is "" if the data is not in a directory. write writes the backup, like Write.
func Create(name, dir string, write func(io.Writer) error) (err error) {
	if name, err = resolveTarget(name, dir); err != nil {
		return err
	}
	workDir, err := staging.Open(name + ".unfinished")
	if err != nil {
		return fmt.Errorf("make the backup %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, workDir.Close()) }()
	draft := workDir.Path("file")
	//nolint:gosec // G304: the operator names the file
	file, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
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

// resolveTarget returns the absolute path for a backup, with symbolic links
// resolved. It returns an error for a path at which Create must not write.
func resolveTarget(name, dir string) (string, error) {
	path, err := staging.Resolve(name)
	if err != nil {
		return "", err
	}
	if err := checkOutside(path, dir); err != nil {
		return "", err
	}
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", fmt.Errorf("look at %s: %w", path, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is a folder, a device or a link to nothing: name a file, which is replaced, or one that "+
			"is not there yet", path)
	}
	return path, nil
}

// checkOutside returns an error if path is in the data directory dir. dir is "" if the data is not in a directory.
func checkOutside(path, dir string) error {
	if dir == "" {
		return nil
	}
	dir, err := staging.Resolve(dir)
	if err != nil {
		return err
	}
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%s lies in the data directory: name a file elsewhere, best on another disk", path)
	}
	return nil
}

// Write writes a backup of s to w while the installation is in use. The contents of objects that are deleted meanwhile
// stay on the disk until Write returns. Write returns an error if another backup of the directory is in progress.
func Write(ctx context.Context, s Source, w io.Writer) (summary Summary, err error) {
	workDir, err := staging.Open(filepath.Join(s.Dir, "backup"))
	if err != nil {
		return summary, fmt.Errorf("make a backup: %w", err)
	}
	defer func() { err = errors.Join(err, workDir.Close()) }()
	// Read the keys before and after the checkpoint. A rotation can end in between, and then removes the old key, which
	// the checkpoint can still need.
	keys := map[string][]byte{}
	if err := rootkey.Check(ctx, filepath.Join(s.Dir, rootkey.Name), s.Engine); err != nil {
		return summary, err
	}
	if err := readKeys(ctx, s.Dir, keys); err != nil {
		return summary, err
	}
	// Call Retain before Checkpoint: then every content that the
	// checkpoint names exists, and is not deleted during the backup.
	release := s.Objects.Retain()
	defer func() { err = errors.Join(err, release()) }()
	if err := s.Engine.Checkpoint(ctx, workDir.Path(datadir.Engine)); err != nil {
		return summary, err
	}
	if err := readKeys(ctx, s.Dir, keys); err != nil {
		return summary, err
	}
	m, err := newManifest(ctx, s, keys, workDir)
	if err != nil {
		return summary, err
	}
	return m.summary(), m.write(ctx, w, func(name string) (io.ReadCloser, error) {
		if isBelow(datadir.Engine, name) || isKeyFile(name) {
			return os.Open(workDir.Path(filepath.FromSlash(name)))
		}
		return os.Open(filepath.Join(s.Dir, filepath.FromSlash(name)))
	})
}

// isKeyFile reports whether a file in a backup contains a root key.
func isKeyFile(name string) bool { return name == rootkey.Name || name == rootkey.NextName }

// readKeys adds each root key in dir to the map called into, under its check value. It reads the next key first,
// because the end of a rotation renames its file to rootkey.Name.
func readKeys(ctx context.Context, dir string, into map[string][]byte) error {
	path := filepath.Join(dir, rootkey.Name)
	for _, file := range []string{path + seal.NextFile, path} {
		keyFile := seal.ExistingFile(file)
		key, err := keyFile.Root(ctx)
		if errors.Is(err, fs.ErrNotExist) && file != path {
			continue
		}
		if err != nil {
			return err
		}
		check, err := seal.RootKeyHash(ctx, keyFile)
		if err != nil {
			return err
		}
		into[check] = key
	}
	return nil
}

// writeKeys writes the root keys of a checkpoint into workDir: the key whose check value is in the checkpoint's store
// and, during a rotation, the other key. keys has the keys that were read before and after the checkpoint, so it has
// both keys even if a rotation began or ended in between.
func writeKeys(ctx context.Context, engine *embedded.Backend, keys map[string][]byte, workDir *staging.Folder) error {
	storedCheck, err := rootkey.StoredCheck(engine)
	if err != nil {
		return err
	}
	status, err := sharedrootkey.NewFile(workDir.Path(rootkey.Name),
		store.New(engine, store.Options{Random: rand.Reader, Now: time.Now}), time.Now, nil).Status(ctx)
	if err != nil {
		return err
	}
	for check, key := range keys {
		name := rootkey.NextName
		if check == storedCheck {
			name = rootkey.Name
		} else if status.Other == 0 && !status.Rotating() {
			continue
		}
		if err := os.WriteFile(workDir.Path(name), key, fileMode); err != nil {
			return fmt.Errorf("copy the root key: %w", err)
		}
	}
	return rootkey.Check(ctx, workDir.Path(rootkey.Name), engine)
}

// newManifest returns the manifest of a backup: the files of the checkpoint, the root keys, the account key and the
// objects. It also verifies the checkpoint, and writes the root keys into workDir.
func newManifest(ctx context.Context, s Source, keys map[string][]byte, workDir *staging.Folder) (*manifest, error) {
	m := &manifest{Product: product, Format: format, CreatedOn: s.Now().UTC().Truncate(time.Second)}
	folder := workDir.Path(datadir.Engine)
	err := filepath.WalkDir(folder, func(fullPath string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(workDir.Path(), fullPath)
		if err != nil {
			return err
		}
		return m.add(ctx, filepath.ToSlash(rel), fullPath)
	})
	if err != nil {
		return nil, fmt.Errorf("list the store's files: %w", err)
	}
	// Open and read the checkpoint to make sure that it can be restored:
	// a backup that cannot be restored must not replace a good one.
	engine, err := embedded.Open(ctx, embedded.Options{Dir: folder, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	if err = engine.Verify(ctx); err == nil {
		err = writeKeys(ctx, engine, keys, workDir)
	}
	for _, name := range []string{rootkey.Name, rootkey.NextName, datadir.AccountKey} {
		if err != nil {
			break
		}
		folder := workDir.Path()
		if !isKeyFile(name) {
			folder = s.Dir
		}
		err = m.add(ctx, name, filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) && name != rootkey.Name {
			err = nil // optional: a start creates the account key, and NextName exists only during a rotation
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

// add adds a file to the manifest, with its size and digest.
// The file must not change until it is written to the archive.
func (m *manifest) add(ctx context.Context, name, fullPath string) error {
	file, err := os.Open(fullPath) //nolint:gosec // G304: a file of the installation
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

// write writes the manifest and its files as an archive to w.
// It returns an error if a file has changed since it was added.
func (m *manifest) write(ctx context.Context, w io.Writer, open func(name string) (io.ReadCloser, error)) error {
	compressed, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	archive := tar.NewWriter(compressed)
	err = m.writeManifest(archive)
	for _, e := range m.Files {
		if err != nil {
			break
		}
		err = e.write(ctx, archive, m.CreatedOn, open)
	}
	if err != nil {
		return err // the archive is incomplete, so it cannot be restored
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	return nil
}

// write adds a file to the archive, and checks that its content has the size and the digest of the entry.
func (e entry) write(
	ctx context.Context, archive *tar.Writer, modTime time.Time, open func(name string) (io.ReadCloser, error),
) error {
	file, err := open(e.Name)
	if err != nil {
		return fmt.Errorf("read %s: %w", e.Name, err)
	}
	defer func() { _ = file.Close() }()
	if err := archive.WriteHeader(header(e.Name, e.Bytes, modTime)); err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	digest := sha256.New()
	_, err = io.Copy(io.MultiWriter(archive, digest), staging.Reader(ctx, file))
	switch {
	case errors.Is(err, tar.ErrWriteTooLong), err == nil && hex.EncodeToString(digest.Sum(nil)) != e.SHA256:
		return fmt.Errorf("the file %s of the data directory is damaged, and the backup is not made: restore the last one "+
			"into another data directory", e.Name)
	case err != nil:
		return fmt.Errorf("write %s to the backup: %w", e.Name, err)
	}
	return nil
}

func header(name string, bytes int64, modTime time.Time) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: bytes, Mode: int64(fileMode), ModTime: modTime}
}
