package tunnels

import (
	"context"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Delete deletes a tunnel and begins its teardown. When Delete returns, the tunnel no longer exists, its token is
// invalid, and no operation provisions services for it. The names of the tunnel and of its services are free. The
// returned operation then removes the provisioned services. Delete returns NotFound for a tunnel that is missing,
// invisible or already deleted.
func (s *Service) Delete(ctx context.Context, owner auth.Owner, id string) (Operation, error) {
	start := s.newStart(teardown, owner, id)
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		var c configuration
		var n register
		r, err := s.find(ctx, owner, id,
			store.Get(configurationKey(owner.AccountID, id), &c), store.Get(registerKey(owner.AccountID), &n))
		if err != nil {
			return err
		}
		if err := s.reportRemovals(ctx, c, owner.AccountID, id); err != nil {
			return err
		}
		n.Tunnels, n.Services = maps.Clone(n.Tunnels), n.servicesExcept(id)
		delete(n.Tunnels, r.Name)
		return s.parts.Table.Commit(ctx,
			store.Delete(tunnelKey(owner.AccountID, id)), store.Delete(tokenKey(r.Hash)), n.putWrite(owner.AccountID),
			store.Delete(configurationKey(owner.AccountID, id)),
			operation.Create(start, s.now()), audit.Record(ctx, r.resource()))
	})
	if err != nil {
		return Operation{}, err
	}
	return Operation{ID: start.ID, Status: operation.InProgress, Message: teardown.inProgressMessage}, nil
}

// removeServices removes the services of a deleted tunnel, one step at a time. If another tunnel has already
// provisioned a service of the same name, that service stays. No new service is written for the deleted tunnel, because
// its configuration no longer exists.
func (s *Service) removeServices(ctx context.Context, step operation.Step) (operation.Result, error) {
	var in target
	if err := step.Input(&in); err != nil {
		return operation.Result{}, err
	}
	existing, err := s.services(ctx, in.AccountID)
	if err != nil {
		return operation.Result{}, err
	}
	var writes []store.Write
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		if existing[name].TunnelID != in.TunnelID {
			continue
		}
		if len(writes) == s.maxPerStep {
			return operation.Result{Writes: writes, Repeat: true}, nil
		}
		writes = append(writes, existing[name].deleteWrite(in.AccountID))
	}
	return operation.Result{Writes: writes, Message: teardown.doneMessage}, nil
}

// reportRemovals reports to a dry run how many services the deletion of a tunnel removes. It counts the
// services in the tunnel's configuration, and services that are still provisioned from earlier configurations.
func (s *Service) reportRemovals(ctx context.Context, c configuration, accountID, id string) error {
	return store.ReportRemovals(ctx, func(ctx context.Context) (map[string]int, error) {
		existing, err := s.services(ctx, accountID)
		if err != nil {
			return nil, err
		}
		names := map[string]bool{}
		for _, r := range existing {
			if r.TunnelID == id {
				names[r.Name] = true
			}
		}
		for _, spec := range c.Services {
			names[spec.Name] = true
		}
		return map[string]int{"tunnels": 1, "tunnelServices": len(names)}, nil
	})
}
