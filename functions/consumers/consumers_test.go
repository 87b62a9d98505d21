package consumers_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/auth"
)

func TestAnswers(t *testing.T) {
	const secret = "s3cr3t-text-of-a-key!"
	w := newWorld(t)
	full := w.full
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.KeyBuckets.Read()} })
	shop := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	otherAccount := w.Account("evil")
	w.Run(t, []functionstest.Case{
		{"a consumer", full, "POST", list, `{"name":"org_123"}`, 200, `"name":"org_123","createdOn":"2026-03-14T10:26:53.589Z"`},
		{"nulls", full, "POST", list, `{"name":"bob","description":null,"tags":null,"metadata":null,"managers":null}`, 200, `"name":"bob","createdOn"`},
		{"metadata as it was written", full, "POST", list, `{"name":"bob","metadata":{"orgId": 1234, "big":12345678901234567890,"s":"é"}}`, 200, `"metadata":{"orgId":1234,"big":12345678901234567890,"s":"é"}`},
		{"a name in use", full, "POST", list, `{"name":"alice"}`, 409, "Choose another name"},
		{"a bad name", full, "POST", list, `{"name":"Alice"}`, 400, "body.name"},
		{"a name like an id", full, "POST", list, `{"name":"csmr_abcdefghijklmnopqrstuvwx"}`, 400, "body.name"},
		{"six tags", full, "POST", list, `{"name":"bob","tags":{"a":"1","b":"2","c":"3","d":"4","e":"5","f":"6"}}`, 400, "body.tags"},
		{"a number as tag", full, "POST", list, `{"name":"bob","tags":{"a":1}}`, 400, "body.tags"},
		{"metadata no object", full, "POST", list, `{"name":"bob","metadata":[1]}`, 400, "body.metadata"},
		{"metadata too large", full, "POST", list, `{"name":"bob","metadata":{"a":"` + strings.Repeat("x", 1024) + `"}}`, 400, "body.metadata"},
		{"a number as manager", full, "POST", list, `{"name":"bob","managers":[1]}`, 400, "body.managers[0]"},
		{"a manager without sub", full, "POST", list, `{"name":"bob","managers":[{"email":"a@example.com"}]}`, 400, "body.managers[0]"},
		{"a bad address", full, "POST", list, `{"name":"bob","managers":["nobody"]}`, 400, "body.managers[0]"},
		{"deep JSON", full, "POST", list, `{"name":"bob","metadata":` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100) + "}", 400, "deep"},
		{"with-api-key no boolean", full, "POST", list + "?with-api-key=perhaps", `{"name":"bob"}`, 400, "with-api-key"},
		{"no bucket", full, "POST", "/v1/accounts/acme/key-buckets/absent/consumers", `{"name":"bob"}`, 404, "key bucket"},
		{"no scope", reader, "POST", list, `{"name":"bob"}`, 403, "key-buckets:write"},
		{"an unplaced bucket and a limited key", shop, "GET", list, "", 404, "key bucket"},
		{"a foreign account", otherAccount, "GET", list, "", 404, "account"},

		{"the list", reader, "GET", list, "", 200, `"limit":1000,"offset":0,"total":1,"next":null}`},
		{"the list with a slash", reader, "GET", list + "/?limit=5", "", 200, `"limit":5,"offset":0,"total":1,"next":null}`},
		{"a limit over the most", reader, "GET", list + "?limit=5000", "", 200, `"limit":1000,`},
		{"a limit of 0", reader, "GET", list + "?limit=0", "", 400, "query.limit"},
		{"an offset behind a cursor", reader, "GET", list + "?after=x&offset=1", "", 400, "query.offset: does not go with after"},
		{"no cursor", reader, "GET", list + "?after=x", "", 400, "query.after: is no cursor of this list: give next as the page before has it"},
		{"no cursor of keys", reader, "GET", alice + "/keys?after=x", "", 400, "query.after: is no cursor of this list"},
		{"a long cursor", reader, "GET", list + "?after=" + strings.Repeat("a", 1025), "", 400, "query.after"},
		{"a prefix", reader, "GET", list + "?name-prefix=ali", "", 200, `"name":"alice"`},
		{"a whole name", reader, "GET", list + "?name-prefix=alice", "", 200, `"total":1,"next":null}`},
		{"more than a name", reader, "GET", list + "?name-prefix=alices", "", 200, `{"data":[],"limit":1000,"offset":0,"total":0,"next":null}`},
		{"a prefix and another tag", reader, "GET", list + "?name-prefix=ali&tag.org=2", "", 200, `"total":0`},
		{"a prefix in capitals", reader, "GET", list + "?name-prefix=Ali", "", 400, "query.name-prefix: expected string to be 1 to 128 characters of a-z, 0-9, _ and -"},
		{"a prefix with a percent sign", reader, "GET", list + "?name-prefix=a%25", "", 400, "query.name-prefix"},
		{"a prefix with a separator", reader, "GET", list + "?name-prefix=a%23", "", 400, "query.name-prefix"},
		{"a prefix with the pattern's words", reader, "GET", list + "?name-prefix=.*", "", 400, "query.name-prefix"},
		{"a prefix with a line's end", reader, "GET", list + "?name-prefix=a%0A", "", 400, "query.name-prefix"},
		{"no prefix", reader, "GET", list + "?name-prefix=", "", 400, "query.name-prefix: is empty"},
		{"a prefix that is too long", reader, "GET", list + "?name-prefix=" + strings.Repeat("a", 129), "", 400, "query.name-prefix"},
		{"an offset below 0", reader, "GET", list + "?offset=-1", "", 400, "query.offset"},
		{"a limit without end", reader, "GET", list + "?limit=99999999999999999999999", "", 400, "query.limit"},
		{"a large offset", reader, "GET", list + "?offset=9223372036854775807", "", 200, `{"data":[],`},
		{"a limit no number", reader, "GET", list + "?limit=many", "", 400, "query.limit"},
		{"a key-format that is none", reader, "GET", list + "?key-format=bold", "", 400, "query.key-format"},
		{"the parameter tag itself", reader, "GET", list + "?tag=org", "", 400, "query.tag"},

		{"one consumer", reader, "GET", alice, "", 200, `"description":"first","tags":{"org":"1"},"metadata":{"plan":3},"createdOn"`},
		{"one consumer with its tag", reader, "GET", alice + "?tag.org=1", "", 200, `"name":"alice"`},
		{"one consumer with another tag", reader, "GET", alice + "?tag.org=2", "", 404, "consumer"},
		{"no consumer", reader, "GET", list + "/bob", "", 404, "consumer"},
		{"no name", reader, "GET", list + "/feature%2Fx", "", 404, "consumer"},
		{"new tags", full, "PATCH", alice, `{"tags":{"org":"2"},"name":"ignored","managers":["x"]}`, 200, `"name":"alice","description":"first","tags":{"org":"2"},"metadata":{"plan":3}`},
		{"everything cleared", full, "PATCH", alice, `{"tags":null,"description":null,"metadata":null}`, 200, `"name":"alice","createdOn"`},
		{"a tag without a property", reader, "GET", alice + "?tag.=y", "", 400, "name a property"},
		{"a tag in the documented name", reader, "GET", alice + "?tag=a", "", 400, "tag.<property>=<value>"},
		{"a tag that is too long", reader, "GET", alice + "?tag.org=" + strings.Repeat("a", 257), "", 400, "256 bytes"},
		{"a change with another tag", full, "PATCH", alice + "?tag.org=2", `{}`, 404, "consumer"},
		{"a deletion with another tag", full, "DELETE", alice + "?tag.org=2", "", 404, "consumer"},
		{"a deletion", full, "DELETE", alice + "?tag.org=1", "", 204, ""},

		{"a roll without a time", full, "POST", alice + "/roll-key", `{}`, 400, "expiresOn"},
		{"a roll with null", full, "POST", alice + "/roll-key", `{"expiresOn":null}`, 400, "expiresOn"},
		{"a roll with a bad time", full, "POST", alice + "/roll-key", `{"expiresOn":"tomorrow"}`, 400, "expiresOn"},
		{"a roll with another tag", full, "POST", alice + "/roll-key?tag.org=2", `{"expiresOn":"2026-01-01T00:00:00Z"}`, 404, "consumer"},
		{"a roll", full, "POST", alice + "/roll-key", `{"expiresOn":"2026-01-01T00:00:00Z"}`, 204, ""},

		{"a key of null", full, "POST", alice + "/keys", "null", 400, "body"},
		{"a key without a body", full, "POST", alice + "/keys", ``, 200, `"expiresOn":null,`},
		{"a key with an empty body", full, "POST", alice + "/keys", `{}`, 200, `"expiresOn":null,`},
		{"a key with all", full, "POST", alice + "/keys", `{"expiresOn":"2030-01-01T01:00:00+01:00","description":"d","key":"` + secret + `"}`, 200, `"description":"d","key":"` + secret + `","expiresOn":"2030-01-01T00:00:00.000Z"`},
		{"a key with null", full, "POST", alice + "/keys", `{"expiresOn":null,"description":null,"key":null}`, 200, `"key":"gwk_`},
		{"a short key", full, "POST", alice + "/keys", `{"key":"s3cr3t"}`, 400, "body.key"},
		{"a key with a space", full, "POST", alice + "/keys", `{"key":"s3cr3t s3cr3t s3cr3t"}`, 400, "body.key"},
		{"a bad time", full, "POST", alice + "/keys", `{"expiresOn":"2030-13-01T00:00:00Z"}`, 400, "body.expiresOn"},
		{"a time of another type", full, "POST", alice + "/keys", `{"expiresOn":12}`, 400, "body.expiresOn"},
		{"keys of no consumer", full, "GET", list + "/bob/keys", "", 404, "consumer"},
		{"a key of no consumer", full, "POST", list + "/bob/keys", "{}", 404, "consumer"},
		{"no key", full, "GET", alice + "/keys/key_000000000000000000000000", "", 404, "API key"},
		{"no id", full, "DELETE", alice + "/keys/nothing", "", 404, "API key"},
		{"an empty bulk", full, "POST", alice + "/keys/$bulk", `[]`, 400, "body"},
		{"a bulk of 1,001", full, "POST", alice + "/keys/$bulk", "[{}" + strings.Repeat(",{}", 1000) + "]", 400, "body"},
		{"a bulk of 10,000", full, "POST", alice + "/keys/$bulk", "[{}" + strings.Repeat(",{}", 9999) + "]", 400, "body"},
		{"a bulk that is no list", full, "POST", alice + "/keys/$bulk", `{}`, 400, "body"},
		{"a bulk of nulls", full, "POST", alice + "/keys/$bulk", `[null]`, 400, "body[0]"},
		{"a bulk with a bad key", full, "POST", alice + "/keys/%24bulk", `[{},{"key":"s3cr3t"}]`, 400, "body[1].key"},

		{"the managers", reader, "GET", alice + "/managers", "", 200, `"email":"Boss@example.com","sub":"boss"`},
		{"a manager in use", full, "POST", alice + "/managers", `{"email":"bOSS@example.com","sub":"x"}`, 409, "manager"},
		{"a manager without sub", full, "POST", alice + "/managers", `{"email":"a@example.com"}`, 400, "sub"},
		{"no manager", full, "DELETE", alice + "/managers/eusr_0", "", 404, "manager"},
		{"no manager to read", reader, "GET", alice + "/managers/eusr_0", "", 404, "manager"},
	})
}

func TestProblemsRepeatNoKey(t *testing.T) {
	const secret = "s3cr3t s3cr3t s3cr3t" // a key has no spaces
	w := newWorld(t)
	call := w.As(w.full)
	key := call("POST", alice+"/keys", `{}`).Want(200).JSON().Text("id")
	for _, answer := range []functionstest.Answer{
		call("POST", alice+"/keys", `{"key":"`+secret+`"}`).Want(400, "body.key"),
		call("POST", alice+"/keys", `{"key":"s3cr3t"}`).Want(400, "body.key"),
		call("POST", alice+"/keys", `{"key":["s3cr3t"]}`).Want(400, "body.key"),
		call("POST", alice+"/keys/$bulk", `[{},{"key":"s3cr3t"}]`).Want(400, "body[1].key"),
		call("PATCH", alice+"/keys/"+key, `{"key":"s3cr3t"}`).Want(400, "body.key"),
	} {
		if strings.Contains(answer.Whole, "s3cr3t") {
			t.Errorf("the problem repeats a key: %s", answer.Whole)
		}
	}
}

func TestListFiltersByTagsAndManager(t *testing.T) {
	w := newWorld(t)
	call := w.As(w.full)
	call("POST", list, `{"name":"bob","tags":{"org":"1","tier":"a b&c"},"managers":["boss@example.com"]}`).Want(200)
	for query, want := range map[string]string{
		"tag.org=1":           "alice bob",
		"tag.org=1&tag.org=1": "alice bob",
		"tag.org=1&tag.tier=" + url.QueryEscape("a b&c"): "bob",
		"tag.org=2": "",
		"manager-email=" + url.QueryEscape("BOSS@example.com"):     "alice bob",
		"manager-email=" + url.QueryEscape("new@example.com"):      "alice",
		"manager-email=boss%40example.com&tag.tier=" + "a%20b%26c": "bob",
		"limit=1&offset=1":                               "bob",
		"limit=1&tag.org=1":                              "alice",
		"name-prefix=b":                                  "bob",
		"name-prefix=b&limit=1&offset=1":                 "",
		"name-prefix=b&tag.org=1":                        "bob",
		"name-prefix=a&tag.tier=" + "a%20b%26c":          "",
		"name-prefix=al&manager-email=new%40example.com": "alice",
	} {
		got := call("GET", list+"?"+query, "").Want(200).JSON()
		if names := strings.Join(got.Texts("data", "name"), " "); names != want {
			t.Errorf("%s: got %s, want %s", query, names, want)
		}
	}
}

func TestIncludesAreLeftOutUnlessAskedFor(t *testing.T) {
	w := newWorld(t)
	call := w.As(w.full)
	made := call("POST", list+"?with-api-key=true", `{"name":"bob"}`).Want(200).JSON()
	text := made.Text("apiKeys.0.key")
	if !w.opens(text) {
		t.Fatal("the creation does not show the key")
	}
	call("POST", alice+"/keys", "{}").Want(200)
	for _, base := range []string{alice, list} {
		at := map[string]string{alice: "", list: "data.0"}[base]
		got := call("GET", base, "").Want(200).JSON().At(at)
		if got.Len("apiKeys") != -1 || got.Len("managers") != -1 || got.Len("managerInvites") != -1 {
			t.Errorf("%s: got %v", base, got)
		}
		got = call("GET", base+"?include-api-keys=true&include-managers=true&include-manager-invites=true", "").Want(200).JSON().At(at)
		if got.Len("apiKeys") != 1 || got.Len("managers") != 1 || got.Len("managerInvites") != 1 {
			t.Errorf("%s: got %v", base, got)
		}
	}
	got := call("GET", list+"/bob?include-api-keys=true&include-managers=true&key-format=visible", "").Want(200).JSON()
	if got.Text("apiKeys.0.key") != text || got.Len("managers") != 0 {
		t.Errorf("got %v", got)
	}
}

func TestKeyFormatsOfReads(t *testing.T) {
	w := newWorld(t)
	call := w.As(w.full)
	made := call("POST", alice+"/keys", "{}").Want(200).JSON()
	text, one := made.Text("key"), alice+"/keys/"+made.Text("id")
	masked := "****" + text[len(text)-8:]
	for query, want := range map[string]string{
		"": masked, "?key-format=masked": masked, "?key-format=visible": text, "?key-format=none": "",
	} {
		if got := call("GET", one+query, "").Want(200).JSON(); got.Text("key") != want {
			t.Errorf("read%s: %q", query, got.Text("key"))
		}
		if got := call("GET", alice+"/keys"+query, "").Want(200).JSON(); got.Text("data.0.key") != want {
			t.Errorf("list%s: %q", query, got.Text("data.0.key"))
		}
	}
	if got := call("PATCH", one, `{"description":"d"}`).Want(200).JSON(); got.Text("key") != masked || got.Text("description") != "d" {
		t.Errorf("update: %v", got)
	}
}

func TestKeysStory(t *testing.T) {
	w := newWorld(t)
	call := w.As(w.full)
	id := call("GET", alice, "").Want(200).JSON().Text("id")
	first := call("POST", list+"/"+id+"/keys", `{"description":"first"}`).Want(200).JSON()
	bulk := call("POST", alice+"/keys/$bulk", `[{"description":"0"},{"expiresOn":"2026-01-01T00:00:00Z"},{"key":"my-own-key-0123456789"}]`).Want(200).JSON()
	if bulk.Len("data") != 3 || bulk.Text("data.2.key") != "my-own-key-0123456789" || bulk.Len("") != 1 {
		t.Fatalf("bulk: %v", bulk)
	}
	keys := call("GET", alice+"/keys?limit=2&offset=1", "").Want(200).JSON()
	if keys.Number("total") != 4 || keys.Text("data.0.id") != bulk.Text("data.1.id") {
		t.Fatalf("keys: %v", keys)
	}
	if !w.opens(first.Text("key")) || w.opens(bulk.Text("data.1.key")) || !w.opens("my-own-key-0123456789") {
		t.Fatal("the gateway disagrees")
	}
	call("POST", alice+"/roll-key", `{"expiresOn":"2026-03-14T00:00:00Z"}`).Want(204)
	newest := call("GET", alice+"/keys?key-format=visible", "").Want(200).JSON()
	if newest.Len("data") != 5 || !newest.Null("data.0.expiresOn") || newest.Text("data.1.expiresOn") != "2026-03-14T00:00:00.000Z" ||
		newest.Text("data.2.expiresOn") != "2026-01-01T00:00:00.000Z" {
		t.Fatalf("after the roll: %v", newest)
	}
	if w.opens(first.Text("key")) || !w.opens(newest.Text("data.0.key")) {
		t.Fatal("the roll did not reach the gateway")
	}
	old := alice + "/keys/" + first.Text("id")
	if got := call("PATCH", old, `{"expiresOn":null}`).Want(200).JSON(); !got.Null("expiresOn") {
		t.Fatalf("the expiry is not cleared: %v", got)
	}
	if !w.opens(first.Text("key")) {
		t.Fatal("a key without an expiry is refused")
	}
	call("PATCH", old, `{"key":"another-own-key-0123"}`).Want(200)
	if w.opens(first.Text("key")) || !w.opens("another-own-key-0123") {
		t.Fatal("the key was not replaced")
	}
	call("DELETE", old+"?tag.org=2", "").Want(404)
	call("DELETE", old+"?tag.org=1", "").Want(204)
	call("GET", old, "").Want(404)
	if w.opens("another-own-key-0123") {
		t.Fatal("a deleted key opens")
	}
	call("DELETE", alice, "").Want(204)
	if w.opens(newest.Text("data.0.key")) {
		t.Fatal("a key of a deleted consumer opens")
	}
}

func TestBulkOfThousandKeysIsAllOrNone(t *testing.T) {
	w := newWorld(t)
	call := w.As(w.full)
	body := make([]map[string]string, 1000)
	for i := range body {
		body[i] = map[string]string{"key": fmt.Sprintf("my-own-key-%010d", i)}
	}
	text := func() string {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	call("POST", alice+"/keys", `{"key":"taken-by-somebody-else"}`).Want(200)
	body[999]["key"] = "taken-by-somebody-else"
	call("POST", alice+"/keys/$bulk", text()).Want(409)
	if got := call("GET", alice+"/keys", "").Want(200).JSON(); got.Number("total") != 1 {
		t.Fatalf("%v keys are there", got.Number("total"))
	}
	body[999]["key"] = "my-own-key-of-the-end"
	call("POST", alice+"/keys/$bulk", text()).Want(200)
	if got := call("GET", alice+"/keys?limit=1", "").Want(200).JSON(); got.Number("total") != 1001 || !w.opens("my-own-key-of-the-end") {
		t.Fatalf("%v keys are there", got.Number("total"))
	}
}

func TestManagersStory(t *testing.T) {
	w := newWorld(t)
	call := w.As(w.full)
	made := call("POST", alice+"/managers", `{"email":"new@example.com","sub":"new"}`).Want(200).JSON()
	got := call("GET", alice+"?include-manager-invites=true&include-managers=true", "").Want(200).JSON()
	if got.Len("managerInvites") != 0 || got.Text("managers.0.id") != made.Text("id") {
		t.Fatalf("the invite was not taken up: %v", got)
	}
	if got := call("GET", alice+"/managers?limit=1&offset=1", "").Want(200).JSON(); got.Number("total") != 2 || got.Text("data.0.sub") != "boss" {
		t.Fatalf("got %v", got)
	}
	call("DELETE", alice+"/managers/"+made.Text("id"), "").Want(204)
	call("DELETE", alice+"/managers/"+made.Text("id"), "").Want(404)
}

// TestTagsAreToldOfInTheirOrder: of several tags at fault it is always the same
// that is told.
func TestTagsAreToldOfInTheirOrder(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		w.Call(w.full, "GET", list+"?tag=1&tag.=2&tag.x=3&tag.x=4&tag.y=5&tag.y=6", "").
			Want(400, "query.tag: write the parameter as tag.<property>=<value>")
	}
}

// TestManagersAndInvitesAreReadAsTheirConsumerShowsThem, word for word: who lists the consumer knows their ETags.
func TestManagersAndInvitesAreReadAsTheirConsumerShowsThem(t *testing.T) {
	w := newWorld(t)
	full := w.full
	shown := w.Call(full, "GET", alice+"?include-managers=true&include-manager-invites=true", "").Want(200)
	for _, member := range []string{"managers.0", "managerInvites.0"} {
		id := shown.JSON().Text(member + ".id")
		one := w.Call(full, "GET", alice+"/managers/"+id, "").Want(200)
		if !strings.Contains(shown.Body, strings.TrimSpace(one.Body)) {
			t.Errorf("%s is read as %s, and shown in %s", member, one.Body, shown.Body)
		}
		w.Call(full, "DELETE", alice+"/managers/"+id, "", "If-Match", `"another"`).Want(412)
		w.Call(full, "DELETE", alice+"/managers/"+id, "", "If-Match", one.Header.Get("ETag")).Want(204)
		w.Call(full, "DELETE", alice+"/managers/"+id, "", "If-Match", one.Header.Get("ETag")).Want(404)
	}
}
