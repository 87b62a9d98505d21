package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// importer writes the content of an archive to a table and a bucket.
type importer struct {
	*archive
	table *store.Table
	// put stores an object unless it exists.
	put func(context.Context, blob.Object, io.Reader) error
	// phaseOf returns the phase of an item. Items of a phase are stored after all items of earlier phases. If phaseOf is
	// nil, all items are stored in one phase, and progress must be nil.
	phaseOf func(store.Item) Phase
	// progress is the progress that is stored in the target. It is nil for a new data directory: it is not used before the
	// import ends, and an interrupted import begins again.
	progress *progress
}

// Phase is a phase of an import into a target whose functions can run during the import. An import stores each item in
// one phase.
type Phase int

// The phases, in their order.
const (
	// Plain items are stored first: they do not trigger functions.
	Plain Phase = iota
	// Due items are found by jobs that search for due items every minute.
	Due
	// Live items trigger functions immediately, or give callers access. Uploaded
	// archives have the same phase, because their builds begin when they exist.
	Live

	phaseCount = Live + 1
)

// fill stores the items and objects phase by phase, beginning with the phase of the stored progress. It skips the items
// of that phase that an earlier attempt has stored.
func (im *importer) fill(ctx context.Context) error {
	if im.phaseOf == nil {
		return im.importPhase(ctx, &batch{importer: im})
	}
	first := Plain
	if im.progress != nil {
		first = im.progress.Phase
	}
	for phase := first; phase < phaseCount; phase++ {
		b := &batch{importer: im, phase: phase}
		if im.progress != nil && phase == im.progress.Phase {
			b.skip = im.progress.Done
		}
		if err := im.importPhase(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// importPhase reads the archive and stores the items and objects of a phase.
func (im *importer) importPhase(ctx context.Context, b *batch) error {
	err := im.read(ctx, io.Discard, visitor{
		item: func(item store.Item) error {
			if im.phaseOf != nil && im.phaseOf(item) != b.phase {
				return nil
			}
			return b.add(ctx, item)
		},
		object: func(o blob.Object, body io.Reader) error {
			if im.phaseOf != nil && objectPhase(o) != b.phase {
				return nil
			}
			if err := b.commit(ctx); err != nil { // first store the items that refer to the object
				return err
			}
			if err := im.put(ctx, o, body); err != nil {
				return fmt.Errorf("store the object %s: %w", o.Key, err)
			}
			return nil
		},
	})
	if err == nil {
		err = b.commit(ctx)
	}
	return err
}

func objectPhase(o blob.Object) Phase {
	if _, upload := blob.UploadID(o.Key); upload {
		return Live
	}
	return Plain
}

// batch collects items of a phase, and commits them in transactions of the maximum size.
type batch struct {
	*importer
	phase  Phase
	skip   int // number of items that add still skips, because an earlier attempt has stored them
	writes []store.Write
	bytes  int
}

// progressBytes is the space for the progress record in a transaction.
const progressBytes = 1 << 10

// add adds an item to the batch, unless the item is to be skipped. If the item does not fit, add commits the batch
// first.
func (b *batch) add(ctx context.Context, item store.Item) error {
	if b.skip > 0 {
		b.skip--
		return nil
	}
	size := store.Size(item)
	if len(b.writes) == store.MaxWrites-1 || b.bytes+size > store.MaxTransactionBytes-progressBytes {
		if err := b.commit(ctx); err != nil {
			return err
		}
	}
	write := store.Write{Kind: store.PutKind, Key: store.KeyOf(item), Item: item}
	b.writes, b.bytes = append(b.writes, write.If(store.Absent()).Else(errConcurrentWrite)), b.bytes+size
	return nil
}

// errConcurrentWrite means that another program has written to the target.
var errConcurrentWrite = errors.New("somebody else has written into it since the import began: empty it, see that " +
	"nothing else writes to it, and import again")

// commit stores the items of the batch and the progress in one transaction. It does nothing for an empty batch.
func (b *batch) commit(ctx context.Context) error {
	if len(b.writes) == 0 {
		return nil
	}
	writes := b.writes
	var next progress
	if b.progress != nil {
		next = b.progress.advance(b.phase, len(writes))
		// This write comes first, so that its error is returned if several conditions fail.
		writes = append([]store.Write{b.progress.update(next)}, writes...)
	}
	if err := b.table.Commit(ctx, writes...); err != nil {
		return err
	}
	if b.progress != nil {
		*b.progress = next
	}
	b.writes, b.bytes = nil, 0
	return nil
}

// progress is an import's record in the table. Each commit of items updates it, so that each item is stored only once,
// even if the import is interrupted several times. So a resumed import does not overwrite or restore items that the
// target has changed or deleted meanwhile.
type progress struct {
	store.UnknownAttributes

	// Archive is the ID of the imported archive.
	Archive string `dynamodbav:"archive"`
	// Phase is the current phase. Done is the number of items of this phase that have been stored.
	Phase Phase `dynamodbav:"turn"`
	Done  int   `dynamodbav:"done"`
}

// advance returns the progress after n more items of a phase.
func (p progress) advance(phase Phase, n int) progress {
	if p.Phase != phase {
		p.Phase, p.Done = phase, 0
	}
	p.Done += n
	return p
}

// update returns the write that replaces p by next. The write fails if another process has continued the same import.
func (p progress) update(next progress) store.Write {
	return store.Put(installation.ImportPrefix.Key(), next).Else(errConcurrentImport).
		If(store.Equal(store.At("archive"), p.Archive)).If(store.Equal(store.At("turn"), p.Phase)).If(
		store.Equal(store.At("done"), p.Done))
}

var errConcurrentImport = errors.New("another import into it goes on: wait for its end, or stop it")
