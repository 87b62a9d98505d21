package store

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The attributes that every item may have beside its record.
const (
	pkAttribute = "pk"
	skAttribute = "sk"
)

// TTLAttribute is when an item expires, in seconds since 1970: reads treat it as
// absent from then on, and the database deletes it some time later.
const TTLAttribute = "ttl"

// Index names a global secondary index of the table.
type Index string

// DueIndex holds the records that a sweep has to look at, sorted by the time
// from which it should: attributes duePk and dueSk, absent on all others.
const DueIndex Index = "due"

// KeyAttributes gives the names of the partition and sort key of an index, of
// the table itself for "".
func (i Index) KeyAttributes() (pk, sk string) {
	if i == DueIndex {
		return "duePk", "dueSk"
	}
	return pkAttribute, skAttribute
}

// Key is the primary key of an item.
type Key struct{ PK, SK string }

// Item is the item with that key and nothing else.
func (k Key) Item() Item {
	return Item{
		pkAttribute: &types.AttributeValueMemberS{Value: k.PK},
		skAttribute: &types.AttributeValueMemberS{Value: k.SK},
	}
}

// Entry gives what an index holds of an item: its key in the index, and those
// of its attributes that the index has. ok is false where it has no entry.
func (i Index) Entry(item Item) (key Key, projected Item, ok bool) {
	pk, sk := i.KeyAttributes()
	key = Key{PK: textOf(item[pk]), SK: textOf(item[sk])}
	if key.PK == "" || key.SK == "" {
		return Key{}, nil, false
	}
	projected = KeyOf(item).Item()
	projected[pk], projected[sk] = item[pk], item[sk]
	return key, projected, true
}
