package tunnels

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// serviceRecord is a service as it is provisioned: all that a call of it needs to know.
type serviceRecord struct {
	store.Rest

	// ID is the operation that made it: a service that is made again has another.
	ID       string `dynamodbav:"id"`
	TunnelID string `dynamodbav:"tunnelId"`
	Spec
	Version int64 `dynamodbav:"version"`
}

// unchanged holds for a service that is as it was read, none for one without an ID.
func (r serviceRecord) unchanged() store.Condition {
	if r.ID == "" {
		return store.Absent()
	}
	return store.And(store.Equal(store.At("id"), r.ID), store.Equal(store.At("version"), r.Version))
}

// become is the write by which the service of an account becomes after.
func (r serviceRecord) become(accountID string, after serviceRecord) store.Write {
	return store.Put(serviceKey(accountID, after.Name), after).If(r.unchanged()).Else(store.ErrStale)
}

// remove is the write by which the service of an account goes.
func (r serviceRecord) remove(accountID string) store.Write {
	return store.Delete(serviceKey(accountID, r.Name)).If(r.unchanged()).Else(store.ErrStale)
}

// kind is one of the two kinds of durable operation.
type kind struct {
	name, prefix string
	// under and done say in a sentence that one is under way, and has succeeded.
	under, done string
}

var (
	provisioning = kind{"tunnel-provisioning", "pst", "The tunnel's services are being provisioned.", "The tunnel's services are as configured."}
	teardown     = kind{"tunnel-teardown", "tst", "The tunnel is being torn down.", "The tunnel is torn down."}
)

// target is what an operation is begun with.
type target struct {
	AccountID string `json:"accountId"`
	TunnelID  string `json:"tunnelId"`
}

// start is what begins an operation.
func (s *Service) start(k kind, owner auth.Owner, tunnelID string) operation.Start {
	return operation.Start{
		ID: s.parts.IDs.New(k.prefix, 24), Kind: k.name, Subject: tunnelID, AccountID: owner.AccountID,
		Input: target{owner.AccountID, tunnelID},
	}
}

func (k kind) shown(r operation.Record) Operation {
	out := Operation{ID: r.ID, Status: r.Status, Message: r.Message, Details: r.Details}
	switch {
	case !r.Ended():
		out.Message = k.under
	case out.Message == "":
		out.Message = k.done
	}
	return out
}

var errNoOperation = fault.Missing("operation")

// Provisioning gives an operation that provisions services of a tunnel, Teardown the one
// that tears a tunnel down: for as long as operations are kept, also when the tunnel is gone.
// One of another tunnel or account, or not seen, is NotFound.
func (s *Service) Provisioning(ctx context.Context, owner auth.Owner, tunnelID, operationID string) (Operation, error) {
	return s.follow(ctx, provisioning, owner, tunnelID, operationID)
}

// Teardown is described with Provisioning.
func (s *Service) Teardown(ctx context.Context, owner auth.Owner, tunnelID, operationID string) (Operation, error) {
	return s.follow(ctx, teardown, owner, tunnelID, operationID)
}

func (s *Service) follow(ctx context.Context, k kind, owner auth.Owner, tunnelID, operationID string) (Operation, error) {
	if !visible(owner) || operationID == "" {
		return Operation{}, errNoOperation
	}
	var r operation.Record
	if err := s.parts.Table.Load(ctx, store.Want(operation.Key(operationID), &r)); err != nil {
		return Operation{}, fmt.Errorf("read a tunnel's operation: %w", err)
	}
	if r.Kind != k.name || r.AccountID != owner.AccountID || r.Subject != tunnelID {
		return Operation{}, errNoOperation
	}
	return k.shown(r), nil
}

// Definitions returns the definitions of the operations. What they do has to happen: a
// service that stays would be called, and one that is missing not.
func (s *Service) Definitions() []operation.Definition {
	return []operation.Definition{
		{
			Kind: provisioning.name, First: "services",
			States: map[string]operation.State{
				"services": {
					Does: "makes, changes and removes services until they are as configured; ends with an error where another configuration was put, or the tunnel deleted",
					Task: s.provision, Next: operation.Succeed, Or: []string{operation.Fail}, Must: true,
				},
			},
		},
		{
			Kind: teardown.name, First: "services",
			States: map[string]operation.State{
				"services": {Does: "removes the tunnel's services", Task: s.tearDown, Next: operation.Succeed, Must: true},
			},
		},
	}
}

// provision brings the services of a tunnel nearer to its configuration, by what differs.
//
// Each step holds only while the configuration is the one that it was decided from: so
// the operation of an earlier one changes nothing any more, nor does one whose tunnel is
// deleted, and of two tunnels only that writes a service whose configuration has claimed its
// name.
func (s *Service) provision(ctx context.Context, step operation.Step) (operation.Result, error) {
	var at target
	if err := step.Input(&at); err != nil {
		return operation.Result{}, err
	}
	var c configuration
	if err := s.parts.Table.Load(ctx, store.Want(configurationKey(at.AccountID, at.TunnelID), &c)); err != nil {
		return operation.Result{}, fmt.Errorf("read a tunnel's configuration: %w", err)
	}
	switch {
	case c.ID == "":
		return operation.Result{Next: operation.Fail, Message: "The tunnel was deleted before its services were provisioned."}, nil
	case c.Operation != step.ID:
		return operation.Result{Next: operation.Fail, Message: fmt.Sprintf("A later configuration has taken the place of this one. Follow its operation, %s.", c.Operation)}, nil
	}
	there, err := s.services(ctx, at.AccountID)
	if err != nil {
		return operation.Result{}, err
	}
	writes, more := s.differing(at, c, there)
	return operation.Result{
		Writes: append(writes, store.Check(configurationKey(at.AccountID, at.TunnelID), store.And(
			store.Equal(store.At("operation"), step.ID), store.Equal(store.At("version"), c.Version))).Else(store.ErrStale)),
		Message: provisioning.done, Again: more,
	}, nil
}

// differing are the writes of one step, and whether there are more.
func (s *Service) differing(at target, c configuration, there map[string]serviceRecord) (writes []store.Write, more bool) {
	wanted := make(map[string]bool, len(c.Services))
	for _, spec := range c.Services {
		wanted[spec.Name] = true
		old := there[spec.Name]
		mine := old.ID != "" && old.TunnelID == at.TunnelID
		if mine && equal(old.Spec, spec) {
			continue
		}
		if len(writes) == s.portion {
			return writes, true
		}
		// What is there of another tunnel is one that has left the name, and has not removed its
		// service yet: the service is a new one.
		after := serviceRecord{ID: c.Operation, TunnelID: at.TunnelID, Spec: spec, Version: 1}
		if mine {
			after.Rest, after.ID, after.Version = old.Rest, old.ID, old.Version+1
		}
		writes = append(writes, old.become(at.AccountID, after))
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if wanted[name] || there[name].TunnelID != at.TunnelID {
			continue
		}
		if len(writes) == s.portion {
			return writes, true
		}
		writes = append(writes, there[name].remove(at.AccountID))
	}
	return writes, false
}

// services reads an account's services by their names.
func (s *Service) services(ctx context.Context, accountID string) (map[string]serviceRecord, error) {
	all, err := store.Collect[serviceRecord](ctx, s.parts.Table, store.Query{PK: servicePartition(accountID)})
	if err != nil {
		return nil, fmt.Errorf("read an account's services: %w", err)
	}
	out := make(map[string]serviceRecord, len(all))
	for _, r := range all {
		out[r.Name] = r
	}
	return out, nil
}
