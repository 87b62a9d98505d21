package tunnels_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// TestStepHoldsForTheConfigurationThatItIsOf: one that was decided before a project was forgotten does
// not bring it back.
func TestStepHoldsForTheConfigurationThatItIsOf(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	begun := w.configure(made.ID, service("stock", "http://a"))
	commits := 0
	p := w.parts
	p.Table = storetest.Over(t, &before{w.items, func() {
		if commits++; commits != 2 { // the first takes the operation, the second is the step's
			return
		}
		writes, _, err := w.Forget(t.Context(), "a-1", "shop")
		if err == nil {
			err = w.parts.Table.Commit(t.Context(), writes...)
		}
		if err != nil {
			t.Error(err)
		}
	}}, storetest.Pause(storetest.AtOnce), storetest.Clock(epoch))
	late := &world{T: t, Service: tunnels.Open(p), items: w.items, parts: p}
	if r := late.run(begun.ID); r.Ended() && r.Status != operation.Success {
		t.Errorf("it has come to %+v", r)
	}
	for _, text := range provisioned(w) {
		if strings.Contains(text, "shop") {
			t.Errorf("there is %s", text)
		}
	}
	if commits < 2 {
		t.Errorf("there were %d commits", commits)
	}
}

// before has something happen before each change.
type before struct {
	store.Backend
	do func()
}

func (b *before) Transact(ctx context.Context, token string, writes []store.Write) error {
	b.do()
	return b.Backend.Transact(ctx, token, writes)
}

func provisioned(w *world) []string {
	w.Helper()
	out, err := there(w.Context(), w.Service)
	if err != nil {
		w.Error(err)
	}
	return out
}

// TestDeletedProjectIsForgotten by all tunnels of its account, configured and provisioned, in as many
// transactions as it takes; others stay who may call.
func TestDeletedProjectIsForgotten(t *testing.T) {
	w := newWorld(t)
	w.Service = w.InPortions(3)
	both := func(name string) tunnels.Spec {
		s := service(name, "http://a")
		s.Configurations = append(s.Configurations, tunnels.Configuration{Project: "blog", AccessibleBy: environment.Kinds()})
		return s
	}
	const count = 12 // more than one transaction takes of configurations
	var want []string
	var last tunnels.Tunnel
	for n := range count {
		last = w.create(acme, fmt.Sprintf("tunnel-%02d", n))
		name := fmt.Sprintf("stock-%02d", n)
		w.run(w.configure(last.ID, both(name)).ID)
		want = append(want, fmt.Sprintf("%s of %s at http://a for blog", name, last.ID))
	}
	first := w.create(acme, "tunnel-of-two")
	w.run(w.configure(first.ID, both("stock-98"), tunnels.Spec{Name: "stock-99", Endpoint: "http://a"}).ID)
	want = append(want, "stock-98 of "+first.ID+" at http://a for blog", "stock-99 of "+first.ID+" at http://a for")
	rounds := 0
	for more := true; more; rounds++ {
		var writes []store.Write
		var err error
		if rounds > 2*count {
			t.Fatal("it has no end")
		}
		if writes, more, err = w.Forget(t.Context(), "a-1", "shop"); err != nil {
			t.Fatal(err)
		}
		if len(writes) > tunnels.MaxForgetting {
			t.Errorf("a transaction rewrites %d configurations", len(writes))
		}
		if err := w.parts.Table.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
	if rounds < 2+count/3 {
		t.Errorf("it took %d rounds", rounds)
	}
	w.wantThere(want...)
	d := tunnels.OpenDirectory(w.parts)
	for _, ref := range []string{"a-1/" + first.ID, "a-1/" + last.ID} {
		told, err := d.Services(t.Context(), ref)
		if err != nil || len(told) == 0 || strings.Contains(fmt.Sprint(told), "shop") {
			t.Errorf("agents are told %v, %v", told, err)
		}
	}
	got, err := w.Configured(t.Context(), acme, last.ID)
	if err != nil || len(got) != 1 || len(got[0].Configurations) != 1 || got[0].Configurations[0].Project != "blog" {
		t.Errorf("configured are %+v, %v", got, err)
	}
	// The tunnel is configured as it shows, so that putting that changes nothing.
	if again := w.configure(last.ID, got...); again.Status != "success" {
		t.Errorf("again it is %+v", again)
	}
}

// TestForgettingTakesNothingBack: what was put or provisioned since it was read stays, and is looked at again.
func TestForgettingTakesNothingBack(t *testing.T) {
	named := func(endpoint string, projects ...string) tunnels.Spec {
		s := tunnels.Spec{Name: "orders", Endpoint: endpoint}
		for _, p := range projects {
			s.Configurations = append(s.Configurations, tunnels.Configuration{Project: p, AccessibleBy: environment.Kinds()})
		}
		return s
	}
	for name, meanwhile := range map[string]func(w *world, id string){
		"another configuration":                       func(w *world, id string) { w.configure(id, named("http://b", "blog")) },
		"a configuration that is put and provisioned": func(w *world, id string) { w.run(w.configure(id, named("http://b", "blog")).ID) },
		"a deletion": func(w *world, id string) {
			gone, err := w.Delete(w.request(), acme, id)
			if err != nil {
				t.Fatal(err)
			}
			w.run(gone.ID)
		},
		"a tunnel that takes the name": func(w *world, id string) {
			gone, err := w.Delete(w.request(), acme, id)
			if err != nil {
				t.Fatal(err)
			}
			w.run(gone.ID)
			w.run(w.configure(w.create(acme, "next").ID, named("http://c", "blog")).ID)
		},
	} {
		for _, configured := range []bool{true, false} { // what is forgotten next: the configuration, or the service
			w := newWorld(t)
			made := w.create(acme, "office")
			w.run(w.configure(made.ID, named("http://a", "shop", "blog")).ID)
			forget := func() []store.Write {
				t.Helper()
				writes, _, err := w.Forget(t.Context(), "a-1", "shop")
				if err != nil || len(writes) == 0 {
					t.Fatalf("there are %d writes, %v", len(writes), err)
				}
				return writes
			}
			if !configured {
				if err := w.parts.Table.Commit(t.Context(), forget()...); err != nil {
					t.Fatal(err)
				}
			}
			writes := forget()
			meanwhile(w, made.ID)
			if name == "another configuration" && !configured {
				continue // which has not come to the service
			}
			before, err := there(t.Context(), w.Service)
			if err != nil {
				t.Fatal(err)
			}
			shown, _ := w.Configured(t.Context(), acme, made.ID)
			if err := w.parts.Table.Commit(t.Context(), writes...); !errors.Is(err, store.ErrStale) {
				t.Errorf("over %s it is answered %v", name, err)
			}
			w.wantThere(before...)
			if after, _ := w.Configured(t.Context(), acme, made.ID); fmt.Sprint(after) != fmt.Sprint(shown) {
				t.Errorf("after %s configured is %v, want %v", name, after, shown)
			}
		}
	}
}
