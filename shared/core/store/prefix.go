package store

import "strings"

// KeyPrefix is the first part of the keys of a family of partitions, such as "consumers". The package
// that owns the records declares it as a constant, with the access pattern in its comment. No two
// packages declare the same prefix (internal/repolint checks this). A prefix needs no escaping.
type KeyPrefix string

// separator separates the parts of a key. No escaped part contains it.
const separator = "#"

// singletonSortKey is the sort key of an item that is the only item in its partition.
const singletonSortKey = "."

// Partition returns the key of a partition. Parts can be any text: they are
// escaped, so that different parts or prefixes never share a partition.
func (kp KeyPrefix) Partition(parts ...string) string {
	return joinParts(append([]string{string(kp)}, escapeParts(parts)...))
}

// Key returns the key of a record that is alone in its partition.
func (kp KeyPrefix) Key(parts ...string) Key { return Key{kp.Partition(parts...), singletonSortKey} }

// KeyIn returns the key of a record in a partition with several records. Records are sorted by their first part, then
// by the next.
func KeyIn(partition string, parts ...string) Key {
	return Key{partition, joinParts(escapeParts(parts))}
}

// SinglePart returns the part of a key that kp.Key has built from one part, and reports whether k is such a key.
func (kp KeyPrefix) SinglePart(k Key) (part string, ok bool) {
	escaped, ok := strings.CutPrefix(k.PK, string(kp)+separator)
	part = unescaper.Replace(escaped)
	return part, ok && k == kp.Key(part)
}

// Parts returns the parts of a partition of kp. It returns nil for a partition of another prefix or without parts.
func (kp KeyPrefix) Parts(partition string) []string {
	tail, ok := strings.CutPrefix(partition, string(kp)+separator)
	if !ok {
		return nil
	}
	parts := strings.Split(tail, separator)
	for i, p := range parts {
		parts[i] = unescaper.Replace(p)
	}
	return parts
}

// KeyPrefixOf returns the key prefix of a partition. A role can be limited to prefixes.
func KeyPrefixOf(partition string) KeyPrefix {
	prefix, _, _ := strings.Cut(partition, separator)
	return KeyPrefix(prefix)
}

// LeadingKeyPatterns returns the IAM patterns (StringLike) that match only the
// partitions of kp: the partitions with parts, and the partition without parts.
func (kp KeyPrefix) LeadingKeyPatterns() []string {
	return []string{string(kp), string(kp) + separator + "*"}
}

func joinParts(parts []string) string { return strings.Join(parts, separator) }

// The replacers are created once, because they are used for every key that is built.
var (
	escaper   = strings.NewReplacer("%", "%25", separator, "%23")
	unescaper = strings.NewReplacer("%25", "%", "%23", separator)
)

// escapeParts escapes free texts (a branch, a tag) for use as parts of a key. Names (contract 1.4) stay unchanged.
func escapeParts(parts []string) []string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = escaper.Replace(p)
	}
	return out
}
