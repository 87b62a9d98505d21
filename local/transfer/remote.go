package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// Remote is the target of an import: the table and the bucket of an installation
// that was deployed but never used, or a table and a bucket for a new installation.
type Remote struct {
	// Name is the target's name in errors.
	Name   string
	Table  *store.Table
	Items  Items // of the table
	Bucket Bucket
	Keeper RootKeeper
	// StoreAccountKey stores the text of the first account's key. It is
	// called if the export contains the key. It may be nil.
	StoreAccountKey func([]byte) error
	// PhaseOf returns the phase of an item. It is required.
	PhaseOf func(store.Item) Phase
	Now     func() time.Time
}

// Bucket stores objects; *blob.Bucket is one.
type Bucket interface {
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
	Head(ctx context.Context, key string) (blob.Object, error)
	Put(ctx context.Context, key string, body io.ReadSeeker) error
}

var _ Bucket = (*blob.Bucket)(nil)

// RootKeeper stores the root key of a target. Exports use it too, to read the root key of their source.
type RootKeeper interface {
	// Adopt makes root the target's root key. The caller must commit
	// the returned writes. Adopt is called only if the target is empty.
	Adopt(ctx context.Context, root rootkey.ExportedKey) ([]store.Write, error)
	// Root returns the current root key.
	Root(ctx context.Context) (rootkey.ExportedKey, error)
}

// ErrNotEmpty means that the target of an import contains data. The import has not changed the data.
var ErrNotEmpty = errors.New("holds data already, which stay")

// Import fills an empty installation from an export, which is sealed under the key in keyFile. After a failure or a
// kill, the same call continues the import. Until the import has ended, the installation rejects callers. Import
// returns ErrNotEmpty if the target contains other data.
func Import(ctx context.Context, name, keyFile string, r Remote) (summary Summary, err error) {
	a, err := openArchive(ctx, name, keyFile)
	if err != nil {
		return summary, err
	}
	defer func() { _ = a.close() }()
	p, err := r.start(ctx, a)
	if err != nil {
		return summary, err
	}
	f := &importer{archive: a, table: r.Table, put: r.put, phaseOf: r.PhaseOf, progress: p}
	err = f.fill(ctx)
	if err == nil && r.StoreAccountKey != nil && a.accountKey != nil {
		err = r.StoreAccountKey(a.accountKey)
	}
	if err == nil {
		err = r.Table.Commit(ctx, store.Delete(installation.ImportPrefix.Key()).If(store.Exists()).Else(errConcurrentImport))
	}
	switch {
	case errors.Is(err, errConcurrentWrite), errors.Is(err, errConcurrentImport):
		return summary, fmt.Errorf("import %s into %s: %w", name, r.Name, err)
	case err != nil:
		return summary,
			fmt.Errorf("import %s into %s: %w: see to it, and run the same command again, which goes on from there", name,
				r.Name, err)
	}
	return a.summary, nil
}

// start begins an import into an empty target, or resumes the
// import that was begun there. It returns the stored progress.
func (r Remote) start(ctx context.Context, a *archive) (*progress, error) {
	var p progress
	switch err := r.Table.Get(ctx, installation.ImportPrefix.Key(), &p); {
	case err == nil:
		return &p, r.checkResumable(ctx, p, a)
	case !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("look at %s: %w", r.Name, err)
	}
	if err := r.checkEmpty(ctx); err != nil {
		return nil, err
	}
	writes, err := r.Keeper.Adopt(ctx, a.root)
	if err != nil {
		return nil, fmt.Errorf("the root key is not taken by %s, and nothing was imported: %w", r.Name, err)
	}
	p = progress{Archive: a.id}
	if err := r.Table.Commit(ctx,
		append(writes, store.Create(installation.ImportPrefix.Key(), p).Else(errConcurrentImport))...); err != nil {
		return nil, fmt.Errorf("begin the import into %s: %w", r.Name, err)
	}
	return &p, nil
}

// checkResumable returns an error unless the unfinished import p is of this archive, and the target still has the
// archive's root key.
func (r Remote) checkResumable(ctx context.Context, p progress, a *archive) error {
	if p.Archive != a.id {
		return fmt.Errorf("the import of another file into %s was begun and has not ended: go on with that file, or empty "+
			"the table and the bucket", r.Name)
	}
	root, err := r.Keeper.Root(ctx)
	if err != nil {
		return fmt.Errorf("read the root key of %s: %w", r.Name, err)
	}
	if !bytes.Equal(root.Key, a.root.Key) {
		return fmt.Errorf("%s has another root key than the import was begun with: empty the table and the bucket, and "+
			"import again", r.Name)
	}
	return nil
}

// checkEmpty returns an error if the target contains data of an installation. Items that are not exported (isExcluded)
// are not such data. An example is the root key: a deployed installation creates it at its first request, even if the
// request is rejected.
func (r Remote) checkEmpty(ctx context.Context) error {
	errFound := fmt.Errorf("%s %w: name one that was never used, or empty it; nothing was imported", r.Name, ErrNotEmpty)
	now := r.Now()
	err := r.Items(ctx, func(item store.Item) error {
		if isExcluded(item, now) {
			return nil
		}
		return errFound
	})
	if err != nil {
		return err
	}
	for _, err := range r.Bucket.List(ctx, "") {
		if err == nil {
			err = errFound
		}
		return err
	}
	return nil
}

// put stores an object, unless an object with its key and size exists. Such an object is from an earlier attempt,
// because the bucket was empty at the start of the import.
func (r Remote) put(ctx context.Context, o blob.Object, body io.Reader) (err error) {
	if existing, err := r.Bucket.Head(ctx, o.Key); err == nil && existing.Size == o.Size {
		return nil
	} else if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	// Use a temporary file, because S3 needs the length before the
	// body, and the client reads the body again for a retry.
	file, err := os.CreateTemp("", "gatewright-import-*")
	if err != nil {
		return err
	}
	_ = os.Remove(file.Name()) // now, if the system allows it, so that no file remains after a kill
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	if _, err := io.Copy(file, body); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return r.Bucket.Put(ctx, o.Key, file)
}
