package tunnels_test

import (
	"context"
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
		if err := w.parts.Table.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
	if rounds < 2+count/3 {
		t.Errorf("it took %d rounds", rounds)
	}
	w.wantThere(want...)
	got, err := w.Configured(t.Context(), acme, last.ID)
	if err != nil || len(got) != 1 || len(got[0].Configurations) != 1 || got[0].Configurations[0].Project != "blog" {
		t.Errorf("configured are %+v, %v", got, err)
	}
	// The tunnel is configured as it shows, so that putting that changes nothing.
	if again := w.configure(last.ID, got...); again.Status != "success" {
		t.Errorf("again it is %+v", again)
	}
}
