package consumers_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/auth"
)

// callers has an account key of each kind of caller that the cases need.
type callers struct {
	fullKey, readerKey string // with all scopes, and with only the scope for reading
	shopKey            string // limited to one project
	otherAccountKey    string
}

func TestResponses(t *testing.T) {
	fx := newFixture(t)
	c := callers{
		fullKey:         fx.fullKey,
		readerKey:       fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.KeyBuckets.Read()} }),
		shopKey:         fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} }),
		otherAccountKey: fx.CreateAccount("evil"),
	}
	fx.Run(t, slices.Concat(creationCases(c), listCases(c), consumerCases(c), keyCases(c), managerCases(c)))
}

// creationCases returns cases of requests that create a consumer.
func creationCases(c callers) []functionstest.Case {
	return []functionstest.Case{
		{
			"a consumer", c.fullKey, "POST", consumersPath, `{"name":"org_123"}`, 200,
			`"name":"org_123","createdOn":"2026-03-14T10:26:53.589Z"`,
		},
		{
			"null in all optional fields", c.fullKey, "POST", consumersPath,
			`{"name":"bob","description":null,"tags":null,"metadata":null,"managers":null}`,
			200, `"name":"bob","createdOn"`,
		},
		{
			"metadata with unusual notation", c.fullKey, "POST", consumersPath,
			`{"name":"bob","metadata":{"orgId": 1234, "big":12345678901234567890,"s":"é"}}`, 200,
			`"metadata":{"orgId":1234,"big":12345678901234567890,"s":"é"}`,
		},
		{"a name in use", c.fullKey, "POST", consumersPath, `{"name":"alice"}`, 409, "Choose another name"},
		{"a name with a capital", c.fullKey, "POST", consumersPath, `{"name":"Alice"}`, 400, "body.name"},
		{"a name like an id", c.fullKey, "POST", consumersPath, `{"name":"csmr_abcdefghijklmnopqrstuvwx"}`, 400, "body.name"},
		{
			"six tags", c.fullKey, "POST", consumersPath,
			`{"name":"bob","tags":{"a":"1","b":"2","c":"3","d":"4","e":"5","f":"6"}}`, 400,
			"body.tags",
		},
		{"a number as tag", c.fullKey, "POST", consumersPath, `{"name":"bob","tags":{"a":1}}`, 400, "body.tags"},
		{
			"metadata that is no object", c.fullKey, "POST", consumersPath,
			`{"name":"bob","metadata":[1]}`, 400, "body.metadata",
		},
		{
			"metadata too large", c.fullKey, "POST", consumersPath,
			`{"name":"bob","metadata":{"a":"` + strings.Repeat("x", 1024) + `"}}`,
			400, "body.metadata",
		},
		{"a number as manager", c.fullKey, "POST", consumersPath, `{"name":"bob","managers":[1]}`, 400, "body.managers[0]"},
		{
			"manager without a subject", c.fullKey, "POST", consumersPath,
			`{"name":"bob","managers":[{"email":"a@example.com"}]}`, 400,
			"body.managers[0]",
		},
		{
			"invalid email address of a manager", c.fullKey, "POST", consumersPath, `{"name":"bob","managers":["nobody"]}`, 400,
			"body.managers[0]",
		},
		{
			"deep JSON", c.fullKey, "POST", consumersPath,
			`{"name":"bob","metadata":` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100) + "}", 400, "deep",
		},
		{
			"invalid with-api-key", c.fullKey, "POST", consumersPath + "?with-api-key=perhaps",
			`{"name":"bob"}`, 400, "with-api-key",
		},
		{
			"missing bucket", c.fullKey, "POST", "/v1/accounts/acme/key-buckets/absent/consumers", `{"name":"bob"}`, 404,
			"key bucket",
		},
		{"key without the scope", c.readerKey, "POST", consumersPath, `{"name":"bob"}`, 403, "key-buckets:write"},
		{"bucket without a project and a limited key", c.shopKey, "GET", consumersPath, "", 404, "key bucket"},
		{"another account", c.otherAccountKey, "GET", consumersPath, "", 404, "account"},
	}
}

// listCases returns cases of requests for the list of consumers.
func listCases(c callers) []functionstest.Case {
	return []functionstest.Case{
		{"the list", c.readerKey, "GET", consumersPath, "", 200, `"limit":1000,"offset":0,"total":1,"next":null}`},
		{
			"the list with a trailing slash", c.readerKey, "GET", consumersPath + "/?limit=5", "", 200,
			`"limit":5,"offset":0,"total":1,"next":null}`,
		},
		{"limit over the maximum", c.readerKey, "GET", consumersPath + "?limit=5000", "", 200, `"limit":1000,`},
		{"a limit of 0", c.readerKey, "GET", consumersPath + "?limit=0", "", 400, "query.limit"},
		{
			"offset with a cursor", c.readerKey, "GET", consumersPath + "?after=x&offset=1", "", 400,
			"query.offset: does not go with after",
		},
		{
			"invalid cursor", c.readerKey, "GET", consumersPath + "?after=x", "", 400,
			"query.after: is no cursor of this list: give next as the page before has it",
		},
		{
			"invalid cursor of keys", c.readerKey, "GET", alicePath + "/keys?after=x", "", 400,
			"query.after: is no cursor of this list",
		},
		{"a long cursor", c.readerKey, "GET", consumersPath + "?after=" + strings.Repeat("a", 1025), "", 400, "query.after"},
		{"a prefix", c.readerKey, "GET", consumersPath + "?name-prefix=ali", "", 200, `"name":"alice"`},
		{
			"a prefix that is a whole name", c.readerKey, "GET", consumersPath + "?name-prefix=alice", "", 200,
			`"total":1,"next":null}`,
		},
		{
			"prefix longer than a name", c.readerKey, "GET", consumersPath + "?name-prefix=alices", "", 200,
			`{"data":[],"limit":1000,"offset":0,"total":0,"next":null}`,
		},
		{"a prefix and another tag", c.readerKey, "GET", consumersPath + "?name-prefix=ali&tag.org=2", "", 200, `"total":0`},
		{
			"a prefix in capitals", c.readerKey, "GET", consumersPath + "?name-prefix=Ali", "", 400,
			"query.name-prefix: expected string to be 1 to 128 characters of a-z, 0-9, _ and -",
		},
		{
			"a prefix with a percent sign", c.readerKey, "GET", consumersPath + "?name-prefix=a%25",
			"", 400, "query.name-prefix",
		},
		{"a prefix with a separator", c.readerKey, "GET", consumersPath + "?name-prefix=a%23", "", 400, "query.name-prefix"},
		{
			"prefix with pattern characters", c.readerKey, "GET", consumersPath + "?name-prefix=.*",
			"", 400, "query.name-prefix",
		},
		{"prefix with a line feed", c.readerKey, "GET", consumersPath + "?name-prefix=a%0A", "", 400, "query.name-prefix"},
		{"empty prefix", c.readerKey, "GET", consumersPath + "?name-prefix=", "", 400, "query.name-prefix: is empty"},
		{
			"too long prefix", c.readerKey, "GET", consumersPath + "?name-prefix=" + strings.Repeat("a", 129), "", 400,
			"query.name-prefix",
		},
		{"negative offset", c.readerKey, "GET", consumersPath + "?offset=-1", "", 400, "query.offset"},
		{
			"limit beyond 64 bits", c.readerKey, "GET", consumersPath + "?limit=99999999999999999999999",
			"", 400, "query.limit",
		},
		{"a large offset", c.readerKey, "GET", consumersPath + "?offset=9223372036854775807", "", 200, `{"data":[],`},
		{"text as limit", c.readerKey, "GET", consumersPath + "?limit=many", "", 400, "query.limit"},
		{"unknown key format", c.readerKey, "GET", consumersPath + "?key-format=bold", "", 400, "query.key-format"},
		{"parameter tag without a name", c.readerKey, "GET", consumersPath + "?tag=org", "", 400, "query.tag"},
	}
}

// consumerCases returns cases of requests on one consumer.
func consumerCases(c callers) []functionstest.Case {
	return []functionstest.Case{
		{
			"one consumer", c.readerKey, "GET", alicePath, "", 200,
			`"description":"first","tags":{"org":"1"},"metadata":{"plan":3},"createdOn"`,
		},
		{"one consumer with its tag", c.readerKey, "GET", alicePath + "?tag.org=1", "", 200, `"name":"alice"`},
		{"one consumer with another tag", c.readerKey, "GET", alicePath + "?tag.org=2", "", 404, "consumer"},
		{"missing consumer", c.readerKey, "GET", consumersPath + "/bob", "", 404, "consumer"},
		{"invalid name", c.readerKey, "GET", consumersPath + "/feature%2Fx", "", 404, "consumer"},
		{
			"new tags", c.fullKey, "PATCH", alicePath, `{"tags":{"org":"2"},"name":"ignored","managers":["x"]}`, 200,
			`"name":"alice","description":"first","tags":{"org":"2"},"metadata":{"plan":3}`,
		},
		{
			"all fields cleared", c.fullKey, "PATCH", alicePath, `{"tags":null,"description":null,"metadata":null}`, 200,
			`"name":"alice","createdOn"`,
		},
		{"a tag without a property", c.readerKey, "GET", alicePath + "?tag.=y", "", 400, "name a property"},
		{"parameter tag without a property", c.readerKey, "GET", alicePath + "?tag=a", "", 400, "tag.<property>=<value>"},
		{
			"a tag that is too long", c.readerKey, "GET", alicePath + "?tag.org=" + strings.Repeat("a", 257), "", 400,
			"256 bytes",
		},
		{"a change with another tag", c.fullKey, "PATCH", alicePath + "?tag.org=2", `{}`, 404, "consumer"},
		{"a deletion with another tag", c.fullKey, "DELETE", alicePath + "?tag.org=2", "", 404, "consumer"},
		{"a deletion", c.fullKey, "DELETE", alicePath + "?tag.org=1", "", 204, ""},
	}
}

// keyCases returns cases of requests on the keys of a consumer.
func keyCases(c callers) []functionstest.Case {
	const secret = "s3cr3t-text-of-a-key!"
	return []functionstest.Case{
		{"a roll without a time", c.fullKey, "POST", alicePath + "/roll-key", `{}`, 400, "expiresOn"},
		{"a roll with null", c.fullKey, "POST", alicePath + "/roll-key", `{"expiresOn":null}`, 400, "expiresOn"},
		{"a roll with a bad time", c.fullKey, "POST", alicePath + "/roll-key", `{"expiresOn":"tomorrow"}`, 400, "expiresOn"},
		{
			"a roll with another tag", c.fullKey, "POST", alicePath + "/roll-key?tag.org=2",
			`{"expiresOn":"2026-01-01T00:00:00Z"}`, 404, "consumer",
		},
		{"a roll", c.fullKey, "POST", alicePath + "/roll-key", `{"expiresOn":"2026-01-01T00:00:00Z"}`, 204, ""},

		{"null as body of a new key", c.fullKey, "POST", alicePath + "/keys", "null", 400, "body"},
		{"a key without a body", c.fullKey, "POST", alicePath + "/keys", ``, 200, `"expiresOn":null,`},
		{"a key with an empty body", c.fullKey, "POST", alicePath + "/keys", `{}`, 200, `"expiresOn":null,`},
		{
			"key with all fields", c.fullKey, "POST", alicePath + "/keys",
			`{"expiresOn":"2030-01-01T01:00:00+01:00","description":"d","key":"` + secret + `"}`, 200,
			`"description":"d","key":"` + secret + `","expiresOn":"2030-01-01T00:00:00.000Z"`,
		},
		{
			"a key with null in all fields", c.fullKey, "POST", alicePath + "/keys",
			`{"expiresOn":null,"description":null,"key":null}`, 200, `"key":"gwk_`,
		},
		{"a short key", c.fullKey, "POST", alicePath + "/keys", `{"key":"s3cr3t"}`, 400, "body.key"},
		{"a key with a space", c.fullKey, "POST", alicePath + "/keys", `{"key":"s3cr3t s3cr3t s3cr3t"}`, 400, "body.key"},
		{
			"a key with an invalid time", c.fullKey, "POST", alicePath + "/keys", `{"expiresOn":"2030-13-01T00:00:00Z"}`, 400,
			"body.expiresOn",
		},
		{"a key with a number as time", c.fullKey, "POST", alicePath + "/keys", `{"expiresOn":12}`, 400, "body.expiresOn"},
		{"keys of a missing consumer", c.fullKey, "GET", consumersPath + "/bob/keys", "", 404, "consumer"},
		{"key of a missing consumer", c.fullKey, "POST", consumersPath + "/bob/keys", "{}", 404, "consumer"},
		{"missing key", c.fullKey, "GET", alicePath + "/keys/key_000000000000000000000000", "", 404, "API key"},
		{"invalid id of a key", c.fullKey, "DELETE", alicePath + "/keys/nothing", "", 404, "API key"},
		{"a bulk without keys", c.fullKey, "POST", alicePath + "/keys/$bulk", `[]`, 400, "body"},
		{
			"a bulk of 1,001", c.fullKey, "POST", alicePath + "/keys/$bulk", "[{}" + strings.Repeat(",{}", 1000) + "]", 400,
			"body",
		},
		{
			"a bulk of 10,000", c.fullKey, "POST", alicePath + "/keys/$bulk", "[{}" + strings.Repeat(",{}", 9999) + "]", 400,
			"body",
		},
		{"object as bulk", c.fullKey, "POST", alicePath + "/keys/$bulk", `{}`, 400, "body"},
		{"a bulk of nulls", c.fullKey, "POST", alicePath + "/keys/$bulk", `[null]`, 400, "body[0]"},
		{
			"a bulk with a bad key", c.fullKey, "POST", alicePath + "/keys/%24bulk", `[{},{"key":"s3cr3t"}]`, 400,
			"body[1].key",
		},
	}
}

// managerCases returns cases of requests on the managers of a consumer.
func managerCases(c callers) []functionstest.Case {
	return []functionstest.Case{
		{"list of managers", c.readerKey, "GET", alicePath + "/managers", "", 200, `"email":"Boss@example.com","sub":"boss"`},
		{
			"a manager with an address in use", c.fullKey, "POST", alicePath + "/managers",
			`{"email":"bOSS@example.com","sub":"x"}`, 409, "manager",
		},
		{"manager without a subject", c.fullKey, "POST", alicePath + "/managers", `{"email":"a@example.com"}`, 400, "sub"},
		{"deletion of a missing manager", c.fullKey, "DELETE", alicePath + "/managers/eusr_0", "", 404, "manager"},
		{"missing manager", c.readerKey, "GET", alicePath + "/managers/eusr_0", "", 404, "manager"},
	}
}

func TestProblemsContainNoKey(t *testing.T) {
	const secret = "s3cr3t s3cr3t s3cr3t" // invalid, because keys have no spaces
	fx := newFixture(t)
	call := fx.CallAs(fx.fullKey)
	key := call("POST", alicePath+"/keys", `{}`).Want(200).JSON().Text("id")
	for _, resp := range []functionstest.Response{
		call("POST", alicePath+"/keys", `{"key":"`+secret+`"}`).Want(400, "body.key"),
		call("POST", alicePath+"/keys", `{"key":"s3cr3t"}`).Want(400, "body.key"),
		call("POST", alicePath+"/keys", `{"key":["s3cr3t"]}`).Want(400, "body.key"),
		call("POST", alicePath+"/keys/$bulk", `[{},{"key":"s3cr3t"}]`).Want(400, "body[1].key"),
		call("PATCH", alicePath+"/keys/"+key, `{"key":"s3cr3t"}`).Want(400, "body.key"),
	} {
		if strings.Contains(resp.Dump, "s3cr3t") {
			t.Errorf("problem = %s, want no key in it", resp.Dump)
		}
	}
}

func TestListFiltersByTagsAndManager(t *testing.T) {
	fx := newFixture(t)
	call := fx.CallAs(fx.fullKey)
	call("POST", consumersPath, `{"name":"bob","tags":{"org":"1","tier":"a b&c"},"managers":["boss@example.com"]}`).
		Want(200)
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
		got := call("GET", consumersPath+"?"+query, "").Want(200).JSON()
		if names := strings.Join(got.Texts("data", "name"), " "); names != want {
			t.Errorf("GET with %s: names = %s, want %s", query, names, want)
		}
	}
}

func TestIncludesAreOmittedByDefault(t *testing.T) {
	fx := newFixture(t)
	call := fx.CallAs(fx.fullKey)
	created := call("POST", consumersPath+"?with-api-key=true", `{"name":"bob"}`).Want(200).JSON()
	text := created.Text("apiKeys.0.key")
	if !fx.accepts(text) {
		t.Fatal("accepts(key of the created consumer) = false, want true")
	}
	call("POST", alicePath+"/keys", "{}").Want(200)
	for _, base := range []string{alicePath, consumersPath} {
		path := map[string]string{alicePath: "", consumersPath: "data.0"}[base]
		got := call("GET", base, "").Want(200).JSON().At(path)
		if got.Len("apiKeys") != -1 || got.Len("managers") != -1 || got.Len("managerInvites") != -1 {
			t.Errorf("GET %s = %v, want no apiKeys, managers and managerInvites", base, got)
		}
		got = call("GET", base+"?include-api-keys=true&include-managers=true&include-manager-invites=true", "").
			Want(200).JSON().At(path)
		if got.Len("apiKeys") != 1 || got.Len("managers") != 1 || got.Len("managerInvites") != 1 {
			t.Errorf("GET %s with all includes = %v, want 1 of apiKeys, managers and managerInvites", base, got)
		}
	}
	got := call("GET", consumersPath+"/bob?include-api-keys=true&include-managers=true&key-format=visible", "").
		Want(200).JSON()
	if got.Text("apiKeys.0.key") != text || got.Len("managers") != 0 {
		t.Errorf("GET bob with keys and managers = %v, want the key %s and no managers", got, text)
	}
}

func TestKeyFormats(t *testing.T) {
	fx := newFixture(t)
	call := fx.CallAs(fx.fullKey)
	created := call("POST", alicePath+"/keys", "{}").Want(200).JSON()
	text, keyURL := created.Text("key"), alicePath+"/keys/"+created.Text("id")
	masked := "****" + text[len(text)-8:]
	for query, want := range map[string]string{
		"": masked, "?key-format=masked": masked, "?key-format=visible": text, "?key-format=none": "",
	} {
		if got := call("GET", keyURL+query, "").Want(200).JSON(); got.Text("key") != want {
			t.Errorf("GET key%s: key = %q, want %q", query, got.Text("key"), want)
		}
		if got := call("GET", alicePath+"/keys"+query, "").Want(200).JSON(); got.Text("data.0.key") != want {
			t.Errorf("GET keys%s: data.0.key = %q, want %q", query, got.Text("data.0.key"), want)
		}
	}
	if got := call("PATCH", keyURL, `{"description":"d"}`).Want(200).JSON(); got.Text("key") != masked ||
		got.Text("description") != "d" {
		t.Errorf("PATCH key = %v, want the description d and the key %s", got, masked)
	}
}

func TestKeyLifecycle(t *testing.T) {
	fx := newFixture(t)
	call := fx.CallAs(fx.fullKey)
	id := call("GET", alicePath, "").Want(200).JSON().Text("id")
	first := call("POST", consumersPath+"/"+id+"/keys", `{"description":"first"}`).Want(200).JSON()
	bulk := call("POST", alicePath+"/keys/$bulk",
		`[{"description":"0"},{"expiresOn":"2026-01-01T00:00:00Z"},{"key":"my-own-key-0123456789"}]`).Want(200).JSON()
	if bulk.Len("data") != 3 || bulk.Text("data.2.key") != "my-own-key-0123456789" || bulk.Len("") != 1 {
		t.Fatalf("POST $bulk = %v, want 3 keys in data, the last my-own-key-0123456789", bulk)
	}
	keys := call("GET", alicePath+"/keys?limit=2&offset=1", "").Want(200).JSON()
	if keys.Number("total") != 4 || keys.Text("data.0.id") != bulk.Text("data.1.id") {
		t.Fatalf("GET keys?limit=2&offset=1 = %v, want %s first and a total of 4", keys, bulk.Text("data.1.id"))
	}
	if !fx.accepts(first.Text("key")) {
		t.Fatal("accepts(first key) = false, want true")
	}
	if fx.accepts(bulk.Text("data.1.key")) {
		t.Fatal("accepts(expired key) = true, want false")
	}
	if !fx.accepts("my-own-key-0123456789") {
		t.Fatal("accepts(chosen key) = false, want true")
	}
	call("POST", alicePath+"/roll-key", `{"expiresOn":"2026-03-14T00:00:00Z"}`).Want(204)
	newest := call("GET", alicePath+"/keys?key-format=visible", "").Want(200).JSON()
	if newest.Len("data") != 5 || !newest.IsNull("data.0.expiresOn") ||
		newest.Text("data.1.expiresOn") != "2026-03-14T00:00:00.000Z" ||
		newest.Text("data.2.expiresOn") != "2026-01-01T00:00:00.000Z" {
		t.Fatalf("GET keys after roll-key = %v, want 5, the first without an expiry, and the next two with the "+
			"expiries 2026-03-14 and 2026-01-01", newest)
	}
	if fx.accepts(first.Text("key")) {
		t.Fatal("accepts(first key) after roll-key = true, want false")
	}
	if !fx.accepts(newest.Text("data.0.key")) {
		t.Fatal("accepts(newest key) after roll-key = false, want true")
	}
	firstPath := alicePath + "/keys/" + first.Text("id")
	if got := call("PATCH", firstPath, `{"expiresOn":null}`).Want(200).JSON(); !got.IsNull("expiresOn") {
		t.Fatalf("PATCH expiresOn: null = %v, want no expiry", got)
	}
	if !fx.accepts(first.Text("key")) {
		t.Fatal("accepts(key without an expiry) = false, want true")
	}
	call("PATCH", firstPath, `{"key":"another-own-key-0123"}`).Want(200)
	if fx.accepts(first.Text("key")) {
		t.Fatal("accepts(replaced key) = true, want false")
	}
	if !fx.accepts("another-own-key-0123") {
		t.Fatal("accepts(replacement) = false, want true")
	}
	call("DELETE", firstPath+"?tag.org=2", "").Want(404)
	call("DELETE", firstPath+"?tag.org=1", "").Want(204)
	call("GET", firstPath, "").Want(404)
	if fx.accepts("another-own-key-0123") {
		t.Fatal("accepts(deleted key) = true, want false")
	}
	call("DELETE", alicePath, "").Want(204)
	if fx.accepts(newest.Text("data.0.key")) {
		t.Fatal("accepts(key of a deleted consumer) = true, want false")
	}
}

func TestBulkCreationIsAtomic(t *testing.T) {
	fx := newFixture(t)
	call := fx.CallAs(fx.fullKey)
	body := make([]map[string]string, 1000)
	for i := range body {
		body[i] = map[string]string{"key": fmt.Sprintf("my-own-key-%010d", i)}
	}
	encode := func() string {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	call("POST", alicePath+"/keys", `{"key":"taken-by-somebody-else"}`).Want(200)
	body[999]["key"] = "taken-by-somebody-else"
	call("POST", alicePath+"/keys/$bulk", encode()).Want(409)
	if got := call("GET", alicePath+"/keys", "").Want(200).JSON(); got.Number("total") != 1 {
		t.Fatalf("GET keys after a refused $bulk: total = %v, want 1", got.Number("total"))
	}
	body[999]["key"] = "my-own-key-of-the-end"
	call("POST", alicePath+"/keys/$bulk", encode()).Want(200)
	if got := call("GET", alicePath+"/keys?limit=1", "").Want(200).JSON(); got.Number("total") != 1001 {
		t.Fatalf("GET keys after $bulk: total = %v, want 1001", got.Number("total"))
	}
	if !fx.accepts("my-own-key-of-the-end") {
		t.Fatal("accepts(last key of $bulk) = false, want true")
	}
}

func TestManagerLifecycle(t *testing.T) {
	fx := newFixture(t)
	call := fx.CallAs(fx.fullKey)
	created := call("POST", alicePath+"/managers", `{"email":"new@example.com","sub":"new"}`).Want(200).JSON()
	got := call("GET", alicePath+"?include-manager-invites=true&include-managers=true", "").Want(200).JSON()
	if got.Len("managerInvites") != 0 || got.Text("managers.0.id") != created.Text("id") {
		t.Fatalf("GET consumer with managers = %v, want the manager %s and no invite", got, created.Text("id"))
	}
	if got := call("GET", alicePath+"/managers?limit=1&offset=1", "").Want(200).JSON(); got.Number("total") != 2 ||
		got.Text("data.0.sub") != "boss" {
		t.Fatalf("GET managers?limit=1&offset=1 = %v, want boss and a total of 2", got)
	}
	call("DELETE", alicePath+"/managers/"+created.Text("id"), "").Want(204)
	call("DELETE", alicePath+"/managers/"+created.Text("id"), "").Want(404)
}

// TestTagProblemsAreOrdered checks that the problem always names the same tag if several tags are invalid.
func TestTagProblemsAreOrdered(t *testing.T) {
	fx := newFixture(t)
	for range 20 {
		fx.Call(fx.fullKey, "GET", consumersPath+"?tag=1&tag.=2&tag.x=3&tag.x=4&tag.y=5&tag.y=6", "").
			Want(400, "query.tag: write the parameter as tag.<property>=<value>")
	}
}

// TestManagersAndInvitesMatchConsumer checks that managers and invites have the same JSON in the response for a
// consumer and in their own responses. So a client that has listed consumers can compute the ETags of their managers
// and invites. A deletion with such an ETag in If-Match must succeed, and a deletion with another ETag must fail.
func TestManagersAndInvitesMatchConsumer(t *testing.T) {
	fx := newFixture(t)
	fullKey := fx.fullKey
	consumerResp := fx.Call(fullKey, "GET", alicePath+"?include-managers=true&include-manager-invites=true", "").Want(200)
	for _, member := range []string{"managers.0", "managerInvites.0"} {
		id := consumerResp.JSON().Text(member + ".id")
		managerResp := fx.Call(fullKey, "GET", alicePath+"/managers/"+id, "").Want(200)
		if !strings.Contains(consumerResp.Body, strings.TrimSpace(managerResp.Body)) {
			t.Errorf("GET managers/%s = %s, want it as %s in %s", id, managerResp.Body, member, consumerResp.Body)
		}
		fx.Call(fullKey, "DELETE", alicePath+"/managers/"+id, "", "If-Match", `"another"`).Want(412)
		fx.Call(fullKey, "DELETE", alicePath+"/managers/"+id, "", "If-Match", managerResp.Header.Get("ETag")).Want(204)
		fx.Call(fullKey, "DELETE", alicePath+"/managers/"+id, "", "If-Match", managerResp.Header.Get("ETag")).Want(404)
	}
}
