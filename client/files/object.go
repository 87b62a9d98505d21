package files

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/format/project"
)

// position is a position in a file. Line and column count from 1.
type position struct {
	file         string
	line, column int
}

func (p position) newProblem(format string, args ...any) project.Problem {
	return project.Problem{File: p.file, Line: p.line, Column: p.column, Message: fmt.Sprintf(format, args...)}
}

// fieldValue is the value that a file has for a field, or the Reference in place of the value.
type fieldValue struct {
	value Value
	ref   *Reference
	at    position
}

// object is an object in files. The root object has no kind.
type object struct {
	kind   *Kind
	name   string
	at     position
	parent *object
	fields map[string]fieldValue
	// children are the objects within the object: first by their Kind.Member, then by their normalized name. A list that
	// a file has is present even if it is empty.
	children map[string]map[string]*object
	// complete are the lists of children that are declared complete, with the positions of these declarations.
	complete map[string]position
}

// list returns the children in a list, sorted by name.
func (o *object) list(member string) []*object {
	var list []*object
	for _, name := range slices.Sorted(maps.Keys(o.children[member])) {
		list = append(list, o.children[member][name])
	}
	return list
}

// add adds a child to o. If o already has a child of this name, such as from another file, add merges the two. One of
// the two must have children and no fields: otherwise add returns a problem.
func (o *object) add(child *object) (conflict *project.Problem) {
	member, name := child.kind.Member, child.kind.normalize(child.name)
	if o.children == nil {
		o.children = map[string]map[string]*object{}
	}
	if o.children[member] == nil {
		o.children[member] = map[string]*object{}
	}
	existing := o.children[member][name]
	switch {
	case existing == nil:
		child.parent = o
		o.children[member][name] = child
		return nil
	case len(child.fields) == 0 && len(child.children) > 0:
	case len(existing.fields) == 0 && len(existing.children) > 0:
		existing.fields, existing.at = child.fields, child.at
	default:
		p := child.at.newProblem("There are two of the %s %s: the other is at %s:%d. Leave one out.", child.kind.Singular,
			child.name, existing.at.file, existing.at.line)
		return &p
	}
	for member, at := range child.complete {
		if existing.complete == nil {
			existing.complete = map[string]position{}
		}
		existing.complete[member] = at
	}
	for member, list := range child.children {
		if existing.children == nil {
			existing.children = map[string]map[string]*object{}
		}
		if existing.children[member] == nil {
			existing.children[member] = map[string]*object{}
		}
		for _, grandchild := range list {
			if conflict = existing.add(grandchild); conflict != nil {
				return conflict
			}
		}
	}
	return nil
}

// walk calls visit for o's descendants, parents first, in the order of creation. kinds are the kinds of o's children.
func (o *object) walk(kinds []*Kind, visit func(*object)) {
	for _, k := range kinds {
		for _, child := range o.list(k.Member) {
			visit(child)
			child.walk(k.Children, visit)
		}
	}
}
