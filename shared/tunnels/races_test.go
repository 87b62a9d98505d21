package tunnels_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// meanwhile gives the service over a table in which something happens between what the next
// operation reads and what it commits.
func (w *world) meanwhile(f func()) *tunnels.Service {
	p := w.parts
	p.Table = storetest.Over(w.T, &storetest.Interrupted{Backend: w.items, First: f}, storetest.Pause(storetest.AtOnce), storetest.Clock(epoch))
	return tunnels.Open(p)
}

// TestNameThatTwoAskForIsOnes: the one that comes second is told.
func TestNameThatTwoAskForIsOnes(t *testing.T) {
	t.Run("of a service", func(t *testing.T) {
		w := newWorld(t)
		one, two := w.create(acme, "one"), w.create(acme, "two")
		var begun tunnels.Operation
		_, err := w.meanwhile(func() { begun = w.configure(two.ID, service("orders", "http://b")) }).
			Configure(w.request(), acme, one.ID, []tunnels.Spec{service("orders", "http://a"), service("stock", "http://a")})
		faulttest.Want(t, err, fault.Conflict, "orders")
		w.run(begun.ID)
		w.wantThere("orders of " + two.ID + " at http://b for shop")
		w.wantClaims(one.ID)
		w.wantClaims(two.ID, "orders")
	})
	t.Run("of a tunnel", func(t *testing.T) {
		w := newWorld(t)
		_, err := w.meanwhile(func() { w.create(acme, "office") }).Create(w.request(), acme, "office")
		faulttest.Want(t, err, fault.Conflict, "name")
		if all, err := w.List(t.Context(), acme); err != nil || len(all) != 1 {
			t.Errorf("there are %+v, %v", all, err)
		}
	})
}

// TestChangesOfATunnelThatIsDeletedMeanwhile come too late, whichever they are, and leave nothing.
func TestChangesOfATunnelThatIsDeletedMeanwhile(t *testing.T) {
	for name, change := range map[string]func(*world, *tunnels.Service, string) error{
		"a configuration": func(w *world, s *tunnels.Service, id string) error {
			_, err := s.Configure(w.request(), acme, id, []tunnels.Spec{service("new", "http://a")})
			return err
		},
		"the same configuration": func(w *world, s *tunnels.Service, id string) error {
			_, err := s.Configure(w.request(), acme, id, []tunnels.Spec{service("orders", "http://a")})
			return err
		},
		"a rotation": func(w *world, s *tunnels.Service, id string) error {
			_, err := s.Rotate(w.request(), acme, id)
			return err
		},
		"a deletion": func(w *world, s *tunnels.Service, id string) error {
			_, err := s.Delete(w.request(), acme, id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			made := w.create(acme, "office")
			w.run(w.configure(made.ID, service("orders", "http://a")).ID)
			var gone tunnels.Operation
			err := change(w, w.meanwhile(func() {
				var err error
				if gone, err = w.Delete(w.request(), acme, made.ID); err != nil {
					t.Error(err)
				}
			}), made.ID)
			faulttest.Want(t, err, fault.NotFound, "tunnel does not exist")
			w.run(gone.ID)
			w.wantThere()
			w.wantClaims(made.ID)
		})
	}
}

// TestDeletionTakesWhatWasPutMeanwhile along.
func TestDeletionTakesWhatWasPutMeanwhile(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	var put tunnels.Operation
	gone, err := w.meanwhile(func() {
		put = w.configure(made.ID, service("orders", "http://a"))
		w.run(put.ID)
	}).Delete(w.request(), acme, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.wantClaims(made.ID)
	w.run(gone.ID)
	w.wantThere()
}

// TestConfigurationsOneAfterTheOther: of two at once the one that was put last counts, and its operation
// alone provisions.
func TestConfigurationsOneAfterTheOther(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	var early tunnels.Operation
	late, err := w.meanwhile(func() { early = w.configure(made.ID, service("early", "http://a")) }).
		Configure(w.request(), acme, made.ID, []tunnels.Spec{service("late", "http://a")})
	if err != nil {
		t.Fatal(err)
	}
	w.run(late.ID)
	w.run(early.ID)
	w.wantThere("late of " + made.ID + " at http://a for shop")
	w.wantClaims(made.ID, "late")
}

// TestProjectThatIsDeletedMeanwhileIsNotNamed by what is put after it was looked for.
func TestProjectThatIsDeletedMeanwhileIsNotNamed(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	_, err := w.meanwhile(func() {
		deleting := store.Update(store.ProjectKey("a-1", "shop"), store.Set(store.At("deletedOn"), storetest.Epoch))
		if err := w.parts.Table.Commit(t.Context(), deleting); err != nil {
			t.Error(err)
		}
	}).Configure(w.request(), acme, made.ID, []tunnels.Spec{service("orders", "http://a")})
	faulttest.Want(t, err, fault.Invalid, "no such project")
}
