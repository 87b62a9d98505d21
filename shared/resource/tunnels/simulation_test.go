package tunnels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// runs is the number of random runs of each simulation in `make test`.
const runs = 50

// simulatedService is the service that a simulation calls. Each request has a context with a request id of its own.
type simulatedService struct {
	*tunnels.Service
	worker   *operationtest.Worker
	requests int
}

func (s *simulatedService) request(ctx context.Context) context.Context {
	s.requests++
	return request(ctx, fmt.Sprint("request-", s.requests))
}

// runOperation runs an operation to its end, during the setup of a
// simulation, when nothing fails yet. It returns err if err is not nil.
func (s *simulatedService) runOperation(ctx context.Context, o tunnels.Operation, err error) error {
	if err == nil {
		_, err = s.worker.Engine.Run(ctx, o.ID)
	}
	return err
}

// simulate runs arrange without failures. Then it makes request, unless it is nil, and runs the operations that have
// not ended. They may be interrupted at any point, and change two services per step. Between any two calls, each
// provisioned service must be in allowed, as "NAME at ENDPOINT". In the end, the table must be the same as without
// failures.
func simulate(t *testing.T, allowed []string, arrange, request func(ctx context.Context, a *simulatedService) error) {
	t.Helper()
	t.Parallel()
	operationtest.Simulate(t, func() operationtest.Scenario {
		source := ids.NewSource(storetest.Random(t), epoch)
		serviceFor := func(w *operationtest.Worker) *simulatedService {
			return &simulatedService{Service: tunnels.Open(partsOf(w.Table, source, w.Now)).LimitPerStep(2), worker: w}
		}
		s := operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition { return serviceFor(w).Definitions() },
			Setup: func(ctx context.Context, w *operationtest.Worker) error {
				if err := w.Table.Commit(ctx, projects()...); err != nil {
					return err
				}
				return arrange(ctx, serviceFor(w))
			},
			Invariant: func(ctx context.Context, table *store.Table) error {
				found, err := tunnels.Open(partsOf(table, source, time.Now)).Provisioned(ctx, "a-1")
				for name, r := range found {
					if text := name + " at " + r.Endpoint; !slices.Contains(allowed, text) {
						return fmt.Errorf("provisioned service = %s, want one of %q", text, allowed)
					}
				}
				return err
			},
			Ignore: []string{"createdOn", "updatedOn", "token", "sealed", "timestamp", "ttl"},
		}
		if request != nil {
			s.Request = func(ctx context.Context, w *operationtest.Worker) error {
				a := serviceFor(w)
				a.requests = 100 // so that the request ids differ from those of arrange
				return request(ctx, a)
			}
		}
		return s
	}, runs)
}

// tunnelID returns the id of the account's tunnel with a name.
func (s *simulatedService) tunnelID(ctx context.Context, name string) (string, error) {
	all, err := s.List(ctx, acme)
	for _, t := range all {
		if t.Name == name {
			return t.ID, err
		}
	}
	return "", errors.Join(err, fmt.Errorf("there is no tunnel %s", name))
}

// configureNamed configures the tunnel with the name. It creates the tunnel if it does not exist.
func (s *simulatedService) configureNamed(
	ctx context.Context, name string, services ...tunnels.Spec,
) (tunnels.Operation, error) {
	id, err := s.tunnelID(ctx, name)
	if err != nil {
		created, err := s.Create(s.request(ctx), acme, name)
		if err != nil {
			return tunnels.Operation{}, err
		}
		id = created.ID
	}
	return s.Configure(s.request(ctx), acme, id, services)
}

func TestProvisioningSurvivesFailures(t *testing.T) {
	before := []tunnels.Spec{
		service("one", "http://a"), service("two", "http://a"), service("three", "http://a"),
		service("four", "http://a"), service("five", "http://a"),
	}
	after := []tunnels.Spec{
		service("one", "http://a"), service("two", "http://b"), service("six", "http://b"),
		service("seven", "http://b"), service("three", "http://b"),
	}
	allowed := []string{"two at http://b", "six at http://b", "seven at http://b", "three at http://b"}
	for _, s := range before {
		allowed = append(allowed, s.Name+" at "+s.Endpoint)
	}
	simulate(t, allowed, func(ctx context.Context, a *simulatedService) error {
		o, err := a.configureNamed(ctx, "office", before...)
		return a.runOperation(ctx, o, err)
	}, func(ctx context.Context, a *simulatedService) error {
		id, err := a.tunnelID(ctx, "office")
		if err == nil {
			_, err = a.Configure(a.request(ctx), acme, id, after)
		}
		return err
	})
}

func TestTeardownSurvivesFailures(t *testing.T) {
	simulate(t, []string{"one at http://a", "two at http://a", "three at http://a", "other at http://c"},
		func(ctx context.Context, a *simulatedService) error {
			o, err := a.configureNamed(ctx, "office", service("one", "http://a"), service("two", "http://a"),
				service("three", "http://a"))
			if err := a.runOperation(ctx, o, err); err != nil {
				return err
			}
			o, err = a.configureNamed(ctx, "other", service("other", "http://c"))
			return a.runOperation(ctx, o, err)
		}, func(ctx context.Context, a *simulatedService) error {
			id, err := a.tunnelID(ctx, "office")
			if err == nil {
				_, err = a.Delete(a.request(ctx), acme, id)
			}
			return err
		})
}

// TestNamesMoveBetweenTunnelsDespiteFailures runs the operations of four tunnels concurrently. The first tunnel has
// released names, the second is deleted, the third is configured twice, and the fourth takes the released names.
func TestNamesMoveBetweenTunnelsDespiteFailures(t *testing.T) {
	allowed := []string{"other at http://c"}
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		allowed = append(allowed, name+" at http://a", name+" at http://b")
	}
	simulate(t, allowed, func(ctx context.Context, a *simulatedService) error {
		o, err := a.configureNamed(ctx, "leaving", service("one", "http://a"), service("two", "http://a"),
			service("three", "http://a"))
		if err := a.runOperation(ctx, o, err); err != nil {
			return err
		}
		o, err = a.configureNamed(ctx, "deleted", service("four", "http://a"), service("five", "http://a"))
		if err := a.runOperation(ctx, o, err); err != nil {
			return err
		}
		id, err := a.tunnelID(ctx, "deleted")
		if err == nil {
			_, err = a.Delete(a.request(ctx), acme, id)
		}
		if err != nil {
			return err
		}
		for _, p := range []struct {
			tunnel   string
			services []tunnels.Spec
		}{
			{"leaving", []tunnels.Spec{service("three", "http://b")}},
			{"again", []tunnels.Spec{service("other", "http://a")}},
			{"again", []tunnels.Spec{service("other", "http://c")}},
			{"taking", []tunnels.Spec{
				service("one", "http://b"), service("two", "http://b"), service("four", "http://b"),
				service("five", "http://b"),
			}},
		} {
			if _, err := a.configureNamed(ctx, p.tunnel, p.services...); err != nil {
				return err
			}
		}
		return nil
	}, nil)
}
