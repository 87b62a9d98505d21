// Package bounded limits the size of a map that any client's requests can fill.
//
// It is not a cache that chooses the entries to keep, like an LRU. With an LRU, a client that requests many new names
// removes the entries that it wants to remove. Here a random entry is removed, so that no client can choose it. The
// package has no lock.
//
// This is the only file.
package bounded

// Put sets m[key] to value. If m already has maxEntries entries and key is new, Put first deletes a random entry.
func Put[K comparable, V any](m map[K]V, key K, value V, maxEntries int) {
	if _, exists := m[key]; !exists && len(m) >= maxEntries {
		for old := range m {
			delete(m, old)
			break
		}
	}
	m[key] = value
}
