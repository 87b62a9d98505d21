package files

import (
	"context"
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

// stays notes objects whose field apart the plan leaves as it is, in which names may stand that are one object's alone.
func (p *planner) stays(objects ...*seen) {
	for _, o := range objects {
		if o.kind.Apart != nil && o.kind.Apart.Unique != "" {
			p.staying = append(p.staying, o)
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
// What objects would have to take from each other at once is told.
func (p *planner) inOrder(ctx context.Context) error {
	by := map[string]int{} // the change that leaves a name
	claims := map[int]claim{}
	if err := p.owned(ctx); err != nil {
		return err
	}
	for _, c := range p.claimed {
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
		return nil
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
				c.of.kind.One, c.of.name, listOf(slices.DeleteFunc(c.takes(), func(name string) bool { left, is := by[name]; return !is || done[left] })))
		}
	}
	p.plan.Changes = ordered
	return nil
}

// owned tells of names that more than one object is to have, or one twice, and of those that it would take from an object that stays as it is: the
// API would refuse such in the middle of an apply. The latter are asked for only where a name is taken that no change leaves.
func (p *planner) owned(ctx context.Context) error {
	owners, left, taken := map[string]*seen{}, map[string]bool{}, map[string]claim{}
	for _, c := range p.claimed {
		for _, name := range c.leaves() {
			left[name] = true
		}
	}
	for _, c := range p.claimed {
		for _, name := range c.after {
			switch other := owners[name]; other {
			case nil:
			case c.of:
				p.problem(c.at, "%s stands twice in the %s of the %s %s: leave one out.", name, c.of.kind.Apart.Field, c.of.kind.One, c.of.name)
			default:
				p.problem(c.at, "%s is to be of the %s %s too, and is one %s's alone: leave it out of one of them.", name, other.kind.One, other.name, other.kind.One)
			}
			owners[name] = c.of
		}
		for _, name := range c.takes() {
			if !left[name] {
				taken[name] = c
			}
		}
	}
	if len(taken) == 0 {
		return nil
	}
	slices.SortFunc(p.staying, func(a, b *seen) int { return strings.Compare(a.name, b.name) })
	for _, o := range p.staying {
		has, _, err := p.apart(ctx, o)
		if notThere(err) {
			continue // somebody has deleted it since it was listed
		}
		if err != nil {
			return err
		}
		for _, name := range o.kind.namesIn(has) {
			if c, is := taken[name]; is {
				p.problem(c.at, "%s is of the %s %s, and is one %s's alone: name that %s without it, have --prune delete it, or leave it out here.", name, o.kind.One, o.name, o.kind.One, o.kind.One)
			}
		}
	}
	return nil
}
