package keys

import "sync"

// directorySize bounds each part of a directory: a few megabytes in all.
const directorySize = 10_000

// directory caches what a reader needs to find records in one round trip: the
// generation of a bucket's name, a guess that every reader checks against the
// bucket's record; and the names of ids, which never change. It is safe for
// concurrent use.
type directory struct {
	mu          sync.Mutex
	generations map[qualifiedName]int
	buckets     map[string]qualifiedName // by id
	consumers   map[string]string        // names by id
}

// qualifiedName is a bucket's name with the id of its account.
type qualifiedName struct{ accountID, name string }

func newDirectory() *directory {
	return &directory{
		generations: map[qualifiedName]int{},
		buckets:     map[string]qualifiedName{},
		consumers:   map[string]string{},
	}
}

// generation guesses the generation of a name: 1 is right for every name that was
// used once.
func (d *directory) generation(at qualifiedName) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n, ok := d.generations[at]; ok {
		return n
	}
	return 1
}

func (d *directory) setGeneration(at qualifiedName, n int) {
	if n == 1 {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.generations, at)
		return
	}
	put(d, d.generations, at, n)
}

func (d *directory) bucket(id string) (qualifiedName, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.buckets[id]
	return at, ok
}

func (d *directory) setBucket(id string, at qualifiedName) { put(d, d.buckets, id, at) }

func (d *directory) consumer(id string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name, ok := d.consumers[id]
	return name, ok
}

func (d *directory) setConsumer(id, name string) { put(d, d.consumers, id, name) }

// put drops any one entry for a new one when the map is full: all are
// cheap to find again.
func put[K comparable, V any](d *directory, m map[K]V, key K, value V) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := m[key]; !there && len(m) >= directorySize {
		for k := range m {
			delete(m, k)
			break
		}
	}
	m[key] = value
}
