package tunnels_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// interruptedService returns the service over a table that calls f once, between the reads and the commit of the next
// change.
func (fx *fixture) interruptedService(f func()) *tunnels.Service {
	p := fx.parts
	p.Table = storetest.NewWithBackend(fx.T, &storetest.Interrupted{Backend: fx.items, BeforeCommit: f},
		storetest.Backoff(storetest.NoBackoff), storetest.Clock(epoch))
	return tunnels.Open(p)
}

// TestConcurrentClaimsOfNameHaveOneWinner checks that of two concurrent
// requests for a name, the request that commits later fails with Conflict.
func TestConcurrentClaimsOfNameHaveOneWinner(t *testing.T) {
	t.Run("service", func(t *testing.T) {
		fx := newFixture(t)
		first, second := fx.create(acme, "one"), fx.create(acme, "two")
		var started tunnels.Operation
		_, err := fx.interruptedService(func() { started = fx.configure(second.ID, service("orders", "http://b")) }).
			Configure(fx.requestContext(), acme, first.ID,
				[]tunnels.Spec{service("orders", "http://a"), service("stock", "http://a")})
		faulttest.Check(t, err, fault.Conflict, "orders")
		fx.runOperation(started.ID)
		fx.checkProvisioned("orders of " + second.ID + " at http://b for shop")
		fx.checkClaims(first.ID)
		fx.checkClaims(second.ID, "orders")
	})
	t.Run("tunnel", func(t *testing.T) {
		fx := newFixture(t)
		_, err := fx.interruptedService(func() { fx.create(acme, "office") }).Create(fx.requestContext(), acme, "office")
		faulttest.Check(t, err, fault.Conflict, "name")
		if all, err := fx.List(t.Context(), acme); err != nil || len(all) != 1 {
			t.Errorf("List() = %+v, %v, want 1 tunnel and no error", all, err)
		}
	})
}

// TestChangesOfConcurrentlyDeletedTunnelFail checks that each kind of change fails with
// NotFound if the tunnel is deleted before its commit, and that no services or names remain.
func TestChangesOfConcurrentlyDeletedTunnelFail(t *testing.T) {
	for name, change := range map[string]func(*fixture, *tunnels.Service, string) error{
		"a configuration": func(fx *fixture, s *tunnels.Service, id string) error {
			_, err := s.Configure(fx.requestContext(), acme, id, []tunnels.Spec{service("new", "http://a")})
			return err
		},
		"the same configuration": func(fx *fixture, s *tunnels.Service, id string) error {
			_, err := s.Configure(fx.requestContext(), acme, id, []tunnels.Spec{service("orders", "http://a")})
			return err
		},
		"a rotation": func(fx *fixture, s *tunnels.Service, id string) error {
			_, err := s.Rotate(fx.requestContext(), acme, id)
			return err
		},
		"a deletion": func(fx *fixture, s *tunnels.Service, id string) error {
			_, err := s.Delete(fx.requestContext(), acme, id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			created := fx.create(acme, "office")
			fx.runOperation(fx.configure(created.ID, service("orders", "http://a")).ID)
			var teardown tunnels.Operation
			err := change(fx, fx.interruptedService(func() {
				var err error
				if teardown, err = fx.Delete(fx.requestContext(), acme, created.ID); err != nil {
					t.Error(err)
				}
			}), created.ID)
			faulttest.Check(t, err, fault.NotFound, "tunnel does not exist")
			fx.runOperation(teardown.ID)
			fx.checkProvisioned()
			fx.checkClaims(created.ID)
		})
	}
}

// TestDeletionIncludesConcurrentConfiguration checks that a deletion also removes
// the services of a configuration that is stored before the deletion commits.
func TestDeletionIncludesConcurrentConfiguration(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	var configureOp tunnels.Operation
	teardown, err := fx.interruptedService(func() {
		configureOp = fx.configure(created.ID, service("orders", "http://a"))
		fx.runOperation(configureOp.ID)
	}).Delete(fx.requestContext(), acme, created.ID)
	if err != nil {
		t.Fatal(err)
	}
	if configureOp.ID == "" {
		t.Fatal("no configuration is stored before the commit of Delete(), want one")
	}
	fx.checkClaims(created.ID)
	fx.runOperation(teardown.ID)
	fx.checkProvisioned()
}

// TestLaterOfConcurrentConfigurationsWins checks that the configuration that commits
// last replaces the other one, and that only its operation provisions services.
func TestLaterOfConcurrentConfigurationsWins(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	var first tunnels.Operation
	second, err := fx.interruptedService(func() { first = fx.configure(created.ID, service("early", "http://a")) }).
		Configure(fx.requestContext(), acme, created.ID, []tunnels.Spec{service("late", "http://a")})
	if err != nil {
		t.Fatal(err)
	}
	fx.runOperation(second.ID)
	fx.runOperation(first.ID)
	fx.checkProvisioned("late of " + created.ID + " at http://a for shop")
	fx.checkClaims(created.ID, "late")
}

// TestConcurrentlyDeletedProjectIsRefused marks a project as being
// deleted between the check of the project and the commit of Configure.
func TestConcurrentlyDeletedProjectIsRefused(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	_, err := fx.interruptedService(func() {
		deleting := store.Update(store.ProjectKey("a-1", "shop"), store.Set(store.At("deletedOn"), storetest.Epoch))
		if err := fx.parts.Table.Commit(t.Context(), deleting); err != nil {
			t.Error(err)
		}
	}).Configure(fx.requestContext(), acme, created.ID, []tunnels.Spec{service("orders", "http://a")})
	faulttest.Check(t, err, fault.Invalid, "no such project")
}
