package keys

import (
	"testing"

	"github.com/gatewright/gatewright/shared/store"
)

// TestRecordsStayWhereTheyAre: what is stored by one version of the product is
// read by the next.
func TestRecordsStayWhereTheyAre(t *testing.T) {
	g := qualifiedName{"a", "b"}.generation(2)
	for name, test := range map[string]struct {
		got store.Key
		// partition, if not "", lists the records of this kind.
		partition string
		want      store.Key
	}{
		"bucket":         {bucketKey("a", "b"), bucketPartition("a"), store.Key{PK: "buckets#a", SK: "bucket#b"}},
		"bucket's id":    {bucketIDKey("i"), "", store.Key{PK: "bucket-id#i", SK: "."}},
		"consumer":       {consumerKey(g, "c"), consumerPartition(g), store.Key{PK: "consumers#a/b/2", SK: "c"}},
		"consumer's id":  {consumerIDKey(g, "i"), "", store.Key{PK: "consumer-id#a/b/2#i", SK: "."}},
		"tag":            {consumerIndexKey(g, tagged("k", "v#%"), "c"), consumerIndexPartition(g, tagged("k", "v#%")), store.Key{PK: "consumer-by#a/b/2#tag#k=v%23%25", SK: "c"}},
		"manager":        {consumerIndexKey(g, managed("A@b"), "c"), consumerIndexPartition(g, managed("a@B")), store.Key{PK: "consumer-by#a/b/2#manager#a@b", SK: "c"}},
		"count":          {consumerCountKey(g, "7"), consumerCountPartition(g), store.Key{PK: "consumer-count#a/b/2", SK: "7"}},
		"consumer's key": {consumerKeyKey(g, "c", "k"), consumerKeyPartition(g, "c"), store.Key{PK: "consumer-keys#a/b/2#c", SK: "k"}},
		"key's hash":     {keyHashKey("h"), "", store.Key{PK: "key-hash#h", SK: "."}},
		"batch":          {keyBatchKey("b"), "", store.Key{PK: "key-batch#b", SK: "."}},
	} {
		if test.got != test.want {
			t.Errorf("%s: %v, want %v", name, test.got, test.want)
		}
		if test.partition != "" && test.partition != test.got.PK {
			t.Errorf("%s: the partition %q does not hold %v", name, test.partition, test.got)
		}
	}
}
