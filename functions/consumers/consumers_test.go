package consumers_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestAnswers(t *testing.T) {
	const secret = "s3cr3t-text-of-a-key!"
	for _, test := range []struct {
		name, method, path, key, body string
		status                        int
		want                          string // a part of the answer
	}{
		{"a consumer", "POST", list, "full", `{"name":"org_123"}`, 200, `"name":"org_123","createdOn":"2026-03-14T09:26:53.589Z"`},
		{"nulls", "POST", list, "full", `{"name":"bob","description":null,"tags":null,"metadata":null,"managers":null}`, 200, `"name":"bob","createdOn"`},
		{"metadata as it was written", "POST", list, "full", `{"name":"bob","metadata":{"orgId": 1234, "big":12345678901234567890,"s":"é"}}`, 200, `"metadata":{"orgId":1234,"big":12345678901234567890,"s":"é"}`},
		{"a name in use", "POST", list, "full", `{"name":"alice"}`, 409, "Choose another name"},
		{"a bad name", "POST", list, "full", `{"name":"Alice"}`, 400, "body.name"},
		{"a name like an id", "POST", list, "full", `{"name":"csmr_abcdefghijklmnopqrstuvwx"}`, 400, "body.name"},
		{"six tags", "POST", list, "full", `{"name":"bob","tags":{"a":"1","b":"2","c":"3","d":"4","e":"5","f":"6"}}`, 400, "body.tags"},
		{"a number as tag", "POST", list, "full", `{"name":"bob","tags":{"a":1}}`, 400, "body.tags"},
		{"metadata no object", "POST", list, "full", `{"name":"bob","metadata":[1]}`, 400, "body.metadata"},
		{"metadata too large", "POST", list, "full", `{"name":"bob","metadata":{"a":"` + strings.Repeat("x", 1024) + `"}}`, 400, "body.metadata"},
		{"a number as manager", "POST", list, "full", `{"name":"bob","managers":[1]}`, 400, "body.managers[0]"},
		{"a manager without sub", "POST", list, "full", `{"name":"bob","managers":[{"email":"a@example.com"}]}`, 400, "body.managers[0]"},
		{"a bad address", "POST", list, "full", `{"name":"bob","managers":["nobody"]}`, 400, "body.managers[0]"},
		{"deep JSON", "POST", list, "full", `{"name":"bob","metadata":` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100) + "}", 400, "deep"},
		{"with-api-key no boolean", "POST", list + "?with-api-key=perhaps", "full", `{"name":"bob"}`, 400, "with-api-key"},
		{"no bucket", "POST", "/v1/accounts/acme/key-buckets/absent/consumers", "full", `{"name":"bob"}`, 404, "key bucket"},
		{"no scope", "POST", list, "reader", `{"name":"bob"}`, 403, "key-buckets:write"},
		{"an unplaced bucket and a limited key", "GET", list, "shop", "", 404, "key bucket"},
		{"a foreign account", "GET", list, "other-account", "", 404, "account"},

		{"the list", "GET", list, "reader", "", 200, `"limit":1000,"offset":0,"total":1}`},
		{"the list with a slash", "GET", list + "/?limit=5", "reader", "", 200, `"limit":5,"offset":0,"total":1}`},
		{"a limit over the most", "GET", list + "?limit=5000", "reader", "", 200, `"limit":1000,`},
		{"a limit of 0", "GET", list + "?limit=0", "reader", "", 400, "query.limit"},
		{"an offset below 0", "GET", list + "?offset=-1", "reader", "", 400, "query.offset"},
		{"a limit without end", "GET", list + "?limit=99999999999999999999999", "reader", "", 400, "query.limit"},
		{"a large offset", "GET", list + "?offset=9223372036854775807", "reader", "", 200, `{"data":[],`},
		{"a limit no number", "GET", list + "?limit=many", "reader", "", 400, "query.limit"},
		{"a key-format that is none", "GET", list + "?key-format=bold", "reader", "", 400, "query.key-format"},
		{"the parameter tag itself", "GET", list + "?tag=org", "reader", "", 400, "query.tag"},

		{"one consumer", "GET", alice, "reader", "", 200, `"description":"first","tags":{"org":"1"},"metadata":{"plan":3},"createdOn"`},
		{"one consumer with its tag", "GET", alice + "?tag.org=1", "reader", "", 200, `"name":"alice"`},
		{"one consumer with another tag", "GET", alice + "?tag.org=2", "reader", "", 404, "consumer"},
		{"no consumer", "GET", list + "/bob", "reader", "", 404, "consumer"},
		{"no name", "GET", list + "/feature%2Fx", "reader", "", 404, "consumer"},
		{"new tags", "PATCH", alice, "full", `{"tags":{"org":"2"},"name":"ignored","managers":["x"]}`, 200, `"name":"alice","description":"first","tags":{"org":"2"},"metadata":{"plan":3}`},
		{"everything cleared", "PATCH", alice, "full", `{"tags":null,"description":null,"metadata":null}`, 200, `"name":"alice","createdOn"`},
		{"a change with another tag", "PATCH", alice + "?tag.org=2", "full", `{}`, 404, "consumer"},
		{"a deletion with another tag", "DELETE", alice + "?tag.org=2", "full", "", 404, "consumer"},
		{"a deletion", "DELETE", alice + "?tag.org=1", "full", "", 204, ""},

		{"a roll without a time", "POST", alice + "/roll-key", "full", `{}`, 400, "expiresOn"},
		{"a roll with null", "POST", alice + "/roll-key", "full", `{"expiresOn":null}`, 400, "expiresOn"},
		{"a roll with a bad time", "POST", alice + "/roll-key", "full", `{"expiresOn":"tomorrow"}`, 400, "expiresOn"},
		{"a roll with another tag", "POST", alice + "/roll-key?tag.org=2", "full", `{"expiresOn":"2026-01-01T00:00:00Z"}`, 404, "consumer"},
		{"a roll", "POST", alice + "/roll-key", "full", `{"expiresOn":"2026-01-01T00:00:00Z"}`, 204, ""},

		{"a key of null", "POST", alice + "/keys", "full", "null", 400, "body"},
		{"a key without a body", "POST", alice + "/keys", "full", ``, 200, `"expiresOn":null,`},
		{"a key with an empty body", "POST", alice + "/keys", "full", `{}`, 200, `"expiresOn":null,`},
		{"a key with all", "POST", alice + "/keys", "full", `{"expiresOn":"2030-01-01T01:00:00+01:00","description":"d","key":"` + secret + `"}`, 200, `"description":"d","key":"` + secret + `","expiresOn":"2030-01-01T00:00:00.000Z"`},
		{"a key with null", "POST", alice + "/keys", "full", `{"expiresOn":null,"description":null,"key":null}`, 200, `"key":"gwk_`},
		{"a short key", "POST", alice + "/keys", "full", `{"key":"s3cr3t"}`, 400, "body.key"},
		{"a key with a space", "POST", alice + "/keys", "full", `{"key":"s3cr3t s3cr3t s3cr3t"}`, 400, "body.key"},
		{"a bad time", "POST", alice + "/keys", "full", `{"expiresOn":"2030-13-01T00:00:00Z"}`, 400, "body.expiresOn"},
		{"a time of another type", "POST", alice + "/keys", "full", `{"expiresOn":12}`, 400, "body.expiresOn"},
		{"keys of no consumer", "GET", list + "/bob/keys", "full", "", 404, "consumer"},
		{"a key of no consumer", "POST", list + "/bob/keys", "full", "{}", 404, "consumer"},
		{"no key", "GET", alice + "/keys/key_000000000000000000000000", "full", "", 404, "API key"},
		{"no id", "DELETE", alice + "/keys/nothing", "full", "", 404, "API key"},
		{"an empty bulk", "POST", alice + "/keys/$bulk", "full", `[]`, 400, "body"},
		{"a bulk of 1,001", "POST", alice + "/keys/$bulk", "full", "[{}" + strings.Repeat(",{}", 1000) + "]", 400, "body"},
		{"a bulk of 10,000", "POST", alice + "/keys/$bulk", "full", "[{}" + strings.Repeat(",{}", 9999) + "]", 400, "body"},
		{"a bulk that is no list", "POST", alice + "/keys/$bulk", "full", `{}`, 400, "body"},
		{"a bulk of nulls", "POST", alice + "/keys/$bulk", "full", `[null]`, 400, "body[0]"},
		{"a bulk with a bad key", "POST", alice + "/keys/%24bulk", "full", `[{},{"key":"s3cr3t"}]`, 400, "body[1].key"},

		{"the managers", "GET", alice + "/managers", "reader", "", 200, `"email":"Boss@example.com","sub":"boss"`},
		{"a manager in use", "POST", alice + "/managers", "full", `{"email":"bOSS@example.com","sub":"x"}`, 409, "manager"},
		{"a manager without sub", "POST", alice + "/managers", "full", `{"email":"a@example.com"}`, 400, "sub"},
		{"no manager", "DELETE", alice + "/managers/eusr_0", "full", "", 404, "manager"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			got := w.call(test.method, test.path, test.key, test.body)
			if got.Code != test.status || !strings.Contains(got.Body.String(), test.want) {
				t.Fatalf("got %d %s, want %d and %s", got.Code, got.Body, test.status, test.want)
			}
			if test.status >= 400 && strings.Contains(got.Body.String(), "s3cr3t") {
				t.Fatalf("the problem repeats a key: %s", got.Body)
			}
		})
	}
}

func TestListFiltersByTagsAndManager(t *testing.T) {
	w := newWorld(t)
	w.do("POST", list, `{"name":"bob","tags":{"org":"1","tier":"a b&c"},"managers":["boss@example.com"]}`, 200)
	for query, want := range map[string]string{
		"tag.org=1":           "alice bob",
		"tag.org=1&tag.org=1": "alice bob",
		"tag.org=1&tag.tier=" + url.QueryEscape("a b&c"): "bob",
		"tag.org=2": "",
		"manager-email=" + url.QueryEscape("BOSS@example.com"):     "alice bob",
		"manager-email=" + url.QueryEscape("new@example.com"):      "alice",
		"manager-email=boss%40example.com&tag.tier=" + "a%20b%26c": "bob",
		"limit=1&offset=1":  "bob",
		"limit=1&tag.org=1": "alice",
	} {
		got := w.do("GET", list+"?"+query, "", 200)
		var names []string
		for i := range got.size("data") {
			names = append(names, got.text("data", i, "name"))
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%s: got %s, want %s", query, names, want)
		}
	}
}

func TestIncludesAreLeftOutUnlessAskedFor(t *testing.T) {
	w := newWorld(t)
	made := w.do("POST", list+"?with-api-key=true", `{"name":"bob"}`, 200)
	text := made.text("apiKeys", 0, "key")
	if !w.opens(text) {
		t.Fatal("the creation does not show the key")
	}
	w.do("POST", alice+"/keys", "{}", 200)
	for _, base := range []string{alice, list} {
		at := func(o object, names ...any) int {
			if base == list {
				names = append([]any{"data", 0}, names...)
			}
			return o.size(names...)
		}
		got := w.do("GET", base, "", 200)
		if at(got, "apiKeys") != -1 || at(got, "managers") != -1 || at(got, "managerInvites") != -1 {
			t.Errorf("%s: got %v", base, got)
		}
		got = w.do("GET", base+"?include-api-keys=true&include-managers=true&include-manager-invites=true", "", 200)
		if at(got, "apiKeys") != 1 || at(got, "managers") != 1 || at(got, "managerInvites") != 1 {
			t.Errorf("%s: got %v", base, got)
		}
	}
	got := w.do("GET", list+"/bob?include-api-keys=true&include-managers=true&key-format=visible", "", 200)
	if got.text("apiKeys", 0, "key") != text || got.size("managers") != 0 {
		t.Errorf("got %v", got)
	}
}

func TestKeyFormatsOfReads(t *testing.T) {
	w := newWorld(t)
	made := w.do("POST", alice+"/keys", "{}", 200)
	text, one := made.text("key"), alice+"/keys/"+made.text("id")
	masked := "****" + text[len(text)-8:]
	for query, want := range map[string]string{
		"": masked, "?key-format=masked": masked, "?key-format=visible": text, "?key-format=none": "",
	} {
		if got := w.do("GET", one+query, "", 200); got.text("key") != want {
			t.Errorf("read%s: %q", query, got.text("key"))
		}
		if got := w.do("GET", alice+"/keys"+query, "", 200); got.text("data", 0, "key") != want {
			t.Errorf("list%s: %q", query, got.text("data", 0, "key"))
		}
	}
	if got := w.do("PATCH", one, `{"description":"d"}`, 200); got.text("key") != masked || got.text("description") != "d" {
		t.Errorf("update: %v", got)
	}
}

func TestKeysStory(t *testing.T) {
	w := newWorld(t)
	id := w.do("GET", alice, "", 200).text("id")
	first := w.do("POST", list+"/"+id+"/keys", `{"description":"first"}`, 200)
	bulk := w.do("POST", alice+"/keys/$bulk", `[{"description":"0"},{"expiresOn":"2026-01-01T00:00:00Z"},{"key":"my-own-key-0123456789"}]`, 200)
	if bulk.size("data") != 3 || bulk.text("data", 2, "key") != "my-own-key-0123456789" || len(bulk) != 1 {
		t.Fatalf("bulk: %v", bulk)
	}
	keys := w.do("GET", alice+"/keys?limit=2&offset=1", "", 200)
	if keys.at("total") != 4.0 || keys.text("data", 0, "id") != bulk.text("data", 1, "id") {
		t.Fatalf("keys: %v", keys)
	}
	if !w.opens(first.text("key")) || w.opens(bulk.text("data", 1, "key")) || !w.opens("my-own-key-0123456789") {
		t.Fatal("the gateway disagrees")
	}
	w.do("POST", alice+"/roll-key", `{"expiresOn":"2026-03-14T00:00:00Z"}`, 204)
	newest := w.do("GET", alice+"/keys?key-format=visible", "", 200)
	if newest.size("data") != 5 || newest.at("data", 0, "expiresOn") != nil || newest.text("data", 1, "expiresOn") != "2026-03-14T00:00:00.000Z" ||
		newest.text("data", 2, "expiresOn") != "2026-01-01T00:00:00.000Z" {
		t.Fatalf("after the roll: %v", newest)
	}
	if w.opens(first.text("key")) || !w.opens(newest.text("data", 0, "key")) {
		t.Fatal("the roll did not reach the gateway")
	}
	old := alice + "/keys/" + first.text("id")
	if got := w.do("PATCH", old, `{"expiresOn":null}`, 200); got.at("expiresOn") != nil {
		t.Fatalf("the expiry is not cleared: %v", got)
	}
	if !w.opens(first.text("key")) {
		t.Fatal("a key without an expiry is refused")
	}
	w.do("PATCH", old, `{"key":"another-own-key-0123"}`, 200)
	if w.opens(first.text("key")) || !w.opens("another-own-key-0123") {
		t.Fatal("the key was not replaced")
	}
	w.do("DELETE", old+"?tag.org=2", "", 404)
	w.do("DELETE", old+"?tag.org=1", "", 204)
	w.do("GET", old, "", 404)
	if w.opens("another-own-key-0123") {
		t.Fatal("a deleted key opens")
	}
	w.do("DELETE", alice, "", 204)
	if w.opens(newest.text("data", 0, "key")) {
		t.Fatal("a key of a deleted consumer opens")
	}
}

func TestBulkOfThousandKeysIsAllOrNone(t *testing.T) {
	w := newWorld(t)
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
	w.do("POST", alice+"/keys", `{"key":"taken-by-somebody-else"}`, 200)
	body[999]["key"] = "taken-by-somebody-else"
	w.do("POST", alice+"/keys/$bulk", text(), 409)
	if got := w.do("GET", alice+"/keys", "", 200); got.at("total") != 1.0 {
		t.Fatalf("%v keys are there", got.at("total"))
	}
	body[999]["key"] = "my-own-key-of-the-end"
	w.do("POST", alice+"/keys/$bulk", text(), 200)
	if got := w.do("GET", alice+"/keys?limit=1", "", 200); got.at("total") != 1001.0 || !w.opens("my-own-key-of-the-end") {
		t.Fatalf("%v keys are there", got.at("total"))
	}
}

func TestManagersStory(t *testing.T) {
	w := newWorld(t)
	made := w.do("POST", alice+"/managers", `{"email":"new@example.com","sub":"new"}`, 200)
	got := w.do("GET", alice+"?include-manager-invites=true&include-managers=true", "", 200)
	if got.size("managerInvites") != 0 || got.text("managers", 0, "id") != made.text("id") {
		t.Fatalf("the invite was not taken up: %v", got)
	}
	if got := w.do("GET", alice+"/managers?limit=1&offset=1", "", 200); got.at("total") != 2.0 || got.text("data", 0, "sub") != "boss" {
		t.Fatalf("got %v", got)
	}
	w.do("DELETE", alice+"/managers/"+made.text("id"), "", 204)
	w.do("DELETE", alice+"/managers/"+made.text("id"), "", 404)
}
