package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/store"
)

// filling puts an archive's content into a table and a bucket.
type filling struct {
	*archive
	table *store.Table
	// put stores an object unless it is there.
	put func(context.Context, blob.Object, io.Reader) error
	// turn says when an item comes, nil for all at once. What is of a later turn is stored when all
	// of the earlier ones is there.
	turn func(store.Item) Turn
	// progress is how far an earlier import has come, nil for a target that nobody sees
	// until its end.
	progress *progress
}

// Turn is when an item is stored in a target that others see meanwhile.
type Turn int

// The turns.
const (
	// Plain items come first: nobody acts on them by themselves.
	Plain Turn = iota
	// Due items are found by what looks each minute for what is due.
	Due
	// Live items are acted on at once, or let callers in. With them come the uploads, whose
	// builds begin when their archives are there.
	Live

	turns = Live + 1
)

func (f *filling) fill(ctx context.Context) error {
	if f.turn == nil {
		return f.take(ctx, &batch{filling: f})
	}
	first := Plain
	if f.progress != nil {
		first = f.progress.Turn
	}
	for at := first; at < turns; at++ {
		b := &batch{filling: f, at: at}
		if f.progress != nil && at == f.progress.Turn {
			b.skip = f.progress.Done
		}
		if err := f.take(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// take reads the archive and stores what is of a turn.
func (f *filling) take(ctx context.Context, b *batch) error {
	err := f.read(ctx, io.Discard, visitor{
		item: func(item store.Item) error {
			if f.turn != nil && f.turn(item) != b.at {
				return nil
			}
			return b.add(ctx, item)
		},
		object: func(o blob.Object, body io.Reader) error {
			if f.turn != nil && turnOf(o) != b.at {
				return nil
			}
			if err := b.commit(ctx); err != nil { // of what names it
				return err
			}
			if err := f.put(ctx, o, body); err != nil {
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

func turnOf(o blob.Object) Turn {
	if _, upload := blob.UploadID(o.Key); upload {
		return Live
	}
	return Plain
}

// batch gathers items of one turn into commits as large as they may be.
type batch struct {
	*filling
	at     Turn
	skip   int // items that an earlier import has stored
	writes []store.Write
	bytes  int
}

// room is what the record of the progress takes of a commit.
const room = 1 << 10

func (b *batch) add(ctx context.Context, item store.Item) error {
	if b.skip > 0 {
		b.skip--
		return nil
	}
	size := store.Size(item)
	if len(b.writes) == store.MaxWrites-1 || b.bytes+size > store.MaxTransactionBytes-room {
		if err := b.commit(ctx); err != nil {
			return err
		}
	}
	write := store.Write{Kind: store.PutKind, Key: store.KeyOf(item), Item: item}
	b.writes, b.bytes = append(b.writes, write.If(store.Absent()).Else(errMeanwhile)), b.bytes+size
	return nil
}

// errMeanwhile is what an import ends with that is not alone.
var errMeanwhile = errors.New("somebody else has written into it since the import began: empty it, see that nothing else writes to it, and import again")

func (b *batch) commit(ctx context.Context) error {
	if len(b.writes) == 0 {
		return nil
	}
	writes := b.writes
	var next progress
	if b.progress != nil {
		next = b.progress.after(b.at, len(writes))
		// First, so that its condition is the one that is told.
		writes = append([]store.Write{b.progress.becomes(next)}, writes...)
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

// progress is an import's record in the table: a commit of items moves it, so that each item is
// stored once, however often the import is interrupted. What an operation of the target has
// changed or removed since is left alone.
type progress struct {
	store.Rest

	// Archive is the id of the one that is imported.
	Archive string `dynamodbav:"archive"`
	// Turn is the one that was begun, and Done how many of its items are stored.
	Turn Turn `dynamodbav:"turn"`
	Done int  `dynamodbav:"done"`
}

// after is the progress with n more items of a turn.
func (p progress) after(at Turn, n int) progress {
	if p.Turn != at {
		p.Turn, p.Done = at, 0
	}
	p.Done += n
	return p
}

// becomes is the write of the next progress. It fails where another process goes on with the same import.
func (p progress) becomes(next progress) store.Write {
	return store.Put(space.Key(), next).Else(errTwice).
		If(store.Equal(store.At("archive"), p.Archive)).If(store.Equal(store.At("turn"), p.Turn)).If(store.Equal(store.At("done"), p.Done))
}

var errTwice = errors.New("another import into it goes on: wait for its end, or stop it")
