package functions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
)

// dryRunTest is a change, and a fixture in the state just before the change.
type dryRunTest struct {
	*functionstest.Fixture
	key        string
	d          api.Declaration
	path, body string
	objects    map[string]string // the digests of the bucket's objects just before the change
	items      table             // the items of the table just before the change
}

// newDryRunTest returns a fixture in the state just before one of the valid requests of an operation. All fixtures for
// the same request are equal, including the ids that they will assign.
func (p populatedFixture) newDryRunTest(t *testing.T, d api.Declaration, r events.Request) dryRunTest {
	t.Helper()
	fx, n := p.Copy(t), maps.Clone(p.values)
	if err := p.sampleSet.RunSteps(fx.Client(p.key), n, r.Prerequisites); err != nil {
		t.Fatal(err)
	}
	path, body := requestTarget(t, d, r, n)
	fx.Now = fx.Now.AddDate(0, 0, 1)
	fx.Restart()
	return dryRunTest{fx, p.key, d, path, body, objectDigests(fx), fx.Items.Snapshot()}
}

// dryRun makes a dry run of the change.
func (dt dryRunTest) dryRun(headers ...string) functionstest.Response {
	dt.Helper()
	return dt.CallContext(withDryRun(dt.Context()), dt.key, dt.d.Method, dt.path, dt.body, headers...)
}

func withDryRun(ctx context.Context) context.Context {
	return api.WithCall(ctx, api.Call{Source: "mcp", DryRun: true})
}

// assertUnchanged fails the test if the table or the bucket of the fixture has changed.
func (dt dryRunTest) assertUnchanged() {
	dt.Helper()
	if !reflect.DeepEqual(dt.items, dt.Items.Snapshot()) {
		dt.Errorf("the dry run changed the table, want no change: %s",
			cmp.Diff(itemTexts(dt.items), itemTexts(dt.Items.Snapshot())))
	}
	if diff := cmp.Diff(dt.objects, objectDigests(dt.Fixture)); diff != "" {
		dt.Errorf("the dry run changed the bucket, want no change: %s", diff)
	}
}

// itemTexts returns the items of a table as readable texts, by table key.
func itemTexts(items table) map[string]string {
	out := map[string]string{}
	for key, item := range items {
		text, err := json.Marshal(item)
		if err != nil {
			text = []byte(err.Error())
		}
		out[key.PK+" "+key.SK] = string(text)
	}
	return out
}

// objectDigests returns the digests of the objects in a fixture's bucket, by key.
func objectDigests(fx *functionstest.Fixture) map[string]string {
	fx.Helper()
	out := map[string]string{}
	for o, err := range fx.Objects.List(fx.Context(), "") {
		if err != nil {
			fx.Fatal(err)
		}
		out[o.Key] = fmt.Sprint(o)
	}
	return out
}

// decodeDryRun decodes the response of a dry run.
func decodeDryRun(t *testing.T, resp functionstest.Response) (out api.DryRunResult) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(resp.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// readObject reads the object of a change, and returns "null" if the object is missing. The path is that of the change,
// the read path that the change declares, or the parent of its path. readObject returns false for a creation, and if no
// operation reads one of these paths.
func (dt dryRunTest) readObject(t *testing.T) (json.RawMessage, bool) {
	t.Helper()
	single := map[string]bool{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			single[d.Path] = single[d.Path] || d.Single
		}
	}
	if strings.HasSuffix(string(dt.d.Audit), "create") {
		return nil, false
	}
	path, pattern := readPath(t, dt.d, dt.path, dt.body), dt.d.ReadPath
	if !single[pattern] && !strings.HasSuffix(pattern, "}") {
		pattern = pattern[:strings.LastIndex(pattern, "/")]
		path = path[:strings.LastIndex(path, "/")]
	}
	if !single[pattern] {
		return nil, false
	}
	resp := dt.Call(dt.key, http.MethodGet, path, "")
	if resp.Status == http.StatusNotFound {
		return json.RawMessage("null"), true
	}
	return json.RawMessage(strings.TrimSpace(resp.Want(http.StatusOK).Body)), true
}

// TestDryRunMatchesChange makes a dry run of every change, and makes the change in another fixture with the same
// history. The report must contain exactly the response, the state after the change and the audit record. The dry run
// must have no effect.
func TestDryRunMatchesChange(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, fewerIfRacing(mutates), func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			dry, changed := p.newDryRunTest(t, d, r), p.newDryRunTest(t, d, r)
			dry.UseSingleServer() // the dry run also reads with operations of other groups
			report := decodeDryRun(t, dry.dryRun().Want(http.StatusOK))
			dry.assertUnchanged()

			before, isRead := changed.readObject(t)
			changed.Restart() // so that request IDs are equal
			resp := changed.Call(changed.key, d.Method, changed.path, changed.body).Want(d.Status)
			after := json.RawMessage(strings.TrimSpace(resp.Body))
			switch {
			case isRead:
				after, _ = changed.readObject(t)
			case d.Method == http.MethodDelete:
				after = nil
			}
			want := api.DryRunResult{
				DryRun: true, Operation: d.ID, Status: d.Status, Before: before, After: after,
				Removes: report.Removes,
			}
			if records := newAuditRecords(changed.Fixture, changed.items); len(records) > 0 {
				e := records[0]
				e.TTL, e.Route.Source = 0, new("mcp")
				want.AuditRecord = &e
			}
			if len(want.Before) == 0 {
				want.Before = json.RawMessage("null")
			}
			if len(want.After) == 0 {
				want.After = json.RawMessage("null")
			}
			if diff := cmp.Diff(normalize(t, want), normalize(t, report)); diff != "" {
				t.Errorf("%s %s: dry run (-want +got):\n%s", d.Method, dry.path, diff)
			}
			// After the dry run, the same process can make the change.
			dry.Call(dry.key, d.Method, dry.path, dry.body).Want(d.Status)
		}
	})
}

// normalize returns the report of a dry run as text, without the upload address, which is not valid in a dry run.
func normalize(t *testing.T, d api.DryRunResult) string {
	t.Helper()
	var out bytes.Buffer
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Indent(&out, text, "", " "); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		if !strings.Contains(line, `"uploadUrl"`) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// TestDryRunCountsRemovedObjects makes each deletion, runs all durable operations, and compares the objects that are
// missing in the table with the counts of the dry run.
func TestDryRunCountsRemovedObjects(t *testing.T) {
	p := newPopulatedFixture(t)
	isDeletion := func(d api.Declaration) bool { return d.Method == http.MethodDelete && d.Mutates() }
	forEachOperation(t, isDeletion, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			c := p.newDryRunTest(t, d, r)
			reported := decodeDryRun(t, c.dryRun().Want(http.StatusOK)).Removes
			unchangedFixture := c.Copy(t) // without the deletion, but with the durable operations that had already begun
			unchangedFixture.FinishAll()
			c.Call(c.key, d.Method, c.path, c.body).Want(d.Status)
			c.FinishAll()
			removed := map[string]int{}
			after := countObjects(t, c.Items.Snapshot())
			for kind, n := range countObjects(t, unchangedFixture.Items.Snapshot()) {
				if n != after[kind] {
					removed[kind] = n - after[kind]
				}
			}
			maps.DeleteFunc(reported, func(_ string, n int) bool { return n == 0 })
			if diff := cmp.Diff(removed, reported); diff != "" {
				t.Errorf("%s: removed objects (-want +got):\n%s", c.path, diff)
			}
		}
	})
}

// countObjects returns the numbers of objects in a table, by the names that dry runs use.
func countObjects(t *testing.T, items table) map[string]int {
	t.Helper()
	kindsByPrefix := map[string]string{
		"account-keys": "accountKeys", "projects": "projects", "environments": "environments", "deployment": "deployments",
		"variables": "variables", "bucket-id": "keyBuckets", "consumers": "consumers", "consumer-keys": "apiKeys",
		"client-ca": "clientMtlsCaCertificates", "mtls-certificate": "mtlsCertificates", "custom-domain": "customDomains",
		"metering-bucket": "meteringBuckets", "metering-plan": "plans", "metering-subscription": "subscriptions",
		"tunnel": "tunnels", "tunnel-service": "tunnelServices",
	}
	out := map[string]int{}
	for key, item := range items {
		prefix, _, _ := strings.Cut(key.PK, "#")
		if kind, ok := kindsByPrefix[prefix]; ok && item["deletedOn"] == nil {
			out[kind]++
		}
		var record struct {
			Managers    []any `dynamodbav:"managers"`
			Invites     []any `dynamodbav:"invites"`
			Mappings    []any `dynamodbav:"mappings"`
			Certificate any   `dynamodbav:"certificate"`
			Latest      int   `dynamodbav:"latest"`
		}
		switch prefix {
		case "deployment": // a deployment is hidden until it has a build
			if err := store.Decode(item, &record); err != nil {
				t.Fatal(err)
			}
			if record.Latest == 0 && item["deletedOn"] == nil {
				out["deployments"]--
			}
		case "consumers", "custom-domain":
			if err := store.Decode(item, &record); err != nil {
				t.Fatal(err)
			}
			out["managers"] += len(record.Managers)
			out["managerInvites"] += len(record.Invites)
			out["customDomainMappings"] += len(record.Mappings)
			if record.Certificate != nil {
				out["customDomainCertificates"]++
			}
		}
	}
	return out
}

// TestDryRunIsRefusedLikeItsChange checks that a dry run is refused like its change: without a key, for a key without
// the scope, and for a key that cannot see the object. It also covers failed conditions and invalid idempotency keys.
// No refusal must be recorded, because no change was requested.
func TestDryRunIsRefusedLikeItsChange(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, fewerIfRacing(mutates), func(t *testing.T, d api.Declaration) {
		c := p.newDryRunTest(t, d, p.sampleSet.Request(d))
		keys := map[string]string{
			"no key": "", "invalid key": "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000",
			"key without scopes":     c.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = nil }),
			"key of another project": c.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"another"} }),
			"key of another account": c.CreateAccount("rival"),
		}
		c.items = c.Items.Snapshot()
		headers := [][]string{nil, {"If-Match", `"another"`}, {"If-Match", "none"}, {"Idempotency-Key", "a b"}}
		keys["valid key"] = c.key
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			for _, h := range headers {
				changed := p.newDryRunTest(t, d, p.sampleSet.Request(d))
				changed.Items.Restore(c.Items)
				changed.Restart()
				c.Restart()
				got := c.CallContext(withDryRun(c.Context()), keys[name], d.Method, c.path, c.body, h...)
				want := changed.Call(keys[name], d.Method, changed.path, changed.body, h...)
				c.assertUnchanged()
				if want.Status == d.Status {
					got.Want(http.StatusOK)
					continue
				}
				if got.Status != want.Status || got.Message() != want.Message() {
					t.Errorf("%s: dry run with the headers %v = %s, want as the change %s", name, h, got.Body, want.Body)
				}
			}
		}
	})
}

// TestDryRunIgnoresIdempotencyKey checks that the response of a dry run is not stored for repeats, and that a dry run
// never gets a stored response.
func TestDryRunIgnoresIdempotencyKey(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, fewerIfRacing(takesIdempotencyKey), func(t *testing.T, d api.Declaration) {
		c := p.newDryRunTest(t, d, p.sampleSet.Request(d))
		header := []string{"Idempotency-Key", "order-17"}
		c.dryRun(header...).Want(http.StatusOK, `"dryRun":true`)
		c.assertUnchanged()
		c.Call(c.key, d.Method, c.path, c.body, header...).Want(d.Status).WantHeader("Idempotent-Replayed", "")
		afterChange := c.Items.Snapshot()
		withKey, withoutKey := c.dryRun(header...).WantHeader("Idempotent-Replayed", ""), c.dryRun()
		hasAuditRecord := func(resp functionstest.Response) bool { return !strings.Contains(resp.Body, `"auditRecord":null`) }
		if withKey.Status != withoutKey.Status || hasAuditRecord(withKey) != hasAuditRecord(withoutKey) {
			t.Errorf("dry run with a used Idempotency-Key = %s, want as without it %s", withKey.Body, withoutKey.Body)
		}
		if !reflect.DeepEqual(afterChange, c.Items.Snapshot()) {
			t.Error("a dry run after its change changed the table, want no change")
		}
		c.Call(c.key, d.Method, c.path, c.body, header...).Want(d.Status).WantHeader("Idempotent-Replayed", "true")
	})
}

// TestDryRunOverFailingTableChangesNothing makes each table call of a dry run fail in each way. The dry run must change
// nothing, and its response must not say that its result is unknown.
func TestDryRunOverFailingTableChangesNothing(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, fewerIfRacing(mutates), func(t *testing.T, d api.Declaration) {
		c := p.newDryRunTest(t, d, p.sampleSet.Request(d))
		counter := &failingBackend{Backend: c.Items, failAt: noCall}
		c.Parts.Table = storetest.NewWithBackend(t, counter, storetest.Clock(c.Parts.Now))
		c.Restart()
		c.dryRun().Want(http.StatusOK)
		for callNumber := range int(counter.calls.Load()) {
			for _, f := range failureModes() {
				backend := &failingBackend{Backend: c.Items, failureMode: f, failAt: callNumber}
				c.Parts.Table = storetest.NewWithBackend(t, backend, storetest.Clock(c.Parts.Now))
				c.Restart()
				if resp := c.dryRun(); resp.Status != http.StatusOK && strings.Contains(resp.Body, "not known whether") {
					t.Errorf(`%s at call %d: dry run = %s, want no "not known whether"`, f.name, callNumber, resp.Body)
				}
				c.assertUnchanged()
			}
		}
	})
}

// TestDryRunDuringConcurrentChange makes another change while a dry run reads the table. The status of the dry run must
// be below 500, or 503, and the dry run must not affect the other change.
func TestDryRunDuringConcurrentChange(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, fewerIfRacing(mutates), func(t *testing.T, d api.Declaration) {
		for _, concurrent := range p.groupChanges(d) {
			if len(concurrent.Prerequisites) > 0 {
				continue
			}
			reads := 0
			c := p.newDryRunTest(t, d, p.sampleSet.Request(d))
			counter := &readHook{Backend: c.Items, hook: func(int) { reads++ }}
			c.Parts.Table = storetest.NewWithBackend(t, counter, storetest.Clock(c.Parts.Now))
			c.Restart()
			c.dryRun().Want(http.StatusOK)
			for readNumber := 1; readNumber <= reads; readNumber++ {
				c := p.newDryRunTest(t, d, p.sampleSet.Request(d))
				path, body := requestTarget(t, concurrent.Declaration, concurrent.Request, p.values)
				backend := &readHook{Backend: c.Items}
				backend.hook = func(n int) {
					if n == readNumber {
						backend.hook = func(int) {}
						c.Call(c.key, concurrent.Method, path, body)
						c.items = c.Items.Snapshot()
					}
				}
				c.Parts.Table = storetest.NewWithBackend(t, backend, storetest.Clock(c.Parts.Now))
				c.Restart()
				if resp := c.dryRun(); resp.Status >= http.StatusInternalServerError &&
					resp.Status != http.StatusServiceUnavailable {
					t.Errorf("dry run during %s at read %d = %d %s, want a status below 500, or 503",
						concurrent.ID, readNumber, resp.Status, resp.Body)
				}
				c.assertUnchanged()
			}
		}
	})
}

// readHook calls a function before each read, with the number of the read from 1.
type readHook struct {
	store.Backend
	n    int
	hook func(n int)
}

// Read implements store.Backend.
func (h *readHook) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	h.n++
	h.hook(h.n)
	return h.Backend.Read(ctx, keys)
}

// TestReadInDryRunReturnsTheSameResponse checks that a read ignores the request for a dry run, because it has no
// effect.
func TestReadInDryRunReturnsTheSameResponse(t *testing.T) {
	p := newPopulatedFixture(t)
	isRead := func(d api.Declaration) bool { return !d.Mutates() && !d.ContainsRequests }
	effects := []api.Use{
		api.PutItem, api.UpdateItem, api.DeleteItem, api.CheckItem, api.PresignUpload, api.DeleteUpload, api.WriteSource,
		api.DeleteSource, api.WriteArtifact, api.DeleteArtifact, api.WriteTruststore, api.DeleteTruststore,
	}
	forEachOperation(t, isRead, func(t *testing.T, d api.Declaration) {
		if slices.ContainsFunc(d.Uses, func(u api.Use) bool { return slices.Contains(effects, u) }) {
			t.Errorf("uses of %s = %v, want none that has an effect in a dry run", d.ID, d.Uses)
		}
		r := p.sampleSet.Request(d)
		a, b := p.newDryRunTest(t, d, r), p.newDryRunTest(t, d, r)
		want := a.Call(a.key, d.Method, a.path, a.body).Want(d.Status)
		if got := b.dryRun(); got.Status != want.Status || got.Body != want.Body {
			t.Errorf("dry run of %s = %s, want as without a dry run %s", d.ID, got.Body, want.Body)
		}
		b.assertUnchanged()
	})
}
