package consumers_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

// TestPagesOfConsumersWithTheirKeysFit: 330 consumers with 100 keys each are more
// than the platform carries. They come in as many pages as it takes, each of which
// says where the next one begins.
func TestPagesOfConsumersWithTheirKeysFit(t *testing.T) {
	simulations.Sequential(t)
	w := newWorld(t)
	const consumers, keys = 330, 100
	batch := "[" + strings.TrimSuffix(strings.Repeat(`{"description":"`+strings.Repeat("d", 40)+`"},`, keys), ",") + "]"
	for i := range consumers {
		name := fmt.Sprintf("many-%03d", i)
		w.Call(w.full, "POST", list, `{"name":"`+name+`"}`).Want(200)
		w.Call(w.full, "POST", list+"/"+name+"/keys/$bulk", batch).Want(200)
	}
	seen, pages := map[string]bool{}, 0
	for offset, total := 0, 1; offset < total; pages++ {
		a := w.Call(w.full, "GET", fmt.Sprintf("%s?include-api-keys=true&offset=%d", list, offset), "").Want(200)
		if len(a.Body) > 5_000_000 {
			t.Fatalf("a page has %d bytes", len(a.Body))
		}
		names := a.JSON().Texts("data", "name")
		for _, name := range names {
			if seen[name] {
				t.Fatalf("%s comes twice", name)
			}
			seen[name] = true
		}
		var limit int
		limit, total = int(a.JSON().Number("limit")), int(a.JSON().Number("total"))
		if offset+len(names) < total && limit != len(names) {
			t.Fatalf("a page of %d that is not the last has limit %d", len(names), limit)
		}
		offset += limit
	}
	if len(seen) < consumers || pages < 2 {
		t.Errorf("%d consumers on %d pages", len(seen), pages)
	}
}

// TestCursorsLeadThroughConsumersAndKeys: one page after the other, by next or by
// Link, while others come and go; and a cursor is good for its own list alone.
func TestCursorsLeadThroughConsumersAndKeys(t *testing.T) {
	w := newWorld(t)
	for i := range 9 {
		name := fmt.Sprintf("bob-%d", i)
		w.Call(w.full, "POST", list, `{"name":"`+name+`","tags":{"org":"1"}}`).Want(200)
	}
	for range 5 {
		w.Call(w.full, "POST", list+"/bob-0/keys", "").Want(200)
		w.Call(w.full, "POST", list+"/bob-1/keys", "").Want(200)
	}
	w.Call(w.full, "POST", "/v1/accounts/acme/key-buckets", `{"name":"other"}`).Want(200)
	w.Account("evil")
	for _, test := range []struct {
		path, query, entry string
		// others are where its cursor is none.
		others []string
	}{
		{
			list, "name-prefix=bob&tag.org=1", "name",
			[]string{
				list, list + "?name-prefix=bob", list + "?name-prefix=bo&tag.org=1", list + "?name-prefix=bob&tag.org=2", list + "?name-prefix=bob&tag.org=1&include-managers=true",
				"/v1/accounts/acme/key-buckets/other/consumers?name-prefix=bob&tag.org=1", list + "/bob-0/keys?tag.org=1",
			},
		},
		{list + "/bob-0/keys", "key-format=none", "id", []string{list + "/bob-0/keys", list + "/bob-1/keys?key-format=none", list}},
	} {
		get := func(query string) functionstest.Answer {
			t.Helper()
			return w.Call(w.full, "GET", test.path+"?"+query, "").Want(200)
		}
		all := get(test.query).JSON().Texts("data", test.entry)
		var got []string
		first := ""
		for query := test.query + "&limit=2"; ; {
			a := get(query)
			got = append(got, a.JSON().Texts("data", test.entry)...)
			next, link := a.JSON().Text("next"), a.Header.Get("Link")
			if next == "" {
				if link != "" {
					t.Errorf("the last page has a Link: %s", link)
				}
				break
			}
			if first == "" {
				first = next
			}
			address, rel, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
			u, err := url.Parse(address)
			if err != nil || rel != `; rel="next"` || u.Path != test.path || u.Query().Get("after") != next || len(u.Query()) != strings.Count(test.query, "&")+3 {
				t.Fatalf("Link: %s", link)
			}
			query = u.RawQuery
			w.Now = w.Now.Add(time.Second)
			w.Call(w.full, "POST", list, fmt.Sprintf(`{"name":"a-%s-%d"}`, test.entry, len(got))).Want(200)
			w.Call(w.full, "POST", list+"/bob-0/keys", "").Want(200)
		}
		if strings.Join(got, " ") != strings.Join(all, " ") {
			t.Errorf("%s: got %v, want %v", test.path, got, all)
		}
		flipped := []byte(first)
		flipped[0] ^= 1
		bad := []string{
			test.path + "?" + test.query + "&after=" + string(flipped), test.path + "?" + test.query + "&after=" + first[:len(first)-1],
			test.path + "?" + test.query + "&after=" + strings.Split(first, ".")[0], test.path + "?" + test.query + "&after=" + first + "x",
		}
		for _, other := range test.others {
			bad = append(bad, other+map[bool]string{true: "&", false: "?"}[strings.Contains(other, "?")]+"after="+first)
		}
		for _, path := range bad {
			w.Call(w.full, "GET", path, "").Want(400, "query.after: is no cursor of this list: give next as the page before has it, with the filters of that page")
		}
	}
	// Two accounts may have the same names in them.
	w.Call(w.full, "GET", "/v1/accounts/evil/key-buckets/orders/consumers", "").Want(404)
}

// TestPagesOfLongKeysFit: what the service gives may be more than the platform
// carries, and the next page begins behind what was answered.
func TestPagesOfLongKeysFit(t *testing.T) {
	w := newWorld(t)
	const keys = 1000
	var batch []string
	for i := range keys {
		batch = append(batch, fmt.Sprintf(`{"description":"%s","key":"%s%04d"}`, strings.Repeat(`\"`, 1024), strings.Repeat(`\"`, 252), i))
	}
	for some := range slices.Chunk(batch, keys/4) {
		w.Call(w.full, "POST", alice+"/keys/$bulk", "["+strings.Join(some, ",")+"]").Want(200)
	}
	seen, pages := map[string]bool{}, 0
	for after := ""; ; pages++ {
		a := w.Call(w.full, "GET", alice+"/keys?key-format=visible"+after, "").Want(200)
		ids := a.JSON().Texts("data", "id")
		for _, id := range ids {
			if seen[id] {
				t.Fatalf("%s comes twice", id)
			}
			seen[id] = true
		}
		next := a.JSON().Text("next")
		if limit := int(a.JSON().Number("limit")); limit != len(ids) && next != "" || limit != 1000 && next == "" {
			t.Fatalf("a page of %d has limit %d and next %q", len(ids), limit, next)
		}
		if next == "" {
			break
		}
		after = "&after=" + next
	}
	if len(seen) != keys || pages != 1 {
		t.Errorf("%d of %d keys on %d pages", len(seen), keys, pages+1)
	}
}

// TestLargestBulkIsAnswered: whatever fits into a request has made its keys, and
// they are in the answer in full, this once.
func TestLargestBulkIsAnswered(t *testing.T) {
	w := newWorld(t)
	for _, unit := range []string{"<", `\"`, "\u2028", "é"} {
		n := 1000 / len(unit)
		batch := "[" + strings.TrimSuffix(strings.Repeat(`{"description":"`+strings.Repeat(unit, n)+`"},`, 1000), ",") + "]"
		body := w.Call(w.full, "POST", alice+"/keys/$bulk", batch).Want(200).Body
		var carried strings.Builder
		encoder := json.NewEncoder(&carried)
		encoder.SetEscapeHTML(false) // as Lambda's runtime does it
		if err := encoder.Encode(body); err != nil || carried.Len() > 5_000_000 {
			t.Errorf("descriptions of %q take %d bytes of the platform's (%v)", unit, carried.Len(), err)
		}
	}
}
