package embedded

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/gatewright/gatewright/shared/store"
)

// Change is one record of the feed: what DynamoDB's stream tells of an item.
type Change struct {
	store.StreamRecord
	// Seq orders all changes. It rises, not always by one.
	Seq uint64
	// On is when it was made.
	On time.Time
}

// feedLife is how long a change is kept, as in DynamoDB.
const feedLife = 24 * time.Hour

// encoded is the form of a change in the files.
type encoded struct {
	_      struct{} `cbor:",toarray"`
	On     int64    // milliseconds since 1970
	PK, SK string
	Old    []byte // items as appendItem writes them, nil for none
	New    []byte
}

func encodeChange(r store.StreamRecord, now time.Time) ([]byte, error) {
	out := encoded{On: now.UnixMilli(), PK: r.Key.PK, SK: r.Key.SK}
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
	var in encoded
	if err := decoding.Unmarshal(raw, &in); err != nil || len(key) != 1+numberBytes {
		return Change{}, fmt.Errorf("%w: a change of the feed: %w", errDamaged, err)
	}
	c := Change{Seq: binary.BigEndian.Uint64(key[1:]), On: time.UnixMilli(in.On).UTC()}
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

// Changes gives the changes behind the one that has the number after (0: from
// the oldest that is kept), in order, at most limit. It waits until there is
// one, or ctx ends, whose error it answers. A change is told once it is on disk;
// those older than a day are gone.
func (b *Backend) Changes(ctx context.Context, after uint64, limit int) ([]Change, error) {
	for {
		last, news := b.flights.upTo()
		if last > after {
			if found, err := b.changes(after, last, limit); err != nil || len(found) > 0 {
				return found, err
			}
			after = last // what lies between made no change
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-b.life.Done():
			return nil, ErrClosed
		}
	}
}

func (b *Backend) changes(after, last uint64, limit int) (out []Change, err error) {
	if err := b.begin(); err != nil {
		return nil, err
	}
	defer b.calls.done()
	records, err := b.db.NewIter(&pebble.IterOptions{LowerBound: numbered(feedSpace, after+1), UpperBound: numbered(feedSpace, last+1)})
	if err != nil {
		return nil, damaged(err)
	}
	defer func() { _ = records.Close() }()
	for more := records.First(); more && len(out) < limit; more = records.Next() {
		raw, err := records.ValueAndErr()
		if err != nil {
			return nil, damaged(err)
		}
		c, err := decodeChange(records.Key(), raw)
		if err != nil {
			return nil, damaged(err)
		}
		out = append(out, c)
	}
	if err := records.Error(); err != nil {
		return nil, damaged(err)
	}
	return out, nil
}

// Mark gives the number of the last change that a reader of the feed has dealt
// with, 0 for none.
func (b *Backend) Mark(reader string) (uint64, error) {
	if err := b.begin(); err != nil {
		return 0, err
	}
	defer b.calls.done()
	n, err := b.number(append([]byte{markSpace}, reader...))
	if err != nil {
		return 0, damaged(err)
	}
	return n, nil
}

// SetMark keeps such a number. A power cut may take back the last ones: changes
// come again then.
func (b *Backend) SetMark(reader string, seq uint64) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.done()
	if err := b.db.Set(append([]byte{markSpace}, reader...), number(seq), pebble.NoSync); err != nil {
		return b.fail(err)
	}
	return nil
}
