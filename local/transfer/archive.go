package transfer

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/gatewright/gatewright/local/staging"
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// ErrInvalid means that a file is not an export, or is incomplete,
// damaged or sealed under another key. Nothing was imported.
var ErrInvalid = errors.New("is no whole export under this key")

// maxWindowBytes is the maximum memory of the decompression.
const maxWindowBytes = 64 << 20

// archive is an export that has been read to its end and verified.
type archive struct {
	name     string
	file     *os.File
	identity age.Identity

	// id is the digest of the file, which identifies the archive.
	id         string
	summary    Summary
	root       rootkey.ExportedKey
	accountKey []byte
}

// openArchive opens an export and reads all of it. It returns an error if the file is incomplete,
// changed, sealed under another key or of another format, before any of its content is used.
func openArchive(ctx context.Context, name, keyFile string) (a *archive, err error) {
	identity, err := readKey(keyFile)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(name) //nolint:gosec // G304: the operator names the file
	if err != nil {
		return nil, fmt.Errorf("open the export %s: %w", name, disk.Cause(err))
	}
	a = &archive{name: name, file: file, identity: identity}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	digest := sha256.New()
	itemIDs := map[[sha256.Size]byte]struct{}{}
	err = a.read(ctx, digest, visitor{item: func(item store.Item) error {
		key := store.KeyOf(item)
		id := sha256.Sum256([]byte(key.PK + "\x00" + key.SK))
		if _, duplicate := itemIDs[id]; duplicate {
			return errors.New("it has an item twice")
		}
		itemIDs[id] = struct{}{}
		return nil
	}})
	pathErr, isPathErr := errors.AsType[*fs.PathError](err)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case isPathErr:
		return nil, fmt.Errorf("read the export: %w", pathErr)
	default:
		return nil, fmt.Errorf("%s %w: %w; nothing was imported", name, ErrInvalid, explain(err))
	}
	a.id = hex.EncodeToString(digest.Sum(nil))
	return a, nil
}

func (a *archive) close() error { return a.file.Close() }

// unsealError returns an error that explains why a file cannot be decrypted. It
// replaces the parser's error, which contains a part of the file: that could be a key.
func unsealError(err error) error {
	if _, isPathErr := errors.AsType[*fs.PathError](err); isPathErr {
		return err
	}
	if _, isOtherKey := errors.AsType[*age.NoIdentityMatchError](err); isOtherKey {
		return errors.New("it was sealed under another key")
	}
	return errors.New("its beginning is not that of a file of export-data")
}

// explain replaces the error of an unexpected end of the file by a text for operators. It returns other errors
// unchanged.
func explain(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("its end is missing")
	}
	return err
}

// visitor receives the items and objects of an archive, in the archive's order. If a
// function returns an error, the reading ends. A part whose function is nil is skipped.
type visitor struct {
	item   func(store.Item) error
	object func(blob.Object, io.Reader) error
}

// read reads the archive to its end and calls the functions of v. It also copies the bytes of the file to raw.
func (a *archive) read(ctx context.Context, raw io.Writer, v visitor) error {
	if _, err := a.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	from := io.TeeReader(staging.Reader(ctx, a.file), raw)
	decrypted, err := age.Decrypt(from, a.identity)
	if err != nil {
		return unsealError(err)
	}
	decompressed, err := zstd.NewReader(decrypted, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxWindow(maxWindowBytes))
	if err != nil {
		return err
	}
	defer decompressed.Close()
	r := &archiveReader{archive: a, tar: tar.NewReader(decompressed), visitor: v}
	if err := r.readAll(); err != nil {
		return err
	}
	// All bytes of the file must be authenticated, so no other bytes may follow the archive.
	if n, err := io.Copy(io.Discard, decompressed); err != nil || n > 0 {
		return errors.Join(err, checkTrailing(n))
	}
	n, err := io.Copy(io.Discard, from)
	return errors.Join(err, checkTrailing(n))
}

func checkTrailing(bytes int64) error {
	if bytes > 0 {
		return errors.New("something comes behind its end")
	}
	return nil
}

// archiveReader is one pass through an archive.
type archiveReader struct {
	*archive
	tar *tar.Reader
	visitor
	summary Summary
}

// readAll reads the files of the archive. It returns an error if they are not in the order of an export.
func (a *archiveReader) readAll() error {
	if err := a.readManifest(); err != nil {
		return err
	}
	h, err := a.next()
	if err != nil {
		return err
	}
	a.root = rootkey.ExportedKey{Number: 1}
	if a.root.Key, err = a.readSmall(h, rootName); err != nil {
		return err
	}
	if h, err = a.next(); err == nil && h.Name == rootKeyHistoryName {
		var raw []byte
		if raw, err = a.readSmall(h, rootKeyHistoryName); err == nil {
			err = json.Unmarshal(raw, &a.root)
		}
		if err == nil {
			h, err = a.next()
		}
	}
	if err != nil {
		return err
	}
	if err := a.root.Check(); err != nil {
		return fmt.Errorf("its root key is none: %w", err)
	}
	if h.Name == accountKeyName {
		if a.accountKey, err = a.readSmall(h, accountKeyName); err == nil {
			h, err = a.next()
		}
	}
	for ; err == nil && strings.HasPrefix(h.Name, itemsPrefix); h, err = a.next() {
		if err := a.readItems(h); err != nil {
			return err
		}
	}
	for ; err == nil && strings.HasPrefix(h.Name, objectsPrefix); h, err = a.next() {
		if err := a.readObject(h); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return a.readEnd(h)
}

// next returns the header of the next file. It returns an error at the end of the
// archive, because callers do not call it after the archive's last file (endName).
func (a *archiveReader) next() (*tar.Header, error) {
	h, err := a.tar.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case h.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("it has %q, which is no file", h.Name)
	}
	return h, nil
}

// readSmall reads the current file into memory. name is the expected name of the file. readSmall returns an error if
// the file has another name, or is larger than maxSmallBytes.
func (a *archiveReader) readSmall(h *tar.Header, name string) ([]byte, error) {
	if h.Name != name || h.Size > maxSmallBytes {
		return nil, fmt.Errorf("where it has %s an export has %s, of at most %d bytes", h.Name, name, maxSmallBytes)
	}
	return io.ReadAll(a.tar)
}

func (a *archiveReader) readManifest() error {
	h, err := a.next()
	if err != nil {
		return err
	}
	raw, err := a.readSmall(h, manifestName)
	if err != nil {
		return err
	}
	var m manifest
	switch err := json.Unmarshal(raw, &m); {
	case err != nil:
		return fmt.Errorf("its manifest cannot be read: %w", err)
	case m.Product != product:
		return errors.New("it is none of this product")
	case m.Format != format:
		return fmt.Errorf("it has format %d, and this version reads format %d: import it with the version that wrote it",
			m.Format, format)
	}
	a.summary.CreatedOn = m.CreatedOn
	return nil
}

func (a *archiveReader) readItems(h *tar.Header) error {
	if h.Size > maxItemsFileBytes {
		return fmt.Errorf("its file %s has %d bytes, and an export's at most %d", h.Name, h.Size, maxItemsFileBytes)
	}
	lines := bufio.NewScanner(a.tar)
	lines.Buffer(make([]byte, 0, itemsFileBytes), maxItemsFileBytes)
	for lines.Scan() {
		item, err := decode(bytes.TrimSpace(lines.Bytes()))
		if err != nil {
			return err
		}
		a.summary.Items++
		if a.item == nil {
			continue
		}
		if err := a.item(item); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (a *archiveReader) readObject(h *tar.Header) error {
	o := blob.Object{
		Key: strings.TrimPrefix(h.Name, objectsPrefix), Size: h.Size, ETag: h.PAXRecords[etagRecord],
		Modified: h.ModTime.UTC(),
	}
	if o.Key == "" || o.Size > maxObjectBytes {
		return fmt.Errorf("it has the object %q of %d bytes, which no bucket takes", o.Key, o.Size)
	}
	a.summary.Objects++
	a.summary.Bytes += o.Size
	if a.object == nil {
		return nil
	}
	return a.object(o, a.tar)
}

func (a *archiveReader) readEnd(h *tar.Header) error {
	raw, err := a.readSmall(h, endName)
	if err != nil {
		return err
	}
	end := Summary{}
	if err := json.Unmarshal(raw, &end); err != nil {
		return fmt.Errorf("its end cannot be read: %w", err)
	}
	end.CreatedOn = a.summary.CreatedOn
	if end != a.summary {
		return fmt.Errorf("it has %d items and %d objects, and says that it has %d and %d", a.summary.Items,
			a.summary.Objects, end.Items, end.Objects)
	}
	if _, err := a.tar.Next(); !errors.Is(err, io.EOF) {
		return errors.New("something comes behind its end")
	}
	a.archive.summary = end
	return nil
}
