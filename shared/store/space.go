package store

import "strings"

// Space is a family of partitions of the table, such as "consumers": the first
// part of their keys. It is a constant of the package that owns the records,
// with the access pattern in its comment, and no other package has the same
// (internal/house). Nothing in it needs escaping.
type Space string

// separator stands between the parts of a key, and in none of them.
const separator = "#"

// alone is the sort key of an item that has its partition for itself.
const alone = "."

// Partition spells a partition's key. Parts may be any text: they are escaped,
// so that different parts, or those of different spaces, never share a
// partition.
func (s Space) Partition(parts ...string) string {
	return joined(append([]string{string(s)}, escaped(parts)...))
}

// Key is the key of a record that is alone in its partition.
func (s Space) Key(parts ...string) Key { return Key{s.Partition(parts...), alone} }

// In is the key of a record in a partition that it shares. Records sort by
// their parts: by the first, and among equal ones by the next.
func In(partition string, parts ...string) Key { return Key{partition, joined(escaped(parts))} }

// PartOf gives the one part of the key of a record that is alone in its
// partition of s, and whether k is such a key.
func (s Space) PartOf(k Key) (part string, ok bool) {
	escaped, ok := strings.CutPrefix(k.PK, string(s)+separator)
	part = unescaper.Replace(escaped)
	return part, ok && k == s.Key(part)
}

// PartsOf gives the parts of a partition of s, nil for one of another space.
func (s Space) PartsOf(partition string) []string {
	rest, ok := strings.CutPrefix(partition, string(s)+separator)
	if !ok {
		return nil
	}
	parts := strings.Split(rest, separator)
	for i, p := range parts {
		parts[i] = unescaper.Replace(p)
	}
	return parts
}

// SpaceOf gives the space of a partition, by which a role may be held to it.
func SpaceOf(partition string) Space {
	space, _, _ := strings.Cut(partition, separator)
	return Space(space)
}

// Leading are the patterns of IAM (StringLike) that partitions of s have, and no others: those with parts, and the one without.
func (s Space) Leading() []string { return []string{string(s), string(s) + separator + "*"} }

func joined(parts []string) string { return strings.Join(parts, separator) }

// Made once: every key that is asked for is spelled with them.
var (
	escaper   = strings.NewReplacer("%", "%25", separator, "%23")
	unescaper = strings.NewReplacer("%25", "%", "%23", separator)
)

// escaped makes free texts (a branch, a tag) safe as parts of a key. Names
// (contract 1.4) stay as they are.
func escaped(parts []string) []string {
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = escaper.Replace(p)
	}
	return out
}
