package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
)

// useRecorder is an authenticator that counts how often the use of a key is recorded.
type useRecorder struct {
	callers
	uses atomic.Int32
}

// RecordUse implements api.UseRecorder.
func (r *useRecorder) RecordUse(context.Context, auth.Principal) func() {
	r.uses.Add(1)
	return func() {}
}

type batchIn struct{}

// patchOnlyKey is a key that may change things but not read them.
const patchOnlyKey = "patcher"

// Authenticate implements api.Authenticator.
func (r *useRecorder) Authenticate(ctx context.Context, key string) (auth.Principal, error) {
	if key == patchOnlyKey {
		p := auth.Principal{AccountID: "a-1", AccountName: "acme", KeyID: "akey_2", Permissions: auth.Full()}
		p.Permissions.Scopes = []auth.Scope{auth.KeyBuckets.Write()}
		return p, nil
	}
	return r.callers.Authenticate(ctx, key)
}

// fixedRoot is a source that always returns the same root key.
type fixedRoot struct{}

// Root implements seal.KeySource.
func (fixedRoot) Root(context.Context) ([]byte, error) { return bytes.Repeat([]byte("k"), 32), nil }

var _ seal.KeySource = fixedRoot{}

// callFixture is a server with an operation that sends requests to the same server (batch).
type callFixture struct {
	*api.Server
	items *memory.Backend
	// broken makes all commits to the table fail.
	broken bool
	// readsUntilFailure counts the reads down: the read at which it becomes 0 fails. If it is 0 before, no read fails.
	readsUntilFailure atomic.Int64
	log               *bytes.Buffer
	callers           *useRecorder
	// batch is the function of the operation that sends further requests.
	batch func(ctx context.Context)
	// urls are the results of api.RequestURL in the changes.
	urls []string
}

// Transact implements store.Backend.
func (fx *callFixture) Transact(ctx context.Context, token string, writes []store.Write) error {
	if fx.broken {
		return errors.New("the table is unavailable")
	}
	return fx.items.Transact(ctx, token, writes)
}

// Read implements store.Backend.
func (fx *callFixture) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if fx.readsUntilFailure.Add(-1) == 0 {
		return nil, errors.New("the table is unavailable")
	}
	return fx.items.Read(ctx, keys)
}

// Query implements store.Backend.
func (fx *callFixture) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	return fx.items.Query(ctx, q)
}

// thingItem is a stored thing.
type thingItem struct {
	Text string `dynamodbav:"text"`
}

func newCallFixture(t *testing.T) *callFixture {
	fx := &callFixture{items: memory.New(), log: &bytes.Buffer{}, callers: &useRecorder{}}
	table := storetest.NewWithBackend(t, fx)
	now := func() time.Time { return storetest.Epoch }
	at := func(name string) store.Key { return store.Key{PK: "thing#" + name, SK: "."} }
	batch := api.Operation[batchIn, api.NoContent]{ID: "Tools_batch", Method: "POST", Path: "/mcp", Status: 204}
	read := readThing
	read.Scope = auth.AccountKeys.Read() // not the scope of the change
	fx.Server = api.Open(installation.Parts{
		Table: table, Key: fixedRoot{}, Log: slog.New(slog.NewJSONHandler(fx.log, nil)),
		IDs: ids.NewSource(storetest.Random(t), now), Now: now,
	}, fx.callers, []api.Route{
		batch.HandledBy(func(ctx context.Context, _ *batchIn) (*api.NoContent, error) {
			fx.batch(ctx)
			return &api.NoContent{}, nil
		}),
		read.HandledBy(func(ctx context.Context, in *thingIn) (*thingOut, error) {
			var r thingItem
			switch err := table.Get(ctx, at(in.Name), &r); {
			case errors.Is(err, store.ErrNotFound):
				return nil, fault.Missing("thing")
			case err != nil:
				return nil, err
			}
			out := &thingOut{}
			out.Body.Name, out.Body.Tags = in.Name, map[string]string{"text": r.Text}
			return out, nil
		}),
		touchThing.HandledBy(func(ctx context.Context, in *thingIn) (*api.NoContent, error) {
			return &api.NoContent{}, table.Commit(ctx, store.Put(at(in.Name), thingItem{"touched"}),
				audit.Record(ctx, audit.Resource{Type: "thing", ID: in.Name}))
		}),
		changeThing.HandledBy(func(ctx context.Context, in *changeIn) (*changeOut, error) {
			fx.urls = append(fx.urls, api.RequestURL(ctx))
			if in.Name == "same" {
				return &changeOut{}, nil // nothing to change
			}
			if in.Name == "refused" {
				return nil, fault.New(fault.Conflict, "It is not to be changed.")
			}
			// The operation makes two commits. The change is in the second one.
			if err := table.Commit(ctx, store.Put(store.Key{PK: "prepared#" + in.Name, SK: "."}, thingItem{})); err != nil {
				return nil, err
			}
			return &changeOut{}, table.Commit(ctx, store.Put(at(in.Name), thingItem{in.Body.Description.Value}),
				audit.Record(ctx, audit.Resource{Type: "thing", ID: in.Name}))
		}),
	})
	return fx
}

// touchThing is an action on a thing, at a path below the thing's path.
var touchThing = api.Operation[thingIn, api.NoContent]{
	ID: "Things_touch", Method: "POST", Path: "/v1/accounts/{accountName}/things/{name}/touch", Status: 204,
	Scope: auth.KeyBuckets.Write(), Audit: "key-bucket.update",
}

// call sends a request for the thing with a name to the server. header has names and values in turn.
func (fx *callFixture) call(
	ctx context.Context, method, name, key, body string, header ...string,
) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, thing+name, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	fx.ServeHTTP(w, r)
	return w
}

// sendOuter sends a request to the operation that sends further requests. batch sends these requests.
func (fx *callFixture) sendOuter(t *testing.T, batch func(ctx context.Context)) *httptest.ResponseRecorder {
	t.Helper()
	fx.batch = batch
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example.com/stage/../mcp", nil)
	r.URL.Path = "/mcp"
	r.Header.Set("Authorization", "Bearer "+goodKey)
	r.Header.Set("User-Agent", "an agent")
	w := httptest.NewRecorder()
	fx.ServeHTTP(w, r)
	if w.Code != http.StatusNoContent {
		t.Fatalf("outer request = %d %s, want 204", w.Code, w.Body)
	}
	return w
}

// records returns all audit records.
func (fx *callFixture) records(t *testing.T) (out []audit.Entry) {
	t.Helper()
	for key, item := range fx.items.Items() {
		if !audit.IsRecord(key) {
			continue
		}
		_, e, ok := audit.Decode(item)
		if !ok {
			t.Fatalf("Decode(item with the key %v) = false, want an audit record", key)
		}
		out = append(out, e)
	}
	return out
}

// within returns a context for the call c of an MCP tool.
func within(ctx context.Context, c api.Call) context.Context {
	c.Source = "mcp"
	return api.WithCall(ctx, c)
}

// TestEachCallOfARequestHasItsRecord checks that each of several changes in one request has a record with
// the request id of its own response. The first change has the id of the outer request. The log line of each change
// must have the id of the outer request as well.
func TestEachCallOfARequestHasItsRecord(t *testing.T) {
	fx := newCallFixture(t)
	responses := map[string]string{}
	outer := fx.sendOuter(t, func(ctx context.Context) {
		ctx = within(ctx, api.Call{})
		for _, name := range []string{"a", "b", "refused", "c"} {
			w := fx.call(ctx, http.MethodPatch, name, goodKey, `{}`)
			if name != "refused" && w.Code != http.StatusOK {
				t.Errorf("PATCH %s = %d %s, want 200", name, w.Code, w.Body)
			}
			responses[w.Header().Get("X-Request-Id")] = name
		}
	}).Header().Get("X-Request-Id")
	records := fx.records(t)
	if len(records) != 4 || len(responses) != 4 || responses[outer] != "a" {
		t.Fatalf("%d records, request IDs %v, outer ID of %q, want 4 records, 4 IDs and the outer ID for a",
			len(records), responses, responses[outer])
	}
	for _, e := range records {
		name := responses[e.RequestID]
		if *e.Route.Source != "mcp" || *e.Route.URL != thing+name || *e.Route.Method != http.MethodPatch {
			t.Errorf("route in the record of %s = %s %s from %s, want PATCH %s from mcp",
				name, *e.Route.Method, *e.Route.URL, *e.Route.Source, thing+name)
		}
		if *e.Context.UserAgent != "an agent" || *e.Success == (name == "refused") || e.Metadata != nil {
			t.Errorf("record of %s = user agent %q, success %v, metadata %v, want \"an agent\", %v, none",
				name, *e.Context.UserAgent, *e.Success, e.Metadata, name != "refused")
		}
	}
	if len(fx.urls) != 4 {
		t.Errorf("changes that call RequestURL() = %d, want 4", len(fx.urls))
	}
	for _, url := range fx.urls {
		if !strings.HasPrefix(url, "https://api.example.com"+thing) &&
			!strings.HasPrefix(url, "http://api.example.com"+thing) {
			t.Errorf("RequestURL() in a call = %s, want a URL below api.example.com%s", url, thing)
		}
	}
	if n := strings.Count(fx.log.String(), `"within":"`+outer+`"`); n != 4 {
		t.Errorf("calls logged within %s = %d, want 4:\n%s", outer, n, fx.log)
	}
	if n := strings.Count(fx.log.String(), `"source":"mcp"`); n != 4 {
		t.Errorf("calls logged with the source mcp = %d, want 4:\n%s", n, fx.log)
	}
}

// TestConcurrentCallsHaveSeparateRecords checks that the records of concurrent calls do not replace one another.
func TestConcurrentCallsHaveSeparateRecords(t *testing.T) {
	const calls = 8
	fx := newCallFixture(t)
	fx.sendOuter(t, func(ctx context.Context) {
		fx.call(ctx, http.MethodPatch, "a", goodKey, `{}`)
		before := len(fx.records(t))
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				if w := fx.call(within(ctx, api.Call{Reveal: true}), http.MethodGet, "a", goodKey, ""); w.Code != http.StatusOK {
					t.Errorf("GET a = %d %s, want 200", w.Code, w.Body)
				}
			})
		}
		wg.Wait()
		if n := len(fx.records(t)) - before; n != calls {
			t.Errorf("records of %d calls = %d, want one each", calls, n)
		}
	})
}

// TestCallUsesItsOwnKey checks that calls do not inherit the key of the outer request.
func TestCallUsesItsOwnKey(t *testing.T) {
	fx := newCallFixture(t)
	fx.sendOuter(t, func(ctx context.Context) {
		ctx = within(ctx, api.Call{})
		for key, status := range map[string]int{"": 401, "other": 401, readKey: 403} {
			if w := fx.call(ctx, http.MethodPatch, "a", key, `{}`); w.Code != status {
				t.Errorf("PATCH with the key %q: status = %d, want %d", key, w.Code, status)
			}
		}
	})
}

// TestRevealIsRecordedBeforeResponse checks that a read that reveals secrets writes a record
// with the operation and without values. If the record cannot be written, the read must fail.
func TestRevealIsRecordedBeforeResponse(t *testing.T) {
	fx := newCallFixture(t)
	fx.sendOuter(t, func(ctx context.Context) {
		fx.call(within(ctx, api.Call{}), http.MethodPatch, "a", goodKey, `{"description":"gwsec"}`)
	})
	before := len(fx.records(t))
	fx.sendOuter(t, func(ctx context.Context) {
		if w := fx.call(within(ctx, api.Call{}), http.MethodGet, "a", goodKey, ""); w.Code != http.StatusOK ||
			len(fx.records(t)) != before {
			t.Errorf("GET a without reveal = %d %s, %d new records, want 200 and none",
				w.Code, w.Body, len(fx.records(t))-before)
		}
		ctx = within(ctx, api.Call{Reveal: true})
		fx.broken = true
		if w := fx.call(ctx, http.MethodGet, "a", goodKey, ""); w.Code < 500 || strings.Contains(w.Body.String(), "gwsec") ||
			w.Header().Get("ETag") != "" {
			t.Errorf("GET a without a record = %d %s, ETag %q, want 500 or more without the secret and the ETag",
				w.Code, w.Body, w.Header().Get("ETag"))
		}
		fx.broken = false
		if w := fx.call(ctx, http.MethodGet, "absent", goodKey, ""); w.Code != http.StatusNotFound ||
			len(fx.records(t)) != before {
			t.Errorf("GET absent = %d %s, %d new records, want 404 and none", w.Code, w.Body, len(fx.records(t))-before)
		}
		w := fx.call(ctx, http.MethodGet, "a", goodKey, "")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "gwsec") || w.Header().Get("ETag") == "" ||
			w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("GET a = %d %s, header %v, want 200 with the secret, an ETag and no-store", w.Code, w.Body, w.Header())
		}
		for _, e := range fx.records(t) {
			if e.RequestID != w.Header().Get("X-Request-Id") {
				continue
			}
			text, err := json.Marshal(e)
			if err != nil || strings.Contains(string(text), "gwsec") || e.Metadata != nil {
				t.Errorf("record = %s, %v, want no secret, no metadata and no error", text, err)
			}
			if e.Action != audit.Reveal || *e.Route.Source != "mcp" || *e.Route.URL != thing+"a" {
				t.Errorf("record = %s, want action %s of %s from mcp", text, audit.Reveal, thing+"a")
			}
			if len(e.Resources) != 1 {
				t.Fatalf("resources of the record = %v, want 1", e.Resources)
			}
			if r := e.Resources[0]; r.Type != "operation" || r.ID != "Things_read" ||
				fmt.Sprint(r.Metadata) != "map[accountName:acme name:a]" {
				t.Errorf("resource = %+v, want the operation Things_read with accountName acme and name a", r)
			}
			return
		}
		t.Error("records of the revealing read = 0, want 1")
	})
}

// TestChangeRecordsReveal checks that the record of a change shows that secrets
// were revealed. A change without a record must get a record for the reveal.
func TestChangeRecordsReveal(t *testing.T) {
	for name, action := range map[string]audit.Action{"a": changeThing.Audit, "same": audit.Reveal} {
		fx := newCallFixture(t)
		fx.sendOuter(t, func(ctx context.Context) {
			w := fx.call(within(ctx, api.Call{Reveal: true}), http.MethodPatch, name, goodKey, `{}`)
			if w.Code != http.StatusOK {
				t.Errorf("PATCH %s = %d %s, want 200", name, w.Code, w.Body)
			}
		})
		records := fx.records(t)
		if len(records) != 1 || records[0].Action != action || action != audit.Reveal &&
			records[0].Metadata["secretsRevealed"] != "true" {
			t.Errorf("records of PATCH %s = %+v, want one %s, with secretsRevealed unless it is %s",
				name, records, action, audit.Reveal)
		}
	}
}

// TestReplayedRevealIsRecorded checks that a stored response that reveals secrets
// gets its own record, because the record of the original change does not show that.
func TestReplayedRevealIsRecorded(t *testing.T) {
	fx := newCallFixture(t)
	fx.sendOuter(t, func(ctx context.Context) {
		for i, c := range []api.Call{{}, {}, {Reveal: true}} {
			w := fx.call(within(ctx, c), http.MethodPatch, "a", goodKey, `{}`, "Idempotency-Key", "k")
			if replayed := w.Header().Get("Idempotent-Replayed") != ""; w.Code != http.StatusOK || replayed != (i > 0) {
				t.Errorf("PATCH a, try %d = %d %s, replayed %v, want 200, %v", i, w.Code, w.Body, replayed, i > 0)
			}
		}
		fx.broken = true
		if w := fx.call(within(ctx, api.Call{Reveal: true}), http.MethodPatch, "a", goodKey, `{}`, "Idempotency-Key",
			"k"); w.Code < 500 {
			t.Errorf("PATCH a without a record = %d %s, want 500 or more", w.Code, w.Body)
		}
	})
	fx.broken = false
	actions := map[audit.Action]int{}
	for _, e := range fx.records(t) {
		actions[e.Action]++
	}
	if len(actions) != 2 || actions[audit.Reveal] != 1 || actions[changeThing.Audit] != 1 {
		t.Errorf("recorded actions = %v, want one %s and one %s", actions, audit.Reveal, changeThing.Audit)
	}
}
