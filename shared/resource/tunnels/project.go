package tunnels

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/core/store"
)

// maxRewrites is the maximum number of configurations that one transaction
// rewrites. A configuration has up to 350 KB, and a transaction may have 4 MB.
const maxRewrites = 10

// RemoveProject returns writes that remove a project from the account's tunnels while the project is being deleted. The
// writes fit into one transaction. more reports whether further writes may be needed after these. Without
// RemoveProject, a later project with the same name could call the services of the deleted one. While the project is
// being deleted, Configure refuses configurations that name it.
//
// RemoveProject rewrites all configurations first. After that, no operation writes a
// service that allows the project, so the existing services need to be rewritten only once.
func (s *Service) RemoveProject(
	ctx context.Context, accountID, project string,
) (writes []store.Write, more bool, err error) {
	all, err := store.Collect[configuration](ctx, s.parts.Table, store.Query{PK: configurationPartition(accountID)})
	if err != nil {
		return nil, false, fmt.Errorf("read an account's configurations of tunnels: %w", err)
	}
	for _, c := range all {
		after, changed := c, false
		after.Services = slices.Clone(c.Services)
		for i, spec := range c.Services {
			updated, found := spec.withoutProject(project)
			after.Services[i], changed = updated, changed || found
		}
		if !changed {
			continue
		}
		if len(writes) == maxRewrites {
			return writes, true, nil
		}
		after.Version++
		writes = append(writes, store.Put(configurationKey(accountID, c.ID), after).If(store.And(
			store.Equal(store.At("operation"), c.Operation), store.Equal(store.At("version"), c.Version))).Else(store.ErrStale))
	}
	if len(writes) > 0 {
		return writes, true, nil
	}
	existing, err := s.services(ctx, accountID)
	if err != nil {
		return nil, false, err
	}
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		before := existing[name]
		updated, changed := before.withoutProject(project)
		if !changed {
			continue
		}
		if len(writes) == s.maxPerStep {
			return writes, true, nil
		}
		after := before
		after.Spec, after.Version = updated, before.Version+1
		writes = append(writes, before.replaceWrite(accountID, after))
	}
	return writes, len(writes) > 0, nil
}

// withoutProject returns the service without the permissions of a project, and reports whether there were any.
func (s Spec) withoutProject(project string) (Spec, bool) {
	matches := func(c Configuration) bool { return c.Project == project }
	if !slices.ContainsFunc(s.Configurations, matches) {
		return s, false
	}
	s.Configurations = slices.DeleteFunc(slices.Clone(s.Configurations), matches)
	return s, true
}
