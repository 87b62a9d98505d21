package keys

import (
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
)

// TestRecordKeysAreStable checks that table keys do not change, so that a release can read the records of earlier
// releases.
func TestRecordKeysAreStable(t *testing.T) {
	g := qualifiedName{"a", "b"}.generation(2)
	for name, test := range map[string]struct {
		got store.Key
		// partition, if not "", is the partition that lists the records of this kind.
		partition string
		want      store.Key
	}{
		"bucket":        {bucketKey("a", "b"), bucketPartition("a"), store.Key{PK: "buckets#a", SK: "bucket#b"}},
		"bucket's id":   {bucketIDKey("i"), "", store.Key{PK: "bucket-id#i", SK: "."}},
		"consumer":      {consumerKey(g, "c"), consumerPartition(g), store.Key{PK: "consumers#a/b/2", SK: "c"}},
		"consumer's id": {consumerIDKey(g, "i"), "", store.Key{PK: "consumer-id#a/b/2#i", SK: "."}},
		"tag": {
			consumerIndexKey(g, tagProperty("k", "v#%"), "c"),
			consumerIndexPartition(g, tagProperty("k", "v#%")),
			store.Key{PK: "consumer-by#a/b/2#tag#k=v%23%25", SK: "c"},
		},
		"manager": {
			consumerIndexKey(g, managerProperty("A@b"), "c"),
			consumerIndexPartition(g, managerProperty("a@B")),
			store.Key{PK: "consumer-by#a/b/2#manager#a@b", SK: "c"},
		},
		"count": {
			consumerCountKey(g, "7"), consumerCountPartition(g),
			store.Key{PK: "consumer-count#a/b/2", SK: "7"},
		},
		"consumer's key": {
			keyRecordKey(g, "c", "k"), consumerKeyPartition(g, "c"),
			store.Key{PK: "consumer-keys#a/b/2#c", SK: "k"},
		},
		"key's hash": {keyHashKey("h"), "", store.Key{PK: "key-hash#h", SK: "."}},
		"batch":      {keyBatchKey("b"), "", store.Key{PK: "key-batch#b", SK: "."}},
	} {
		if test.got != test.want {
			t.Errorf("table key of the %s = %v, want %v", name, test.got, test.want)
		}
		if test.partition != "" && test.partition != test.got.PK {
			t.Errorf("partition that lists the %s = %q, want %q as in its table key", name, test.partition, test.got.PK)
		}
	}
}
