package transfer

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/gatewright/gatewright/local/staging"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// Source is what is exported.
type Source struct {
	Items   Items
	Objects Objects
	// Root is the root key.
	Root rootkey.Moved
	// AccountKey is the text of the first account's key, nil where it is not known.
	AccountKey []byte
	// Moving says that Items and Objects are of no one moment: they are then read a second
	// time, and what has changed in between is refused.
	Moving bool
	Now    func() time.Time
}

// ErrChanging is what Write answers when something was changed while it read.
var ErrChanging = errors.New("something was changed while it was read, so that the export would not be of one moment: stop everything that writes to it, and export again")

// Write writes an export, sealed under the key in keyFile. What was written before an error passes for none.
func Write(ctx context.Context, s Source, keyFile string, to io.Writer) (sum Summary, err error) {
	identity, err := readKey(keyFile)
	if err != nil {
		return sum, err
	}
	if err := s.Root.Check(); err != nil {
		return sum, err
	}
	sealed, err := age.Encrypt(to, identity.Recipient())
	if err != nil {
		return sum, fmt.Errorf("write the export: %w", err)
	}
	compressed, err := zstd.NewWriter(sealed, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return sum, fmt.Errorf("write the export: %w", err)
	}
	e := &exporter{Source: s, archive: tar.NewWriter(compressed), on: s.Now().UTC().Truncate(time.Second)}
	if err := e.write(ctx); err != nil {
		return sum, err
	}
	if err := errors.Join(e.archive.Close(), compressed.Close(), sealed.Close()); err != nil {
		return sum, fmt.Errorf("write the export: %w", err)
	}
	e.sum.MadeOn = e.on
	return e.sum, nil
}

// exporter writes one archive.
type exporter struct {
	Source
	archive *tar.Writer
	on      time.Time
	sum     Summary
	seen    content
	items   bytes.Buffer
	files   int
}

func (e *exporter) write(ctx context.Context) error {
	for _, part := range []func(context.Context) error{e.writeHead, e.writeItems, e.writeObjects, e.compare} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return e.writeJSON(endName, e.sum)
}

func (e *exporter) writeHead(context.Context) error {
	err := e.writeJSON(manifestName, manifest{Product: product, Format: format, MadeOn: e.on})
	if err == nil {
		err = e.writeFile(rootName, e.Root.Key)
	}
	if err == nil && e.Root.Number > 1 { // earlier versions refuse it, which would know no key by it
		err = e.writeJSON(lineageName, e.Root)
	}
	if err == nil && e.AccountKey != nil {
		err = e.writeFile(accountKeyName, e.AccountKey)
	}
	return err
}

func (e *exporter) writeItems(ctx context.Context) error {
	err := e.eachItem(ctx, func(line []byte) error {
		e.sum.Items++
		e.seen.add(line)
		e.items.Write(line)
		if e.items.Len() < itemsBytes {
			return nil
		}
		return e.writeLines()
	})
	if err == nil && e.items.Len() > 0 {
		err = e.writeLines()
	}
	return err
}

// eachItem visits the lines of what belongs to the installation.
func (e *exporter) eachItem(ctx context.Context, visit func(line []byte) error) error {
	return e.Items(ctx, func(item store.Item) error {
		key := store.KeyOf(item)
		if key.PK == space.Key().PK {
			return errors.New("an import into this installation was begun and has not ended: finish it first, by the same command again")
		}
		if rootkey.Is(key) {
			return rootkey.CheckStill(item) // the operation of a rotation would come along, without what it is about
		}
		if stays(item, e.on) {
			return nil
		}
		line, err := encode(item)
		if err != nil {
			return err
		}
		return visit(line)
	})
}

func (e *exporter) writeLines() error {
	e.files++
	err := e.writeFile(fmt.Sprintf("%s%08d.json", itemsPrefix, e.files), e.items.Bytes())
	e.items.Reset()
	return err
}

func (e *exporter) writeObjects(ctx context.Context) error {
	for o, err := range e.Objects.List(ctx, "") {
		if err == nil {
			err = e.writeObject(ctx, o)
		}
		if err != nil {
			return err
		}
		e.seen.addObject(o)
		e.sum.Objects++
		e.sum.Bytes += o.Size
	}
	return nil
}

func (e *exporter) writeObject(ctx context.Context, o blob.Object) error {
	if o.Size > maxObjectBytes {
		return fmt.Errorf("the object %s has %d bytes, more than S3 takes in one request", o.Key, o.Size)
	}
	body, _, err := e.Objects.Get(ctx, o.Key, o.ETag, o.Size)
	switch {
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrChanged):
		return ErrChanging
	case err != nil:
		return fmt.Errorf("read the object %s: %w", o.Key, err)
	}
	defer func() { _ = body.Close() }()
	err = e.archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Format: tar.FormatPAX, Name: objectsPrefix + o.Key, Size: o.Size, Mode: int64(fileMode), ModTime: o.Modified,
		PAXRecords: map[string]string{etagRecord: o.ETag},
	})
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	n, err := io.Copy(e.archive, staging.Reader(ctx, body))
	if err == nil && n != o.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("copy the object %s: %w", o.Key, err)
	}
	return nil
}

// compare reads what may have changed meanwhile again.
func (e *exporter) compare(ctx context.Context) error {
	if !e.Moving {
		return nil
	}
	var again content
	err := e.eachItem(ctx, func(line []byte) error {
		again.add(line)
		return nil
	})
	for o, listErr := range e.Objects.List(ctx, "") {
		if err = errors.Join(err, listErr); err != nil {
			break
		}
		again.addObject(o)
	}
	if err == nil && again != e.seen {
		err = ErrChanging
	}
	return err
}

const fileMode fs.FileMode = 0o600

func (e *exporter) writeJSON(name string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return e.writeFile(name, raw)
}

func (e *exporter) writeFile(name string, raw []byte) error {
	err := e.archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(raw)), Mode: int64(fileMode), ModTime: e.on})
	if err == nil {
		_, err = e.archive.Write(raw)
	}
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

// content tells two readings of the same apart, whatever their order: the sum of their digests.
type content struct {
	digest [sha256.Size]byte
	parts  int
}

func (c *content) add(part []byte) {
	digest := sha256.Sum256(part)
	subtle.XORBytes(c.digest[:], c.digest[:], digest[:])
	c.parts++
}

func (c *content) addObject(o blob.Object) {
	c.add(fmt.Appendf(nil, "%s\n%s\n%d", o.Key, o.ETag, o.Size))
}
