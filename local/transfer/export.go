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
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// Source has the data to export.
type Source struct {
	Items   Items
	Objects Objects
	// Root is the root key.
	Root rootkey.ExportedKey
	// AccountKey is the text of the first account's key, or nil if the key is unknown.
	AccountKey []byte
	// Changing reports whether Items and Objects can change during the export.
	// Write then reads them twice, and returns ErrChanging if they have changed.
	Changing bool
	Now      func() time.Time
}

// ErrChanging means that the data has changed while Write was reading it.
var ErrChanging = errors.New("something was changed while it was read, so that the export would not be of one " +
	"moment: stop everything that writes to it, and export again")

// Write writes an export, sealed under the key in keyFile. If Write returns an error, the output is not a valid export.
func Write(ctx context.Context, s Source, keyFile string, w io.Writer) (summary Summary, err error) {
	identity, err := readKey(keyFile)
	if err != nil {
		return summary, err
	}
	if err := s.Root.Check(); err != nil {
		return summary, err
	}
	sealed, err := age.Encrypt(w, identity.Recipient())
	if err != nil {
		return summary, fmt.Errorf("write the export: %w", err)
	}
	compressed, err := zstd.NewWriter(sealed, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return summary, fmt.Errorf("write the export: %w", err)
	}
	e := &exporter{Source: s, archive: tar.NewWriter(compressed), createdOn: s.Now().UTC().Truncate(time.Second)}
	if err := e.write(ctx); err != nil {
		return summary, err
	}
	if err := errors.Join(e.archive.Close(), compressed.Close(), sealed.Close()); err != nil {
		return summary, fmt.Errorf("write the export: %w", err)
	}
	e.summary.CreatedOn = e.createdOn
	return e.summary, nil
}

// exporter writes one archive.
type exporter struct {
	Source
	archive     *tar.Writer
	createdOn   time.Time
	summary     Summary
	fingerprint fingerprint
	lines       bytes.Buffer // the items of the next file
	itemFiles   int          // number of written files of items
}

func (e *exporter) write(ctx context.Context) error {
	for _, part := range []func(context.Context) error{e.writeHead, e.writeItems, e.writeObjects, e.compare} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return e.writeJSON(endName, e.summary)
}

func (e *exporter) writeHead(context.Context) error {
	err := e.writeJSON(manifestName, manifest{Product: product, Format: format, CreatedOn: e.createdOn})
	if err == nil {
		err = e.writeFile(rootName, e.Root.Key)
	}
	if err == nil && e.Root.Number > 1 { // earlier versions, which do not support rotated keys, reject this file
		err = e.writeJSON(rootKeyHistoryName, e.Root)
	}
	if err == nil && e.AccountKey != nil {
		err = e.writeFile(accountKeyName, e.AccountKey)
	}
	return err
}

func (e *exporter) writeItems(ctx context.Context) error {
	err := e.eachItem(ctx, func(line []byte) error {
		e.summary.Items++
		e.fingerprint.add(line)
		e.lines.Write(line)
		if e.lines.Len() < itemsFileBytes {
			return nil
		}
		return e.writeLines()
	})
	if err == nil && e.lines.Len() > 0 {
		err = e.writeLines()
	}
	return err
}

// eachItem calls visit with the line of each item to export. It returns an error if the table has an unfinished import,
// or if its root key is being rotated.
func (e *exporter) eachItem(ctx context.Context, visit func(line []byte) error) error {
	return e.Items(ctx, func(item store.Item) error {
		key := store.KeyOf(item)
		if key.PK == installation.ImportPrefix.Key().PK {
			return errors.New("an import into this installation was begun and has not ended: finish it first, by the same " +
				"command again")
		}
		if rootkey.IsRecordKey(key) {
			// During a rotation, the export would contain the operation, but not the new key.
			return rootkey.CheckNotRotating(item)
		}
		if isExcluded(item, e.createdOn) {
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
	e.itemFiles++
	err := e.writeFile(fmt.Sprintf("%s%08d.json", itemsPrefix, e.itemFiles), e.lines.Bytes())
	e.lines.Reset()
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
		e.fingerprint.addObject(o)
		e.summary.Objects++
		e.summary.Bytes += o.Size
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
		Typeflag: tar.TypeReg, Format: tar.FormatPAX, Name: objectsPrefix + o.Key, Size: o.Size, Mode: int64(fileMode),
		ModTime:    o.Modified,
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

// compare reads the data again if it can change, and returns ErrChanging if it has changed.
func (e *exporter) compare(ctx context.Context) error {
	if !e.Changing {
		return nil
	}
	var second fingerprint
	err := e.eachItem(ctx, func(line []byte) error {
		second.add(line)
		return nil
	})
	for o, listErr := range e.Objects.List(ctx, "") {
		if err = errors.Join(err, listErr); err != nil {
			break
		}
		second.addObject(o)
	}
	if err == nil && second != e.fingerprint {
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
	err := e.archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(len(raw)),
		Mode: int64(fileMode), ModTime: e.createdOn,
	})
	if err == nil {
		_, err = e.archive.Write(raw)
	}
	if err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

// fingerprint is a digest of data that does not depend on the order of its parts: it combines the digests of all parts.
type fingerprint struct {
	digest [sha256.Size]byte
	parts  int
}

func (f *fingerprint) add(part []byte) {
	digest := sha256.Sum256(part)
	subtle.XORBytes(f.digest[:], f.digest[:], digest[:])
	f.parts++
}

func (f *fingerprint) addObject(o blob.Object) {
	f.add(fmt.Appendf(nil, "%s\n%s\n%d", o.Key, o.ETag, o.Size))
}
