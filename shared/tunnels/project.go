package tunnels

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/store"
)

// maxForgetting is how many configurations one transaction rewrites: each may have 350 KB,
// and a transaction has 4 MB.
const maxForgetting = 10

// Forget gives writes that take a project which is being deleted out of the account's
// tunnels, as many as fit one transaction, and whether there are more: a project that is made
// again under the name may call nothing of what the old one could. No configuration
// that names it is put any more (Configure).
//
// Configurations come first. Once none names the project, no operation writes a service that does,
// and those that are there are rewritten for good.
func (s *Service) Forget(ctx context.Context, accountID, project string) (writes []store.Write, more bool, err error) {
	all, err := store.Collect[configuration](ctx, s.parts.Table, store.Query{PK: configurationPartition(accountID)})
	if err != nil {
		return nil, false, fmt.Errorf("read an account's configurations of tunnels: %w", err)
	}
	for _, c := range all {
		after, named := c, false
		after.Services = slices.Clone(c.Services)
		for i, spec := range c.Services {
			its, has := spec.forgetting(project)
			after.Services[i], named = its, named || has
		}
		if !named {
			continue
		}
		if len(writes) == maxForgetting {
			return writes, true, nil
		}
		after.Version++
		writes = append(writes, store.Put(configurationKey(accountID, c.ID), after).If(store.And(
			store.Equal(store.At("operation"), c.Operation), store.Equal(store.At("version"), c.Version))).Else(store.ErrStale))
	}
	if len(writes) > 0 {
		return writes, true, nil
	}
	there, err := s.services(ctx, accountID)
	if err != nil {
		return nil, false, err
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		before := there[name]
		its, named := before.forgetting(project)
		if !named {
			continue
		}
		if len(writes) == s.portion {
			return writes, true, nil
		}
		after := before
		after.Spec, after.Version = its, before.Version+1
		writes = append(writes, before.become(accountID, after))
	}
	return writes, len(writes) > 0, nil
}

// forgetting is a service without what a project may, and whether that was anything.
func (s Spec) forgetting(project string) (Spec, bool) {
	names := func(c Configuration) bool { return c.Project == project }
	if !slices.ContainsFunc(s.Configurations, names) {
		return s, false
	}
	s.Configurations = slices.DeleteFunc(slices.Clone(s.Configurations), names)
	return s, true
}
