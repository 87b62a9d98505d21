package embedded

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Change is one record of the feed. It has the content of a record in DynamoDB's stream.
type Change struct {
	store.StreamRecord
	// Seq orders all changes. It increases, but not always by one.
	Seq uint64
	// Time is the time of the change.
	Time time.Time
}

// feedRetention is the minimum time for which a change is kept. DynamoDB keeps changes for the same time.
const feedRetention = 24 * time.Hour

// encodedChange is the format of a change in the files.
type encodedChange struct {
	_      struct{} `cbor:",toarray"`
	On     int64    // milliseconds since 1970
	PK, SK string
	Old    []byte // items as appendItem encodes them, nil if there is none
	New    []byte
}

func encodeChange(r store.StreamRecord, now time.Time) ([]byte, error) {
	out := encodedChange{On: now.UnixMilli(), PK: r.Key.PK, SK: r.Key.SK}
	var err error
	if r.Old != nil {
		if out.Old, err = appendItem(nil, r.Old); err != nil {
			return nil, err
		}
	}
	if r.New != nil {
		if out.New, err = appendItem(nil, r.New); err != nil {
			return nil, err
		}
	}
	raw, err := encoding.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode a change: %w", err)
	}
	return raw, nil
}

func decodeChange(key, raw []byte) (Change, error) {
	var in encodedChange
	if err := decoding.Unmarshal(raw, &in); err != nil || len(key) != 1+numberBytes {
		return Change{}, fmt.Errorf("%w: a change of the feed: %w", errDamaged, err)
	}
	c := Change{Seq: binary.BigEndian.Uint64(key[1:]), Time: time.UnixMilli(in.On).UTC()}
	c.Key = store.Key{PK: in.PK, SK: in.SK}
	var err error
	if in.Old != nil {
		if c.Old, err = decodeItem(c.Key, in.Old); err != nil {
			return Change{}, err
		}
	}
	if in.New != nil {
		if c.New, err = decodeItem(c.Key, in.New); err != nil {
			return Change{}, err
		}
	}
	return c, nil
}

// Changes returns at most limit changes, in order. after is the number of the change after which they begin (0 means
// from the oldest change that is kept). Changes waits until there is at least one change. If ctx ends before, it
// returns the cause of the end. After Close it returns an error that wraps ErrClosed. It returns only changes that are
// on disk. Changes are deleted some time after feedRetention.
func (b *Backend) Changes(ctx context.Context, after uint64, limit int) ([]Change, error) {
	for {
		last, advanced := b.pending.progress()
		if last > after {
			if found, err := b.changes(after, last, limit); err != nil || len(found) > 0 {
				return found, err
			}
			after = last // the numbers in between have no change
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-b.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// changes returns at most limit changes whose numbers are greater than after, up to and including last.
func (b *Backend) changes(after, last uint64, limit int) (out []Change, err error) {
	if err := b.begin(); err != nil {
		return nil, err
	}
	defer b.calls.done()
	iterator, err := b.db.NewIter(&pebble.IterOptions{
		LowerBound: numberedKey(feedPrefix, after+1),
		UpperBound: numberedKey(feedPrefix, last+1),
	})
	if err != nil {
		return nil, readError(err)
	}
	defer func() { _ = iterator.Close() }()
	for more := iterator.First(); more && len(out) < limit; more = iterator.Next() {
		raw, err := iterator.ValueAndErr()
		if err != nil {
			return nil, readError(err)
		}
		c, err := decodeChange(iterator.Key(), raw)
		if err != nil {
			return nil, readError(err)
		}
		out = append(out, c)
	}
	if err := iterator.Error(); err != nil {
		return nil, readError(err)
	}
	return out, nil
}

// Mark returns the number of the last change that a reader of the feed has processed, 0 if there is none.
func (b *Backend) Mark(reader string) (uint64, error) {
	if err := b.begin(); err != nil {
		return 0, err
	}
	defer b.calls.done()
	n, err := b.number(append([]byte{markPrefix}, reader...))
	if err != nil {
		return 0, readError(err)
	}
	return n, nil
}

// SetMark stores the number of the last processed change. A power cut can revert the
// latest marks. The reader then receives the changes after the last remaining mark again.
func (b *Backend) SetMark(reader string, seq uint64) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.done()
	if err := b.db.Set(append([]byte{markPrefix}, reader...), encodeNumber(seq), pebble.NoSync); err != nil {
		return b.fail(err)
	}
	return nil
}
