package tunnels_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/operationtest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// runs is how many seeds `make test` plays of each.
const runs = 50

// act is what a simulation is of: requests of a service, which go by the context of each.
type act struct {
	*tunnels.Service
	w        *operationtest.Worker
	requests int
}

func (a *act) request(ctx context.Context) context.Context {
	a.requests++
	return request(ctx, fmt.Sprint("request-", a.requests))
}

// run carries an operation out, before anything fails.
func (a *act) run(ctx context.Context, o tunnels.Operation, err error) error {
	if err == nil {
		_, err = a.w.Engine.Run(ctx, o.ID)
	}
	return err
}

// simulate plays requests whose operations may end in any way, each in steps of two services. What a
// service is provisioned as has to be one of those that are allowed between any two calls.
func simulate(t *testing.T, allowed []string, arrange, request func(ctx context.Context, a *act) error) {
	t.Helper()
	t.Parallel()
	operationtest.Simulate(t, func() operationtest.Scenario {
		source := ids.NewSource(storetest.Random(t), epoch)
		of := func(w *operationtest.Worker) *act {
			return &act{Service: tunnels.Open(partsOf(w.Table, source, w.Now)).InPortions(2), w: w}
		}
		s := operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition { return of(w).Definitions() },
			Arrange: func(ctx context.Context, w *operationtest.Worker) error {
				if err := w.Table.Commit(ctx, projects()...); err != nil {
					return err
				}
				return arrange(ctx, of(w))
			},
			Always: func(ctx context.Context, table *store.Table) error {
				found, err := tunnels.Open(partsOf(table, source, time.Now)).Provisioned(ctx, "a-1")
				for name, r := range found {
					if text := name + " at " + r.Endpoint; !slices.Contains(allowed, text) {
						return fmt.Errorf("there is %s", text)
					}
				}
				return err
			},
			Ignore: []string{"createdOn", "updatedOn", "token", "sealed", "timestamp", "ttl"},
		}
		if request != nil {
			s.Act = func(ctx context.Context, w *operationtest.Worker) error {
				a := of(w)
				a.requests = 100 // others than those before
				return request(ctx, a)
			}
		}
		return s
	}, runs)
}

// tunnelNamed is the id of an account's tunnel.
func (a *act) tunnelNamed(ctx context.Context, name string) (string, error) {
	all, err := a.List(ctx, acme)
	for _, t := range all {
		if t.Name == name {
			return t.ID, err
		}
	}
	return "", errors.Join(err, fmt.Errorf("there is no tunnel %s", name))
}

// put configures a tunnel of the name, which is made if it is not there.
func (a *act) put(ctx context.Context, name string, services ...tunnels.Spec) (tunnels.Operation, error) {
	id, err := a.tunnelNamed(ctx, name)
	if err != nil {
		made, err := a.Create(a.request(ctx), acme, name)
		if err != nil {
			return tunnels.Operation{}, err
		}
		id = made.ID
	}
	return a.Configure(a.request(ctx), acme, id, services)
}

func TestProvisioningSurvivesEverything(t *testing.T) {
	before := []tunnels.Spec{service("one", "http://a"), service("two", "http://a"), service("three", "http://a"), service("four", "http://a"), service("five", "http://a")}
	after := []tunnels.Spec{service("one", "http://a"), service("two", "http://b"), service("six", "http://b"), service("seven", "http://b"), service("three", "http://b")}
	allowed := []string{"two at http://b", "six at http://b", "seven at http://b", "three at http://b"}
	for _, s := range before {
		allowed = append(allowed, s.Name+" at "+s.Endpoint)
	}
	simulate(t, allowed, func(ctx context.Context, a *act) error {
		o, err := a.put(ctx, "office", before...)
		return a.run(ctx, o, err)
	}, func(ctx context.Context, a *act) error {
		id, err := a.tunnelNamed(ctx, "office")
		if err == nil {
			_, err = a.Configure(a.request(ctx), acme, id, after)
		}
		return err
	})
}

func TestTeardownSurvivesEverything(t *testing.T) {
	simulate(t, []string{"one at http://a", "two at http://a", "three at http://a", "other at http://c"}, func(ctx context.Context, a *act) error {
		o, err := a.put(ctx, "office", service("one", "http://a"), service("two", "http://a"), service("three", "http://a"))
		if err := a.run(ctx, o, err); err != nil {
			return err
		}
		o, err = a.put(ctx, "other", service("other", "http://c"))
		return a.run(ctx, o, err)
	}, func(ctx context.Context, a *act) error {
		id, err := a.tunnelNamed(ctx, "office")
		if err == nil {
			_, err = a.Delete(a.request(ctx), acme, id)
		}
		return err
	})
}

// TestNamesChangeHandsHoweverOperationsEnd has the operations of four tunnels at once: one has left names, one
// is deleted, one is configured twice, and one takes what they have left.
func TestNamesChangeHandsHoweverOperationsEnd(t *testing.T) {
	allowed := []string{"other at http://c"}
	for _, name := range []string{"one", "two", "three", "four", "five"} {
		allowed = append(allowed, name+" at http://a", name+" at http://b")
	}
	simulate(t, allowed, func(ctx context.Context, a *act) error {
		o, err := a.put(ctx, "leaving", service("one", "http://a"), service("two", "http://a"), service("three", "http://a"))
		if err := a.run(ctx, o, err); err != nil {
			return err
		}
		o, err = a.put(ctx, "deleted", service("four", "http://a"), service("five", "http://a"))
		if err := a.run(ctx, o, err); err != nil {
			return err
		}
		id, err := a.tunnelNamed(ctx, "deleted")
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
			{"taking", []tunnels.Spec{service("one", "http://b"), service("two", "http://b"), service("four", "http://b"), service("five", "http://b")}},
		} {
			if _, err := a.put(ctx, p.tunnel, p.services...); err != nil {
				return err
			}
		}
		return nil
	}, nil)
}
