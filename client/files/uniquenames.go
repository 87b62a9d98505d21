package files

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// claim has the names in the SeparateField field of an object that must be unique in the account. For example, the name
// of a service belongs to one tunnel.
type claim struct {
	owner *remoteObject
	at    position
	// operation is the operation of the change that replaces the names before with the names after, or that deletes the
	// object. It is "" if the object already has the names after.
	operation     string
	before, after []string
}

// addClaim records the unique names of an object, before and after the change of its SeparateField field. It reports
// elements of after that refer to a project which the plan deletes.
func (p *planner) addClaim(owner *remoteObject, at position, operation string, before, after Value) {
	if owner.kind.SeparateField.Unique == "" {
		return
	}
	p.nameClaims = append(p.nameClaims, claim{
		owner, at, operation, owner.kind.uniqueNames(before),
		owner.kind.uniqueNames(after),
	})
	var list []struct{ Configurations []struct{ Project string } }
	_ = json.Unmarshal(after, &list)
	for i, element := range list {
		for _, c := range element.Configurations {
			if p.deletedProjects[c.Project] {
				p.addProblem(at, "%s[%d] of the %s %s is for the project %s, which these files do not name and --prune deletes: "+
					"name that too, or leave it out here.",
					owner.kind.SeparateField.Field, i, owner.kind.Singular, owner.name, c.Project)
			}
		}
	}
}

// addUnchanged records objects that the plan does not change, if their kind has unique names.
func (p *planner) addUnchanged(objects ...*remoteObject) {
	for _, o := range objects {
		if o.kind.SeparateField != nil && o.kind.SeparateField.Unique != "" {
			p.unchanged = append(p.unchanged, o)
		}
	}
}

// uniqueNames returns the unique name of each element of a SeparateField field.
func (k *Kind) uniqueNames(field Value) (names []string) {
	var list []map[string]Value
	_ = json.Unmarshal(field, &list)
	for _, element := range list {
		names = append(names, stringValue(element[k.SeparateField.Unique]))
	}
	return names
}

// acquires returns the names that the object gets, and releases the names that it loses.
func (c claim) acquires() []string { return notIn(c.before, c.after) }
func (c claim) releases() []string { return notIn(c.after, c.before) }

// notIn returns the names that are not in others.
func notIn(others, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// orderByClaims moves each change that assigns a name to an object after the change that releases this name from
// another object. All other changes keep their order. orderByClaims reports objects that would have to exchange names.
func (p *planner) orderByClaims(ctx context.Context) error {
	releasedBy := map[string]int{} // the index of the change that releases a name
	claims := map[int]claim{}      // by the index of their change
	if err := p.checkOwners(ctx); err != nil {
		return err
	}
	for _, c := range p.nameClaims {
		i := slices.IndexFunc(p.plan.Changes, func(ch Change) bool {
			return ch.Key == c.owner.key() && ch.Operation == c.operation
		})
		if i < 0 {
			continue // the object already has these names
		}
		claims[i] = c
		for _, name := range c.releases() {
			releasedBy[name] = i
		}
	}
	if len(releasedBy) == 0 {
		return nil
	}
	done, waiting := map[int]bool{}, map[int][]int{}
	ordered := make([]Change, 0, len(p.plan.Changes))
	var add func(i int)
	add = func(i int) {
		for _, name := range claims[i].acquires() {
			if release, ok := releasedBy[name]; ok && !done[release] {
				waiting[release] = append(waiting[release], i)
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
			p.addProblem(c.at, "The %s %s takes %s from one that takes a name of its own, and neither can be first: give such "+
				"a name up in a plan before this one.",
				c.owner.kind.Singular, c.owner.name, joinNames(slices.DeleteFunc(c.acquires(), func(name string) bool {
					release, ok := releasedBy[name]
					return !ok || done[release]
				})))
		}
	}
	p.plan.Changes = ordered
	return nil
}

// checkOwners reports names that the API would refuse while the plan is applied: names that several objects would get,
// duplicate names in one object, and names of unchanged objects. It reads unchanged objects only if an object gets a
// name that no other change releases.
func (p *planner) checkOwners(ctx context.Context) error {
	owners, released, acquired := map[string]*remoteObject{}, map[string]bool{}, map[string]claim{}
	for _, c := range p.nameClaims {
		for _, name := range c.releases() {
			released[name] = true
		}
	}
	for _, c := range p.nameClaims {
		for _, name := range c.after {
			switch other := owners[name]; other {
			case nil:
			case c.owner:
				p.addProblem(c.at, "%s stands twice in the %s of the %s %s: leave one out.", name, c.owner.kind.SeparateField.Field,
					c.owner.kind.Singular, c.owner.name)
			default:
				p.addProblem(c.at, "%s is to be of the %s %s too, and is one %s's alone: leave it out of one of them.", name,
					other.kind.Singular, other.name, other.kind.Singular)
			}
			owners[name] = c.owner
		}
		for _, name := range c.acquires() {
			if !released[name] {
				acquired[name] = c
			}
		}
	}
	if len(acquired) == 0 {
		return nil
	}
	slices.SortFunc(p.unchanged, func(a, b *remoteObject) int { return strings.Compare(a.name, b.name) })
	for _, o := range p.unchanged {
		value, _, err := p.readSeparate(ctx, o)
		if isNotFound(err) {
			continue // the object was deleted after the list was read
		}
		if err != nil {
			return err
		}
		for _, name := range o.kind.uniqueNames(value) {
			if c, ok := acquired[name]; ok {
				p.addProblem(c.at, "%s is of the %s %s, and is one %s's alone: name that %s without it, have --prune delete it, "+
					"or leave it out here.", name, o.kind.Singular, o.name, o.kind.Singular, o.kind.Singular)
			}
		}
	}
	return nil
}
