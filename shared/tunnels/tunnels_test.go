package tunnels_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/tunnels"
)

type root struct{}

func (root) Root(context.Context) ([]byte, error) { return make([]byte, 32), nil }

func owner(account string, change ...func(*auth.Permissions)) auth.Owner {
	p := auth.Full()
	for _, c := range change {
		c(&p)
	}
	return auth.Owner{AccountID: account, Account: "of " + account, Viewer: auth.Principal{Permissions: p}}
}

var acme, evil = owner("a-1"), owner("a-2")

// world is a service over a table in memory, whose account acme has two projects.
type world struct {
	*testing.T
	*tunnels.Service
	items    *memory.Backend
	parts    installation.Parts
	requests int
}

func partsOf(table *store.Table, source *ids.Source, now func() time.Time) installation.Parts {
	return installation.Parts{Table: table, Now: now, IDs: source, Key: root{}}
}

func epoch() time.Time { return storetest.Epoch }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, items: memory.New()}
	w.parts = partsOf(storetest.Over(t, w.items, storetest.Clock(epoch)), ids.NewSource(storetest.Random(t), epoch), epoch)
	w.Service = tunnels.Open(w.parts)
	if err := w.parts.Table.Commit(t.Context(), projects()...); err != nil {
		t.Fatal(err)
	}
	return w
}

func projects() (writes []store.Write) {
	for _, at := range [][2]string{{"a-1", "shop"}, {"a-1", "blog"}, {"a-2", "theirs"}} {
		writes = append(writes, store.Put(store.ProjectKey(at[0], at[1]), map[string]string{"id": "p-" + at[1], "name": at[1]}))
	}
	return writes
}

// request is the context of one request.
func request(ctx context.Context, id string) context.Context {
	return store.Decide(audit.With(ctx, &audit.Request{AccountID: "a-1", Action: "tunnel.create", Time: storetest.Epoch, RequestID: id}))
}

func (w *world) request() context.Context {
	w.requests++
	return request(w.Context(), fmt.Sprint("request-", w.requests))
}

func (w *world) create(o auth.Owner, name string) tunnels.Tunnel {
	w.Helper()
	made, err := w.Create(w.request(), o, name)
	if err != nil {
		w.Fatal(err)
	}
	return made
}

func (w *world) configure(id string, services ...tunnels.Spec) tunnels.Operation {
	w.Helper()
	begun, err := w.Configure(w.request(), acme, id, services)
	if err != nil {
		w.Fatal(err)
	}
	return begun
}

// run carries an operation out.
func (w *world) run(id string) operation.Record {
	w.Helper()
	engine, err := operation.New(w.parts.Table, w.Definitions(), operation.Options{Now: epoch, Random: storetest.Random(w.T), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.Fatal(err)
	}
	r, err := engine.Run(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// service is one that the production of the project shop may call.
func service(name, endpoint string) tunnels.Spec {
	return tunnels.Spec{Name: name, Endpoint: endpoint, Configurations: []tunnels.Configuration{
		{Project: "shop", AccessibleBy: []environment.Kind{environment.Production}},
	}}
}

// there tells what is provisioned: each service with its tunnel, its endpoint, its projects and
// how often it was written.
func there(ctx context.Context, s *tunnels.Service) (out []string, err error) {
	found, err := s.Provisioned(ctx, "a-1")
	for _, name := range slices.Sorted(maps.Keys(found)) {
		r := found[name]
		text := fmt.Sprintf("%s of %s at %s for", name, r.TunnelID, r.Endpoint)
		for _, c := range r.Configurations {
			text += " " + c.Project
		}
		out = append(out, text)
	}
	return out, err
}

func (w *world) wantThere(want ...string) {
	w.Helper()
	if got, err := there(w.Context(), w.Service); err != nil || !slices.Equal(got, want) {
		w.Errorf("there is %q, %v, want %q", got, err, want)
	}
}

func (w *world) wantClaims(id string, want ...string) {
	w.Helper()
	if got, err := w.Claims(w.Context(), "a-1", id); err != nil || !slices.Equal(got, want) {
		w.Errorf("%s has the names %q, %v, want %q", id, got, err, want)
	}
}

func TestTokenLeadsToItsTunnelUntilItIsRotated(t *testing.T) {
	w := newWorld(t)
	made, other := w.create(acme, "office"), w.create(evil, "office")
	var inside struct{ A, T, S string }
	raw, err := base64.StdEncoding.DecodeString(made.Token)
	if err == nil {
		err = json.Unmarshal(raw, &inside)
	}
	if err != nil || inside.T != made.ID || strings.Contains(made.Token, "a-1") || inside.A == "" || !regexp.MustCompile(`^[A-Za-z0-9]{43}$`).MatchString(inside.S) {
		t.Errorf("the token has %+v, %v", inside, err)
	}
	directory := tunnels.OpenDirectory(w.parts)
	leads := func(token, want string) {
		t.Helper()
		if ref, err := directory.Authorize(t.Context(), token); ref != want || err != nil {
			t.Errorf("the token leads to %q, %v, want %q", ref, err, want)
		}
	}
	leads(made.Token, "a-1/"+made.ID)
	leads(other.Token, "a-2/"+other.ID)
	rotated, err := w.Rotate(w.request(), acme, made.ID)
	if err != nil || rotated.Token == made.Token || rotated.Name != "office" || rotated.ID != made.ID {
		t.Fatalf("rotated to %+v, %v", rotated, err)
	}
	leads(made.Token, "")
	leads(rotated.Token, "a-1/"+made.ID)
	if read, err := w.Read(t.Context(), acme, made.ID); err != nil || read != rotated {
		t.Errorf("it is read as %+v, %v, want %+v", read, err, rotated)
	}
	if _, err := w.Delete(w.request(), acme, made.ID); err != nil {
		t.Fatal(err)
	}
	leads(rotated.Token, "")
	leads(other.Token, "a-2/"+other.ID)
	for _, none := range []string{"", "x", made.Token + "=", strings.Repeat("x", 1<<20)} {
		leads(none, "")
	}
}

// TestSealedTokenOpensForItsTunnelAlone: whoever writes to the table gives no tunnel another's token.
func TestSealedTokenOpensForItsTunnelAlone(t *testing.T) {
	w := newWorld(t)
	one, two := w.create(acme, "one"), w.create(acme, "two")
	var its struct {
		Sealed []byte `dynamodbav:"sealed"`
	}
	key := func(id string) store.Key { return store.Key{PK: "tunnel#a-1#" + id, SK: "."} }
	if err := w.parts.Table.Get(t.Context(), key(one.ID), &its); err != nil || strings.Contains(string(its.Sealed), one.Token) {
		t.Fatalf("sealed as %q, %v", its.Sealed, err)
	}
	if err := w.parts.Table.Commit(t.Context(), store.Update(key(two.ID), store.Set(store.At("sealed"), its.Sealed), store.Add(store.At("version"), 1))); err != nil {
		t.Fatal(err)
	}
	if read, err := w.Read(t.Context(), acme, two.ID); err == nil {
		t.Errorf("it is read as %+v", read)
	}
}

func TestAccountHasItsTunnelsAndNoMoreThanItMay(t *testing.T) {
	w := newWorld(t)
	var last tunnels.Tunnel
	for n := range int(limits.Tunnels.Default) {
		last = w.create(acme, fmt.Sprintf("tunnel-%03d", n))
	}
	_, err := w.Create(w.request(), acme, "one-more")
	faulttest.Want(t, err, fault.Forbidden, "its limit tunnels is 100")
	w.create(evil, "one-more")
	if _, err := w.Delete(w.request(), acme, last.ID); err != nil {
		t.Fatal(err)
	}
	w.create(acme, "one-more")
	all, err := w.List(t.Context(), acme)
	if err != nil || len(all) != int(limits.Tunnels.Default) || all[0].Name != "one-more" || all[1].Name != "tunnel-000" || all[1].Token != "" {
		t.Errorf("listed %+v, %v", all, err)
	}
}

func TestLimitedKeysAndOtherAccountsSeeNoTunnels(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	begun := w.configure(made.ID, service("orders", "http://a"))
	for name, o := range map[string]auth.Owner{
		"another account": evil,
		"of one project":  owner("a-1", func(p *auth.Permissions) { p.Projects = []string{"shop"} }),
		"of previews":     owner("a-1", func(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Preview} }),
	} {
		t.Run(name, func(t *testing.T) {
			if all, err := w.List(t.Context(), o); err != nil || len(all) > 0 {
				t.Errorf("listed %+v, %v", all, err)
			}
			_, read := w.Read(t.Context(), o, made.ID)
			_, rotated := w.Rotate(w.request(), o, made.ID)
			_, configured := w.Configured(t.Context(), o, made.ID)
			_, configure := w.Configure(w.request(), o, made.ID, nil)
			_, deleted := w.Delete(w.request(), o, made.ID)
			_, followed := w.Provisioning(t.Context(), o, made.ID, begun.ID)
			for _, err := range []error{read, rotated, configured, configure, deleted, followed} {
				faulttest.Want(t, err, fault.NotFound, "does not exist")
			}
			if o.AccountID == "a-1" {
				_, err := w.Create(w.request(), o, "mine")
				faulttest.Want(t, err, fault.NotFound, "limited")
			}
		})
	}
}

// TestOperationsAreFollowedAtTheirOwnPath, also when the tunnel is long gone.
func TestOperationsAreFollowedAtTheirOwnPath(t *testing.T) {
	w := newWorld(t)
	made, other := w.create(acme, "office"), w.create(acme, "other")
	put := w.configure(made.ID, service("orders", "http://a"))
	follow := func(want operation.Status, o tunnels.Operation, err error) {
		t.Helper()
		if err != nil || o.Status != want || !strings.HasSuffix(o.Message, ".") {
			t.Errorf("it goes as %+v, %v, want %s", o, err, want)
		}
	}
	o, err := w.Provisioning(t.Context(), acme, made.ID, put.ID)
	follow(operation.InProgress, o, err)
	w.run(put.ID)
	gone, err := w.Delete(w.request(), acme, made.ID)
	follow(operation.InProgress, gone, err)
	o, err = w.Teardown(t.Context(), acme, made.ID, gone.ID)
	follow(operation.InProgress, o, err)
	w.run(gone.ID)
	o, err = w.Teardown(t.Context(), acme, made.ID, gone.ID)
	follow(operation.Success, o, err)
	o, err = w.Provisioning(t.Context(), acme, made.ID, put.ID)
	follow(operation.Success, o, err)
	for name, ask := range map[string]func() (tunnels.Operation, error){
		"a teardown as a provisioning": func() (tunnels.Operation, error) { return w.Provisioning(t.Context(), acme, made.ID, gone.ID) },
		"a provisioning as a teardown": func() (tunnels.Operation, error) { return w.Teardown(t.Context(), acme, made.ID, put.ID) },
		"one of another tunnel":        func() (tunnels.Operation, error) { return w.Teardown(t.Context(), acme, other.ID, gone.ID) },
		"one of another account":       func() (tunnels.Operation, error) { return w.Teardown(t.Context(), evil, made.ID, gone.ID) },
		"one that there is not":        func() (tunnels.Operation, error) { return w.Teardown(t.Context(), acme, made.ID, "tst_0") },
		"one without an id":            func() (tunnels.Operation, error) { return w.Teardown(t.Context(), acme, made.ID, "") },
	} {
		if _, err := ask(); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
