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
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// ErrInvalid means that a file is not a backup, or is incomplete or damaged. Restore then creates no data directory.
var ErrInvalid = errors.New("is no whole backup")

// maxWindowBytes is the maximum size of the window of the decompression, which needs memory of this size.
const maxWindowBytes = 64 << 20

// newDataDir is the name of the data directory in the staging folder, until it is complete and moved to its place.
const newDataDir = "data"

// Restore creates the data directory dir from a backup. name is the path of the backup file. dir must be empty or must
// not exist. Even if the process is killed, dir then contains either all data or nothing. Restore compares every file
// with the manifest. Before it moves the directory to its place, it opens the store, reads all of its data, and checks
// the root key.
func Restore(ctx context.Context, name, dir string) (summary Summary, err error) {
	if dir, err = staging.Resolve(dir); err != nil {
		return summary, err
	}
	if err := staging.CheckEmpty(dir); err != nil {
		return summary, err
	}
	file, err := os.Open(name) //nolint:gosec // G304: the operator names the file
	if err != nil {
		return summary, fmt.Errorf("open the backup: %w", err)
	}
	defer func() { _ = file.Close() }()
	workDir, err := staging.Open(dir + ".restoring")
	if err != nil {
		return summary, fmt.Errorf("restore a backup: %w", err)
	}
	defer func() { err = errors.Join(err, workDir.Close()) }()
	m, err := extract(ctx, file, workDir.Path(newDataDir))
	if err == nil {
		err = verify(ctx, workDir.Path(newDataDir), m)
	}
	if invalid, ok := errors.AsType[*invalidError](err); ok {
		return summary, fmt.Errorf("%s %w: %w; nothing was restored", name, ErrInvalid, invalid)
	}
	if err != nil {
		return summary, fmt.Errorf("restore %s: %w", name, err)
	}
	return m.summary(), workDir.MoveTo(newDataDir, dir)
}

// invalidError describes what is wrong with a file that should be a backup.
type invalidError struct{ text string }

func (e *invalidError) Error() string { return e.text }

func invalidf(format string, args ...any) error {
	return &invalidError{fmt.Sprintf(format, args...)}
}

// readError returns an error that explains why the rest of a backup cannot be read. It is an invalidError, unless the
// context has ended or the system refuses access.
func readError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if advice := disk.AccessAdvice(err); advice != "" {
		return fmt.Errorf("reading stopped: %w: %s", err, advice)
	}
	return invalidf("it is damaged, cut short or another file (%v)", err)
}

// extract writes the files of a backup into the new folder dir.
func extract(ctx context.Context, from io.Reader, dir string) (_ *manifest, err error) {
	decompressed, err := zstd.NewReader(staging.Reader(ctx, from), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(maxWindowBytes))
	if err != nil {
		return nil, readError(err)
	}
	defer decompressed.Close()
	archive := tar.NewReader(decompressed)
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
		if err := e.readHeader(archive, e.Bytes); err != nil {
			return nil, err
		}
		if err := e.extract(archive, root); err != nil {
			return nil, err
		}
	}
	if _, err := archive.Next(); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, readError(err)
		}
		return nil, invalidf("it has more files than its manifest names")
	}
	// The end of the archive has been read. Read on, so that the
	// decompressor checks its checksum at the end of the file.
	switch n, err := io.ReadFull(decompressed, make([]byte, 1)); {
	case n > 0:
		return nil, invalidf("something follows its end")
	case !errors.Is(err, io.EOF):
		return nil, readError(err)
	}
	return m, nil
}

func readManifest(archive *tar.Reader) (*manifest, error) {
	if err := (entry{Name: manifestName}).readHeader(archive, -1); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(archive)
	if err != nil {
		return nil, readError(err)
	}
	var m manifest
	if err := json.Unmarshal(raw, &m); err != nil || m.Product != product {
		return nil, invalidf("it has another manifest than backups of this product")
	}
	if m.Format != format {
		return nil, invalidf("it has the format %d, and this version reads the format %d: use the version that made it",
			m.Format, format)
	}
	if err := m.check(); err != nil {
		return nil, invalidf("%v", err)
	}
	return &m, nil
}

// readHeader reads the header of the next file in the archive. The file must have the name of e, and its size must be
// equal to bytes. If bytes is -1, any size up to maxManifestBytes is valid.
func (e entry) readHeader(archive *tar.Reader, bytes int64) error {
	h, err := archive.Next()
	switch {
	case errors.Is(err, io.EOF):
		return invalidf("it ends before its file %s", e.Name)
	case err != nil:
		return readError(err)
	case h.Name != e.Name:
		return invalidf("it has a file %q in the place of %s", h.Name, e.Name)
	case h.Typeflag != tar.TypeReg:
		return invalidf("its file %s is a link, a device or a folder", e.Name)
	case bytes < 0 && h.Size > maxManifestBytes:
		return invalidf("its manifest is too long")
	case bytes >= 0 && h.Size != bytes:
		return invalidf("its file %s has %d bytes, and its manifest says %d", e.Name, h.Size, bytes)
	}
	return nil
}

// extract writes one file below root. os.Root rejects names outside of the folder.
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
	out := &errWriter{dst: io.MultiWriter(file, digest)}
	if _, err := io.CopyN(out, archive, e.Bytes); err != nil {
		if out.err != nil {
			return out.err
		}
		return readError(err)
	}
	if hex.EncodeToString(digest.Sum(nil)) != e.SHA256 {
		return invalidf("its file %s has another content than its manifest says", e.Name)
	}
	return file.Sync()
}

// errWriter stores the last error of a writer, to distinguish it from an error in reading the archive.
type errWriter struct {
	dst io.Writer
	err error
}

func (e *errWriter) Write(p []byte) (int, error) {
	n, err := e.dst.Write(p)
	e.err = err
	return n, err
}

// verify opens the store in the extracted files and reads all of its data. It checks that the backup has the root key
// of the store and the content of every object.
func verify(ctx context.Context, dir string, m *manifest) (err error) {
	engine, err := embedded.Open(ctx, embedded.Options{Dir: filepath.Join(dir, datadir.Engine), ReadOnly: true})
	switch {
	case disk.AccessAdvice(err) != "":
		return err
	case err != nil:
		return invalidf("its store does not open (%v)", err)
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	switch err := engine.Verify(ctx); {
	case disk.AccessAdvice(err) != "":
		return err
	case err != nil:
		return invalidf("its store is damaged (%v)", err)
	}
	switch err := rootkey.Check(ctx, filepath.Join(dir, rootkey.Name), engine); {
	case disk.AccessAdvice(err) != "":
		return err
	case err != nil:
		return invalidf("its root key is not that of its store")
	}
	sizes := make(map[string]int64, len(m.Files))
	for _, e := range m.Files {
		sizes[e.Name] = e.Bytes
	}
	err = files.Contents(engine, func(digest string, bytes int64) error {
		if got, ok := sizes[path.Join(datadir.Objects, files.ContentPath(digest))]; !ok || got != bytes {
			return invalidf("it lacks the content %s of an object", digest)
		}
		return ctx.Err()
	})
	if _, isInvalid := errors.AsType[*invalidError](err); err != nil && !isInvalid && ctx.Err() == nil &&
		disk.AccessAdvice(err) == "" {
		return invalidf("its store is damaged (%v)", err)
	}
	return err
}
