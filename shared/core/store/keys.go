package store

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Every item has these attributes in addition to those of its record.
const (
	pkAttribute = "pk"
	skAttribute = "sk"
)

// TTLAttribute is the name of the attribute with the time at which an item expires, in seconds since 1970. From
// this time on, reads treat the item as absent. The database deletes the item some time later.
const TTLAttribute = "ttl"

// Index names a global secondary index of the table.
type Index string

// DueIndex has the records that a sweep has to process, sorted by the time at
// which they are due. Only these records have the attributes duePk and dueSk.
const DueIndex Index = "due"

// KeyAttributes returns the names of the partition key and the sort key of an index. For the index "", it returns the
// names of the table's keys.
func (i Index) KeyAttributes() (pk, sk string) {
	if i == DueIndex {
		return "duePk", "dueSk"
	}
	return pkAttribute, skAttribute
}

// Key is the primary key of an item.
type Key struct{ PK, SK string }

// Item returns an item that has this key and no other attributes.
func (k Key) Item() Item {
	return Item{
		pkAttribute: &types.AttributeValueMemberS{Value: k.PK},
		skAttribute: &types.AttributeValueMemberS{Value: k.SK},
	}
}

// Entry returns the entry of an item in an index: the key in the index and the attributes
// that the index projects. ok is false if the index has no entry for the item.
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
