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
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/management/api"
)

const (
	logsPath    = "/v1/accounts/acme/audit-logs"
	bucketsPath = "/v1/accounts/acme/key-buckets"
)

// newFixture returns a fixture with five changes that keys of the account acme requested after the creation of the
// account and its key. One of the changes was refused.
func newFixture(t *testing.T) (fx *functionstest.Fixture, fullKey, secondKey string) {
	t.Helper()
	fx = functionstest.New(t, keybuckets.Bind, auditlogs.Bind)
	fullKey = fx.CreateAccount("acme")
	secondKey = fx.CreateKey("acme", func(*auth.Permissions) {})
	for i := range 4 {
		fx.Now = fx.Now.Add(time.Minute)
		fx.Call(fullKey, "POST", bucketsPath, fmt.Sprintf(`{"name":"bucket-%d"}`, i), "User-Agent", "gw/1").Want(200)
	}
	fx.Call(secondKey, "POST", bucketsPath, `{"name":"bucket-0"}`).Want(409)
	return fx, fullKey, secondKey
}

func TestResponses(t *testing.T) {
	fx, fullKey, secondKey := newFixture(t)
	readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.AuditLogs.Read()} })
	unscopedKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.KeyBuckets.Write()} })
	shopKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	previewsKey := fx.CreateKey("acme", func(p *auth.Permissions) {
		p.Environments = []environment.Kind{environment.Preview}
	})
	otherAccountKey := fx.CreateAccount("evil")
	sub := fx.Call(secondKey, "GET", "/v1/accounts/acme/audit-logs?success=false", "").
		Want(200).JSON().Text("data.0.actor.sub")
	newest, day := fx.Now.UTC(), 24*time.Hour
	// before returns the time d before the newest entries, which are an hour older than the requests.
	before := func(d time.Duration) string { return url.QueryEscape(newest.Add(-d).Format(time.RFC3339Nano)) }
	list := func(name, query string, status int, want string) functionstest.Case {
		return functionstest.Case{name, fullKey, "GET", logsPath + query, "", status, want}
	}
	fx.Run(t, []functionstest.Case{
		list("all entries of an action", "?action=key-bucket.create", 200,
			`"pagination":{"limit":20,"offset":0,"total":5,"hasMore":false},"next":null}`),
		{"reader key", readerKey, "GET", logsPath + "?action=key-bucket.create", "", 200, `"total":5`},
		list("all fields of an entry", "?success=false", 200,
			`"data":[{"action":"key-bucket.create","metadata":null,`+
				`"actor":{"sub":"`+sub+`","email":null,"type":"service","connection":null,"actingAs":null,"metadata":null},`+
				`"resources":null,"context":{"ipAddress":null,"userAgent":null,"country":null,"region":null,"city":null,`+
				`"postalCode":null,"metroCode":null,"asOrg":null},"route":{"source":"api","url":"/v1/accounts/acme/key-buckets",`+
				`"method":"POST"},"timestamp":"2026-03-14T`),
		list("newest entry", "?limit=1&action=key-bucket.create", 200,
			`"pagination":{"limit":1,"offset":0,"total":5,"hasMore":true},"next":"`),
		list("an offset", "?limit=2&offset=3&action=key-bucket.create", 200,
			`"pagination":{"limit":2,"offset":3,"total":5,"hasMore":false},"next":null}`),
		list("offset beyond the end", "?offset=2147483647&action=key-bucket.create", 200,
			`{"data":[],"pagination":{"limit":20,"offset":2147483647,"total":5,"hasMore":false},"next":null}`),
		list("limit over the maximum", "?limit=101&action=key-bucket.create", 200, `"limit":100,`),
		list("an action", "?action=account.create", 200, `"total":1,`),
		list("prefix of an action", "?action=key-bucket", 200,
			`{"data":[],"pagination":{"limit":20,"offset":0,"total":0,"hasMore":false},"next":null}`),
		list("an actor", "?actor="+sub, 200, `"total":1,`),
		list("an actor and an action", "?actor="+sub+"&action=key-bucket.create&success=false", 200, `"total":1,`),
		list("contradicting filters", "?actor="+sub+"&success=true", 200, `"total":0,`),
		list("start in the future", "?startDate="+before(-2*time.Hour), 400, "query.startDate: lies in the future"),
		list("start a second before the newest entries", "?action=key-bucket.create&startDate="+before(time.Second), 200,
			`"total":2,`),
		list("end at the time of the newest entries", "?action=key-bucket.create&endDate="+before(0), 200, `"total":3,`),
		list("start and end", "?action=key-bucket.create&startDate="+before(3*time.Minute)+"&endDate="+before(time.Minute),
			200, `"total":2,`),
		list("start in another time zone",
			"?action=key-bucket.create&startDate="+
				url.QueryEscape(newest.Add(-time.Second).In(time.FixedZone("", 7200)).Format(time.RFC3339Nano)),
			200, `"total":2,`),
		list("an end before the start", "?startDate="+before(day)+"&endDate="+before(2*day), 400,
			"query.startDate: has to be before endDate"),
		list("start equal to the end", "?startDate="+before(day)+"&endDate="+before(day), 400, "query.startDate"),
		list("30 days", "?startDate="+before(31*day)+"&endDate="+before(day), 200, `"total":0`),
		list("more than 30 days", "?startDate="+before(31*day+time.Millisecond)+"&endDate="+before(day), 400,
			"query.endDate: lies more than 30 days behind startDate"),
		list("more than 30 days without an end", "?startDate="+before(31*day), 400,
			"query.startDate: lies more than 30 days back"),
		list("period before the first entry", "?startDate=0001-01-01T00:00:00Z&endDate=0001-01-02T00:00:00Z", 200,
			`"total":0`),
		list("start in the year 1", "?startDate=0001-01-01T00:00:00Z", 400, "query.startDate: lies more than 30 days back"),
		list("end in the year 1", "?endDate=0001-01-01T00:00:00Z", 200, `"total":0`),
		list("invalid date", "?startDate=yesterday", 400, "query.startDate"),
		list("a date without a time", "?endDate=2026-03-14", 400, "query.endDate"),
		list("limit of 0", "?limit=0", 400, "query.limit"),
		list("text as limit", "?limit=ten", 400, "query.limit"),
		list("a limit of 65 bits", "?limit=18446744073709551617", 400, "query.limit"),
		list("negative offset", "?offset=-1", 400, "query.offset"),
		list("invalid boolean", "?success=maybe", 400, "query.success"),
		list("an empty filter", "?actor=", 400, "query.actor"),
		list("repeated action", "?action=a&action=b", 400, "query.action"),
		list("a long actor", "?actor="+strings.Repeat("a", 257), 400, "query.actor"),
		list("invalid cursor", "?after=x", 400, "query.after: is no cursor of this list"),
		list("offset with a cursor", "?after=x&offset=0", 400, "query.offset: does not go with after"),
		{"without the scope", unscopedKey, "GET", logsPath, "", 403, "audit-logs:read"},
		{"a key of a project", shopKey, "GET", logsPath, "", 403, "whole account's"},
		{"a key of an environment", previewsKey, "GET", logsPath, "", 403, "whole account's"},
		{"another account", otherAccountKey, "GET", logsPath, "", 404, "account"},
		{"no key", "", "GET", logsPath, "", 401, "Bearer"},
		{"another method", fullKey, "DELETE", logsPath, "", 405, "Allow"},
	})
}

// TestRecordsContainNoControlCharacters sends control characters in all texts of a record that callers choose,
// including the field names in a refusal.
func TestRecordsContainNoControlCharacters(t *testing.T) {
	fx, fullKey, _ := newFixture(t)
	const colorEscape, bidiOverride = "\u009b31m", "\u202e"
	fx.Call(fullKey, "POST", bucketsPath, `{"name":"shown-1"}`, "User-Agent",
		"gw/2 "+colorEscape+bidiOverride+"\tfin").Want(200)
	fx.Call(fullKey, "POST", bucketsPath, `{"name":"shown-2","tags":{"`+colorEscape+bidiOverride+`":5}}`).Want(400)
	got := fx.Call(fullKey, "GET", logsPath, "").Want(200, "gw/2 \ufffd31m\ufffd\ufffdfin", ".\ufffd31m\ufffd: ")
	if text := got.Body; strings.Contains(text, colorEscape) || strings.Contains(text, bidiOverride) {
		t.Errorf("GET %s: body = %q, want no control characters", logsPath, text)
	}
}

// TestCursorsPageThroughList follows Link from page to page, while new records are added at the beginning of the list.
// It also checks that a cursor is only valid for its own list.
func TestCursorsPageThroughList(t *testing.T) {
	fx, fullKey, _ := newFixture(t)
	chain := trail.Open(fx.Parts)
	var changes []store.StreamRecord
	fx.Items.OnChange(func(r store.StreamRecord) { changes = append(changes, r) })
	want := fx.Call(fullKey, "GET", logsPath+"?limit=100", "").Want(200).JSON().Texts("data", "requestId")
	var got []string
	var firstCursor string
	for query := "?limit=3&"; ; {
		resp := fx.Call(fullKey, "GET", logsPath+query, "").Want(200)
		got = append(got, resp.JSON().Texts("data", "requestId")...)
		next := resp.JSON().Text("next")
		if next == "" {
			if resp.Header.Get("Link") != "" {
				t.Errorf("Link of the last page = %s, want none", resp.Header.Get("Link"))
			}
			break
		}
		if firstCursor == "" {
			firstCursor = next
		}
		link := resp.Header.Get("Link")
		address, rel, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		u, err := url.Parse(address)
		if err != nil {
			t.Fatalf("url.Parse(%q): %v", address, err)
		}
		if values := u.Query(); rel != `; rel="next"` || u.Path != logsPath || values.Get("after") != next ||
			values.Get("limit") != "3" {
			t.Fatalf("Link = %s, want %s with limit=3 and after=%s", link, logsPath, next)
		}
		query = "?" + u.RawQuery
		fx.Now = fx.Now.Add(time.Second)
		fx.Call(fullKey, "POST", bucketsPath, fmt.Sprintf(`{"name":"late-%d"}`, len(got))).Want(200)
		chain.HandleStream(t.Context(), changes)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("records of all pages = %v, want %v", got, want)
	}
	otherAccountKey := fx.CreateAccount("evil")
	altered := []byte(firstCursor)
	altered[0] ^= 1
	for name, query := range map[string]string{
		"with another filter": "?action=key-bucket.create&after=" + firstCursor, "altered": "?after=" + string(altered),
		"truncated": "?after=" + firstCursor[:len(firstCursor)-1],
		"unsigned":  "?after=" + strings.Split(firstCursor, ".")[0], "longer": "?after=" + firstCursor + "x",
	} {
		resp := fx.Call(fullKey, "GET", logsPath+query, "")
		if resp.Status != 400 || !strings.Contains(resp.Body, "query.after") {
			t.Errorf("GET with a cursor (%s) = %d %s, want 400 for query.after", name, resp.Status, resp.Body)
		}
	}
	fx.Call(otherAccountKey, "GET", "/v1/accounts/evil/audit-logs?after="+firstCursor, "").Want(400, "query.after")
}

// TestChangesAreListedBeforeAndAfterChaining checks that the list shows a change before its record is chained, and
// shows it in the same way afterwards.
func TestChangesAreListedBeforeAndAfterChaining(t *testing.T) {
	fx, fullKey, secondKey := newFixture(t)
	var changes []store.StreamRecord
	fx.Items.OnChange(func(r store.StreamRecord) { changes = append(changes, r) })
	chain := trail.Open(fx.Parts)
	for i := range 5 {
		resp := fx.Call(fullKey, "POST", bucketsPath, fmt.Sprintf(`{"name":"more-%d"}`, i)).Want(200)
		before := fx.Call(secondKey, "GET", logsPath+"?limit=1", "").Want(200)
		if before.JSON().Text("data.0.requestId") != resp.Header.Get("X-Request-Id") {
			t.Errorf("GET ?limit=1 before chaining = %s, want the request %s",
				before.Body, resp.Header.Get("X-Request-Id"))
		}
		chain.HandleStream(t.Context(), changes)
		after := fx.Call(secondKey, "GET", logsPath+"?limit=1", "").Want(200)
		if before.Body != after.Body {
			t.Errorf("GET ?limit=1 after chaining = %s, want %s as before", after.Body, before.Body)
		}
		fx.Now = fx.Now.Add(time.Second)
	}
}

// TestListDuringChaining chains waiting records while a list reads them. The list must contain each record exactly
// once, and its operation must have only the declared uses.
func TestListDuringChaining(t *testing.T) {
	fx, fullKey, _ := newFixture(t)
	var changes []store.StreamRecord
	fx.Items.OnChange(func(r store.StreamRecord) { changes = append(changes, r) })
	for i := range 40 {
		fx.Now = fx.Now.Add(time.Second)
		fx.Call(fullKey, "POST", bucketsPath, fmt.Sprintf(`{"name":"more-%d"}`, i)).Want(200)
	}
	want := fx.Call(fullKey, "GET", logsPath+"?limit=100", "").Want(200).JSON()
	// The uses of chaining are not recorded, because they are not uses of the list's operation.
	unrecordedParts := fx.Parts
	unrecordedParts.Table = storetest.NewWithBackend(t, fx.Items, storetest.Clock(fx.Parts.Now))
	var once sync.Once
	fx.Uses.Clear()
	fx.Uses.OnQuery = func(prefix store.KeyPrefix) {
		if prefix == "audit-count" {
			once.Do(func() { trail.Open(unrecordedParts).HandleStream(t.Context(), slices.Clone(changes)) })
		}
	}
	got := fx.Call(fullKey, "GET", logsPath+"?limit=100", "").Want(200).JSON()
	if a, b := got.Texts("data", "requestId"), want.Texts("data", "requestId"); !slices.Equal(a, b) ||
		got.Number("total") != want.Number("total") {
		t.Errorf("GET during chaining = %v of %v, want %v of %v", a, got.Number("total"), b, want.Number("total"))
	}
	if !slices.Contains(fx.Uses.Recorded(), api.BatchGetItem) {
		t.Errorf("uses of GET during chaining = %v, want %v among them", fx.Uses.Recorded(), api.BatchGetItem)
	}
}

// TestExportPagesFormVerifiableFile checks that the pages of an export form a file that can be verified with the public
// key. It also checks that a cursor only continues the export of its own account, and not a list.
func TestExportPagesFormVerifiableFile(t *testing.T) {
	fx, fullKey, _ := newFixture(t)
	otherAccountKey := fx.CreateAccount("evil")
	var changes []store.StreamRecord
	chain := trail.Open(fx.Parts)
	fx.Items.OnChange(func(r store.StreamRecord) {
		if audit.IsPending(r.Key) && r.Old == nil {
			changes = append(changes, r)
		}
	})
	for i := range 1003 { // more than a page of an export contains
		fx.Now = fx.Now.Add(time.Second)
		fx.Call(fullKey, "POST", bucketsPath, fmt.Sprintf(`{"name":"bucket-%d"}`, i%4)).Want(409)
	}
	if failed := chain.HandleStream(t.Context(), changes); failed != nil {
		t.Fatalf("HandleStream() = the failed records %v, want none", failed)
	}
	links, pages, query := map[int64]proof.Link{}, 0, ""
	var page struct {
		Links  []proof.Link
		Header *proof.Header
		Next   string
	}
	for ; page.Header == nil; pages++ {
		page.Next = ""
		text := fx.Call(fullKey, "GET", logsPath+"/export"+query, "").Want(200).Body
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Links {
			links[l.Seq] = l
		}
		query = "?after=" + page.Next
		if page.Next != "" {
			fx.Call(otherAccountKey, "GET", strings.Replace(logsPath, "acme", "evil", 1)+"/export"+query, "").
				Want(400, "query.after: is no cursor of this list")
			fx.Call(fullKey, "GET", logsPath+query, "").Want(400, "query.after")
		}
	}
	var file strings.Builder
	if err := proof.WriteFile(&file, *page.Header, func(seq int64) (proof.Link, error) {
		return links[seq], nil
	}); err != nil {
		t.Fatal(err)
	}
	key, err := proof.ParsePublicKey(page.Header.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	r, err := proof.VerifyFile(strings.NewReader(file.String()), key, "acme", proof.Commitment{})
	if err != nil || r.Break != "" || r.Records() < 1003 || pages < 2 {
		t.Errorf("VerifyFile(export of %d pages) = %+v, %v, want at least 1003 records on at least 2 pages without a "+
			"break:\n%s", pages, r, err, &file)
	}
}
