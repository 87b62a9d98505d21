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
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// noter is callers that count how often the use of a key is noted.
type noter struct {
	callers
	noted atomic.Int32
}

// NoteUse implements api.UseNoter.
func (n *noter) NoteUse(context.Context, auth.Principal) func() {
	n.noted.Add(1)
	return func() {}
}

type batchIn struct{}

// mayPatch is a key that may change things, and not read them.
const mayPatch = "patcher"

// Authenticate implements api.Authenticator.
func (n *noter) Authenticate(ctx context.Context, key string) (auth.Principal, error) {
	if key == mayPatch {
		p := auth.Principal{AccountID: "a-1", AccountName: "acme", KeyID: "akey_2", Permissions: auth.Full()}
		p.Permissions.Scopes = []auth.Scope{auth.KeyBuckets.Write()}
		return p, nil
	}
	return n.callers.Authenticate(ctx, key)
}

// fixedRoot is a root key.
type fixedRoot struct{}

// Root implements seal.KeySource.
func (fixedRoot) Root(context.Context) ([]byte, error) { return bytes.Repeat([]byte("k"), 32), nil }

var _ seal.KeySource = fixedRoot{}

// tool is a server whose operation batch makes requests of the server itself.
type tool struct {
	*api.Server
	items  *memory.Backend
	broken bool
	// unread is how many reads are left before one fails, 0 for none that fails.
	unread  atomic.Int64
	log     *bytes.Buffer
	callers *noter
	// batch is what the operation does.
	batch func(ctx context.Context)
	// addresses are those at which the changes were found.
	addresses []string
}

// Transact implements store.Backend.
func (o *tool) Transact(ctx context.Context, token string, writes []store.Write) error {
	if o.broken {
		return errors.New("the table is gone")
	}
	return o.items.Transact(ctx, token, writes)
}

// Read implements store.Backend.
func (o *tool) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if o.unread.Add(-1) == 0 {
		return nil, errors.New("the table is gone")
	}
	return o.items.Read(ctx, keys)
}

// Query implements store.Backend.
func (o *tool) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	return o.items.Query(ctx, q)
}

type record struct {
	Text string `dynamodbav:"text"`
}

func newTool(t *testing.T) *tool {
	o := &tool{items: memory.New(), log: &bytes.Buffer{}, callers: &noter{}}
	table := storetest.Over(t, o)
	now := func() time.Time { return storetest.Epoch }
	at := func(name string) store.Key { return store.Key{PK: "thing#" + name, SK: "."} }
	batch := api.Operation[batchIn, api.NoContent]{ID: "Tools_batch", Method: "POST", Path: "/mcp", Status: 204}
	read := readThing
	read.Scope = auth.AccountKeys.Read() // another one than that of its change
	o.Server = api.Open(installation.Parts{
		Table: table, Key: fixedRoot{}, Log: slog.New(slog.NewJSONHandler(o.log, nil)), IDs: ids.NewSource(storetest.Random(t), now), Now: now,
	}, o.callers, []api.Route{
		batch.To(func(ctx context.Context, _ *batchIn) (*api.NoContent, error) {
			o.batch(ctx)
			return &api.NoContent{}, nil
		}),
		read.To(func(ctx context.Context, in *thingIn) (*thingOut, error) {
			var r record
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
		touchThing.To(func(ctx context.Context, in *thingIn) (*api.NoContent, error) {
			return &api.NoContent{}, table.Commit(ctx, store.Put(at(in.Name), record{"touched"}), audit.Record(ctx, audit.Resource{Type: "thing", ID: in.Name}))
		}),
		changeThing.To(func(ctx context.Context, in *changeIn) (*changeOut, error) {
			o.addresses = append(o.addresses, api.Address(ctx))
			if in.Name == "same" {
				return &changeOut{}, nil // and nothing is to be changed
			}
			if in.Name == "refused" {
				return nil, fault.New(fault.Conflict, "It is not to be changed.")
			}
			// Two commits, of which the second one decides.
			if err := table.Commit(ctx, store.Put(store.Key{PK: "prepared#" + in.Name, SK: "."}, record{})); err != nil {
				return nil, err
			}
			return &changeOut{}, table.Commit(ctx, store.Put(at(in.Name), record{in.Body.Description.Value}), audit.Record(ctx, audit.Resource{Type: "thing", ID: in.Name}))
		}),
	})
	return o
}

// touchThing is an action on a thing.
var touchThing = api.Operation[thingIn, api.NoContent]{
	ID: "Things_touch", Method: "POST", Path: "/v1/accounts/{accountName}/things/{name}/touch", Status: 204,
	Scope: auth.KeyBuckets.Write(), Audit: "key-bucket.update",
}

// call makes a request within a context.
func (o *tool) call(ctx context.Context, method, name, key, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, thing+name, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	return w
}

// outer asks the operation that makes requests.
func (o *tool) outer(t *testing.T, batch func(ctx context.Context)) *httptest.ResponseRecorder {
	t.Helper()
	o.batch = batch
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example.com/stage/../mcp", nil)
	r.URL.Path = "/mcp"
	r.Header.Set("Authorization", "Bearer "+goodKey)
	r.Header.Set("User-Agent", "an agent")
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	if w.Code != http.StatusNoContent {
		t.Fatalf("the outer request is answered %d %s", w.Code, w.Body)
	}
	return w
}

// records are the audit records that there are.
func (o *tool) records(t *testing.T) (out []audit.Entry) {
	t.Helper()
	for key, item := range o.items.Items() {
		if !audit.IsRecord(key) {
			continue
		}
		_, e, ok := audit.Decode(item)
		if !ok {
			t.Fatalf("a record that cannot be read: %v", item)
		}
		out = append(out, e)
	}
	return out
}

func within(ctx context.Context, c api.Call) context.Context {
	c.Source = "mcp"
	return api.Within(ctx, c)
}

// TestEachCallOfARequestHasItsRecord: of several changes in one request none is lost, and
// each is known by the answer's id; the log tells which request they are of.
func TestEachCallOfARequestHasItsRecord(t *testing.T) {
	o := newTool(t)
	answered := map[string]string{}
	outer := o.outer(t, func(ctx context.Context) {
		ctx = within(ctx, api.Call{})
		for _, name := range []string{"a", "b", "refused", "c"} {
			w := o.call(ctx, http.MethodPatch, name, goodKey, `{}`)
			if name != "refused" && w.Code != http.StatusOK {
				t.Errorf("%s is answered %d %s", name, w.Code, w.Body)
			}
			answered[w.Header().Get("X-Request-Id")] = name
		}
	}).Header().Get("X-Request-Id")
	records := o.records(t)
	if len(records) != 4 || len(answered) != 4 || answered[outer] != "a" {
		t.Fatalf("of four changes there are %d records, and the ids %v; the outer one is %s", len(records), answered, outer)
	}
	for _, e := range records {
		if name := answered[e.RequestID]; *e.Route.Source != "mcp" || *e.Route.URL != thing+name || *e.Route.Method != http.MethodPatch ||
			*e.Context.UserAgent != "an agent" || *e.Success == (name == "refused") || e.Metadata != nil {
			t.Errorf("the change of %s is recorded as %+v", name, e)
		}
	}
	for _, at := range o.addresses {
		if !strings.HasPrefix(at, "https://api.example.com"+thing) && !strings.HasPrefix(at, "http://api.example.com"+thing) {
			t.Errorf("a call was found at %s", at)
		}
	}
	if n := strings.Count(o.log.String(), `"within":"`+outer+`"`); n != 4 || strings.Count(o.log.String(), `"source":"mcp"`) != 4 {
		t.Errorf("%d calls of 4 are logged as the request's:\n%s", n, o.log)
	}
}

// TestCallsAtOnceHaveARecordEach: none takes the place of another.
func TestCallsAtOnceHaveARecordEach(t *testing.T) {
	const calls = 8
	o := newTool(t)
	o.outer(t, func(ctx context.Context) {
		o.call(ctx, http.MethodPatch, "a", goodKey, `{}`)
		before := len(o.records(t))
		var wg sync.WaitGroup
		for range calls {
			wg.Go(func() {
				if w := o.call(within(ctx, api.Call{Reveal: true}), http.MethodGet, "a", goodKey, ""); w.Code != http.StatusOK {
					t.Errorf("answered %d %s", w.Code, w.Body)
				}
			})
		}
		wg.Wait()
		if n := len(o.records(t)) - before; n != calls {
			t.Errorf("%d calls left %d records", calls, n)
		}
	})
}

// TestACallHasItsOwnKey: who makes a request lends the calls in it nothing.
func TestACallHasItsOwnKey(t *testing.T) {
	o := newTool(t)
	o.outer(t, func(ctx context.Context) {
		ctx = within(ctx, api.Call{})
		for key, status := range map[string]int{"": 401, "other": 401, readKey: 403} {
			if w := o.call(ctx, http.MethodPatch, "a", key, `{}`); w.Code != status {
				t.Errorf("the key %q is answered %d, want %d", key, w.Code, status)
			}
		}
	})
}

// TestSecretsAreShownOnceThatIsRecorded: a read that is asked for secrets leaves a record
// that names it and no value, and answers nothing where there can be none.
func TestSecretsAreShownOnceThatIsRecorded(t *testing.T) {
	o := newTool(t)
	o.outer(t, func(ctx context.Context) {
		o.call(within(ctx, api.Call{}), http.MethodPatch, "a", goodKey, `{"description":"gwsec"}`)
	})
	before := len(o.records(t))
	o.outer(t, func(ctx context.Context) {
		if w := o.call(within(ctx, api.Call{}), http.MethodGet, "a", goodKey, ""); w.Code != http.StatusOK || len(o.records(t)) != before {
			t.Errorf("a masked read is answered %d %s, and recorded", w.Code, w.Body)
		}
		ctx = within(ctx, api.Call{Reveal: true})
		o.broken = true
		if w := o.call(ctx, http.MethodGet, "a", goodKey, ""); w.Code < 500 || strings.Contains(w.Body.String(), "gwsec") || w.Header().Get("ETag") != "" {
			t.Errorf("without a record a read is answered %d %s", w.Code, w.Body)
		}
		o.broken = false
		if w := o.call(ctx, http.MethodGet, "absent", goodKey, ""); w.Code != http.StatusNotFound || len(o.records(t)) != before {
			t.Errorf("what is not there is answered %d %s, and recorded", w.Code, w.Body)
		}
		w := o.call(ctx, http.MethodGet, "a", goodKey, "")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "gwsec") || w.Header().Get("ETag") == "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("a read is answered %d %s", w.Code, w.Body)
		}
		for _, e := range o.records(t) {
			if e.RequestID != w.Header().Get("X-Request-Id") {
				continue
			}
			text, err := json.Marshal(e)
			if err != nil || strings.Contains(string(text), "gwsec") || e.Action != audit.Reveal || e.Metadata != nil || *e.Route.Source != "mcp" || *e.Route.URL != thing+"a" ||
				len(e.Resources) != 1 || e.Resources[0].Type != "operation" || e.Resources[0].ID != "Things_read" || fmt.Sprint(e.Resources[0].Metadata) != "map[accountName:acme name:a]" {
				t.Errorf("recorded as %s, %v", text, err)
			}
			return
		}
		t.Error("no record tells of it")
	})
}

// TestAChangeSaysThatSecretsWereAskedFor in its own record, and a record of its own does
// where it has none.
func TestAChangeSaysThatSecretsWereAskedFor(t *testing.T) {
	for name, action := range map[string]audit.Action{"a": changeThing.Audit, "same": audit.Reveal} {
		o := newTool(t)
		o.outer(t, func(ctx context.Context) {
			if w := o.call(within(ctx, api.Call{Reveal: true}), http.MethodPatch, name, goodKey, `{}`); w.Code != http.StatusOK {
				t.Errorf("answered %d %s", w.Code, w.Body)
			}
		})
		records := o.records(t)
		if len(records) != 1 || records[0].Action != action || action != audit.Reveal && records[0].Metadata["secretsRevealed"] != "true" {
			t.Errorf("the change of %s is recorded as %+v", name, records)
		}
	}
}

// TestARepeatedAnswerIsRecordedWhenItIsShown: its change has a record that says nothing of
// secrets.
func TestARepeatedAnswerIsRecordedWhenItIsShown(t *testing.T) {
	o := newTool(t)
	o.outer(t, func(ctx context.Context) {
		for i, c := range []api.Call{{}, {}, {Reveal: true}} {
			w := o.call(within(ctx, c), http.MethodPatch, "a", goodKey, `{}`, "Idempotency-Key", "k")
			if replayed := w.Header().Get("Idempotent-Replayed") != ""; w.Code != http.StatusOK || replayed != (i > 0) {
				t.Errorf("try %d is answered %d %s, repeated: %v", i, w.Code, w.Body, replayed)
			}
		}
		o.broken = true
		if w := o.call(within(ctx, api.Call{Reveal: true}), http.MethodPatch, "a", goodKey, `{}`, "Idempotency-Key", "k"); w.Code < 500 {
			t.Errorf("without a record it is answered %d %s", w.Code, w.Body)
		}
	})
	o.broken = false
	actions := map[audit.Action]int{}
	for _, e := range o.records(t) {
		actions[e.Action]++
	}
	if len(actions) != 2 || actions[audit.Reveal] != 1 || actions[changeThing.Audit] != 1 {
		t.Errorf("recorded are %v", actions)
	}
}

// dryRun makes a dry run and gives what it is answered.
func (o *tool) dryRun(t *testing.T, name, key, body string, header ...string) (status int, out api.DryRun) {
	t.Helper()
	before := o.items.Items()
	o.outer(t, func(ctx context.Context) {
		w := o.call(within(ctx, api.Call{DryRun: true}), http.MethodPatch, name, key, body, header...)
		if status = w.Code; status == http.StatusOK {
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
				t.Fatal(err)
			}
		}
	})
	if !reflect.DeepEqual(before, o.items.Items()) {
		t.Error("a dry run has written")
	}
	return status, out
}

func TestADryRunTellsBeforeAndAfter(t *testing.T) {
	o := newTool(t)
	if status, told := o.dryRun(t, "a", goodKey, `{"description":"new"}`); status != 200 || string(told.Before) != "null" || !strings.Contains(string(told.After), `"text":"new"`) || told.AuditRecord.Action != changeThing.Audit {
		t.Errorf("answered %d %s %s %+v", status, told.Before, told.After, told.AuditRecord)
	}
	o.outer(t, func(ctx context.Context) { o.call(ctx, http.MethodPatch, "a", goodKey, `{"description":"old"}`) })
	if _, told := o.dryRun(t, "a", goodKey, `{"description":"new"}`); !strings.Contains(string(told.Before), `"text":"old"`) || !strings.Contains(string(told.After), `"text":"new"`) {
		t.Errorf("answered %s %s", told.Before, told.After)
	}
	if _, told := o.dryRun(t, "a", goodKey, `{"description":"new"}`); told.Removes != nil {
		t.Errorf("a change that is no deletion removes %v", told.Removes)
	}
	if status, _ := o.dryRun(t, "refused", goodKey, `{}`); status != http.StatusConflict {
		t.Errorf("what is refused is answered %d", status)
	}
	if status, told := o.dryRun(t, "same", goodKey, `{}`); status != 200 || told.AuditRecord != nil {
		t.Errorf("what changes nothing is answered %d %+v", status, told)
	}
}

// TestADryRunOnACondition holds as its change does.
func TestADryRunOnACondition(t *testing.T) {
	o := newTool(t)
	var tag string
	o.outer(t, func(ctx context.Context) {
		o.call(ctx, http.MethodPatch, "a", goodKey, `{"description":"old"}`)
		tag = o.call(ctx, http.MethodGet, "a", goodKey, "").Header().Get("ETag")
	})
	if status, told := o.dryRun(t, "a", goodKey, `{"description":"new"}`, "If-Match", tag); status != 200 || !strings.Contains(string(told.After), `"text":"new"`) {
		t.Errorf("a condition that holds is answered %d %s", status, told.After)
	}
	if status, _ := o.dryRun(t, "a", goodKey, `{}`, "If-Match", `"another"`); status != http.StatusPreconditionFailed {
		t.Errorf("a condition that does not hold is answered %d", status)
	}
}

func TestADryRunShowsNothingThatMayNotBeRead(t *testing.T) {
	o := newTool(t)
	o.outer(t, func(ctx context.Context) { o.call(ctx, http.MethodPatch, "a", goodKey, `{"description":"old"}`) })
	if status, told := o.dryRun(t, "a", mayPatch, `{"description":"new"}`); status != 200 || string(told.Before) != "null" || strings.Contains(string(told.After), "text") {
		t.Errorf("a key that may not read is answered %d %s %s", status, told.Before, told.After)
	}
	o.outer(t, func(ctx context.Context) {
		for key, shown := range map[string]bool{mayPatch: false, goodKey: true} {
			w := o.call(within(ctx, api.Call{DryRun: true}), http.MethodPost, "a/touch", key, "")
			if w.Code != http.StatusOK || strings.Contains(w.Body.String(), `"text":"old"`) != shown || strings.Contains(w.Body.String(), `"text":"touched"`) != shown {
				t.Errorf("an action by %s is answered %d %s", key, w.Code, w.Body)
			}
		}
	})
}

// TestADryRunOverReadsThatFailTellsNothingWrong: it tells all of it, or that it cannot.
func TestADryRunOverReadsThatFailTellsNothingWrong(t *testing.T) {
	o := newTool(t)
	o.outer(t, func(ctx context.Context) { o.call(ctx, http.MethodPatch, "a", goodKey, `{"description":"old"}`) })
	failed := 0
	for n := 1; n <= 12; n++ {
		o.outer(t, func(ctx context.Context) {
			o.unread.Store(int64(n))
			w := o.call(within(ctx, api.Call{DryRun: true}), http.MethodPost, "a/touch", goodKey, "")
			o.unread.Store(0)
			whole := strings.Contains(w.Body.String(), `"text":"old"`) && strings.Contains(w.Body.String(), `"text":"touched"`)
			if w.Code != http.StatusOK {
				failed++
			}
			if (w.Code == http.StatusOK) != whole || w.Code != http.StatusOK && w.Code < 500 {
				t.Errorf("where read %d fails it is answered %d %s", n, w.Code, w.Body)
			}
		})
	}
	if failed == 0 || failed == 12 {
		t.Errorf("of 12 dry runs %d have failed", failed)
	}
}

// TestADryRunShowsNoSecrets, since it could not record that it was asked to.
func TestADryRunShowsNoSecrets(t *testing.T) {
	o := newTool(t)
	o.outer(t, func(ctx context.Context) {
		w := o.call(within(ctx, api.Call{DryRun: true, Reveal: true}), http.MethodPatch, "a", goodKey, `{}`)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "not for both") {
			t.Errorf("answered %d %s", w.Code, w.Body)
		}
	})
	if len(o.items.Items()) > 0 {
		t.Error("it has written")
	}
}

// TestADryRunNotesNoUseOfItsKey: it writes nothing at all.
func TestADryRunNotesNoUseOfItsKey(t *testing.T) {
	o := newTool(t)
	o.dryRun(t, "a", goodKey, `{}`)
	if n := o.callers.noted.Load(); n != 1 { // the outer request's
		t.Errorf("%d uses are noted", n)
	}
}
