package embedded

import (
	"bytes"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/gatewright/gatewright/shared/store"
)

// Every key in the files begins with what it is:
//
//	i pk. sk                 an item
//	d duePk. dueSk. pk. sk   its entry in the due index
//	x ttl pk. sk             its entry in the list of what expires
//	f seq                    a change, for the feed
//	h hour                   the first change of an hour
//	t bucket token           a transaction that was made, by a tenth of an hour
//	c name                   how far a reader of the feed has come
//	n key                    a note, which is no part of the table
//	m name                   the engine's own numbers
//
// A text before others ends in a dot, here written for 0x00 0x01; a 0x00 in it is
// 0x00 0xFF. So keys stand in the order of their texts. Numbers are 8 bytes, big
// endian.
const (
	itemSpace   = 'i'
	dueSpace    = 'd'
	expirySpace = 'x'
	feedSpace   = 'f'
	hourSpace   = 'h'
	tokenSpace  = 't'
	markSpace   = 'c'
	noteSpace   = 'n'
)

var (
	formatKey = []byte("mformat")
	lastKey   = []byte("mlast")
)

const numberBytes = 8

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func numbered(space byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{space}, n)
}

// appendText adds a text without its end.
func appendText(to []byte, text string) []byte {
	for i := range len(text) {
		if to = append(to, text[i]); text[i] == 0 {
			to = append(to, 0xff)
		}
	}
	return to
}

func appendEnd(to []byte) []byte { return append(to, 0, 1) }

// cutText takes the first text off a key.
func cutText(from []byte) (text string, rest []byte) {
	end := bytes.Index(from, []byte{0, 1})
	if end < 0 {
		return "", nil
	}
	return string(bytes.ReplaceAll(from[:end], []byte{0, 0xff}, []byte{0})), from[end+2:]
}

func itemKey(k store.Key) []byte { return append(runPrefix("", k.PK), k.SK...) }

func dueKey(due, k store.Key) []byte {
	return append(appendEnd(appendText(appendEnd(appendText(runPrefix(store.DueIndex, due.PK), due.SK)), k.PK)), k.SK...)
}

func expiryKey(ttl int64, k store.Key) []byte {
	return append(appendEnd(appendText(numbered(expirySpace, uint64(max(ttl, 0))), k.PK)), k.SK...)
}

// runPrefix is what all keys of a partition begin with, of the table or an index.
func runPrefix(index store.Index, pk string) []byte {
	space := byte(itemSpace)
	if index == store.DueIndex {
		space = dueSpace
	}
	return appendEnd(appendText([]byte{space}, pk))
}

// positionKey is the key of an entry of a run.
func positionKey(q store.Query, p store.Position) []byte {
	if q.Index == store.DueIndex {
		return dueKey(store.Key{PK: q.PK, SK: p.SK}, p.Key)
	}
	return itemKey(store.Key{PK: q.PK, SK: p.SK})
}

// positionOf reads what positionKey writes, behind the run's prefix.
func positionOf(q store.Query, rest []byte) store.Position {
	if q.Index == store.DueIndex {
		sk, rest := cutText(rest)
		pk, rest := cutText(rest)
		return store.Position{SK: sk, Key: store.Key{PK: pk, SK: string(rest)}}
	}
	return store.Position{SK: string(rest), Key: store.Key{PK: q.PK, SK: string(rest)}}
}

// bounds gives the keys between which the entries of q lie, behind from.
func bounds(q store.Query, from *store.Position) (lower, upper []byte) {
	prefix := runPrefix(q.Index, q.PK)
	at := func(sk string) []byte {
		if q.Index == store.DueIndex {
			return appendText(bytes.Clone(prefix), sk)
		}
		return append(bytes.Clone(prefix), sk...)
	}
	low, high, _ := q.Range()
	lower, upper = at(low), after(prefix)
	if high != "" {
		upper = at(high)
	}
	if from == nil {
		return lower, upper
	}
	if here := positionKey(q, *from); q.Descending {
		upper = here
	} else {
		lower = append(here, 0)
	}
	return lower, upper
}

// after is the first key above all that begin with prefix, whose last byte is
// not 0xFF.
func after(prefix []byte) []byte {
	out := bytes.Clone(prefix)
	out[len(out)-1]++
	return out
}

// setLevels gives each level a filter, so that looking for what is not there (a token, an absent
// item) reads no block.
func setLevels(o *pebble.Options) {
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
	}
}
