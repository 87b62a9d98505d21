package files

import (
	"context"
	"maps"
	"slices"
)

// byPlans has metering buckets under the names that files have for them. The API gives one an id alone, so that it is known by its plans: it is
// the one that has these and no others, else the one that has most of them, of those that no other name
// alone stands for.
func (p *planner) byPlans(ctx context.Context, k *Kind, w *object, buckets map[string]*seen) (map[string]*seen, error) {
	member, names := "plans", w.list(k.Member)
	plans := map[string]map[string]*seen{}
	for _, id := range slices.Sorted(maps.Keys(buckets)) {
		list, err := p.list(ctx, k.below(member), buckets[id], nil)
		if notThere(err) {
			continue // somebody has deleted it since it was listed
		}
		if err != nil {
			return nil, err
		}
		plans[id] = list
	}
	ids := slices.Sorted(maps.Keys(plans))
	shared := func(o *object, id string) (n int) {
		for name := range o.below[member] {
			if plans[id][name] != nil {
				n++
			}
		}
		return n
	}
	all, taken := map[string]*seen{}, map[string]*object{}
	take := func(o *object, id string) {
		buckets[id].name = o.name
		all[o.name], taken[id] = buckets[id], o
	}
	for _, o := range names {
		i := slices.IndexFunc(ids, func(id string) bool {
			return taken[id] == nil && len(plans[id]) == len(o.below[member]) && shared(o, id) == len(plans[id]) && len(plans[id]) > 0
		})
		if i >= 0 {
			take(o, ids[i])
		}
	}
	exact := maps.Clone(taken)
	best := map[*object][]string{}
	for _, o := range names {
		if all[o.name] == nil {
			best[o] = most(ids, func(id string) int {
				if exact[id] != nil {
					return 0
				}
				return shared(o, id)
			})
		}
	}
	resolve(best)
	for _, o := range names {
		switch best := best[o]; {
		case len(best) == 0:
		case len(best) > 1:
			p.problem(o.at, "Two metering buckets have plans that are named here, %s and %s: name more plans of one of them.", best[0], best[1])
		case taken[best[0]] != nil:
			p.problem(o.at, "The plans of this metering bucket are in the same one as those of %s: put them together.", taken[best[0]].name)
		default:
			take(o, best[0])
		}
	}
	for _, id := range ids {
		if taken[id] == nil {
			all[id] = buckets[id]
		}
	}
	return all, nil
}

// most are the ids of which a count is largest, none where it is 0 for all.
func most(ids []string, count func(id string) int) (best []string) {
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

// resolve takes from names that several buckets may be meant by those that are the only one of another name: what is applied for that one may have
// given it plans of this one too. It depends on no order of the names.
func resolve(best map[*object][]string) {
	for more := true; more; {
		only := map[string]bool{}
		for _, ids := range best {
			if len(ids) == 1 {
				only[ids[0]] = true
			}
		}
		more = false
		for o, ids := range best {
			if left := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return only[id] }); len(ids) > 1 && len(left) > 0 && len(left) < len(ids) {
				best[o], more = left, true
			}
		}
	}
}
