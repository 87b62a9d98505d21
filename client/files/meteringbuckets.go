package files

import (
	"context"
	"maps"
	"slices"
)

// matchByPlans returns the existing metering buckets by the names that files use for them, and sets these names. The
// API assigns a bucket only an ID, so the names of its plans identify it. A bucket in files matches the existing bucket
// with exactly the same plans. If there is none, it matches the bucket that shares most plans with it, among those
// without an exact match. If several buckets share as many, those that are the only match of another bucket in files
// are excluded. If several remain, or if two buckets in files match the same bucket, matchByPlans adds a problem. The
// key of an existing bucket without a match is its ID.
func (p *planner) matchByPlans(
	ctx context.Context, k *Kind, desired *object, buckets map[string]*remoteObject,
) (map[string]*remoteObject, error) {
	member, objects := "plans", desired.list(k.Member)
	plans := map[string]map[string]*remoteObject{}
	for _, id := range slices.Sorted(maps.Keys(buckets)) {
		list, err := p.list(ctx, k.child(member), buckets[id], nil)
		if isNotFound(err) {
			continue // the bucket was deleted after the list was read
		}
		if err != nil {
			return nil, err
		}
		plans[id] = list
	}
	ids := slices.Sorted(maps.Keys(plans))
	countShared := func(o *object, id string) (n int) {
		for name := range o.children[member] {
			if plans[id][name] != nil {
				n++
			}
		}
		return n
	}
	matched, assigned := map[string]*remoteObject{}, map[string]*object{}
	assign := func(o *object, id string) {
		buckets[id].name = o.name
		matched[o.name], assigned[id] = buckets[id], o
	}
	for _, o := range objects {
		i := slices.IndexFunc(ids, func(id string) bool {
			return assigned[id] == nil && len(plans[id]) == len(o.children[member]) && countShared(o, id) == len(plans[id]) &&
				len(plans[id]) > 0
		})
		if i >= 0 {
			assign(o, ids[i])
		}
	}
	exact := maps.Clone(assigned)
	candidates := map[*object][]string{}
	for _, o := range objects {
		if matched[o.name] == nil {
			candidates[o] = maxBy(ids, func(id string) int {
				if exact[id] != nil {
					return 0
				}
				return countShared(o, id)
			})
		}
	}
	narrowCandidates(candidates)
	for _, o := range objects {
		switch best := candidates[o]; {
		case len(best) == 0:
		case len(best) > 1:
			p.addProblem(o.at, "Two metering buckets have plans that are named here, %s and %s: name more plans of one of them.",
				best[0], best[1])
		case assigned[best[0]] != nil:
			p.addProblem(o.at, "The plans of this metering bucket are in the same one as those of %s: put them together.",
				assigned[best[0]].name)
		default:
			assign(o, best[0])
		}
	}
	for _, id := range ids {
		if assigned[id] == nil {
			matched[id] = buckets[id]
		}
	}
	return matched, nil
}

// maxBy returns the IDs with the largest count, or none if all counts are 0.
func maxBy(ids []string, count func(id string) int) (best []string) {
	largest := 1
	for _, id := range ids {
		switch n := count(id); {
		case n > largest:
			best, largest = []string{id}, n
		case n == largest:
			best = append(best, id)
		}
	}
	return best
}

// narrowCandidates reduces the candidates of objects that match several buckets: it removes buckets that are the only
// candidate of another object. Such a bucket can have plans of both objects, if earlier files described the two as one
// bucket. The result does not depend on the order of the objects.
func narrowCandidates(candidates map[*object][]string) {
	for changed := true; changed; {
		unique := map[string]bool{}
		for _, ids := range candidates {
			if len(ids) == 1 {
				unique[ids[0]] = true
			}
		}
		changed = false
		for o, ids := range candidates {
			if remaining := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
				return unique[id]
			}); len(ids) > 1 && len(remaining) > 0 && len(remaining) < len(ids) {
				candidates[o], changed = remaining, true
			}
		}
	}
}
