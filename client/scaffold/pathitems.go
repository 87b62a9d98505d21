package scaffold

import (
	"fmt"
	"slices"
	"strings"
)

// recordIDs records the operation ids of a path item.
func (r *router) recordIDs(item []member) {
	for _, m := range item {
		if operation, err := readMembers(m.value); err == nil && r.isMethod(m.name) {
			r.operationIDs[stringValue(memberValue(operation, "operationId"))] = true
		}
	}
}

// inline returns a path item with the members of the path item that it refers to. Its own members replace them. A
// reference to another file stays, and so does one that leads nowhere: the build reports both. refs are the references
// that led to the item.
func (r *router) inline(item []member, at string, refs []string) ([]member, error) {
	const refMember = "$ref"
	ref := stringValue(memberValue(item, refMember))
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		return item, nil
	}
	if slices.Contains(refs, ref) {
		return nil, fmt.Errorf("%s: the path refers to itself: write its operations there", r.document.place(at))
	}
	referenced, err := readMembers(r.targets.lookup(fragment))
	if err != nil {
		return item, nil //nolint:nilerr // the build reports a reference that leads nowhere
	}
	if referenced, err = r.inline(referenced, at, append(refs, ref)); err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(slices.Clone(item), func(m member) bool { return m.name == refMember })
	for _, m := range referenced {
		if memberValue(item, m.name) != nil {
			continue
		}
		if len(refs) == 0 { // m is written out at the path itself
			m = r.withUniqueID(m, at)
		}
		out = append(out, m)
	}
	return out, nil
}

// withUniqueID returns a member of a path item that was written out at a path. An operation loses its id if another one
// has the same id, because ids are unique.
func (r *router) withUniqueID(m member, at string) member {
	if !r.isMethod(m.name) {
		return m
	}
	operation, err := readMembers(m.value)
	id := stringValue(memberValue(operation, "operationId"))
	if err != nil || id == "" {
		return m
	}
	if !r.operationIDs[id] {
		r.operationIDs[id] = true
		return m
	}
	r.notes = append(r.notes, fmt.Sprintf("%s: the copied operation %s has no operationId, because another operation has "+
		"%s already", r.document.place(at), m.name, id))
	operation = slices.DeleteFunc(operation, func(m member) bool { return m.name == "operationId" })
	return member{m.name, writeObject(operation)}
}
