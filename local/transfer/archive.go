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
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// ErrNotWhole is what an import answers for a file that is no export, not all of one, or sealed
// under another key, and imports nothing of.
var ErrNotWhole = errors.New("is no whole export under this key")

// maxWindowBytes bounds what decompression takes of memory.
const maxWindowBytes = 64 << 20

// archive is an export that was read to its end once, and is what it says.
type archive struct {
	name     string
	file     *os.File
	identity age.Identity

	// id tells it apart from all others: the digest of the file.
	id         string
	sum        Summary
	root       rootkey.Moved
	accountKey []byte
}

// openArchive opens an export and reads all of it. A file that is not whole, changed, of another
// key or of a later form is refused before anybody has seen anything of it.
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
	keys := map[[sha256.Size]byte]struct{}{}
	err = a.read(ctx, digest, visitor{item: func(item store.Item) error {
		key := store.KeyOf(item)
		id := sha256.Sum256([]byte(key.PK + "\x00" + key.SK))
		if _, twice := keys[id]; twice {
			return errors.New("it has an item twice")
		}
		keys[id] = struct{}{}
		return nil
	}})
	broken, reads := errors.AsType[*fs.PathError](err)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case reads:
		return nil, fmt.Errorf("read the export: %w", broken)
	default:
		return nil, fmt.Errorf("%s %w: %w; nothing was imported", name, ErrNotWhole, explained(err))
	}
	a.id = hex.EncodeToString(digest.Sum(nil))
	return a, nil
}

func (a *archive) close() error { return a.file.Close() }

// unsealed says why a file does not open. What the parser says has some of the file in it, which
// may be that of a key.
func unsealed(err error) error {
	if _, reads := errors.AsType[*fs.PathError](err); reads {
		return err
	}
	if _, other := errors.AsType[*age.NoIdentityMatchError](err); other {
		return errors.New("it was sealed under another key")
	}
	return errors.New("its beginning is not that of a file of export-data")
}

// explained says in an operator's words what a reader of a form says.
func explained(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("its end is missing")
	}
	return err
}

// visitor is told of what is in an archive, in its order. An error of it ends the reading; what
// it has no function for is passed over.
type visitor struct {
	item   func(store.Item) error
	object func(blob.Object, io.Reader) error
}

// read reads the archive to its end. Its file's bytes go to raw too.
func (a *archive) read(ctx context.Context, raw io.Writer, v visitor) error {
	if _, err := a.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	from := io.TeeReader(staging.Reader(ctx, a.file), raw)
	opened, err := age.Decrypt(from, a.identity)
	if err != nil {
		return unsealed(err)
	}
	plain, err := zstd.NewReader(opened, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindowBytes))
	if err != nil {
		return err
	}
	defer plain.Close()
	r := &reading{archive: a, tar: tar.NewReader(plain), visitor: v}
	if err := r.all(); err != nil {
		return err
	}
	// What is authenticated is all up to the end: nothing may come behind the archive.
	if n, err := io.Copy(io.Discard, plain); err != nil || n > 0 {
		return errors.Join(err, behind(n))
	}
	n, err := io.Copy(io.Discard, from)
	return errors.Join(err, behind(n))
}

func behind(bytes int64) error {
	if bytes > 0 {
		return errors.New("something comes behind its end")
	}
	return nil
}

// reading is one reading of an archive.
type reading struct {
	*archive
	tar *tar.Reader
	visitor
	sum Summary
}

func (r *reading) all() error {
	if err := r.readManifest(); err != nil {
		return err
	}
	h, err := r.next()
	if err != nil {
		return err
	}
	r.root = rootkey.Moved{Number: 1}
	if r.root.Key, err = r.small(h, rootName); err != nil {
		return err
	}
	if h, err = r.next(); err == nil && h.Name == lineageName {
		var raw []byte
		if raw, err = r.small(h, lineageName); err == nil {
			err = json.Unmarshal(raw, &r.root)
		}
		if err == nil {
			h, err = r.next()
		}
	}
	if err != nil {
		return err
	}
	if err := r.root.Check(); err != nil {
		return fmt.Errorf("its root key is none: %w", err)
	}
	if h.Name == accountKeyName {
		if r.accountKey, err = r.small(h, accountKeyName); err == nil {
			h, err = r.next()
		}
	}
	for ; err == nil && strings.HasPrefix(h.Name, itemsPrefix); h, err = r.next() {
		if err := r.readItems(h); err != nil {
			return err
		}
	}
	for ; err == nil && strings.HasPrefix(h.Name, objectsPrefix); h, err = r.next() {
		if err := r.readObject(h); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return r.readEnd(h)
}

// next is the next file. There always is one: the last one is told by its name.
func (r *reading) next() (*tar.Header, error) {
	h, err := r.tar.Next()
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

// small reads a file whole.
func (r *reading) small(h *tar.Header, name string) ([]byte, error) {
	if h.Name != name || h.Size > maxSmallBytes {
		return nil, fmt.Errorf("where it has %s an export has %s, of at most %d bytes", h.Name, name, maxSmallBytes)
	}
	return io.ReadAll(r.tar)
}

func (r *reading) readManifest() error {
	h, err := r.next()
	if err != nil {
		return err
	}
	raw, err := r.small(h, manifestName)
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
		return fmt.Errorf("it has format %d, and this version reads format %d: import it with the version that wrote it", m.Format, format)
	}
	r.sum.MadeOn = m.MadeOn
	return nil
}

func (r *reading) readItems(h *tar.Header) error {
	if h.Size > maxItemsBytes {
		return fmt.Errorf("its file %s has %d bytes, and an export's at most %d", h.Name, h.Size, maxItemsBytes)
	}
	lines := bufio.NewScanner(r.tar)
	lines.Buffer(make([]byte, 0, itemsBytes), maxItemsBytes)
	for lines.Scan() {
		item, err := decode(bytes.TrimSpace(lines.Bytes()))
		if err != nil {
			return err
		}
		r.sum.Items++
		if r.item == nil {
			continue
		}
		if err := r.item(item); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (r *reading) readObject(h *tar.Header) error {
	o := blob.Object{Key: strings.TrimPrefix(h.Name, objectsPrefix), Size: h.Size, ETag: h.PAXRecords[etagRecord], Modified: h.ModTime.UTC()}
	if o.Key == "" || o.Size > maxObjectBytes {
		return fmt.Errorf("it has the object %q of %d bytes, which no bucket takes", o.Key, o.Size)
	}
	r.sum.Objects++
	r.sum.Bytes += o.Size
	if r.object == nil {
		return nil
	}
	return r.object(o, r.tar)
}

func (r *reading) readEnd(h *tar.Header) error {
	raw, err := r.small(h, endName)
	if err != nil {
		return err
	}
	end := Summary{}
	if err := json.Unmarshal(raw, &end); err != nil {
		return fmt.Errorf("its end cannot be read: %w", err)
	}
	end.MadeOn = r.sum.MadeOn
	if end != r.sum {
		return fmt.Errorf("it has %d items and %d objects, and says that it has %d and %d", r.sum.Items, r.sum.Objects, end.Items, end.Objects)
	}
	if _, err := r.tar.Next(); !errors.Is(err, io.EOF) {
		return errors.New("something comes behind its end")
	}
	r.archive.sum = end
	return nil
}
