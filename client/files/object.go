package files

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/project"
)

// place is where something stands in a file, its line and column from 1.
type place struct {
	file         string
	line, column int
}

func (p place) problem(format string, args ...any) project.Problem {
	return project.Problem{File: p.file, Line: p.line, Column: p.column, Message: fmt.Sprintf(format, args...)}
}

// given is what a file has for a field: a value, or where that comes from.
type given struct {
	value Value
	from  *Reference
	at    place
}

// object is one that files name. The one above all has no kind.
type object struct {
	kind   *Kind
	name   string
	at     place
	parent *object
	fields map[string]given
	// below are those within, by their members and in the order of their names; a member that a file has is there, though empty.
	below map[string]map[string]*object
	// complete are the members of below that are all there is to be, with where that is said.
	complete map[string]place
}

// list are the objects of a member, by their names.
func (o *object) list(member string) []*object {
	var list []*object
	for _, name := range slices.Sorted(maps.Keys(o.below[member])) {
		list = append(list, o.below[member][name])
	}
	return list
}

// add takes an object in. One that is there in another document or file is the same, where at most one of the two has fields of its
// own: what is within a parent may stand in several files.
func (o *object) add(n *object) (wrong *project.Problem) {
	member, name := n.kind.Member, n.kind.fold(n.name)
	if o.below == nil {
		o.below = map[string]map[string]*object{}
	}
	if o.below[member] == nil {
		o.below[member] = map[string]*object{}
	}
	before := o.below[member][name]
	switch {
	case before == nil:
		n.parent = o
		o.below[member][name] = n
		return nil
	case len(n.fields) == 0 && len(n.below) > 0:
	case len(before.fields) == 0 && len(before.below) > 0:
		before.fields, before.at = n.fields, n.at
	default:
		p := n.at.problem("There are two of the %s %s: the other is at %s:%d. Leave one out.", n.kind.One, n.name, before.at.file, before.at.line)
		return &p
	}
	for member, at := range n.complete {
		if before.complete == nil {
			before.complete = map[string]place{}
		}
		before.complete[member] = at
	}
	for member, list := range n.below {
		if before.below == nil {
			before.below = map[string]map[string]*object{}
		}
		if before.below[member] == nil {
			before.below[member] = map[string]*object{}
		}
		for _, one := range list {
			if wrong = before.add(one); wrong != nil {
				return wrong
			}
		}
	}
	return nil
}

// walk visits all objects within one, parents first, in the order in which they are made.
func (o *object) walk(kinds []*Kind, visit func(*object)) {
	for _, k := range kinds {
		for _, one := range o.list(k.Member) {
			visit(one)
			one.walk(k.Below, visit)
		}
	}
}
