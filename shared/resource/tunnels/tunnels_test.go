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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

type zeroRootKey struct{}

func (zeroRootKey) Root(context.Context) ([]byte, error) { return make([]byte, 32), nil }

func owner(account string, changes ...func(*auth.Permissions)) auth.Owner {
	p := auth.Full()
	for _, c := range changes {
		c(&p)
	}
	return auth.Owner{AccountID: account, Account: "of " + account, Viewer: auth.Principal{Permissions: p}}
}

var acme, otherAccount = owner("a-1"), owner("a-2")

// fixture is a service over a table in memory. Its account acme has two projects.
type fixture struct {
	*testing.T
	*tunnels.Service
	items    *memory.Backend
	parts    installation.Parts
	requests int
}

func partsOf(table *store.Table, source *ids.Source, now func() time.Time) installation.Parts {
	return installation.Parts{Table: table, Now: now, IDs: source, Key: zeroRootKey{}}
}

func epoch() time.Time { return storetest.Epoch }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{T: t, items: memory.New()}
	fx.parts = partsOf(storetest.NewWithBackend(t, fx.items, storetest.Clock(epoch)),
		ids.NewSource(storetest.Random(t), epoch), epoch)
	fx.Service = tunnels.Open(fx.parts)
	if err := fx.parts.Table.Commit(t.Context(), projects()...); err != nil {
		t.Fatal(err)
	}
	return fx
}

func projects() (writes []store.Write) {
	for _, p := range [][2]string{{"a-1", "shop"}, {"a-1", "blog"}, {"a-2", "theirs"}} {
		writes = append(writes, store.Put(store.ProjectKey(p[0], p[1]), map[string]string{"id": "p-" + p[1], "name": p[1]}))
	}
	return writes
}

// request returns the context of one request.
func request(ctx context.Context, id string) context.Context {
	return store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
		AccountID: "a-1", Action: "tunnel.create",
		Time: storetest.Epoch, RequestID: id,
	}))
}

func (fx *fixture) requestContext() context.Context {
	fx.requests++
	return request(fx.Context(), fmt.Sprint("request-", fx.requests))
}

func (fx *fixture) create(o auth.Owner, name string) tunnels.Tunnel {
	fx.Helper()
	created, err := fx.Create(fx.requestContext(), o, name)
	if err != nil {
		fx.Fatal(err)
	}
	return created
}

func (fx *fixture) configure(id string, services ...tunnels.Spec) tunnels.Operation {
	fx.Helper()
	started, err := fx.Configure(fx.requestContext(), acme, id, services)
	if err != nil {
		fx.Fatal(err)
	}
	return started
}

// runOperation runs an operation until the operation ends or has to wait, and returns the operation's record.
func (fx *fixture) runOperation(id string) operation.Record {
	fx.Helper()
	engine, err := operation.New(fx.parts.Table, fx.Definitions(),
		operation.Options{Now: epoch, Random: storetest.Random(fx.T), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		fx.Fatal(err)
	}
	r, err := engine.Run(fx.Context(), id)
	if err != nil {
		fx.Fatal(err)
	}
	return r
}

// service returns a service that the production environment of the project shop may call.
func service(name, endpoint string) tunnels.Spec {
	return tunnels.Spec{Name: name, Endpoint: endpoint, Configurations: []tunnels.Configuration{
		{Project: "shop", AccessibleBy: []environment.Kind{environment.Production}},
	}}
}

// listProvisioned returns the provisioned services as texts, each with its name, tunnel, endpoint and projects.
func listProvisioned(ctx context.Context, s *tunnels.Service) (out []string, err error) {
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

func (fx *fixture) checkProvisioned(want ...string) {
	fx.Helper()
	if got, err := listProvisioned(fx.Context(), fx.Service); err != nil || !slices.Equal(got, want) {
		fx.Errorf("provisioned services = %q, %v, want %q", got, err, want)
	}
}

func (fx *fixture) checkClaims(id string, want ...string) {
	fx.Helper()
	if got, err := fx.Claims(fx.Context(), "a-1", id); err != nil || !slices.Equal(got, want) {
		fx.Errorf("Claims(%s) = %q, %v, want %q", id, got, err, want)
	}
}

func TestTokenAuthorizesUntilRotation(t *testing.T) {
	fx := newFixture(t)
	created, other := fx.create(acme, "office"), fx.create(otherAccount, "office")
	var decoded struct{ A, T, S string }
	raw, err := base64.StdEncoding.DecodeString(created.Token)
	if err == nil {
		err = json.Unmarshal(raw, &decoded)
	}
	if err != nil || decoded.T != created.ID || decoded.A == "" {
		t.Errorf("token = %+v, %v, want tunnel %s and an account", decoded, err, created.ID)
	}
	if strings.Contains(created.Token, "a-1") {
		t.Errorf("token = %s, want it without the account's ID", created.Token)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9]{43}$`).MatchString(decoded.S) {
		t.Errorf("secret of the token = %q, want 43 letters and digits", decoded.S)
	}
	directory := tunnels.OpenDirectory(fx.parts)
	checkAuthorize := func(token, want string) {
		t.Helper()
		if ref, err := directory.Authenticate(t.Context(), token); ref != want || err != nil {
			t.Errorf("Authenticate() = %q, %v, want %q", ref, err, want)
		}
	}
	checkAuthorize(created.Token, "a-1/"+created.ID)
	checkAuthorize(other.Token, "a-2/"+other.ID)
	rotated, err := fx.Rotate(fx.requestContext(), acme, created.ID)
	if err != nil || rotated.Token == created.Token || rotated.Name != "office" || rotated.ID != created.ID {
		t.Fatalf("Rotate() = %+v, %v, want tunnel office with ID %s and another token", rotated, err, created.ID)
	}
	checkAuthorize(created.Token, "")
	checkAuthorize(rotated.Token, "a-1/"+created.ID)
	if read, err := fx.Read(t.Context(), acme, created.ID); err != nil || read != rotated {
		t.Errorf("Read() = %+v, %v, want %+v", read, err, rotated)
	}
	if _, err := fx.Delete(fx.requestContext(), acme, created.ID); err != nil {
		t.Fatal(err)
	}
	checkAuthorize(rotated.Token, "")
	checkAuthorize(other.Token, "a-2/"+other.ID)
	for _, invalidToken := range []string{"", "x", created.Token + "=", strings.Repeat("x", 1<<20)} {
		checkAuthorize(invalidToken, "")
	}
}

// TestSealedTokenIsBoundToItsTunnel copies the sealed token of one tunnel to another in the table, and checks that the
// other tunnel cannot then be read.
func TestSealedTokenIsBoundToItsTunnel(t *testing.T) {
	fx := newFixture(t)
	first, second := fx.create(acme, "one"), fx.create(acme, "two")
	var stored struct {
		Sealed []byte `dynamodbav:"sealed"`
	}
	key := func(id string) store.Key { return store.Key{PK: "tunnel#a-1#" + id, SK: "."} }
	if err := fx.parts.Table.Get(t.Context(), key(first.ID), &stored); err != nil || len(stored.Sealed) == 0 ||
		strings.Contains(string(stored.Sealed), first.Token) {
		t.Fatalf("stored token = %q, %v, want it sealed", stored.Sealed, err)
	}
	if err := fx.parts.Table.Commit(t.Context(), store.Update(key(second.ID), store.Set(store.At("sealed"), stored.Sealed),
		store.Add(store.At("version"), 1))); err != nil {
		t.Fatal(err)
	}
	if read, err := fx.Read(t.Context(), acme, second.ID); err == nil {
		t.Errorf("Read(tunnel with the token of another) = %+v, want an error", read)
	}
}

func TestTunnelLimitOfAccount(t *testing.T) {
	fx := newFixture(t)
	var last tunnels.Tunnel
	for n := range int(limits.Tunnels.Default) {
		last = fx.create(acme, fmt.Sprintf("tunnel-%03d", n))
	}
	_, err := fx.Create(fx.requestContext(), acme, "one-more")
	faulttest.Check(t, err, fault.Forbidden, "its limit tunnels is 100")
	fx.create(otherAccount, "one-more")
	if _, err := fx.Delete(fx.requestContext(), acme, last.ID); err != nil {
		t.Fatal(err)
	}
	fx.create(acme, "one-more")
	all, err := fx.List(t.Context(), acme)
	if err != nil || len(all) != int(limits.Tunnels.Default) {
		t.Fatalf("List() = %d tunnels, %v, want %d", len(all), err, limits.Tunnels.Default)
	}
	if all[0].Name != "one-more" || all[1].Name != "tunnel-000" || all[1].Token != "" {
		t.Errorf("List() = %+v, %+v, …, want one-more and tunnel-000 without token", all[0], all[1])
	}
}

func TestRestrictedKeysAndOtherAccountsSeeNoTunnels(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	started := fx.configure(created.ID, service("orders", "http://a"))
	for name, o := range map[string]auth.Owner{
		"another account":      otherAccount,
		"a key of one project": owner("a-1", func(p *auth.Permissions) { p.Projects = []string{"shop"} }),
		"a key of previews": owner("a-1", func(p *auth.Permissions) {
			p.Environments = []environment.Kind{environment.Preview}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			if all, err := fx.List(t.Context(), o); err != nil || len(all) > 0 {
				t.Errorf("List() = %+v, %v, want none and no error", all, err)
			}
			_, readErr := fx.Read(t.Context(), o, created.ID)
			_, rotateErr := fx.Rotate(fx.requestContext(), o, created.ID)
			_, servicesErr := fx.ConfiguredServices(t.Context(), o, created.ID)
			_, configureErr := fx.Configure(fx.requestContext(), o, created.ID, nil)
			_, deleteErr := fx.Delete(fx.requestContext(), o, created.ID)
			_, operationErr := fx.Provisioning(t.Context(), o, created.ID, started.ID)
			for method, err := range map[string]error{
				"Read": readErr, "Rotate": rotateErr, "ConfiguredServices": servicesErr, "Configure": configureErr,
				"Delete": deleteErr, "Provisioning": operationErr,
			} {
				if !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "does not exist") {
					t.Errorf("%s() error = %v, want %v with the text \"does not exist\"", method, err, fault.NotFound)
				}
			}
			if o.AccountID == "a-1" {
				_, err := fx.Create(fx.requestContext(), o, "mine")
				faulttest.Check(t, err, fault.NotFound, "limited")
			}
		})
	}
}

// TestOperationCanBeReadThroughItsTunnelOnly checks that an operation cannot be read with
// another tunnel, account or kind. It also reads the operations of a deleted tunnel.
func TestOperationCanBeReadThroughItsTunnelOnly(t *testing.T) {
	fx := newFixture(t)
	created, other := fx.create(acme, "office"), fx.create(acme, "other")
	configureOp := fx.configure(created.ID, service("orders", "http://a"))
	checkOperation := func(want operation.Status, o tunnels.Operation, err error) {
		t.Helper()
		if err != nil || o.Status != want || !strings.HasSuffix(o.Message, ".") {
			t.Errorf("operation = %+v, %v, want status %s and a message that ends with a period", o, err, want)
		}
	}
	o, err := fx.Provisioning(t.Context(), acme, created.ID, configureOp.ID)
	checkOperation(operation.InProgress, o, err)
	fx.runOperation(configureOp.ID)
	teardown, err := fx.Delete(fx.requestContext(), acme, created.ID)
	checkOperation(operation.InProgress, teardown, err)
	o, err = fx.Teardown(t.Context(), acme, created.ID, teardown.ID)
	checkOperation(operation.InProgress, o, err)
	fx.runOperation(teardown.ID)
	o, err = fx.Teardown(t.Context(), acme, created.ID, teardown.ID)
	checkOperation(operation.Success, o, err)
	o, err = fx.Provisioning(t.Context(), acme, created.ID, configureOp.ID)
	checkOperation(operation.Success, o, err)
	for name, call := range map[string]func() (tunnels.Operation, error){
		"a teardown as a provisioning": func() (tunnels.Operation, error) {
			return fx.Provisioning(t.Context(), acme, created.ID, teardown.ID)
		},
		"a provisioning as a teardown": func() (tunnels.Operation, error) {
			return fx.Teardown(t.Context(), acme, created.ID, configureOp.ID)
		},
		"a teardown of another tunnel": func() (tunnels.Operation, error) {
			return fx.Teardown(t.Context(), acme, other.ID, teardown.ID)
		},
		"a teardown of another account": func() (tunnels.Operation, error) {
			return fx.Teardown(t.Context(), otherAccount, created.ID, teardown.ID)
		},
		"a missing teardown": func() (tunnels.Operation, error) {
			return fx.Teardown(t.Context(), acme, created.ID, "tst_0")
		},
		"a teardown without an id": func() (tunnels.Operation, error) {
			return fx.Teardown(t.Context(), acme, created.ID, "")
		},
	} {
		if _, err := call(); !fault.Is(err, fault.NotFound) {
			t.Errorf("operation of %s: error = %v, want %v", name, err, fault.NotFound)
		}
	}
}
