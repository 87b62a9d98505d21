package consumers_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// TestPagesOfConsumersWithKeysAreLimited lists 330 consumers with 100 keys each, which exceed the maximum size of a
// response. So a page must end early. Its limit must be the number of its consumers, so that a client can find the next
// page at offset + limit.
func TestPagesOfConsumersWithKeysAreLimited(t *testing.T) {
	simulations.SkipUnderRace(t)
	fx := newFixture(t)
	const consumers, keys = 330, 100
	batch := "[" + strings.TrimSuffix(strings.Repeat(`{"description":"`+strings.Repeat("d", 40)+`"},`, keys), ",") + "]"
	for i := range consumers {
		name := fmt.Sprintf("many-%03d", i)
		fx.Call(fx.fullKey, "POST", consumersPath, `{"name":"`+name+`"}`).Want(200)
		fx.Call(fx.fullKey, "POST", consumersPath+"/"+name+"/keys/$bulk", batch).Want(200)
	}
	seen, pages := map[string]bool{}, 0
	for offset, total := 0, 1; offset < total; pages++ {
		resp := fx.Call(fx.fullKey, "GET", fmt.Sprintf("%s?include-api-keys=true&offset=%d", consumersPath, offset), "").
			Want(200)
		if len(resp.Body) > 5_000_000 {
			t.Fatalf("GET with keys at offset %d: body has %d bytes, want at most 5000000", offset, len(resp.Body))
		}
		names := resp.JSON().Texts("data", "name")
		for _, name := range names {
			if seen[name] {
				t.Fatalf("consumer %s is on two pages, want one", name)
			}
			seen[name] = true
		}
		var limit int
		limit, total = int(resp.JSON().Number("limit")), int(resp.JSON().Number("total"))
		if offset+len(names) < total && limit != len(names) {
			t.Fatalf("limit of a page before the last = %d, want %d, the number of its consumers", limit, len(names))
		}
		offset += limit
	}
	if len(seen) < consumers || pages < 2 {
		t.Errorf("pages = %d with %d consumers, want at least 2 with %d", pages, len(seen), consumers)
	}
}

// TestCursorsPageThroughConsumersAndKeys follows Link from page to page while entries are added. It also checks that a
// cursor is valid only for its own list, with the same filters.
func TestCursorsPageThroughConsumersAndKeys(t *testing.T) {
	fx := newFixture(t)
	for i := range 9 {
		name := fmt.Sprintf("bob-%d", i)
		fx.Call(fx.fullKey, "POST", consumersPath, `{"name":"`+name+`","tags":{"org":"1"}}`).Want(200)
	}
	for range 5 {
		fx.Call(fx.fullKey, "POST", consumersPath+"/bob-0/keys", "").Want(200)
		fx.Call(fx.fullKey, "POST", consumersPath+"/bob-1/keys", "").Want(200)
	}
	fx.Call(fx.fullKey, "POST", "/v1/accounts/acme/key-buckets", `{"name":"other"}`).Want(200)
	fx.CreateAccount("evil")
	for _, test := range []struct {
		path, query string
		member      string // the member that identifies an entry
		// otherLists are lists for which the cursor is not valid.
		otherLists []string
	}{
		{
			consumersPath, "name-prefix=bob&tag.org=1", "name",
			[]string{
				consumersPath, consumersPath + "?name-prefix=bob",
				consumersPath + "?name-prefix=bo&tag.org=1", consumersPath + "?name-prefix=bob&tag.org=2",
				consumersPath + "?name-prefix=bob&tag.org=1&include-managers=true",
				"/v1/accounts/acme/key-buckets/other/consumers?name-prefix=bob&tag.org=1", consumersPath + "/bob-0/keys?tag.org=1",
			},
		},
		{
			consumersPath + "/bob-0/keys", "key-format=none", "id",
			[]string{consumersPath + "/bob-0/keys", consumersPath + "/bob-1/keys?key-format=none", consumersPath},
		},
	} {
		cursor := fx.checkPages(test.path, test.query, test.member)
		altered := []byte(cursor)
		altered[0] ^= 1
		invalid := []string{
			test.path + "?" + test.query + "&after=" + string(altered),
			test.path + "?" + test.query + "&after=" + cursor[:len(cursor)-1],
			test.path + "?" + test.query + "&after=" + strings.Split(cursor, ".")[0],
			test.path + "?" + test.query + "&after=" + cursor + "x",
		}
		for _, otherList := range test.otherLists {
			separator := map[bool]string{true: "&", false: "?"}[strings.Contains(otherList, "?")]
			invalid = append(invalid, otherList+separator+"after="+cursor)
		}
		for _, path := range invalid {
			fx.Call(fx.fullKey, "GET", path, "").Want(400, "query.after: is no cursor of this list: give next as the page "+
				"before has it, with the filters of that page")
		}
	}
	// The key of acme cannot list the consumers of another account.
	fx.Call(fx.fullKey, "GET", "/v1/accounts/evil/key-buckets/orders/consumers", "").Want(404)
}

// checkPages reads a list in pages of two entries while entries are created, and returns the cursor of the second page.
// It checks that the pages have each entry that existed before exactly once, and no other entries. member is the member
// that identifies an entry.
func (fx fixture) checkPages(path, query, member string) (secondPage string) {
	fx.Helper()
	want := fx.Call(fx.fullKey, "GET", path+"?"+query, "").Want(200).JSON().Texts("data", member)
	parameters := strings.Count(query, "&") + 3 // those of query, limit and after
	var got []string
	for page := query + "&limit=2"; ; {
		resp := fx.Call(fx.fullKey, "GET", path+"?"+page, "").Want(200)
		got = append(got, resp.JSON().Texts("data", member)...)
		next, link := resp.JSON().Text("next"), resp.Header.Get("Link")
		if next == "" {
			if link != "" {
				fx.Errorf("Link of the last page = %s, want none", link)
			}
			break
		}
		if secondPage == "" {
			secondPage = next
		}
		address, rel, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		u, err := url.Parse(address)
		if err != nil {
			fx.Fatalf("url.Parse(%q): %v", address, err)
		}
		if rel != `; rel="next"` || u.Path != path || u.Query().Get("after") != next || len(u.Query()) != parameters {
			fx.Fatalf("Link = %s, want %s with after=%s and %d parameters", link, path, next, parameters)
		}
		page = u.RawQuery
		fx.Now = fx.Now.Add(time.Second)
		fx.Call(fx.fullKey, "POST", consumersPath, fmt.Sprintf(`{"name":"a-%s-%d"}`, member, len(got))).Want(200)
		fx.Call(fx.fullKey, "POST", consumersPath+"/bob-0/keys", "").Want(200)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		fx.Errorf("entries on all pages of %s = %v, want %v", path, got, want)
	}
	return secondPage
}

// TestPagesOfLongKeysAreLimited lists keys that together exceed the maximum size of a response. The response must end
// early, and the next page must begin after its last entry.
func TestPagesOfLongKeysAreLimited(t *testing.T) {
	fx := newFixture(t)
	const keys = 1000
	var batch []string
	for i := range keys {
		batch = append(batch, fmt.Sprintf(`{"description":"%s","key":"%s%04d"}`, strings.Repeat(`\"`, 1024),
			strings.Repeat(`\"`, 252), i))
	}
	for chunk := range slices.Chunk(batch, keys/4) {
		fx.Call(fx.fullKey, "POST", alicePath+"/keys/$bulk", "["+strings.Join(chunk, ",")+"]").Want(200)
	}
	seen, pages := map[string]bool{}, 0
	for after := ""; ; pages++ {
		resp := fx.Call(fx.fullKey, "GET", alicePath+"/keys?key-format=visible"+after, "").Want(200)
		ids := resp.JSON().Texts("data", "id")
		for _, id := range ids {
			if seen[id] {
				t.Fatalf("key %s is on two pages, want one", id)
			}
			seen[id] = true
		}
		next := resp.JSON().Text("next")
		if limit := int(resp.JSON().Number("limit")); limit != len(ids) && next != "" || limit != 1000 && next == "" {
			t.Fatalf("page of %d keys: limit = %d, next = %q, want the number of keys, and 1000 on the last page",
				len(ids), limit, next)
		}
		if next == "" {
			break
		}
		after = "&after=" + next
	}
	if len(seen) != keys || pages != 1 {
		t.Errorf("pages = %d with %d keys, want 2 with %d", pages+1, len(seen), keys)
	}
}

// TestLargestBulkReturnsAllKeys checks that the response to the largest bulk request has all keys, and that Lambda's
// encoding of the response has at most 5 MB.
func TestLargestBulkReturnsAllKeys(t *testing.T) {
	fx := newFixture(t)
	for _, unit := range []string{"<", `\"`, "\u2028", "é"} {
		n := 1000 / len(unit)
		batch := "[" + strings.TrimSuffix(strings.Repeat(`{"description":"`+strings.Repeat(unit, n)+`"},`, 1000), ",") + "]"
		resp := fx.Call(fx.fullKey, "POST", alicePath+"/keys/$bulk", batch).Want(200)
		if got := resp.JSON().Len("data"); got != 1000 {
			t.Errorf("POST $bulk with descriptions of %q = %d keys, want 1000", unit, got)
		}
		var encoded strings.Builder
		encoder := json.NewEncoder(&encoded)
		encoder.SetEscapeHTML(false) // as Lambda's runtime does
		if err := encoder.Encode(resp.Body); err != nil || encoded.Len() > 5_000_000 {
			t.Errorf("response to keys with descriptions of %q = %d bytes, %v, want at most 5000000",
				unit, encoded.Len(), err)
		}
	}
}
