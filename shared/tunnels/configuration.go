package tunnels

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// Spec is a service as its tunnel's configuration says it.
type Spec struct {
	store.Rest

	Name string `dynamodbav:"name"`
	// Endpoint is its address in the owner's network, an http or https URL.
	Endpoint       string          `dynamodbav:"endpoint"`
	Configurations []Configuration `dynamodbav:"configurations"`
}

// Configuration is who may call a service: the environments of these kinds of a project,
// and nobody of those that no configuration names.
type Configuration struct {
	store.Rest

	Project      string             `dynamodbav:"project"`
	AccessibleBy []environment.Kind `dynamodbav:"accessibleBy"`
}

// resting gives services what an earlier release does not know of those of the same
// names that were there before.
func resting(before, services []Spec) []Spec {
	out := slices.Clone(services)
	for i := range out {
		at := slices.IndexFunc(before, func(s Spec) bool { return s.Name == out[i].Name })
		if at < 0 {
			continue
		}
		out[i].Rest = before[at].Rest
		out[i].Configurations = slices.Clone(out[i].Configurations)
		for j := range out[i].Configurations {
			its := &out[i].Configurations[j]
			if k := slices.IndexFunc(before[at].Configurations, func(c Configuration) bool { return c.Project == its.Project }); k >= 0 {
				its.Rest = before[at].Configurations[k].Rest
			}
		}
	}
	return out
}

// configuration is what was put last for a tunnel, and what its services are to be: absent
// before the first, and from the tunnel's deletion on.
type configuration struct {
	store.Rest

	ID        string `dynamodbav:"id"` // the tunnel's
	AccountID string `dynamodbav:"accountId"`
	// Operation is the one that provisions it. An earlier one changes nothing any more.
	Operation string `dynamodbav:"operation"`
	Services  []Spec `dynamodbav:"services"`
	Version   int64  `dynamodbav:"version"`
}

// Operation is how a durable operation goes (contract 3.11).
type Operation struct {
	ID     string
	Status operation.Status
	// Message is a sentence for people, Details says where one has stopped that failed.
	Message, Details string
}

// Configured gives the services of a tunnel as they were put last, none before that. A
// tunnel that is not there or not seen is NotFound.
func (s *Service) Configured(ctx context.Context, owner auth.Owner, id string) ([]Spec, error) {
	var c configuration
	_, err := s.find(ctx, owner, id, store.Want(configurationKey(owner.AccountID, id), &c))
	return c.Services, err
}

// Configure has a tunnel's services become those that are given, by a durable operation.
// Their names are the tunnel's when this returns, those of services that are left out are
// free, and whatever is wrong is told before anything is begun: Invalid faults for what is in
// itself, and for a project that is not there; the refusal of
// limits.TunnelServices; Conflict for names of other tunnels; NotFound for a tunnel that is
// not there or not seen.
//
// Services that are configured so already change nothing. While they are provisioned, the
// operation that does it is answered again.
func (s *Service) Configure(ctx context.Context, owner auth.Owner, id string, services []Spec) (Operation, error) {
	if err := check(services, s.relay()); err != nil {
		return Operation{}, err
	}
	begun := s.start(provisioning, owner, id)
	var out Operation
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		var before configuration
		var n register
		tally := counts.Open(s.parts).Of(owner.AccountID, limits.TunnelServices)
		r, err := s.find(ctx, owner, id,
			store.Want(configurationKey(owner.AccountID, id), &before), store.Want(registerKey(owner.AccountID), &n), tally.Wanted())
		if err != nil {
			return err
		}
		if err := s.projectsStand(ctx, owner.AccountID, services); err != nil {
			return err
		}
		if same(before.Services, services) {
			out, err = s.unchanged(ctx, r, before, begun)
			return err
		}
		claimed, err := n.claim(id, services)
		if err != nil {
			return err
		}
		if more := len(claimed) - len(n.Services); more > 0 {
			if err := tally.Check(int64(len(n.Services)), int64(more)); err != nil {
				return err
			}
		}
		out = Operation{ID: begun.ID, Status: operation.InProgress, Message: provisioning.under}
		writes := []store.Write{
			store.Put(configurationKey(owner.AccountID, id), configuration{
				Rest: before.Rest, ID: id, AccountID: owner.AccountID, Operation: begun.ID, Services: resting(before.Services, services), Version: before.Version + 1,
			}),
			operation.Begin(begun, s.now()), audit.Record(ctx, compare(before.Services, services).resource(r)),
		}
		if !maps.Equal(claimed, n.Services) {
			n.Services = claimed
			writes = append(writes, n.put(owner.AccountID))
		}
		return s.parts.Table.Commit(ctx, writes...)
	})
	return out, err
}

// unchanged answers and records a configuration that is the tunnel's already: by the operation
// that is at it, or by one for which there is nothing to do.
func (s *Service) unchanged(ctx context.Context, r record, c configuration, begun operation.Start) (Operation, error) {
	nothing := audit.Record(ctx, difference{}.resource(r))
	if c.Operation != "" {
		var its operation.Record
		look := store.Want(operation.Key(c.Operation), &its).Unchecked("it is answered as it is now, and polled from then on")
		if err := s.parts.Table.Load(ctx, look); err != nil {
			return Operation{}, fmt.Errorf("read a tunnel's operation: %w", err)
		}
		if look.Found && !its.Ended() {
			return provisioning.shown(its), s.parts.Table.Commit(ctx, nothing)
		}
	}
	return Operation{ID: begun.ID, Status: operation.Success, Message: provisioning.done},
		s.parts.Table.Commit(ctx, operation.Ended(begun, provisioning.done, s.now()), nothing)
}

// projectsStand refuses services for projects that are not there. The commit of the same
// decision holds only while they are.
func (s *Service) projectsStand(ctx context.Context, accountID string, services []Spec) error {
	var named []string
	for _, service := range services {
		for _, c := range service.Configurations {
			named = append(named, c.Project)
		}
	}
	slices.Sort(named)
	missing, err := s.parts.Table.ProjectsMissing(ctx, accountID, slices.Compact(named)...)
	if err != nil {
		return fmt.Errorf("read the projects of a tunnel's services: %w", err)
	}
	var wrong fault.Fields
	for i, service := range services {
		for j, c := range service.Configurations {
			if slices.Contains(missing, c.Project) {
				wrong.Add(fmt.Sprintf("services[%d].configurations[%d].project", i, j), "the account has no such project, or is deleting it: create it first, or leave it out")
			}
		}
	}
	return wrong.Err()
}

// claim gives the names of an account's services once those of a tunnel are these.
func (n register) claim(tunnelID string, services []Spec) (map[string]string, error) {
	out := n.without(tunnelID)
	var taken []string
	for _, s := range services {
		if out[s.Name] != "" {
			taken = append(taken, s.Name)
		}
		out[s.Name] = tunnelID
	}
	if len(taken) > 0 {
		const most = 5
		more := ""
		if len(taken) > most {
			taken, more = taken[:most], " and others"
		}
		return nil, fault.New(fault.Conflict, "Other tunnels of the account have services of these names: %s%s. A service's name is one tunnel's: choose another one, or take it out of the other tunnel's configuration.",
			strings.Join(taken, ", "), more)
	}
	return out, nil
}

// without gives the names of an account's services but those of a tunnel.
func (n register) without(tunnelID string) map[string]string {
	out := make(map[string]string, len(n.Services))
	for name, id := range n.Services {
		if id != tunnelID {
			out[name] = id
		}
	}
	return out
}

// difference is how many services a change makes, changes and removes.
type difference struct {
	Created int `json:"created"`
	Updated int `json:"updated"`
	Deleted int `json:"deleted"`
}

// compare tells two configurations apart, in whichever order their services stand.
func compare(before, after []Spec) (d difference) {
	left := map[string]Spec{}
	for _, s := range before {
		left[s.Name] = s
	}
	for _, s := range after {
		old, there := left[s.Name]
		delete(left, s.Name)
		switch {
		case !there:
			d.Created++
		case !equal(old, s):
			d.Updated++
		}
	}
	d.Deleted = len(left)
	return d
}

// same reports whether two configurations are shown alike.
func same(before, after []Spec) bool { return slices.EqualFunc(before, after, equal) }

func equal(a, b Spec) bool {
	return a.Name == b.Name && a.Endpoint == b.Endpoint && slices.EqualFunc(a.Configurations, b.Configurations, func(a, b Configuration) bool {
		return a.Project == b.Project && slices.Equal(a.AccessibleBy, b.AccessibleBy)
	})
}

// resource is the tunnel with what is changed of its services.
func (d difference) resource(r record) audit.Resource {
	out := r.resource()
	out.Metadata["created"] = strconv.Itoa(d.Created)
	out.Metadata["updated"] = strconv.Itoa(d.Updated)
	out.Metadata["deleted"] = strconv.Itoa(d.Deleted)
	return out
}
