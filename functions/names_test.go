package functions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/management/api"
)

// TestNamesInBodiesAreExact sends every operation its valid bodies with misspelled fields, in addition to the right
// field and instead of it, at every depth. If an operation read such a field, the field would bypass the limits of the
// declaration.
func TestNamesInBodiesAreExact(t *testing.T) {
	p := newPopulatedFixture(t)
	operations, schemas := readOpenAPI(t)
	forEachOperation(t, func(d api.Declaration) bool { return d.TakesBody }, func(t *testing.T, d api.Declaration) {
		count := 0
		for _, r := range variants(p.sampleSet, d) {
			path, body := requestTarget(t, d, r, p.values)
			for _, c := range operations[d.ID].RequestBody.Content {
				misspellFields(decodeJSON(t, body), c.Schema, schemas, func(correct, misspelled string, document any) {
					count++
					raw, err := json.Marshal(document)
					if err != nil {
						t.Fatal(err)
					}
					fx := p.Copy(t)
					before := fx.Items.Snapshot()
					resp := fx.Call(p.key, d.Method, path, string(raw))
					if resp.Status != http.StatusBadRequest || !strings.Contains(resp.Body, "names are exact, write it as "+correct) {
						t.Errorf("%s in place of %s = %d %s, want 400 that names %s",
							misspelled, correct, resp.Status, resp.Body, correct)
					}
					assertRefusalRecorded(fx, d, before)
				}, func() any { return decodeJSON(t, body) })
			}
		}
		if count == 0 {
			t.Errorf("%s: number of misspelled fields = 0, want 1 or more", d.ID)
		}
	})
}

// misspellFields calls check with copies of a body. In each copy, one field that the schema describes is misspelled.
// newDocument creates a copy.
func misspellFields(
	body any, s schema, schemas map[string]schema, check func(correct, misspelled string, document any),
	newDocument func() any,
) {
	visitFields(body, s, schemas, func(path []any, correct string, _ schema) {
		for _, misspelled := range misspellings(correct) {
			for _, replace := range []bool{false, true} {
				document := newDocument()
				object, _ := valueAt(document, path).(map[string]any)
				object[misspelled] = object[correct]
				if replace {
					delete(object, correct)
				}
				check(correct, misspelled, document)
			}
		}
	})
}

// valueAt returns the value at a path of names and indexes in value.
func valueAt(value any, path []any) any {
	for _, step := range path {
		switch step := step.(type) {
		case int:
			value = value.([]any)[step]
		case string:
			value = value.(map[string]any)[step]
		}
	}
	return value
}

// misspellings returns other spellings that encoding/json accepts for a name: with another case, and with letters that
// Unicode folds to the same letters.
func misspellings(name string) (spellings []string) {
	for _, spelling := range []string{
		strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], strings.ToLower(name),
		strings.ReplaceAll(name, "s", "\u017f"), strings.ReplaceAll(name, "k", "\u212a"),
	} {
		if spelling != name && !slices.Contains(spellings, spelling) {
			spellings = append(spellings, spelling)
		}
	}
	return spellings
}

// TestFreeFormNamesArePreserved checks that the names in free-form objects are preserved, even if they differ only in
// case.
func TestFreeFormNamesArePreserved(t *testing.T) {
	p := newPopulatedFixture(t)
	fx := p.Copy(t)
	consumersPath := fmt.Sprintf("/v1/accounts/acme/key-buckets/%s/consumers", p.values["bucketName"])
	fx.Call(p.key, http.MethodPost, consumersPath,
		`{"name":"kelvin","tags":{"plan":"a","PLAN":"b","Name":"c"},"metadata":{"k":1,"K":2,"\u212a":3,"nested":{"Name":1,`+
			`"name":2}}}`).Want(http.StatusOK)
	fx.Call(p.key, http.MethodGet, consumersPath+"/kelvin", "").Want(http.StatusOK,
		`"PLAN":"b"`, `"plan":"a"`, `"Name":"c"`, `"k":1,"K":2`, `:3,"nested":{"Name":1,"name":2}`)
	fx.Call(p.key, http.MethodPost, consumersPath, `{"name":"twice","metadata":{"k":1,"k":2}}`).Want(http.StatusBadRequest,
		"body.metadata")
}
