package tunnels

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// servicePrefix is the key prefix of the provisioned services (serviceRecord). The services of an account are one
// partition, sorted by name. A gateway reads one service of it, and a tunnel's operations read the whole partition.
const servicePrefix store.KeyPrefix = "tunnel-service"

// serviceRecord is a provisioned service: everything that a call of the service needs.
type serviceRecord struct {
	store.UnknownAttributes

	// ID is the id of the operation that created the service. If
	// the service is deleted and created again, it has another id.
	ID       string `dynamodbav:"id"`
	TunnelID string `dynamodbav:"tunnelId"`
	Spec
	Version int64 `dynamodbav:"version"`
}

func servicePartition(accountID string) string { return servicePrefix.Partition(accountID) }

func serviceKey(accountID, name string) store.Key {
	return store.KeyIn(servicePartition(accountID), name)
}

// unchangedCondition returns the condition that the service is the same as when it was
// read. For a record without an ID, the condition is that no service exists.
func (r serviceRecord) unchangedCondition() store.Condition {
	if r.ID == "" {
		return store.Absent()
	}
	return store.And(store.Equal(store.At("id"), r.ID), store.Equal(store.At("version"), r.Version))
}

// replaceWrite returns the write that replaces the service with after. It fails with store.ErrStale if the service has
// changed since it was read.
func (r serviceRecord) replaceWrite(accountID string, after serviceRecord) store.Write {
	return store.Put(serviceKey(accountID, after.Name), after).If(r.unchangedCondition()).Else(store.ErrStale)
}

// deleteWrite returns the write that deletes the service. It fails with store.ErrStale if the service has changed since
// it was read.
func (r serviceRecord) deleteWrite(accountID string) store.Write {
	return store.Delete(serviceKey(accountID, r.Name)).If(r.unchangedCondition()).Else(store.ErrStale)
}

// kind is one of this package's two kinds of durable operations. name is the kind in an operation's record, and prefix
// begins the ids of the operations.
type kind struct {
	name, prefix string
	// inProgressMessage and doneMessage are the messages of an operation in progress and of a successful one.
	inProgressMessage, doneMessage string
}

var (
	provisioning = kind{
		"tunnel-provisioning", "pst", "The tunnel's services are being provisioned.",
		"The tunnel's services are as configured.",
	}
	teardown = kind{"tunnel-teardown", "tst", "The tunnel is being torn down.", "The tunnel is torn down."}
)

// target is the input of an operation: the tunnel that it changes.
type target struct {
	AccountID string `json:"accountId"`
	TunnelID  string `json:"tunnelId"`
}

// newStart returns the start of an operation.
func (s *Service) newStart(k kind, owner auth.Owner, tunnelID string) operation.Start {
	return operation.Start{
		ID: s.parts.IDs.New(k.prefix, 24), Kind: k.name, Subject: tunnelID, AccountID: owner.AccountID,
		Input: target{owner.AccountID, tunnelID},
	}
}

func (k kind) toOperation(r operation.Record) Operation {
	out := Operation{ID: r.ID, Status: r.Status, Message: r.Message, Details: r.Details}
	switch {
	case !r.Ended():
		out.Message = k.inProgressMessage
	case out.Message == "":
		out.Message = k.doneMessage
	}
	return out
}

var errNoOperation = fault.Missing("operation")

// Provisioning returns an operation that provisions the services of a tunnel. The operation can be read for as long as
// operations are kept, even if the tunnel has been deleted. Provisioning returns NotFound for an operation of another
// tunnel or account, and if owner may not see tunnels.
func (s *Service) Provisioning(ctx context.Context, owner auth.Owner, tunnelID, operationID string) (Operation, error) {
	return s.readOperation(ctx, provisioning, owner, tunnelID, operationID)
}

// Teardown returns an operation that tears down a tunnel. It returns NotFound in the same cases as Provisioning.
func (s *Service) Teardown(ctx context.Context, owner auth.Owner, tunnelID, operationID string) (Operation, error) {
	return s.readOperation(ctx, teardown, owner, tunnelID, operationID)
}

func (s *Service) readOperation(
	ctx context.Context, k kind, owner auth.Owner, tunnelID, operationID string,
) (Operation, error) {
	if !visible(owner) || operationID == "" {
		return Operation{}, errNoOperation
	}
	var r operation.Record
	if err := s.parts.Table.Load(ctx, store.Get(operation.Key(operationID), &r)); err != nil {
		return Operation{}, fmt.Errorf("read a tunnel's operation: %w", err)
	}
	if r.Kind != k.name || r.AccountID != owner.AccountID || r.Subject != tunnelID {
		return Operation{}, errNoOperation
	}
	return k.toOperation(r), nil
}

// Definitions returns the definitions of the operations. Their states are retried until they succeed
// (MustSucceed): otherwise a removed service could still be called, and a new service could be missing.
func (s *Service) Definitions() []operation.Definition {
	return []operation.Definition{
		{
			Kind: provisioning.name, First: "services",
			States: map[string]operation.State{
				"services": {
					Description: "makes, changes and removes services until they are as configured; ends with an error where " +
						"another configuration was put, or the tunnel deleted",
					Task: s.provision, Next: operation.Succeed, Alternatives: []string{operation.Fail}, MustSucceed: true,
				},
			},
		},
		{
			Kind: teardown.name, First: "services",
			States: map[string]operation.State{
				"services": {
					Description: "removes the tunnel's services", Task: s.removeServices, Next: operation.Succeed,
					MustSucceed: true,
				},
			},
		},
	}
}

// provision changes the services of a tunnel to match its configuration, one step at a time.
//
// A step commits only if the configuration that it has read is still the latest. So the operation of an earlier
// configuration, or of a deleted tunnel, changes nothing more. Two tunnels never provision the same service, because
// only one configuration can have its name.
func (s *Service) provision(ctx context.Context, step operation.Step) (operation.Result, error) {
	var in target
	if err := step.Input(&in); err != nil {
		return operation.Result{}, err
	}
	var c configuration
	if err := s.parts.Table.Load(ctx, store.Get(configurationKey(in.AccountID, in.TunnelID), &c)); err != nil {
		return operation.Result{}, fmt.Errorf("read a tunnel's configuration: %w", err)
	}
	switch {
	case c.ID == "":
		return operation.Result{
			Next:    operation.Fail,
			Message: "The tunnel was deleted before its services were provisioned.",
		}, nil
	case c.Operation != step.ID:
		return operation.Result{
			Next: operation.Fail,
			Message: fmt.Sprintf("A later configuration has taken the place of this one. Follow its operation, %s.",
				c.Operation),
		}, nil
	}
	existing, err := s.services(ctx, in.AccountID)
	if err != nil {
		return operation.Result{}, err
	}
	writes, more := s.reconcileWrites(in, c, existing)
	return operation.Result{
		Writes: append(writes, store.Check(configurationKey(in.AccountID, in.TunnelID), store.And(
			store.Equal(store.At("operation"), step.ID), store.Equal(store.At("version"), c.Version))).Else(store.ErrStale)),
		Message: provisioning.doneMessage, Repeat: more,
	}, nil
}

// reconcileWrites returns the writes of one step, and reports whether another step is needed.
func (s *Service) reconcileWrites(
	in target, c configuration, existing map[string]serviceRecord,
) (writes []store.Write, more bool) {
	configured := make(map[string]bool, len(c.Services))
	for _, spec := range c.Services {
		configured[spec.Name] = true
		old := existing[spec.Name]
		isOwn := old.ID != "" && old.TunnelID == in.TunnelID
		if isOwn && equalSpec(old.Spec, spec) {
			continue
		}
		if len(writes) == s.maxPerStep {
			return writes, true
		}
		// If the existing service belongs to another tunnel, that tunnel has released the name
		// but has not deleted the service yet. The service is then replaced by a new one.
		after := serviceRecord{ID: c.Operation, TunnelID: in.TunnelID, Spec: spec, Version: 1}
		if isOwn {
			after.UnknownAttributes, after.ID, after.Version = old.UnknownAttributes, old.ID, old.Version+1
		}
		writes = append(writes, old.replaceWrite(in.AccountID, after))
	}
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		if configured[name] || existing[name].TunnelID != in.TunnelID {
			continue
		}
		if len(writes) == s.maxPerStep {
			return writes, true
		}
		writes = append(writes, existing[name].deleteWrite(in.AccountID))
	}
	return writes, false
}

// services returns an account's provisioned services by their names.
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
