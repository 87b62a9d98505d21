package keys

import (
	"fmt"
	"sync"
)

// directorySize is the maximum number of entries in each map of a directory. Full maps have a few megabytes in total.
const directorySize = 10_000

// directory caches data with which readers compute table keys, so that one round trip is enough: the generation of each
// bucket name, and the names of buckets and consumers by their ids. A cached generation is a guess, which every reader
// compares with the bucket's record. The name for an id never changes. A directory is safe for concurrent use.
type directory struct {
	mu          sync.Mutex
	generations map[qualifiedName]int
	buckets     map[string]qualifiedName // by id
	consumers   map[string]string        // names by id
}

// qualifiedName is the name of a bucket with the id of its account. The name alone is not unique.
type qualifiedName struct{ accountID, name string }

// generation identifies one of several successive buckets with the same name. The table keys of consumers contain it,
// so that the consumers of a deleted bucket are separate from those of a later bucket with the same name. It has the
// form "account/bucket/n". Only qualifiedName.generation creates it.
type generation string

// generation returns the generation with this number of a bucket name, for table keys.
func (n qualifiedName) generation(number int) generation {
	return generation(fmt.Sprintf("%s/%s/%d", n.accountID, n.name, number))
}

func newDirectory() *directory {
	return &directory{
		generations: map[qualifiedName]int{},
		buckets:     map[string]qualifiedName{},
		consumers:   map[string]string{},
	}
}

// generation returns a guess of the generation number of a bucket name. Without an entry it returns 1, which is right
// for every name that was used only once.
func (d *directory) generation(name qualifiedName) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n, ok := d.generations[name]; ok {
		return n
	}
	return 1
}

func (d *directory) setGeneration(name qualifiedName, n int) {
	if n == 1 { // the default of generation
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.generations, name)
		return
	}
	put(d, d.generations, name, n)
}

func (d *directory) bucket(id string) (qualifiedName, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name, ok := d.buckets[id]
	return name, ok
}

func (d *directory) setBucket(id string, name qualifiedName) { put(d, d.buckets, id, name) }

func (d *directory) consumer(id string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name, ok := d.consumers[id]
	return name, ok
}

func (d *directory) setConsumer(id, name string) { put(d, d.consumers, id, name) }

// put adds an entry to a map of the directory. If the map is full, put first removes an arbitrary entry: one read
// restores it.
func put[K comparable, V any](d *directory, m map[K]V, key K, value V) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, exists := m[key]; !exists && len(m) >= directorySize {
		for k := range m {
			delete(m, k)
			break
		}
	}
	m[key] = value
}
