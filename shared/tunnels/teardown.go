package tunnels

import (
	"context"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// Delete removes a tunnel and begins its teardown. From its commit on the tunnel is there for
// nobody, its token opens nothing, nothing is provisioned for it, and its name and those of its
// services are free; what the operation still has to remove are the services as they were
// provisioned. One that is not there or not seen is NotFound, and so is one that was deleted.
func (s *Service) Delete(ctx context.Context, owner auth.Owner, id string) (Operation, error) {
	begun := s.start(teardown, owner, id)
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		var c configuration
		var n register
		r, err := s.find(ctx, owner, id,
			store.Want(configurationKey(owner.AccountID, id), &c), store.Want(registerKey(owner.AccountID), &n))
		if err != nil {
			return err
		}
		if err := s.removes(ctx, c, owner.AccountID, id); err != nil {
			return err
		}
		n.Tunnels, n.Services = maps.Clone(n.Tunnels), n.without(id)
		delete(n.Tunnels, r.Name)
		return s.parts.Table.Commit(ctx,
			store.Delete(tunnelKey(owner.AccountID, id)), store.Delete(tokenKey(r.Hash)), n.put(owner.AccountID),
			store.Delete(configurationKey(owner.AccountID, id)),
			operation.Begin(begun, s.now()), audit.Record(ctx, r.resource()))
	})
	if err != nil {
		return Operation{}, err
	}
	return Operation{ID: begun.ID, Status: operation.InProgress, Message: teardown.under}, nil
}

// tearDown removes services of a tunnel. A service whose name another tunnel has by now is that
// one's; none is written for this one any more, whose configuration is gone.
func (s *Service) tearDown(ctx context.Context, step operation.Step) (operation.Result, error) {
	var at target
	if err := step.Input(&at); err != nil {
		return operation.Result{}, err
	}
	there, err := s.services(ctx, at.AccountID)
	if err != nil {
		return operation.Result{}, err
	}
	var writes []store.Write
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if there[name].TunnelID != at.TunnelID {
			continue
		}
		if len(writes) == s.portion {
			return operation.Result{Writes: writes, Again: true}, nil
		}
		writes = append(writes, there[name].remove(at.AccountID))
	}
	return operation.Result{Writes: writes, Message: teardown.done}, nil
}

// removes tells a dry run of the deletion of a tunnel how many services go with it:
// those that were put, and those that are still provisioned from before.
func (s *Service) removes(ctx context.Context, c configuration, accountID, id string) error {
	return store.Removes(ctx, func(ctx context.Context) (map[string]int, error) {
		there, err := s.services(ctx, accountID)
		if err != nil {
			return nil, err
		}
		names := map[string]bool{}
		for _, r := range there {
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
