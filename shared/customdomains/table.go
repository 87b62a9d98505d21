package customdomains

import (
	"hash/fnv"
	"strconv"

	"github.com/gatewright/gatewright/shared/store"
)

const (
	// domainSpace has the custom domains of an account by their hostnames. They are a
	// partition: a list reads it whole, a change one of them.
	domainSpace store.Space = "custom-domain"
	// countSpace has the number of an account's custom domains, which has a limit.
	countSpace store.Space = "custom-domain-count"
	// hostSpace has what is served at a hostname whose ownership is proven. Its key has the
	// hostname alone, so that it is one account's of the installation; a gateway reads it.
	hostSpace store.Space = "custom-domain-host"
	// challengeSpace has what gateways answer an authority that looks at a hostname, while a
	// certificate is ordered.
	challengeSpace store.Space = "custom-domain-challenge"
	// paceSpace has how many certificates were ordered for an account of late.
	paceSpace store.Space = "custom-domain-orders"
	// indexSpace has the hostnames of hostSpace in shards, each with the change that it was
	// last touched by. Gateways keep them in memory, and so know all names without a read.
	indexSpace store.Space = "custom-domain-index"
	// versionSpace has one small item that says how often each shard was changed: by it
	// gateways see what is new.
	versionSpace store.Space = "custom-domain-versions"
)

func partition(accountID string) string { return domainSpace.Partition(accountID) }

func key(accountID, hostname string) store.Key { return store.In(partition(accountID), hostname) }

func countKey(accountID string) store.Key { return countSpace.Key(accountID) }

func hostKey(hostname string) store.Key { return hostSpace.Key(hostname) }

func paceKey(accountID string) store.Key { return paceSpace.Key(accountID) }

func challengeKey(hostname string) store.Key { return challengeSpace.Key(hostname) }

// shards is how many shards the names have: 100,000 names of 40 bytes are some 90 KB each, of
// the 400 KB that an item may have. Their versions fit one read unit
// (docs/decisions/0037-gateways-know-all-hostnames.md).
const shards = 64

// shardOf is a hostname's shard by a text that nobody can choose: whoever could choose the shard would fill
// one, and nothing in it could change any more.
func shardOf(text string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return shardPrefix + strconv.Itoa(int(h.Sum32()%shards))
}

func indexKey(shard string) store.Key { return indexSpace.Key(shard) }

func versionKey() store.Key { return versionSpace.Key("all") }

// touched are the writes that tell gateways that something else is served at a hostname,
// or for the first time; change is an id that no other change has.
func (r record) touched(change string) []store.Write {
	return r.indexed(store.Set(store.At(r.Hostname), change))
}

// gone are the writes that tell gateways that nothing is served at a hostname any more.
func (r record) gone() []store.Write {
	return r.indexed(store.Remove(store.At(r.Hostname)))
}

func (r record) indexed(c store.Change) []store.Write {
	return []store.Write{
		store.Upsert(indexKey(r.Shard), c),
		store.Upsert(versionKey(), store.Add(store.At(r.Shard), 1)),
	}
}

// shardPrefix begins the name of a shard, which is its number's in the item of versions too, where the parts
// of the key are beside them.
const shardPrefix = "shard-"
