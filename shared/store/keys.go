package store

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The attributes that every item may have beside its record.
const (
	pkAttribute  = "pk"
	skAttribute  = "sk"
	ttlAttribute = "ttl" // seconds since 1970; reads treat a past one as absent
)

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

// record is the sort key of an item that is alone in its partition.
const record = "."

// join puts a template's parts together. Names come from outside, but none may
// hold "#": their patterns (contract 1.4) and escape see to it.
func join(parts ...string) string { return strings.Join(parts, "#") }

// escape makes a free text (a branch, a tag) safe as a part of a key.
func escape(text string) string {
	return strings.NewReplacer("%", "%25", "#", "%23").Replace(text)
}

// Below are the key templates of package keys.

// BucketKey is the record of a key bucket, read by its name and listed with
// the account's others in the order of names. A deleted bucket's record stays
// as a tombstone: it remembers the generation.
func BucketKey(accountID, bucketName string) Key {
	return Key{BucketPartition(accountID), join("bucket", bucketName)}
}

// BucketPartition holds all key buckets of an account.
func BucketPartition(accountID string) string { return join("buckets", accountID) }

// BucketIDKey leads from a bucket's id to its account and name.
func BucketIDKey(bucketID string) Key { return Key{join("bucket-id", bucketID), record} }

// Generation is one life of a bucket's name: the consumers of a deleted bucket
// never meet those of a later one with the same name. It is spelled
// "account/bucket/n" and made by package keys alone.
type Generation string

// ConsumerKey is the record of a consumer, read by its name and listed with
// the bucket's others in the order of names.
func ConsumerKey(g Generation, consumerName string) Key {
	return Key{ConsumerPartition(g), consumerName}
}

// ConsumerPartition holds all consumers of a bucket.
func ConsumerPartition(g Generation) string { return join("consumers", string(g)) }

// ConsumerIDKey leads from a consumer's id to its name.
func ConsumerIDKey(g Generation, consumerID string) Key {
	return Key{join("consumer-id", string(g), consumerID), record}
}

// ConsumerIndexKey lists the consumers that share a property (a tag, a
// manager's address), in the order of names. kind is a plain word.
func ConsumerIndexKey(g Generation, kind, value, consumerName string) Key {
	return Key{ConsumerIndexPartition(g, kind, value), consumerName}
}

// ConsumerIndexPartition holds the names of all consumers that share a property.
func ConsumerIndexPartition(g Generation, kind, value string) string {
	return join("consumer-by", string(g), kind, escape(value))
}

// ConsumerCountKey is one of the shards that count a bucket's consumers: they
// are added up by one query, and no single item takes every change.
func ConsumerCountKey(g Generation, shard string) Key {
	return Key{ConsumerCountPartition(g), shard}
}

// ConsumerCountPartition holds the shards of a bucket's consumer count.
func ConsumerCountPartition(g Generation) string { return join("consumer-count", string(g)) }

// ConsumerKeyKey is an API key as its consumer's owner sees it. The identifiers
// of keys sort by creation, and so does this partition.
func ConsumerKeyKey(g Generation, consumerName, keyID string) Key {
	return Key{ConsumerKeyPartition(g, consumerName), keyID}
}

// ConsumerKeyPartition holds all API keys of a consumer.
func ConsumerKeyPartition(g Generation, consumerName string) string {
	return join("consumer-keys", string(g), consumerName)
}

// KeyHashKey is an API key as the gateway sees it, read and kept unique by the
// keyed hash of its text.
func KeyHashKey(hash string) Key { return Key{join("key-hash", hash), record} }

// KeyBatchKey is a bulk creation of API keys that is being written, read by its
// id.
func KeyBatchKey(batchID string) Key { return Key{join("key-batch", batchID), record} }
