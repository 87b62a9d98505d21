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
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// trial is a change that can be tried, in a world that is at the moment before it.
type trial struct {
	*functionstest.World
	key        string
	d          api.Declaration
	path, body string
	objects    map[string]string
	items      table
}

// trial makes the moment before one of an operation's good requests. Two of them are
// the same in all, with the ids that they will give.
func (p populated) trial(t *testing.T, d api.Declaration, r events.Request) trial {
	t.Helper()
	w, n := p.Copy(t), maps.Clone(p.names)
	if err := p.book.Steps(w.Client(p.key), n, r.After); err != nil {
		t.Fatal(err)
	}
	path, body := target(t, d, r, n)
	w.Now = w.Now.AddDate(0, 0, 1)
	w.Restart()
	return trial{w, p.key, d, path, body, objectsOf(w), w.Items.Snapshot()}
}

// try makes a dry run.
func (c trial) try(headers ...string) functionstest.Answer {
	c.Helper()
	return c.Within(dry(c.Context()), c.key, c.d.Method, c.path, c.body, headers...)
}

func dry(ctx context.Context) context.Context {
	return api.Within(ctx, api.Call{Source: "mcp", DryRun: true})
}

// left fails unless all is as it was before.
func (c trial) left() {
	c.Helper()
	if !reflect.DeepEqual(c.items, c.Items.Snapshot()) {
		c.Errorf("it wrote to the table: %s", cmp.Diff(textOf(c.items), textOf(c.Items.Snapshot())))
	}
	if diff := cmp.Diff(c.objects, objectsOf(c.World)); diff != "" {
		c.Errorf("it wrote to the bucket: %s", diff)
	}
}

// textOf shows items for people.
func textOf(in table) map[string]string {
	out := map[string]string{}
	for key, item := range in {
		text, err := json.Marshal(item)
		if err != nil {
			text = []byte(err.Error())
		}
		out[key.PK+" "+key.SK] = string(text)
	}
	return out
}

// objectsOf gives what is in a world's bucket: the objects' digests by their keys.
func objectsOf(w *functionstest.World) map[string]string {
	w.Helper()
	out := map[string]string{}
	for o, err := range w.Objects.List(w.Context(), "") {
		if err != nil {
			w.Fatal(err)
		}
		out[o.Key] = fmt.Sprint(o)
	}
	return out
}

// document decodes what a dry run is answered.
func documentOf(t *testing.T, a functionstest.Answer) (out api.DryRun) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(a.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// readAt gives what a path is read as, "null" for nothing. It knows where by itself:
// the path of the change, the one that it declares, or the one above it; of what makes something nowhere.
func (c trial) readAt(t *testing.T) (json.RawMessage, bool) {
	t.Helper()
	single := map[string]bool{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			single[d.Path] = single[d.Path] || d.Single
		}
	}
	if strings.HasSuffix(string(c.d.Audit), "create") {
		return nil, false
	}
	path, declared := readPath(t, c.d, c.path, c.body), c.d.ReadAt
	if !single[declared] && !strings.HasSuffix(declared, "}") {
		declared = declared[:strings.LastIndex(declared, "/")]
		path = path[:strings.LastIndex(path, "/")]
	}
	if !single[declared] {
		return nil, false
	}
	a := c.Call(c.key, http.MethodGet, path, "")
	if a.Status == http.StatusNotFound {
		return json.RawMessage("null"), true
	}
	return json.RawMessage(strings.TrimSpace(a.Want(http.StatusOK).Body)), true
}

// TestADryRunTellsWhatItsChangeDoes tries every change, and makes it in another world of
// the same past: it is told before what it answers, what is read afterwards, and what
// is recorded, byte for byte, and the trial leaves nothing behind.
func TestADryRunTellsWhatItsChangeDoes(t *testing.T) {
	p := newPopulated(t)
	each(t, sampled(changing), func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			tried, done := p.trial(t, d, r), p.trial(t, d, r)
			tried.Whole() // what it shows of other groups depends on it
			told := documentOf(t, tried.try().Want(http.StatusOK))
			tried.left()

			before, read := done.readAt(t)
			done.Restart() // ids of requests begin anew
			answer := done.Call(done.key, d.Method, done.path, done.body).Want(d.Status)
			after := json.RawMessage(strings.TrimSpace(answer.Body))
			switch {
			case read:
				after, _ = done.readAt(t)
			case d.Method == http.MethodDelete:
				after = nil
			}
			want := api.DryRun{DryRun: true, Operation: d.ID, Status: d.Status, Before: before, After: after, Removes: told.Removes}
			if records := recorded(done.World, done.items); len(records) > 0 {
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
			if diff := cmp.Diff(comparable(t, want), comparable(t, told)); diff != "" {
				t.Errorf("%s %s: told and done differ (-done +told):\n%s", d.Method, tried.path, diff)
			}
			// The same process makes the change as if nothing had been.
			tried.Call(tried.key, d.Method, tried.path, tried.body).Want(d.Status)
		}
	})
}

// comparable is a document as text, without the address of an upload, which opens
// nothing in a dry run.
func comparable(t *testing.T, d api.DryRun) string {
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

// TestADryRunCountsWhatGoes deletes, has all operations end, and counts what the table
// has less.
func TestADryRunCountsWhatGoes(t *testing.T) {
	p := newPopulated(t)
	deletes := func(d api.Declaration) bool { return d.Method == http.MethodDelete && d.Mutates() }
	each(t, deletes, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			c := p.trial(t, d, r)
			told := documentOf(t, c.try().Want(http.StatusOK)).Removes
			other := c.Copy(t) // in which only what was begun before comes to its end
			other.Settle()
			c.Call(c.key, d.Method, c.path, c.body).Want(d.Status)
			c.Settle()
			gone := map[string]int{}
			after := there(t, c.Items.Snapshot())
			for of, n := range there(t, other.Items.Snapshot()) {
				if n != after[of] {
					gone[of] = n - after[of]
				}
			}
			maps.DeleteFunc(told, func(_ string, n int) bool { return n == 0 })
			if diff := cmp.Diff(gone, told); diff != "" {
				t.Errorf("%s: gone and told (-gone +told):\n%s", c.path, diff)
			}
		}
	})
}

// there counts what a table has, by the names of dry runs.
func there(t *testing.T, in table) map[string]int {
	t.Helper()
	spaces := map[string]string{
		"account-keys": "accountKeys", "projects": "projects", "environments": "environments", "deployment": "deployments",
		"variables": "variables", "bucket-id": "keyBuckets", "consumers": "consumers", "consumer-keys": "apiKeys",
		"client-ca": "clientMtlsCaCertificates", "mtls-certificate": "mtlsCertificates", "custom-domain": "customDomains",
		"metering-bucket": "meteringBuckets", "metering-plan": "plans", "metering-subscription": "subscriptions",
		"tunnel": "tunnels", "tunnel-service": "tunnelServices",
	}
	out := map[string]int{}
	for key, item := range in {
		space, _, _ := strings.Cut(key.PK, "#")
		if of, ok := spaces[space]; ok && item["deletedOn"] == nil {
			out[of]++
		}
		var record struct {
			Managers    []any `dynamodbav:"managers"`
			Invites     []any `dynamodbav:"invites"`
			Mappings    []any `dynamodbav:"mappings"`
			Certificate any   `dynamodbav:"certificate"`
			Latest      int   `dynamodbav:"latest"`
		}
		switch space {
		case "deployment": // which nobody sees before something was built for it
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

// TestADryRunIsRefusedWhatItsChangeIs: by a stranger, a key without the scope, one that
// does not see what it is about, a condition that does not hold, and a key of a
// repetition that is none; and no refusal is recorded, since no change was asked for.
func TestADryRunIsRefusedWhatItsChangeIs(t *testing.T) {
	p := newPopulated(t)
	each(t, sampled(changing), func(t *testing.T, d api.Declaration) {
		c := p.trial(t, d, p.book.Request(d))
		keys := map[string]string{
			"": "", "of nobody": "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000",
			"without scopes":        c.Key("acme", func(p *auth.Permissions) { p.Scopes = nil }),
			"of another project":    c.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"another"} }),
			"of an account's rival": c.Account("rival"),
		}
		c.items = c.Items.Snapshot()
		headers := [][]string{nil, {"If-Match", `"another"`}, {"If-Match", "none"}, {"Idempotency-Key", "a b"}}
		keys["good"] = c.key
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			for _, h := range headers {
				done := p.trial(t, d, p.book.Request(d))
				done.Items.Restore(c.Items)
				done.Restart()
				c.Restart()
				got := c.Within(dry(c.Context()), keys[name], d.Method, c.path, c.body, h...)
				want := done.Call(keys[name], d.Method, done.path, done.body, h...)
				c.left()
				if want.Status == d.Status {
					got.Want(http.StatusOK)
					continue
				}
				if got.Status != want.Status || got.Told() != want.Told() {
					t.Errorf("a key %s with %v is refused %s, and the change %s", name, h, got.Body, want.Body)
				}
			}
		}
	})
}

// TestADryRunAndAKeyOfARepetitionDoNotMeet: nothing is kept of a dry run, and none is
// answered what was kept.
func TestADryRunAndAKeyOfARepetitionDoNotMeet(t *testing.T) {
	p := newPopulated(t)
	each(t, sampled(repeatable), func(t *testing.T, d api.Declaration) {
		c := p.trial(t, d, p.book.Request(d))
		header := []string{"Idempotency-Key", "order-17"}
		c.try(header...).Want(http.StatusOK, `"dryRun":true`)
		c.left()
		c.Call(c.key, d.Method, c.path, c.body, header...).Want(d.Status).WantHeader("Idempotent-Replayed", "")
		done := c.Items.Snapshot()
		again, plain := c.try(header...).WantHeader("Idempotent-Replayed", ""), c.try()
		recorded := func(a functionstest.Answer) bool { return !strings.Contains(a.Body, `"auditRecord":null`) }
		if again.Status != plain.Status || recorded(again) != recorded(plain) {
			t.Errorf("a dry run is answered what was kept: %s, and without the key %s", again.Body, plain.Body)
		}
		if !reflect.DeepEqual(done, c.Items.Snapshot()) {
			t.Error("a dry run after its change wrote to the table")
		}
		c.Call(c.key, d.Method, c.path, c.body, header...).Want(d.Status).WantHeader("Idempotent-Replayed", "true")
	})
}

// TestADryRunOverATableThatFailsLeavesNothing: whatever call of it fails, and however.
func TestADryRunOverATableThatFailsLeavesNothing(t *testing.T) {
	p := newPopulated(t)
	each(t, sampled(changing), func(t *testing.T, d api.Declaration) {
		c := p.trial(t, d, p.book.Request(d))
		count := &failing{Backend: c.Items, at: none}
		c.Parts.Table = storetest.Over(t, count, storetest.Clock(c.Parts.Now))
		c.Restart()
		c.try().Want(http.StatusOK)
		for at := range int(count.calls.Load()) {
			for _, f := range failures() {
				broken := &failing{Backend: c.Items, failure: f, at: at}
				c.Parts.Table = storetest.Over(t, broken, storetest.Clock(c.Parts.Now))
				c.Restart()
				if a := c.try(); a.Status != http.StatusOK && strings.Contains(a.Body, "not known whether") {
					t.Errorf("%s at call %d: a dry run that is broken off says %s", f.name, at, a.Body)
				}
				c.left()
			}
		}
	})
}

// TestADryRunMeetsAChange between its look and its decision: it tells what comes of both,
// or is refused, and leaves the other change as it was made.
func TestADryRunMeetsAChange(t *testing.T) {
	p := newPopulated(t)
	each(t, sampled(changing), func(t *testing.T, d api.Declaration) {
		for _, other := range p.neighbours(d) {
			if len(other.After) > 0 {
				continue
			}
			reads := 0
			c := p.trial(t, d, p.book.Request(d))
			count := &onRead{Backend: c.Items, do: func(int) { reads++ }}
			c.Parts.Table = storetest.Over(t, count, storetest.Clock(c.Parts.Now))
			c.Restart()
			c.try().Want(http.StatusOK)
			for at := 1; at <= reads; at++ {
				c := p.trial(t, d, p.book.Request(d))
				path, body := target(t, other.Declaration, other.Request, p.names)
				meddled := &onRead{Backend: c.Items}
				meddled.do = func(n int) {
					if n == at {
						meddled.do = func(int) {}
						c.Call(c.key, other.Method, path, body)
						c.items = c.Items.Snapshot()
					}
				}
				c.Parts.Table = storetest.Over(t, meddled, storetest.Clock(c.Parts.Now))
				c.Restart()
				if a := c.try(); a.Status >= http.StatusInternalServerError && a.Status != http.StatusServiceUnavailable {
					t.Errorf("%s in the middle of it, at read %d: %s", other.ID, at, a.Body)
				}
				c.left()
			}
		}
	})
}

// onRead has something happen before each read, which are counted from 1.
type onRead struct {
	store.Backend
	n  int
	do func(n int)
}

// Read implements store.Backend.
func (o *onRead) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	o.n++
	o.do(o.n)
	return o.Backend.Read(ctx, keys)
}

// TestReadsAreAnsweredAsEverInADryRun: they have no effect that could be tried, and so
// none declares one.
func TestReadsAreAnsweredAsEverInADryRun(t *testing.T) {
	p := newPopulated(t)
	reads := func(d api.Declaration) bool { return !d.Mutates() && !d.Carries }
	effects := []api.Use{
		api.PutItem, api.UpdateItem, api.DeleteItem, api.CheckItem, api.PresignUpload, api.DeleteUpload, api.WriteSource,
		api.DeleteSource, api.WriteArtifact, api.DeleteArtifact, api.WriteTruststore, api.DeleteTruststore,
	}
	each(t, reads, func(t *testing.T, d api.Declaration) {
		if slices.ContainsFunc(d.Uses, func(u api.Use) bool { return slices.Contains(effects, u) }) {
			t.Errorf("it has an effect, which a dry run would have too: %v", d.Uses)
		}
		r := p.book.Request(d)
		a, b := p.trial(t, d, r), p.trial(t, d, r)
		want := a.Call(a.key, d.Method, a.path, a.body).Want(d.Status)
		if got := b.try(); got.Status != want.Status || got.Body != want.Body {
			t.Errorf("a read is answered %s, and %s without a dry run", got.Body, want.Body)
		}
		b.left()
	})
}
