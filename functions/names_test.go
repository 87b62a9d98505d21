package functions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/api"
)

// TestNamesInBodiesAreExact sends every operation its good bodies with each field
// in another spelling, beside the right one and in its place, at every depth. One
// that were read as the field would get past the bounds that the declaration has.
func TestNamesInBodiesAreExact(t *testing.T) {
	p := newPopulated(t)
	operations, schemas := requests(t)
	each(t, func(d api.Declaration) bool { return d.TakesBody }, func(t *testing.T, d api.Declaration) {
		sent := 0
		for _, r := range variants(p.book, d) {
			path, body := target(t, d, r, p.names)
			for _, c := range operations[d.ID].RequestBody.Content {
				misspell(decoded(t, body), c.Schema, schemas, func(right, wrong string, whole any) {
					sent++
					raw, err := json.Marshal(whole)
					if err != nil {
						t.Fatal(err)
					}
					w := p.Copy(t)
					before := w.Items.Snapshot()
					a := w.Call(p.key, d.Method, path, string(raw))
					if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "names are exact, write it as "+right) {
						t.Errorf("%s for %s is answered %d %s", wrong, right, a.Status, a.Body)
					}
					refusedOnce(w, d, before)
				}, func() any { return decoded(t, body) })
			}
		}
		if sent == 0 {
			t.Error("no field was misspelt")
		}
	})
}

// misspell calls try with copies of a whole body in which one field of an object
// that its schema describes has another spelling. fresh makes a copy.
func misspell(body any, s schema, schemas map[string]schema, try func(right, wrong string, whole any), fresh func() any) {
	everyField(body, s, schemas, func(at []any, right string, _ schema) {
		for _, wrong := range respelt(right) {
			for _, instead := range []bool{false, true} {
				whole := fresh()
				object, _ := within(whole, at).(map[string]any)
				object[wrong] = object[right]
				if instead {
					delete(object, right)
				}
				try(right, wrong, whole)
			}
		}
	})
}

// within follows names and indexes into a value.
func within(value any, at []any) any {
	for _, step := range at {
		switch step := step.(type) {
		case int:
			value = value.([]any)[step]
		case string:
			value = value.(map[string]any)[step]
		}
	}
	return value
}

// respelt are those that encoding/json takes for a name: in other cases, and
// with letters that Unicode folds to the same.
func respelt(name string) (all []string) {
	for _, other := range []string{
		strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], strings.ToLower(name),
		strings.ReplaceAll(name, "s", "\u017f"), strings.ReplaceAll(name, "k", "\u212a"),
	} {
		if other != name && !slices.Contains(all, other) {
			all = append(all, other)
		}
	}
	return all
}

// TestNamesOfTheCallersOwnAreKept: what is no field has whatever names its owner
// gives it, those that differ by case among them.
func TestNamesOfTheCallersOwnAreKept(t *testing.T) {
	p := newPopulated(t)
	w := p.Copy(t)
	consumers := fmt.Sprintf("/v1/accounts/acme/key-buckets/%s/consumers", p.names["bucketName"])
	w.Call(p.key, http.MethodPost, consumers,
		`{"name":"kelvin","tags":{"plan":"a","PLAN":"b","Name":"c"},"metadata":{"k":1,"K":2,"\u212a":3,"nested":{"Name":1,"name":2}}}`).Want(http.StatusOK)
	w.Call(p.key, http.MethodGet, consumers+"/kelvin", "").Want(http.StatusOK,
		`"PLAN":"b"`, `"plan":"a"`, `"Name":"c"`, `"k":1,"K":2`, `:3,"nested":{"Name":1,"name":2}`)
	w.Call(p.key, http.MethodPost, consumers, `{"name":"twice","metadata":{"k":1,"k":2}}`).Want(http.StatusBadRequest, "body.metadata")
}
