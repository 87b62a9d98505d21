package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/staging"
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// ErrNotWhole is what Restore answers for a file that is no backup, or not all of
// one, and puts nothing in place of.
var ErrNotWhole = errors.New("is no whole backup")

// maxWindowBytes bounds what decompression takes of memory.
const maxWindowBytes = 64 << 20

// newData is the data directory to be, in the folder where it is made.
const newData = "data"

// Restore makes a data directory of a backup. dir must be absent or empty, and
// has everything or nothing whenever the process ends. The file is trusted in
// nothing: all of it is compared with its manifest, and what it holds is opened,
// read to the end and asked for its root key, before it is in place.
func Restore(ctx context.Context, name, dir string) (sum Summary, err error) {
	if dir, err = staging.Resolve(dir); err != nil {
		return sum, err
	}
	if err := staging.Vacant(dir); err != nil {
		return sum, err
	}
	file, err := os.Open(name) //nolint:gosec // G304: the operator names the file
	if err != nil {
		return sum, fmt.Errorf("open the backup: %w", err)
	}
	defer func() { _ = file.Close() }()
	work, err := staging.Open(dir + ".restoring")
	if err != nil {
		return sum, fmt.Errorf("restore a backup: %w", err)
	}
	defer func() { err = errors.Join(err, work.Close()) }()
	m, err := extract(ctx, file, work.Path(newData))
	if err == nil {
		err = verify(ctx, work.Path(newData), m)
	}
	if wrong, ok := errors.AsType[*wrongError](err); ok {
		return sum, fmt.Errorf("%s %w: %w; nothing was restored", name, ErrNotWhole, wrong)
	}
	if err != nil {
		return sum, fmt.Errorf("restore %s: %w", name, err)
	}
	return m.summary(), work.Place(newData, dir)
}

// wrongError says what is wrong with a file that should be a backup.
type wrongError struct{ text string }

func (e *wrongError) Error() string { return e.text }

func wrong(format string, args ...any) error {
	return &wrongError{fmt.Sprintf(format, args...)}
}

// damaged explains why the rest of a file cannot be read.
func damaged(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if todo := disk.Refusal(err); todo != "" {
		return fmt.Errorf("reading stopped: %w: %s", err, todo)
	}
	return wrong("it is damaged, cut short or another file (%v)", err)
}

// extract writes the files of a backup into a folder, which is made.
func extract(ctx context.Context, from io.Reader, dir string) (_ *manifest, err error) {
	plain, err := zstd.NewReader(staging.Reader(ctx, from), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindowBytes))
	if err != nil {
		return nil, damaged(err)
	}
	defer plain.Close()
	archive := tar.NewReader(plain)
	m, err := readManifest(archive)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, dirMode); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, e := range m.Files {
		if err := e.next(archive, e.Bytes); err != nil {
			return nil, err
		}
		if err := e.extract(archive, root); err != nil {
			return nil, err
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, damaged(err)
		}
		return nil, wrong("it has more files than its manifest names")
	}
	// The archive's end is read; the checksum of the compressed whole comes behind it.
	switch n, err := io.ReadFull(plain, make([]byte, 1)); {
	case n > 0:
		return nil, wrong("something follows its end")
	case !errors.Is(err, io.EOF):
		return nil, damaged(err)
	}
	return m, nil
}

func readManifest(archive *tar.Reader) (*manifest, error) {
	if err := (entry{Name: manifestName}).next(archive, -1); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(archive)
	if err != nil {
		return nil, damaged(err)
	}
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil || m.Product != product {
		return nil, wrong("it has another manifest than backups of this product")
	}
	if m.Format != format {
		return nil, wrong("it has the format %d, and this version reads the format %d: use the version that made it", m.Format, format)
	}
	if err := m.check(); err != nil {
		return nil, wrong("%v", err)
	}
	return &m, nil
}

// next takes the head of a file from the archive: e's, with so many bytes, -1 for
// any number that a manifest may have. No more than these are read.
func (e entry) next(archive *tar.Reader, bytes int64) error {
	h, err := archive.Next()
	switch {
	case errors.Is(err, io.EOF):
		return wrong("it ends before its file %s", e.Name)
	case err != nil:
		return damaged(err)
	case h.Name != e.Name:
		return wrong("it has a file %q in the place of %s", h.Name, e.Name)
	case h.Typeflag != tar.TypeReg:
		return wrong("its file %s is a link, a device or a folder", e.Name)
	case bytes < 0 && h.Size > maxManifestBytes:
		return wrong("its manifest is too long")
	case bytes >= 0 && h.Size != bytes:
		return wrong("its file %s has %d bytes, and its manifest says %d", e.Name, h.Size, bytes)
	}
	return nil
}

// extract writes one file. root keeps it below the folder whatever its name is.
func (e entry) extract(archive io.Reader, root *os.Root) (err error) {
	if err := root.MkdirAll(path.Dir(e.Name), dirMode); err != nil {
		return err
	}
	file, err := root.OpenFile(e.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	digest := sha256.New()
	out := &written{to: io.MultiWriter(file, digest)}
	if _, err := io.CopyN(out, archive, e.Bytes); err != nil {
		if out.err != nil {
			return out.err
		}
		return damaged(err)
	}
	if hex.EncodeToString(digest.Sum(nil)) != e.SHA256 {
		return wrong("its file %s has another content than its manifest says", e.Name)
	}
	return file.Sync()
}

// written remembers the error of a writer, which is not the archive's fault.
type written struct {
	to  io.Writer
	err error
}

func (w *written) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.err = err
	return n, err
}

// verify opens what was extracted, as a start would, and reads all of it.
func verify(ctx context.Context, dir string, m *manifest) (err error) {
	engine, err := embedded.Open(ctx, embedded.Options{Dir: filepath.Join(dir, datadir.Engine), ReadOnly: true})
	switch {
	case disk.Refusal(err) != "":
		return err
	case err != nil:
		return wrong("its store does not open (%v)", err)
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	switch err := engine.Verify(ctx); {
	case disk.Refusal(err) != "":
		return err
	case err != nil:
		return wrong("its store is damaged (%v)", err)
	}
	switch err := rootkey.Check(ctx, filepath.Join(dir, rootkey.Name), engine); {
	case disk.Refusal(err) != "":
		return err
	case err != nil:
		return wrong("its root key is not that of its store")
	}
	there := make(map[string]int64, len(m.Files))
	for _, e := range m.Files {
		there[e.Name] = e.Bytes
	}
	err = files.Contents(engine, func(digest string, bytes int64) error {
		if got, ok := there[path.Join(datadir.Objects, files.ContentPath(digest))]; !ok || got != bytes {
			return wrong("it lacks the content %s of an object", digest)
		}
		return ctx.Err()
	})
	if _, told := errors.AsType[*wrongError](err); err != nil && !told && ctx.Err() == nil && disk.Refusal(err) == "" {
		return wrong("its store is damaged (%v)", err)
	}
	return err
}
