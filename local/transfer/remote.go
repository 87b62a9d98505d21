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

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// Remote is a table and a bucket that an export is imported into: those of an installation that
// was deployed and never used, or of none yet.
type Remote struct {
	// Name is what errors call it.
	Name   string
	Table  *store.Table
	Items  Items // of the table
	Bucket Bucket
	Keeper Keeper
	// AccountKey keeps the text of the first account's key, where the export has it; nil leaves it out.
	AccountKey func([]byte) error
	// Turn says when an item comes.
	Turn func(store.Item) Turn
	Now  func() time.Time
}

// Bucket is where objects go; *blob.Bucket is one.
type Bucket interface {
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
	Head(ctx context.Context, key string) (blob.Object, error)
	Put(ctx context.Context, key string, body io.ReadSeeker) error
}

var _ Bucket = (*blob.Bucket)(nil)

// Keeper keeps the root key of a target.
type Keeper interface {
	// Adopt makes root the target's root key, with the writes that it answers. It is called once
	// the target was found empty.
	Adopt(ctx context.Context, root rootkey.Moved) ([]store.Write, error)
	// Root gives the key that the target has.
	Root(ctx context.Context) (rootkey.Moved, error)
}

// ErrNotEmpty is what an import answers for a target that holds data, which stay.
var ErrNotEmpty = errors.New("holds data already, which stay")

// Import fills an empty installation of an export, sealed under the key in keyFile. After a kill or a failure the
// same call goes on where it was; until it has ended nobody is let in. Into a target that holds
// anything else it does nothing.
func Import(ctx context.Context, name, keyFile string, r Remote) (sum Summary, err error) {
	a, err := openArchive(ctx, name, keyFile)
	if err != nil {
		return sum, err
	}
	defer func() { _ = a.close() }()
	p, err := r.begin(ctx, a)
	if err != nil {
		return sum, err
	}
	f := &filling{archive: a, table: r.Table, put: r.put, turn: r.Turn, progress: p}
	err = f.fill(ctx)
	if err == nil && r.AccountKey != nil && a.accountKey != nil {
		err = r.AccountKey(a.accountKey)
	}
	if err == nil {
		err = r.Table.Commit(ctx, store.Delete(space.Key()).If(store.Exists()).Else(errTwice))
	}
	switch {
	case errors.Is(err, errMeanwhile), errors.Is(err, errTwice):
		return sum, fmt.Errorf("import %s into %s: %w", name, r.Name, err)
	case err != nil:
		return sum, fmt.Errorf("import %s into %s: %w: see to it, and run the same command again, which goes on from there", name, r.Name, err)
	}
	return a.sum, nil
}

// begin claims an empty target, or goes on with the import that has it.
func (r Remote) begin(ctx context.Context, a *archive) (*progress, error) {
	var p progress
	switch err := r.Table.Get(ctx, space.Key(), &p); {
	case err == nil:
		return &p, r.resume(ctx, p, a)
	case !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("look at %s: %w", r.Name, err)
	}
	if err := r.empty(ctx); err != nil {
		return nil, err
	}
	writes, err := r.Keeper.Adopt(ctx, a.root)
	if err != nil {
		return nil, fmt.Errorf("the root key is not taken by %s, and nothing was imported: %w", r.Name, err)
	}
	p = progress{Archive: a.id}
	if err := r.Table.Commit(ctx, append(writes, store.Create(space.Key(), p).Else(errTwice))...); err != nil {
		return nil, fmt.Errorf("begin the import into %s: %w", r.Name, err)
	}
	return &p, nil
}

func (r Remote) resume(ctx context.Context, p progress, a *archive) error {
	if p.Archive != a.id {
		return fmt.Errorf("the import of another file into %s was begun and has not ended: go on with that file, or empty the table and the bucket", r.Name)
	}
	root, err := r.Keeper.Root(ctx)
	if err != nil {
		return fmt.Errorf("read the root key of %s: %w", r.Name, err)
	}
	if !bytes.Equal(root.Key, a.root.Key) {
		return fmt.Errorf("%s has another root key than the import was begun with: empty the table and the bucket, and import again", r.Name)
	}
	return nil
}

// empty refuses a target that holds anything of an installation. What was deployed and never
// used may have a root key: a stranger's request is enough for one.
func (r Remote) empty(ctx context.Context) error {
	found := fmt.Errorf("%s %w: name one that was never used, or empty it; nothing was imported", r.Name, ErrNotEmpty)
	now := r.Now()
	err := r.Items(ctx, func(item store.Item) error {
		if stays(item, now) {
			return nil
		}
		return found
	})
	if err != nil {
		return err
	}
	for _, err := range r.Bucket.List(ctx, "") {
		if err == nil {
			err = found
		}
		return err
	}
	return nil
}

// put stores an object. One that is there was stored by an earlier attempt: the bucket was empty.
func (r Remote) put(ctx context.Context, o blob.Object, body io.Reader) (err error) {
	if there, err := r.Bucket.Head(ctx, o.Key); err == nil && there.Size == o.Size {
		return nil
	} else if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return err
	}
	// S3 is told the length first, and reads a body that it did not get again.
	file, err := os.CreateTemp("", "gatewright-import-*")
	if err != nil {
		return err
	}
	_ = os.Remove(file.Name()) // where the system can: then a kill leaves nothing
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
