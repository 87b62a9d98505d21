package embedded

import (
	"bytes"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Every key in the files begins with its kind:
//
//	i pk. sk                 an item
//	d duePk. dueSk. pk. sk   its entry in the due index
//	x ttl pk. sk             its entry in the expiry list
//	f seq                    a change, for the feed
//	h hour                   the first change of an hour
//	t bucket token           the token of a transaction, in a bucket of tokenLifetime
//	c name                   the last change that a reader of the feed has processed
//	n key                    a note, which is not part of the table
//	m name                   the engine's own numbers
//
// A text that is followed by another part ends with 0x00 0x01, which is written as a dot here. A 0x00 byte within such
// a text is stored as 0x00 0xFF. So keys sort in the order of their texts. Numbers are 8 bytes, big endian.
const (
	itemPrefix   = 'i'
	duePrefix    = 'd'
	expiryPrefix = 'x'
	feedPrefix   = 'f'
	hourPrefix   = 'h'
	tokenPrefix  = 't'
	markPrefix   = 'c'
	notePrefix   = 'n'
)

var (
	formatKey = []byte("mformat")
	lastKey   = []byte("mlast")
)

const numberBytes = 8

func encodeNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func numberedKey(kind byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, n)
}

// appendText appends an escaped text without the two bytes that end it.
func appendText(to []byte, text string) []byte {
	for i := range len(text) {
		if to = append(to, text[i]); text[i] == 0 {
			to = append(to, 0xff)
		}
	}
	return to
}

func appendEnd(to []byte) []byte { return append(to, 0, 1) }

// cutText returns the first text of a key, and the rest of the key.
func cutText(from []byte) (text string, rest []byte) {
	end := bytes.Index(from, []byte{0, 1})
	if end < 0 {
		return "", nil
	}
	return string(bytes.ReplaceAll(from[:end], []byte{0, 0xff}, []byte{0})), from[end+2:]
}

func itemKey(k store.Key) []byte { return append(partitionPrefix("", k.PK), k.SK...) }

func dueKey(due, k store.Key) []byte {
	return append(appendEnd(appendText(appendEnd(appendText(partitionPrefix(store.DueIndex, due.PK), due.SK)), k.PK)),
		k.SK...)
}

func expiryKey(ttl int64, k store.Key) []byte {
	return append(appendEnd(appendText(numberedKey(expiryPrefix, uint64(max(ttl, 0))), k.PK)), k.SK...)
}

// partitionPrefix returns the prefix of all keys in a partition of the table or an index.
func partitionPrefix(index store.Index, pk string) []byte {
	kind := byte(itemPrefix)
	if index == store.DueIndex {
		kind = duePrefix
	}
	return appendEnd(appendText([]byte{kind}, pk))
}

// positionKey returns the key of an entry in a query's partition.
func positionKey(q store.Query, p store.Position) []byte {
	if q.Index == store.DueIndex {
		return dueKey(store.Key{PK: q.PK, SK: p.SK}, p.Key)
	}
	return itemKey(store.Key{PK: q.PK, SK: p.SK})
}

// positionOf decodes the part of a positionKey after the partition's prefix.
func positionOf(q store.Query, rest []byte) store.Position {
	if q.Index == store.DueIndex {
		sk, rest := cutText(rest)
		pk, rest := cutText(rest)
		return store.Position{SK: sk, Key: store.Key{PK: pk, SK: string(rest)}}
	}
	return store.Position{SK: string(rest), Key: store.Key{PK: q.PK, SK: string(rest)}}
}

// bounds returns the range of keys that contains the entries of q after from.
func bounds(q store.Query, from *store.Position) (lower, upper []byte) {
	prefix := partitionPrefix(q.Index, q.PK)
	keyAt := func(sk string) []byte {
		if q.Index == store.DueIndex {
			return appendText(bytes.Clone(prefix), sk)
		}
		return append(bytes.Clone(prefix), sk...)
	}
	low, high, _ := q.Range()
	lower, upper = keyAt(low), prefixEnd(prefix)
	if high != "" {
		upper = keyAt(high)
	}
	if from == nil {
		return lower, upper
	}
	if current := positionKey(q, *from); q.Descending {
		upper = current
	} else {
		lower = append(current, 0)
	}
	return lower, upper
}

// prefixEnd returns the first key that is greater than all keys with the prefix. The last byte of prefix must not be
// 0xFF.
func prefixEnd(prefix []byte) []byte {
	out := bytes.Clone(prefix)
	out[len(out)-1]++
	return out
}

// addBloomFilters adds a bloom filter to each level of Pebble, so that a lookup of a key
// that does not exist (a new token, a missing item) usually reads no block.
func addBloomFilters(o *pebble.Options) {
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
	}
}
