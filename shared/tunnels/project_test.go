package tunnels_test

import (
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/tunnels"
)

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
