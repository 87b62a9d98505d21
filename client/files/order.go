package files

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// claim is what an object has of names that are one object's alone in the account, such as those of services, which are one tunnel's.
type claim struct {
	of *seen
	at place
	// operation is that of the change by which before become after: none, where all of it is deleted.
	operation     string
	before, after []string
}

// claims notes the names that an object has in its field apart, and is to have there. What is to be for a project that is deleted is told.
func (p *planner) claims(of *seen, at place, operation string, before, after Value) {
	if of.kind.Apart.Unique == "" {
		return
	}
	p.claimed = append(p.claimed, claim{of, at, operation, of.kind.namesIn(before), of.kind.namesIn(after)})
	var list []struct{ Configurations []struct{ Project string } }
	_ = json.Unmarshal(after, &list)
	for i, one := range list {
		for _, c := range one.Configurations {
			if p.pruned[c.Project] {
				p.problem(at, "%s[%d] of the %s %s is for the project %s, which these files do not name and --prune deletes: name that too, or leave it out here.",
					of.kind.Apart.Field, i, of.kind.One, of.name, c.Project)
			}
		}
	}
}

// namesIn are the unique names in a field apart, one of each element.
func (k *Kind) namesIn(field Value) (names []string) {
	var list []map[string]Value
	_ = json.Unmarshal(field, &list)
	for _, one := range list {
		names = append(names, textOf(one[k.Apart.Unique]))
	}
	return names
}

// takes are the names that it does not have yet, and leaves those that it is to have no more.
func (c claim) takes() []string  { return missing(c.before, c.after) }
func (c claim) leaves() []string { return missing(c.after, c.before) }

// missing are those of names that others lack.
func missing(others, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// inOrder has each change that takes a name come behind the one by which another object leaves it, and all others stay in their order.
// What two objects are to have, or would have to take from each other at once, is told.
func (p *planner) inOrder() {
	by := map[string]int{} // the change that leaves a name
	claims := map[int]claim{}
	owners := map[string]*seen{}
	for _, c := range p.claimed {
		for _, name := range c.after {
			if other := owners[name]; other != nil && other != c.of {
				p.problem(c.at, "%s is to be of the %s %s too, and is one %s's alone: leave it out of one of them.", name, other.kind.One, other.name, other.kind.One)
			}
			owners[name] = c.of
		}
		i := slices.IndexFunc(p.plan.Changes, func(one Change) bool { return one.Key == c.of.key() && one.Operation == c.operation })
		if i < 0 {
			continue // it has them as it is to
		}
		claims[i] = c
		for _, name := range c.leaves() {
			by[name] = i
		}
	}
	if len(by) == 0 {
		return
	}
	done, waiting := map[int]bool{}, map[int][]int{}
	ordered := make([]Change, 0, len(p.plan.Changes))
	var add func(i int)
	add = func(i int) {
		for _, name := range claims[i].takes() {
			if left, is := by[name]; is && !done[left] {
				waiting[left] = append(waiting[left], i)
				return
			}
		}
		ordered, done[i] = append(ordered, p.plan.Changes[i]), true
		for _, other := range waiting[i] {
			add(other)
		}
	}
	for i := range p.plan.Changes {
		add(i)
	}
	for _, i := range slices.Sorted(maps.Keys(claims)) {
		if c := claims[i]; !done[i] {
			p.problem(c.at, "The %s %s takes %s from one that takes a name of its own, and neither can be first: give such a name up in a plan before this one.",
				c.of.kind.One, c.of.name, strings.Join(c.takes(), ", "))
		}
	}
	p.plan.Changes = ordered
}
