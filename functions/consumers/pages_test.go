package consumers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestPagesOfConsumersWithTheirKeysFit: 330 consumers with 100 keys each are more
// than the platform carries. They come in as many pages as it takes, each of which
// says where the next one begins.
func TestPagesOfConsumersWithTheirKeysFit(t *testing.T) {
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
