package keys

import "sync"

// directorySize bounds each part of a directory: a few megabytes in all.
const directorySize = 10_000

// directory remembers where things are, so that one round trip finds them: the
// generation of a bucket's name, a guess that every reader checks against the
// bucket's record; and the names behind ids, which never change. It is safe for
// concurrent use.
type directory struct {
	mu          sync.Mutex
	generations map[nameInAccount]int
	buckets     map[string]nameInAccount // by id
	consumers   map[string]string        // names by id
}

// nameInAccount is a bucket's name with the id of its account.
type nameInAccount struct{ accountID, name string }

func newDirectory() *directory {
	return &directory{
		generations: map[nameInAccount]int{},
		buckets:     map[string]nameInAccount{},
		consumers:   map[string]string{},
	}
}

// generation guesses; 1 is right for every bucket whose name was used once.
func (d *directory) generation(at nameInAccount) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n, ok := d.generations[at]; ok {
		return n
	}
	return 1
}

func (d *directory) sawGeneration(at nameInAccount, n int) {
	if n == 1 {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.generations, at)
		return
	}
	remember(d, d.generations, at, n)
}

func (d *directory) bucket(id string) (nameInAccount, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.buckets[id]
	return at, ok
}

func (d *directory) sawBucket(id string, at nameInAccount) { remember(d, d.buckets, id, at) }

func (d *directory) consumer(id string) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name, ok := d.consumers[id]
	return name, ok
}

func (d *directory) sawConsumer(id, name string) { remember(d, d.consumers, id, name) }

// remember drops any one entry for a new one when the map is full: all are
// cheap to find again.
func remember[K comparable, V any](d *directory, m map[K]V, key K, value V) {
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
