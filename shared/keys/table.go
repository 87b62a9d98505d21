package keys

import "github.com/gatewright/gatewright/shared/store"

const (
	// bucketSpace has the buckets (bucketRecord). An account's are a partition,
	// read by name and listed in the order of names. That of a deleted bucket
	// stays as a tombstone: it remembers the generation.
	bucketSpace store.Space = "buckets"
	// bucketIDSpace leads from a bucket's id to its name (bucketPointer).
	bucketIDSpace store.Space = "bucket-id"
	// consumerSpace has the consumers (consumerRecord). A bucket's are a
	// partition, read by name and listed in the order of names.
	consumerSpace store.Space = "consumers"
	// consumerIDSpace leads from a consumer's id to its name (consumerPointer).
	consumerIDSpace store.Space = "consumer-id"
	// consumerIndexSpace has the consumers that share a property, a tag or a
	// manager's address (indexRow), listed in the order of names.
	consumerIndexSpace store.Space = "consumer-by"
	// consumerCountSpace has the shards that count a bucket's consumers
	// (countRow): one query adds them up, and no single item takes every change.
	consumerCountSpace store.Space = "consumer-count"
	// consumerKeySpace has the API keys as their consumer's owner sees them
	// (keyRecord). A consumer's are a partition; their ids sort by creation.
	consumerKeySpace store.Space = "consumer-keys"
	// keyHashSpace has the API keys as the gateway sees them (hashRecord), read
	// and kept unique by the keyed hash of their texts.
	keyHashSpace store.Space = "key-hash"
	// keyBatchSpace has the bulk creations that are being written (batchRecord),
	// read by their ids.
	keyBatchSpace store.Space = "key-batch"
)

func bucketKey(accountID, bucket string) store.Key {
	return store.In(bucketPartition(accountID), "bucket", bucket)
}

func bucketPartition(accountID string) string { return bucketSpace.Partition(accountID) }

func bucketIDKey(bucketID string) store.Key { return bucketIDSpace.Key(bucketID) }

// generation is one life of a bucket's name: the consumers of a deleted bucket
// never meet those of a later one with the same name. It is spelled
// "account/bucket/n" by qualifiedName.generation alone.
type generation string

func consumerKey(g generation, consumer string) store.Key {
	return store.In(consumerPartition(g), consumer)
}

func consumerPartition(g generation) string { return consumerSpace.Partition(string(g)) }

func consumerIDKey(g generation, consumerID string) store.Key {
	return consumerIDSpace.Key(string(g), consumerID)
}

func consumerIndexKey(g generation, p property, consumer string) store.Key {
	return store.In(consumerIndexPartition(g, p), consumer)
}

func consumerIndexPartition(g generation, p property) string {
	return consumerIndexSpace.Partition(string(g), p.kind, p.value)
}

func consumerCountKey(g generation, shard string) store.Key {
	return store.In(consumerCountPartition(g), shard)
}

func consumerCountPartition(g generation) string { return consumerCountSpace.Partition(string(g)) }

func consumerKeyKey(g generation, consumer, keyID string) store.Key {
	return store.In(consumerKeyPartition(g, consumer), keyID)
}

func consumerKeyPartition(g generation, consumer string) string {
	return consumerKeySpace.Partition(string(g), consumer)
}

// IsCredential reports whether the record at a key is what an API key of a consumer is known by:
// while it is not there, no gateway lets anybody in by that key.
func IsCredential(key store.Key) bool { return keyHashSpace.PartsOf(key.PK) != nil }

func keyHashKey(hash string) store.Key { return keyHashSpace.Key(hash) }

func keyBatchKey(batchID string) store.Key { return keyBatchSpace.Key(batchID) }
