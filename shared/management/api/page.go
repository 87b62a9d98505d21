package api

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/gatewright/gatewright/shared/core/store"
)

// maxLimit is the maximum number of entries of a page (specification 8, contract 1.3).
const maxLimit = 1000

// maxPageBytes is the size at which a page ends, even if it has fewer entries than its limit.
// The platform allows 6 MB for a response (maxResponseBytes); the difference is for headers
// and the envelope. A single entry is much smaller; the largest is a consumer with 100 keys.
const maxPageBytes = 5_000_000

// Page is embedded in the In of a list and selects the part of the list to return.
type Page struct {
	Limit  int `query:"limit" minimum:"1" default:"1000" doc:"The most entries to return. A value over 1000 counts as 1000."`
	Offset int `query:"offset" minimum:"0" default:"0" doc:"How many entries to skip."`
}

// StorePage returns the page for services, with the limit reduced to at most 1000.
func (p Page) StorePage() store.Page {
	return store.Page{Limit: min(p.Limit, maxLimit), Offset: p.Offset}
}

// List is the envelope of a list, unless the list has an envelope of its own.
type List[T any] struct {
	Data   []T `json:"data" doc:"The entries of this page."`
	Limit  int `json:"limit" doc:"The most entries that this page could hold. A page ends before 5 MB: limit is then how many it holds, and the next one begins at the sum of offset and limit."`
	Offset int `json:"offset" doc:"How many entries were skipped."`
	Total  int `json:"total" doc:"How many entries there are in all."`
}

// list marks the envelope so that single recognizes it.
func (List[T]) list() {}

// single reports whether the body of an Out is one object, not a list.
func single(out reflect.Type) bool {
	body, ok := out.FieldByName("Body")
	return ok && !body.Type.Implements(reflect.TypeFor[interface{ list() }]())
}

// NewList returns the envelope of one page. Every List is created by NewList, so that no page exceeds
// maxPageBytes: entries that do not fit are left for the next page, and limit is then the number of entries in
// the page. limit is also that number if a service has ended the page early (Fits). data is never null in JSON.
func NewList[T any](data []T, page Page, total int) List[T] {
	if data == nil {
		data = []T{}
	}
	fits := Fits(func(entry T) T { return entry })
	for i, entry := range data {
		if !fits(entry) {
			data = data[:i]
			break
		}
	}
	limit := page.StorePage().Limit
	if n := len(data); n > 0 && n < limit && page.Offset+n < total {
		limit = n
	}
	return List[T]{Data: data, Limit: limit, Offset: page.Offset, Total: total}
}

// Fits returns a function that a service calls with the entries of a page in their order. The function reports whether
// an entry still fits into the page. The first entry always fits. Use it for services that need a read for each entry.
func Fits[V, T any](convert func(V) T) func(V) bool {
	remaining, first := maxPageBytes, true
	return func(v V) bool {
		remaining -= encodedBytes(convert(v)) + len(",")
		isFirst := first
		first = false
		return isFirst || remaining >= 0
	}
}

// encodedBytes returns the size of a value for the platform's
// limit: the platform sends the value's JSON as a string in JSON. It returns 0 for a value that cannot be encoded.
func encodedBytes(v any) int {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // huma does not escape HTML either
	if encoder.Encode(v) != nil {
		return 0 // the response itself will fail
	}
	return quotedBytes(text.String())
}

// Slice returns one page of a list that is in memory as a whole.
func Slice[T any](all []T, page Page) List[T] {
	from := min(page.Offset, len(all))
	return NewList(all[from:min(from+page.StorePage().Limit, len(all))], page, len(all))
}
