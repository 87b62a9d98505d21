package tunnels

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

// Spec is a service in the configuration of its tunnel.
type Spec struct {
	store.UnknownAttributes

	Name string `dynamodbav:"name"`
	// Endpoint is the address in the owner's network, an http or https URL.
	Endpoint       string          `dynamodbav:"endpoint"`
	Configurations []Configuration `dynamodbav:"configurations"`
}

// Configuration allows the environments of a project to call a service if their kind is in AccessibleBy.
// Environments that no configuration of the service allows cannot call it.
type Configuration struct {
	store.UnknownAttributes

	Project      string             `dynamodbav:"project"`
	AccessibleBy []environment.Kind `dynamodbav:"accessibleBy"`
}

// keepUnknownAttributes returns the services with the attributes that this release does
// not know, copied from the earlier services with the same names.
func keepUnknownAttributes(before, services []Spec) []Spec {
	out := slices.Clone(services)
	for i := range out {
		prior := slices.IndexFunc(before, func(s Spec) bool { return s.Name == out[i].Name })
		if prior < 0 {
			continue
		}
		out[i].UnknownAttributes = before[prior].UnknownAttributes
		out[i].Configurations = slices.Clone(out[i].Configurations)
		for j := range out[i].Configurations {
			conf := &out[i].Configurations[j]
			if k := slices.IndexFunc(before[prior].Configurations, func(c Configuration) bool {
				return c.Project == conf.Project
			}); k >= 0 {
				conf.UnknownAttributes = before[prior].Configurations[k].UnknownAttributes
			}
		}
	}
	return out
}

// configurationPrefix is the key prefix of the latest configuration of each tunnel (configuration). The
// configurations of an account are one partition, because the deletion of a project reads all of them.
const configurationPrefix store.KeyPrefix = "tunnel-configuration"

// configuration is the record of the latest configuration of a tunnel: the target state of its services. It is absent
// before the first configuration and after the deletion of the tunnel. A Configuration is only a part of one service in
// it.
type configuration struct {
	store.UnknownAttributes

	ID        string `dynamodbav:"id"` // of the tunnel
	AccountID string `dynamodbav:"accountId"`
	// Operation is the id of the operation that provisions this configuration.
	// The operations of earlier configurations have no further effect.
	Operation string `dynamodbav:"operation"`
	Services  []Spec `dynamodbav:"services"`
	Version   int64  `dynamodbav:"version"`
}

func configurationPartition(accountID string) string { return configurationPrefix.Partition(accountID) }

func configurationKey(accountID, tunnelID string) store.Key {
	return store.KeyIn(configurationPartition(accountID), tunnelID)
}

// Operation is the status of a durable operation (contract 3.11).
type Operation struct {
	ID     string
	Status operation.Status
	// Message is a sentence for users. Details describes where a failed operation has stopped.
	Message, Details string
}

// ConfiguredServices returns the services in the latest configuration of a tunnel. A tunnel without
// a configuration has no services. It returns NotFound if the tunnel is missing or invisible.
func (s *Service) ConfiguredServices(ctx context.Context, owner auth.Owner, id string) ([]Spec, error) {
	var c configuration
	_, err := s.find(ctx, owner, id, store.Get(configurationKey(owner.AccountID, id), &c))
	return c.Services, err
}

// Configure replaces the services of a tunnel by a durable operation. When Configure returns, the names of the new
// services belong to the tunnel, and the names of removed services are free. After an error, no operation begins.
// Configure returns Invalid for invalid services and for a missing project, and Conflict for names of other tunnels'
// services. It returns NotFound for a tunnel that is missing or invisible, and Forbidden beyond the limit
// limits.TunnelServices.
//
// If the tunnel already has exactly these services, nothing changes. Configure then returns the operation
// that provisions them if it is in progress, and otherwise a new operation that has already succeeded.
func (s *Service) Configure(ctx context.Context, owner auth.Owner, id string, services []Spec) (Operation, error) {
	if err := checkServices(services, s.relay()); err != nil {
		return Operation{}, err
	}
	start := s.newStart(provisioning, owner, id)
	var out Operation
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		var before configuration
		var n register
		counter := counts.Open(s.parts).NewCounter(owner.AccountID, limits.TunnelServices)
		r, err := s.find(ctx, owner, id,
			store.Get(configurationKey(owner.AccountID, id), &before), store.Get(registerKey(owner.AccountID), &n),
			counter.ReadRequest())
		if err != nil {
			return err
		}
		if err := s.checkProjects(ctx, owner.AccountID, services); err != nil {
			return err
		}
		if equalServices(before.Services, services) {
			out, err = s.unchangedOperation(ctx, r, before, start)
			return err
		}
		names, err := n.claim(id, services)
		if err != nil {
			return err
		}
		if added := len(names) - len(n.Services); added > 0 {
			if err := counter.Check(int64(len(n.Services)), int64(added)); err != nil {
				return err
			}
		}
		out = Operation{ID: start.ID, Status: operation.InProgress, Message: provisioning.inProgressMessage}
		writes := []store.Write{
			store.Put(configurationKey(owner.AccountID, id), configuration{
				UnknownAttributes: before.UnknownAttributes, ID: id, AccountID: owner.AccountID, Operation: start.ID,
				Services: keepUnknownAttributes(before.Services, services), Version: before.Version + 1,
			}),
			operation.Create(start, s.now()), audit.Record(ctx, compareServices(before.Services, services).resource(r)),
		}
		if !maps.Equal(names, n.Services) {
			n.Services = names
			writes = append(writes, n.putWrite(owner.AccountID))
		}
		return s.parts.Table.Commit(ctx, writes...)
	})
	return out, err
}

// unchangedOperation returns the operation for a configuration that the tunnel already has: the operation in
// progress, or a new operation that has already succeeded. It also writes the audit record of the request.
func (s *Service) unchangedOperation(
	ctx context.Context, r record, c configuration, start operation.Start,
) (Operation, error) {
	auditWrite := audit.Record(ctx, difference{}.resource(r))
	if c.Operation != "" {
		var current operation.Record
		get := store.Get(operation.Key(c.Operation),
			&current).Unchecked("the response has the operation's current status, which clients poll")
		if err := s.parts.Table.Load(ctx, get); err != nil {
			return Operation{}, fmt.Errorf("read a tunnel's operation: %w", err)
		}
		if get.Found && !current.Ended() {
			return provisioning.toOperation(current), s.parts.Table.Commit(ctx, auditWrite)
		}
	}
	return Operation{ID: start.ID, Status: operation.Success, Message: provisioning.doneMessage},
		s.parts.Table.Commit(ctx, operation.CreateEnded(start, provisioning.doneMessage, s.now()), auditWrite)
}

// checkProjects returns an Invalid fault for services whose projects do not exist.
// The commit of the same transaction requires that the projects still exist.
func (s *Service) checkProjects(ctx context.Context, accountID string, services []Spec) error {
	var projects []string
	for _, service := range services {
		for _, c := range service.Configurations {
			projects = append(projects, c.Project)
		}
	}
	slices.Sort(projects)
	missing, err := s.parts.Table.MissingProjects(ctx, accountID, slices.Compact(projects)...)
	if err != nil {
		return fmt.Errorf("read the projects of a tunnel's services: %w", err)
	}
	var invalid fault.Fields
	for i, service := range services {
		for j, c := range service.Configurations {
			if slices.Contains(missing, c.Project) {
				invalid.Add(fmt.Sprintf("services[%d].configurations[%d].project", i, j),
					"the account has no such project, or is deleting it: create it first, or leave it out")
			}
		}
	}
	return invalid.Err()
}

// claim returns the names of an account's services as they are after the tunnel's services are replaced by
// services, with the ids of their tunnels. It returns a Conflict fault for names that belong to other tunnels.
func (r register) claim(tunnelID string, services []Spec) (map[string]string, error) {
	out := r.servicesExcept(tunnelID)
	var inUse []string
	for _, s := range services {
		if out[s.Name] != "" {
			inUse = append(inUse, s.Name)
		}
		out[s.Name] = tunnelID
	}
	if len(inUse) > 0 {
		const maxListed = 5
		suffix := ""
		if len(inUse) > maxListed {
			inUse, suffix = inUse[:maxListed], " and others"
		}
		return nil, fault.New(fault.Conflict, "Other tunnels of the account have services of these names: %s%s. A "+
			"service's name is one tunnel's: choose another one, or take it out of the other tunnel's configuration.",
			strings.Join(inUse, ", "), suffix)
	}
	return out, nil
}

// servicesExcept returns the names of an account's services without the services of a tunnel.
func (r register) servicesExcept(tunnelID string) map[string]string {
	out := make(map[string]string, len(r.Services))
	for name, id := range r.Services {
		if id != tunnelID {
			out[name] = id
		}
	}
	return out
}

// difference contains the numbers of services that a change creates, updates and deletes.
type difference struct {
	Created int `json:"created"`
	Updated int `json:"updated"`
	Deleted int `json:"deleted"`
}

// compareServices returns the difference between two configurations, independent of the order of their services.
func compareServices(before, after []Spec) (d difference) {
	remaining := map[string]Spec{}
	for _, s := range before {
		remaining[s.Name] = s
	}
	for _, s := range after {
		previous, found := remaining[s.Name]
		delete(remaining, s.Name)
		switch {
		case !found:
			d.Created++
		case !equalSpec(previous, s):
			d.Updated++
		}
	}
	d.Deleted = len(remaining)
	return d
}

// equalServices reports whether two configurations have equal services in the
// same order. Attributes that this release does not know are not compared.
func equalServices(before, after []Spec) bool { return slices.EqualFunc(before, after, equalSpec) }

func equalSpec(a, b Spec) bool {
	return a.Name == b.Name && a.Endpoint == b.Endpoint && slices.EqualFunc(a.Configurations, b.Configurations,
		func(a, b Configuration) bool {
			return a.Project == b.Project && slices.Equal(a.AccessibleBy, b.AccessibleBy)
		})
}

// resource returns the tunnel's audit resource with the numbers of changed services.
func (d difference) resource(r record) audit.Resource {
	out := r.resource()
	out.Metadata["created"] = strconv.Itoa(d.Created)
	out.Metadata["updated"] = strconv.Itoa(d.Updated)
	out.Metadata["deleted"] = strconv.Itoa(d.Deleted)
	return out
}
