package tunnels_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// TestStepRequiresItsConfiguration removes a project between the read and the commit
// of a provisioning step. The step must not write a service that allows the project.
func TestStepRequiresItsConfiguration(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	started := fx.configure(created.ID, service("stock", "http://a"))
	commits := 0
	p := fx.parts
	p.Table = storetest.NewWithBackend(t, &interruptedBackend{fx.items, func() {
		if commits++; commits != 2 { // the first commit locks the operation, the second is the step's
			return
		}
		writes, _, err := fx.RemoveProject(t.Context(), "a-1", "shop")
		if err == nil {
			err = fx.parts.Table.Commit(t.Context(), writes...)
		}
		if err != nil {
			t.Error(err)
		}
	}}, storetest.Backoff(storetest.NoBackoff), storetest.Clock(epoch))
	interrupted := &fixture{T: t, Service: tunnels.Open(p), items: fx.items, parts: p}
	if r := interrupted.runOperation(started.ID); r.Ended() && r.Status != operation.Success {
		t.Errorf("interrupted operation ends as %+v, want %s", r, operation.Success)
	}
	for _, text := range mustListProvisioned(fx) {
		if strings.Contains(text, "shop") {
			t.Errorf("provisioned service = %s, want none of shop", text)
		}
	}
	if commits < 2 {
		t.Errorf("%d commits, want at least 2", commits)
	}
}

// interruptedBackend calls beforeCommit before each transaction.
type interruptedBackend struct {
	store.Backend
	beforeCommit func()
}

func (b *interruptedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	b.beforeCommit()
	return b.Backend.Transact(ctx, token, writes)
}

func mustListProvisioned(fx *fixture) []string {
	fx.Helper()
	out, err := listProvisioned(fx.Context(), fx.Service)
	if err != nil {
		fx.Fatal(err)
	}
	return out
}

// TestDeletedProjectIsRemovedFromTunnels checks that RemoveProject removes a project from all configurations
// and services of the account, in several transactions. The permissions of other projects stay.
func TestDeletedProjectIsRemovedFromTunnels(t *testing.T) {
	fx := newFixture(t)
	fx.Service = fx.LimitPerStep(3)
	sharedService := func(name string) tunnels.Spec {
		s := service(name, "http://a")
		s.Configurations = append(s.Configurations, tunnels.Configuration{Project: "blog", AccessibleBy: environment.Kinds()})
		return s
	}
	const count = 12 // more configurations than one transaction rewrites
	var want []string
	var last tunnels.Tunnel
	for n := range count {
		last = fx.create(acme, fmt.Sprintf("tunnel-%02d", n))
		name := fmt.Sprintf("stock-%02d", n)
		fx.runOperation(fx.configure(last.ID, sharedService(name)).ID)
		want = append(want, fmt.Sprintf("%s of %s at http://a for blog", name, last.ID))
	}
	withTwo := fx.create(acme, "tunnel-of-two")
	fx.runOperation(fx.configure(withTwo.ID, sharedService("stock-98"),
		tunnels.Spec{Name: "stock-99", Endpoint: "http://a"}).ID)
	want = append(want, "stock-98 of "+withTwo.ID+" at http://a for blog", "stock-99 of "+withTwo.ID+" at http://a for")
	rounds := 0
	for more := true; more; rounds++ {
		var writes []store.Write
		var err error
		if rounds > 2*count {
			t.Fatalf("RemoveProject() has more after %d rounds, want an end", rounds)
		}
		if writes, more, err = fx.RemoveProject(t.Context(), "a-1", "shop"); err != nil {
			t.Fatal(err)
		}
		if len(writes) > tunnels.MaxRewrites {
			t.Errorf("RemoveProject() = %d writes, want at most %d", len(writes), tunnels.MaxRewrites)
		}
		if err := fx.parts.Table.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
	if rounds < 2+count/3 {
		t.Errorf("RemoveProject() ends after %d rounds, want at least %d", rounds, 2+count/3)
	}
	fx.checkProvisioned(want...)
	d := tunnels.OpenDirectory(fx.parts)
	for _, ref := range []string{"a-1/" + withTwo.ID, "a-1/" + last.ID} {
		services, err := d.Services(t.Context(), ref)
		if err != nil || len(services) == 0 || strings.Contains(fmt.Sprint(services), "shop") {
			t.Errorf("Services(%s) = %v, %v, want some, without shop", ref, services, err)
		}
	}
	got, err := fx.ConfiguredServices(t.Context(), acme, last.ID)
	if err != nil || len(got) != 1 || len(got[0].Configurations) != 1 || got[0].Configurations[0].Project != "blog" {
		t.Errorf("ConfiguredServices() = %+v, %v, want one service for blog", got, err)
	}
	// The stored configuration equals the returned one, so configuring it again changes nothing.
	if second := fx.configure(last.ID, got...); second.Status != "success" {
		t.Errorf("Configure(same services) = %+v, want success", second)
	}
}

// TestRemoveProjectDoesNotRevertChanges makes a concurrent change after RemoveProject has read
// its data. The commit of RemoveProject's writes fails with ErrStale, and the change stays.
func TestRemoveProjectDoesNotRevertChanges(t *testing.T) {
	serviceFor := func(endpoint string, projects ...string) tunnels.Spec {
		s := tunnels.Spec{Name: "orders", Endpoint: endpoint}
		for _, p := range projects {
			s.Configurations = append(s.Configurations, tunnels.Configuration{Project: p, AccessibleBy: environment.Kinds()})
		}
		return s
	}
	for name, concurrent := range map[string]func(w *fixture, id string){
		"another configuration": func(fx *fixture, id string) {
			fx.configure(id, serviceFor("http://b", "blog"))
		},
		"a provisioned configuration": func(fx *fixture, id string) {
			fx.runOperation(fx.configure(id, serviceFor("http://b", "blog")).ID)
		},
		"a deletion": func(fx *fixture, id string) {
			teardown, err := fx.Delete(fx.requestContext(), acme, id)
			if err != nil {
				t.Fatal(err)
			}
			fx.runOperation(teardown.ID)
		},
		"a tunnel that takes the name": func(fx *fixture, id string) {
			teardown, err := fx.Delete(fx.requestContext(), acme, id)
			if err != nil {
				t.Fatal(err)
			}
			fx.runOperation(teardown.ID)
			fx.runOperation(fx.configure(fx.create(acme, "next").ID, serviceFor("http://c", "blog")).ID)
		},
	} {
		// If configurationNext is true, the next RemoveProject rewrites a configuration, otherwise a service.
		for _, configurationNext := range []bool{true, false} {
			fx := newFixture(t)
			created := fx.create(acme, "office")
			fx.runOperation(fx.configure(created.ID, serviceFor("http://a", "shop", "blog")).ID)
			removeWrites := func() []store.Write {
				t.Helper()
				writes, _, err := fx.RemoveProject(t.Context(), "a-1", "shop")
				if err != nil || len(writes) == 0 {
					t.Fatalf("RemoveProject() = %d writes, %v, want some and no error", len(writes), err)
				}
				return writes
			}
			if !configurationNext {
				if err := fx.parts.Table.Commit(t.Context(), removeWrites()...); err != nil {
					t.Fatal(err)
				}
			}
			writes := removeWrites()
			concurrent(fx, created.ID)
			if name == "another configuration" && !configurationNext {
				continue // the service has not changed, because the configuration is not provisioned yet
			}
			before, err := listProvisioned(t.Context(), fx.Service)
			if err != nil {
				t.Fatal(err)
			}
			configured, _ := fx.ConfiguredServices(t.Context(), acme, created.ID)
			if err := fx.parts.Table.Commit(t.Context(), writes...); !errors.Is(err, store.ErrStale) {
				t.Errorf("Commit(RemoveProject writes) after %s: error = %v, want %v", name, err, store.ErrStale)
			}
			fx.checkProvisioned(before...)
			if after, _ := fx.ConfiguredServices(t.Context(), acme, created.ID); fmt.Sprint(after) != fmt.Sprint(configured) {
				t.Errorf("ConfiguredServices() after %s = %v, want %v", name, after, configured)
			}
		}
	}
}
