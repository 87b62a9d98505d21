// Package bounded keeps a map that anybody's requests fill below a size.
//
// What it is not: a cache that knows which of its entries are worth keeping, as an LRU does: there whoever asks for new names
// in turn pushes out exactly those that were asked for least. Here any entry goes, so that nobody chooses which. It has no
// lock of its own.
//
// There is only this file.
package bounded

// Put sets m[key]. Where m has as many entries as it may have, and none of the key, any other one leaves it.
func Put[K comparable, V any](m map[K]V, key K, value V, most int) {
	if _, known := m[key]; !known && len(m) >= most {
		for old := range m {
			delete(m, old)
			break
		}
	}
	m[key] = value
}
