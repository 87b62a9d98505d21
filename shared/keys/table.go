package keys

import "github.com/gatewright/gatewright/shared/store"

// The key spaces of this package's records.
const (
	bucketSpace        store.Space = "buckets"
	bucketIDSpace      store.Space = "bucket-id"
	consumerSpace      store.Space = "consumers"
	consumerIDSpace    store.Space = "consumer-id"
	consumerIndexSpace store.Space = "consumer-by"
	consumerCountSpace store.Space = "consumer-count"
	consumerKeySpace   store.Space = "consumer-keys"
	keyHashSpace       store.Space = "key-hash"
	keyBatchSpace      store.Space = "key-batch"
)

// bucketKey is a bucketRecord, read by its name and listed with the account's
// others in the order of names. That of a deleted bucket stays as a tombstone:
// it remembers the generation.
func bucketKey(accountID, bucket string) store.Key {
	return store.In(bucketPartition(accountID), "bucket", bucket)
}

// bucketPartition holds all key buckets of an account.
func bucketPartition(accountID string) string { return bucketSpace.Partition(accountID) }

// bucketIDKey is a bucketPointer, read by the bucket's id.
func bucketIDKey(bucketID string) store.Key { return bucketIDSpace.Key(bucketID) }

// generation is one life of a bucket's name: the consumers of a deleted bucket
// never meet those of a later one with the same name. It is spelled
// "account/bucket/n" by qualifiedName.generation alone.
type generation string

// consumerKey is a consumerRecord, read by its name and listed with the
// bucket's others in the order of names.
func consumerKey(g generation, consumer string) store.Key {
	return store.In(consumerPartition(g), consumer)
}

// consumerPartition holds all consumers of a bucket.
func consumerPartition(g generation) string { return consumerSpace.Partition(string(g)) }

// consumerIDKey is a consumerPointer, read by the consumer's id.
func consumerIDKey(g generation, consumerID string) store.Key {
	return consumerIDSpace.Key(string(g), consumerID)
}

// consumerIndexKey is an indexRow: the consumers that share a property (a tag,
// a manager's address) are listed in the order of names.
func consumerIndexKey(g generation, p property, consumer string) store.Key {
	return store.In(consumerIndexPartition(g, p), consumer)
}

// consumerIndexPartition holds the names of all consumers that share a
// property.
func consumerIndexPartition(g generation, p property) string {
	return consumerIndexSpace.Partition(string(g), p.kind, p.value)
}

// consumerCountKey is a countRow, one of the shards that count a bucket's
// consumers: they are added up by one query, and no single item takes every
// change.
func consumerCountKey(g generation, shard string) store.Key {
	return store.In(consumerCountPartition(g), shard)
}

// consumerCountPartition holds the shards of a bucket's consumer count.
func consumerCountPartition(g generation) string { return consumerCountSpace.Partition(string(g)) }

// consumerKeyKey is a keyRecord: an API key as its consumer's owner sees it.
// The identifiers of keys sort by creation, and so does this partition.
func consumerKeyKey(g generation, consumer, keyID string) store.Key {
	return store.In(consumerKeyPartition(g, consumer), keyID)
}

// consumerKeyPartition holds all API keys of a consumer.
func consumerKeyPartition(g generation, consumer string) string {
	return consumerKeySpace.Partition(string(g), consumer)
}

// keyHashKey is a hashRecord: an API key as the gateway sees it, read and kept
// unique by the keyed hash of its text.
func keyHashKey(hash string) store.Key { return keyHashSpace.Key(hash) }

// keyBatchKey is a batchRecord, a bulk creation of API keys that is being
// written, read by its id.
func keyBatchKey(batchID string) store.Key { return keyBatchSpace.Key(batchID) }
