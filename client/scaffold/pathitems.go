package scaffold

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// recordIDs records the operation ids of a path item.
func (r *router) recordIDs(item []member) {
	for _, m := range item {
		if operation, err := readMembers(m.value); err == nil && r.isMethod(m.name) {
			r.operationIDs[stringValue(memberValue(operation, "operationId"))] = true
		}
	}
}

// inline returns a path item with the members of the path item that it refers to, in the description or in another file.
// Its own members replace them. A reference that leads nowhere stays: the build reports it. refs are the references that
// led to the item. from has the places of the members that come from other path items, by name.
func (r *router) inline(item []member, at string, refs []string) (out []member, from map[string]origin, err error) {
	const refMember = "$ref"
	ref := stringValue(memberValue(item, refMember))
	fragment, local := strings.CutPrefix(ref, "#")
	switch {
	case ref == "":
		return item, nil, nil
	case slices.Contains(refs, ref):
		return nil, nil, fmt.Errorf("%s: the path refers to itself: write its operations there", r.document.place(at))
	case len(refs) == maxReferences:
		return nil, nil, fmt.Errorf("%s: the path leads through more than %d references: refer to the path item directly",
			r.document.place(at), maxReferences)
	case local && !isPathItem(fragment):
		return item, nil, nil // the build reports a reference that does not lead to a path item
	}
	var target jsontext.Value
	place := origin{r.files.name, fragment}
	if local {
		target = r.targets.lookup(fragment)
	} else {
		place.file, place.pointer = r.files.resolve(r.files.name, ref)
		if target, err = r.files.pathItem(ref); err != nil {
			return nil, nil, err
		}
	}
	if unescaped, err := url.PathUnescape(place.pointer); err == nil {
		place.pointer = unescaped
	}
	referenced, err := readMembers(target)
	if err != nil && r.files.exists(ref) { // a build could read what init has not checked
		return nil, nil, fmt.Errorf("%s: the path refers to %s, which is no path item: correct the reference",
			r.document.place(at), ref)
	}
	if err != nil {
		return item, nil, nil //nolint:nilerr // the build reports a reference that leads nowhere
	}
	referenced, inner, err := r.inline(referenced, at, append(refs, ref))
	if err != nil {
		return nil, nil, err
	}
	from = map[string]origin{}
	out = slices.DeleteFunc(slices.Clone(item), func(m member) bool { return m.name == refMember })
	for _, m := range referenced {
		if memberValue(item, m.name) != nil {
			continue
		}
		from[m.name] = origin{place.file, string(jsontext.Pointer(place.pointer).AppendToken(m.name))}
		if nested, isNested := inner[m.name]; isNested {
			from[m.name] = nested
		}
		if len(refs) == 0 { // m is written out at the path itself
			m = r.withUniqueID(m, at)
		}
		out = append(out, m)
	}
	return out, from, nil
}

// maxReferences is the maximum number of references that inline follows for one path, as in a build.
const maxReferences = 20

// isPathItem reports whether the fragment of a reference names a path, or a path item in components.
func isPathItem(fragment string) bool {
	name, isPath := strings.CutPrefix(fragment, "/paths/")
	if !isPath {
		if name, isPath = strings.CutPrefix(fragment, "/components/pathItems/"); !isPath {
			return false
		}
	}
	return !strings.Contains(name, "/")
}

// maxIDNotes is the maximum number of notes about operation ids. More are counted.
const maxIDNotes = 10

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
	if r.removedIDs++; r.removedIDs <= maxIDNotes {
		r.notes = append(r.notes, fmt.Sprintf("%s: the copied operation %s has no operationId, because another operation "+
			"has %s already", r.document.place(at), m.name, id))
	}
	operation = slices.DeleteFunc(operation, func(m member) bool { return m.name == "operationId" })
	return member{m.name, writeObject(operation)}
}
