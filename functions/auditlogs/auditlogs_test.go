package auditlogs_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/auditlogs"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

const (
	logs    = "/v1/accounts/acme/audit-logs"
	buckets = "/v1/accounts/acme/key-buckets"
)

// newWorld makes a world in which acme has done this and that: five changes, of
// which one was refused, beside the making of account and key.
func newWorld(t *testing.T) (w *functionstest.World, full, second string) {
	t.Helper()
	w = functionstest.New(t, keybuckets.Bind, auditlogs.Bind)
	full = w.Account("acme")
	second = w.Key("acme", func(*auth.Permissions) {})
	for i := range 4 {
		w.Now = w.Now.Add(time.Minute)
		w.Call(full, "POST", buckets, fmt.Sprintf(`{"name":"bucket-%d"}`, i), "User-Agent", "gw/1").Want(200)
	}
	w.Call(second, "POST", buckets, `{"name":"bucket-0"}`).Want(409)
	return w, full, second
}

func TestAnswers(t *testing.T) {
	w, full, second := newWorld(t)
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.AuditLogs.Read()} })
	unscoped := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.KeyBuckets.Write()} })
	shop := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	previews := w.Key("acme", func(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Preview} })
	other := w.Account("evil")
	sub := w.Call(second, "GET", "/v1/accounts/acme/audit-logs?success=false", "").Want(200).JSON().Text("data.0.actor.sub")
	now := w.Now.UTC()
	at := func(ago time.Duration) string { return url.QueryEscape(now.Add(-ago).Format(time.RFC3339Nano)) }
	day := 24 * time.Hour
	w.Run(t, []functionstest.Case{
		{"all", full, "GET", logs + "?action=key-bucket.create", "", 200, `"pagination":{"limit":20,"offset":0,"total":5,"hasMore":false},"next":null}`},
		{"by a reader", reader, "GET", logs + "?action=key-bucket.create", "", 200, `"total":5`},
		{"every key of an entry", full, "GET", logs + "?success=false", "", 200, `"data":[{"action":"key-bucket.create","metadata":null,"actor":{"sub":"` + sub + `","email":null,"type":"service","connection":null,"actingAs":null,"metadata":null},"resources":null,"context":{"ipAddress":null,"userAgent":null,"country":null,"region":null,"city":null,"postalCode":null,"metroCode":null,"asOrg":null},"route":{"source":"api","url":"/v1/accounts/acme/key-buckets","method":"POST"},"timestamp":"2026-03-14T`},
		{"the newest", full, "GET", logs + "?limit=1&action=key-bucket.create", "", 200, `"pagination":{"limit":1,"offset":0,"total":5,"hasMore":true},"next":"`},
		{"an offset", full, "GET", logs + "?limit=2&offset=3&action=key-bucket.create", "", 200, `"pagination":{"limit":2,"offset":3,"total":5,"hasMore":false},"next":null}`},
		{"beyond the end", full, "GET", logs + "?offset=2147483647&action=key-bucket.create", "", 200, `{"data":[],"pagination":{"limit":20,"offset":2147483647,"total":5,"hasMore":false},"next":null}`},
		{"more than a page holds", full, "GET", logs + "?limit=101&action=key-bucket.create", "", 200, `"limit":100,`},
		{"an action", full, "GET", logs + "?action=account.create", "", 200, `"total":1,`},
		{"another action", full, "GET", logs + "?action=key-bucket", "", 200, `{"data":[],"pagination":{"limit":20,"offset":0,"total":0,"hasMore":false},"next":null}`},
		{"an actor", full, "GET", logs + "?actor=" + sub, "", 200, `"total":1,`},
		{"an actor and an action", full, "GET", logs + "?actor=" + sub + "&action=key-bucket.create&success=false", "", 200, `"total":1,`},
		{"filters that contradict", full, "GET", logs + "?actor=" + sub + "&success=true", "", 200, `"total":0,`},
		{"from a time", full, "GET", logs + "?startDate=" + at(-2*time.Hour), "", 400, "query.startDate: lies in the future"},
		{"the last minute", full, "GET", logs + "?action=key-bucket.create&startDate=" + at(time.Second), "", 200, `"total":2,`},
		{"up to a time", full, "GET", logs + "?action=key-bucket.create&endDate=" + at(0), "", 200, `"total":3,`},
		{"between times", full, "GET", logs + "?action=key-bucket.create&startDate=" + at(3*time.Minute) + "&endDate=" + at(time.Minute), "", 200, `"total":2,`},
		{"in another offset", full, "GET", logs + "?action=key-bucket.create&startDate=" + url.QueryEscape(now.Add(-time.Second).In(time.FixedZone("", 7200)).Format(time.RFC3339Nano)), "", 200, `"total":2,`},
		{"an end before the start", full, "GET", logs + "?startDate=" + at(day) + "&endDate=" + at(2*day), "", 400, "query.startDate: has to be before endDate"},
		{"no time between them", full, "GET", logs + "?startDate=" + at(day) + "&endDate=" + at(day), "", 400, "query.startDate"},
		{"30 days", full, "GET", logs + "?startDate=" + at(31*day) + "&endDate=" + at(day), "", 200, `"total":0`},
		{"more than 30 days", full, "GET", logs + "?startDate=" + at(31*day+time.Millisecond) + "&endDate=" + at(day), "", 400, "query.endDate: lies more than 30 days behind startDate"},
		{"more than 30 days up to now", full, "GET", logs + "?startDate=" + at(31*day), "", 400, "query.startDate: lies more than 30 days back"},
		{"before there was anything", full, "GET", logs + "?startDate=0001-01-01T00:00:00Z&endDate=0001-01-02T00:00:00Z", "", 200, `"total":0`},
		{"from the first instant of all", full, "GET", logs + "?startDate=0001-01-01T00:00:00Z", "", 400, "query.startDate: lies more than 30 days back"},
		{"up to the first instant of all", full, "GET", logs + "?endDate=0001-01-01T00:00:00Z", "", 200, `"total":0`},
		{"no date", full, "GET", logs + "?startDate=yesterday", "", 400, "query.startDate"},
		{"a date without a time", full, "GET", logs + "?endDate=2026-03-14", "", 400, "query.endDate"},
		{"a limit of none", full, "GET", logs + "?limit=0", "", 400, "query.limit"},
		{"a limit in words", full, "GET", logs + "?limit=ten", "", 400, "query.limit"},
		{"a limit of 65 bits", full, "GET", logs + "?limit=18446744073709551617", "", 400, "query.limit"},
		{"an offset of less than none", full, "GET", logs + "?offset=-1", "", 400, "query.offset"},
		{"neither true nor false", full, "GET", logs + "?success=maybe", "", 400, "query.success"},
		{"an empty filter", full, "GET", logs + "?actor=", "", 400, "query.actor"},
		{"an action twice", full, "GET", logs + "?action=a&action=b", "", 400, "query.action"},
		{"a long actor", full, "GET", logs + "?actor=" + strings.Repeat("a", 257), "", 400, "query.actor"},
		{"no cursor", full, "GET", logs + "?after=x", "", 400, "query.after: is no cursor of this list"},
		{"an offset behind a cursor", full, "GET", logs + "?after=x&offset=0", "", 400, "query.offset: does not go with after"},
		{"without the scope", unscoped, "GET", logs, "", 403, "audit-logs:read"},
		{"a key of a project", shop, "GET", logs, "", 403, "whole account's"},
		{"a key of an environment", previews, "GET", logs, "", 403, "whole account's"},
		{"another account", other, "GET", logs, "", 404, "account"},
		{"nobody", "", "GET", logs, "", 401, "Bearer"},
		{"another method", full, "DELETE", logs, "", 405, "Allow"},
	})
}

// TestRecordControlsNoTerminal: who reads the log trusts it, and who is in it chose
// the text. The fields that a refusal names are the caller's, too.
func TestRecordControlsNoTerminal(t *testing.T) {
	w, full, _ := newWorld(t)
	const red, turned = "\u009b31m", "\u202e"
	w.Call(full, "POST", buckets, `{"name":"shown-1"}`, "User-Agent", "gw/2 "+red+turned+"\tfin").Want(200)
	w.Call(full, "POST", buckets, `{"name":"shown-2","tags":{"`+red+turned+`":5}}`).Want(400)
	got := w.Call(full, "GET", logs, "").Want(200, "gw/2 \ufffd31m\ufffd\ufffdfin", ".\ufffd31m\ufffd: ")
	if text := got.Body; strings.Contains(text, red) || strings.Contains(text, turned) {
		t.Errorf("the log has them: %q", text)
	}
}

// TestCursorsLeadThroughTheList: one page after the other, by next or by Link, while
// others come in front; and a cursor is good for its own list alone.
func TestCursorsLeadThroughTheList(t *testing.T) {
	w, full, _ := newWorld(t)
	chain := trail.Open(w.Parts)
	var told []store.StreamRecord
	w.Items.OnChange(func(r store.StreamRecord) { told = append(told, r) })
	all := w.Call(full, "GET", logs+"?limit=100", "").Want(200).JSON().Texts("data", "requestId")
	var got []string
	var first string
	for query := "?limit=3&"; ; {
		a := w.Call(full, "GET", logs+query, "").Want(200)
		got = append(got, a.JSON().Texts("data", "requestId")...)
		next := a.JSON().Text("next")
		if next == "" {
			if a.Header.Get("Link") != "" {
				t.Errorf("the last page has a Link: %s", a.Header.Get("Link"))
			}
			break
		}
		if first == "" {
			first = next
		}
		link := a.Header.Get("Link")
		address, rel, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		u, err := url.Parse(address)
		if err != nil || rel != `; rel="next"` || u.Path != logs || u.Query().Get("after") != next || u.Query().Get("limit") != "3" {
			t.Fatalf("Link: %s", link)
		}
		query = "?" + u.RawQuery
		w.Now = w.Now.Add(time.Second)
		w.Call(full, "POST", buckets, fmt.Sprintf(`{"name":"late-%d"}`, len(got))).Want(200)
		chain.HandleStream(t.Context(), told)
	}
	if strings.Join(got, " ") != strings.Join(all, " ") {
		t.Errorf("got %v, want %v", got, all)
	}
	other := w.Account("evil")
	flipped := []byte(first)
	flipped[0] ^= 1
	for name, query := range map[string]string{
		"with another filter": "?action=key-bucket.create&after=" + first, "altered": "?after=" + string(flipped), "cut": "?after=" + first[:len(first)-1],
		"unsigned": "?after=" + strings.Split(first, ".")[0], "longer": "?after=" + first + "x",
	} {
		a := w.Call(full, "GET", logs+query, "")
		if a.Status != 400 || !strings.Contains(a.Body, "query.after") {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	w.Call(other, "GET", "/v1/accounts/evil/audit-logs?after="+first, "").Want(400, "query.after")
}

// TestChangesAreListedAtOnceChainedOrNot, refused ones too.
func TestChangesAreListedAtOnceChainedOrNot(t *testing.T) {
	w, full, second := newWorld(t)
	var told []store.StreamRecord
	w.Items.OnChange(func(r store.StreamRecord) { told = append(told, r) })
	chain := trail.Open(w.Parts)
	for i := range 5 {
		a := w.Call(full, "POST", buckets, fmt.Sprintf(`{"name":"more-%d"}`, i)).Want(200)
		before := w.Call(second, "GET", logs+"?limit=1", "").Want(200)
		if before.JSON().Text("data.0.requestId") != a.Header.Get("X-Request-Id") {
			t.Errorf("the change is not listed: %s", before.Body)
		}
		chain.HandleStream(t.Context(), told)
		after := w.Call(second, "GET", logs+"?limit=1", "").Want(200)
		if before.Body != after.Body {
			t.Errorf("before it is chained %s, afterwards %s", before.Body, after.Body)
		}
		w.Now = w.Now.Add(time.Second)
	}
}

// TestListsBesideAChainThatMoves are what the operation declares, and have each record once: those that wait are chained between the reading of
// them and that of the counters.
func TestListsBesideAChainThatMoves(t *testing.T) {
	w, full, _ := newWorld(t)
	var told []store.StreamRecord
	w.Items.OnChange(func(r store.StreamRecord) { told = append(told, r) })
	for i := range 40 {
		w.Now = w.Now.Add(time.Second)
		w.Call(full, "POST", buckets, fmt.Sprintf(`{"name":"more-%d"}`, i)).Want(200)
	}
	want := w.Call(full, "GET", logs+"?limit=100", "").Want(200).JSON()
	others := w.Parts
	others.Table = storetest.Over(t, w.Items, storetest.Clock(w.Parts.Now)) // what they do is not the list's
	var moves sync.Once
	w.Uses.Clear()
	w.Uses.Querying = func(of store.Space) {
		if of == "audit-count" {
			moves.Do(func() { trail.Open(others).HandleStream(t.Context(), slices.Clone(told)) })
		}
	}
	got := w.Call(full, "GET", logs+"?limit=100", "").Want(200).JSON()
	if a, b := got.Texts("data", "requestId"), want.Texts("data", "requestId"); !slices.Equal(a, b) || got.Number("total") != want.Number("total") {
		t.Errorf("there are %v of %v, want %v of %v", a, got.Number("total"), b, want.Number("total"))
	}
	if !slices.Contains(w.Uses.Done(), api.BatchGetItem) {
		t.Errorf("the chain has not moved: %v", w.Uses.Done())
	}
}

// TestExportIsTheFile: its pages make a file that the public key proves, whatever their length, and a cursor leads on in
// the export that it is of alone.
func TestExportIsTheFile(t *testing.T) {
	w, full, _ := newWorld(t)
	other := w.Account("evil")
	var told []store.StreamRecord
	chain := trail.Open(w.Parts)
	w.Items.OnChange(func(r store.StreamRecord) {
		if audit.IsNew(r.Key) && r.Old == nil {
			told = append(told, r)
		}
	})
	for i := range 1003 { // more than a page
		w.Now = w.Now.Add(time.Second)
		w.Call(full, "POST", buckets, fmt.Sprintf(`{"name":"bucket-%d"}`, i%4)).Want(409)
	}
	if failed := chain.HandleStream(t.Context(), told); failed != nil {
		t.Fatal(failed)
	}
	links, pages, after := map[int64]proof.Link{}, 0, ""
	var page struct {
		Links  []proof.Link
		Header *proof.Header
		Next   string
	}
	for ; page.Header == nil; pages++ {
		page.Next = ""
		text := w.Call(full, "GET", logs+"/export"+after, "").Want(200).Body
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Links {
			links[l.Seq] = l
		}
		after = "?after=" + page.Next
		if page.Next != "" {
			w.Call(other, "GET", strings.Replace(logs, "acme", "evil", 1)+"/export"+after, "").Want(400, "query.after: is no cursor of this list")
			w.Call(full, "GET", logs+after, "").Want(400, "query.after")
		}
	}
	var file strings.Builder
	if err := proof.WriteFile(&file, *page.Header, func(seq int64) (proof.Link, error) { return links[seq], nil }); err != nil {
		t.Fatal(err)
	}
	key, err := proof.ParsePublicKey(page.Header.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	r, err := proof.VerifyFile(strings.NewReader(file.String()), key, "acme", proof.Commitment{})
	if err != nil || r.Break != "" || r.Records() < 1003 || pages < 2 {
		t.Errorf("%+v, %v, in %d pages:\n%s", r, err, pages, &file)
	}
}
