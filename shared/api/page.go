package api

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/gatewright/gatewright/shared/store"
)

// maxLimit is the longest page of a list (specification 8, contract 1.3).
const maxLimit = 1000

// maxPageBytes is where a page ends, whatever its limit: the platform carries 6 MB
// (maxAnswerBytes), and what of that is left is for headers and the envelope. No
// single entry is nearly as large; the largest is a consumer with 100 keys.
const maxPageBytes = 5_000_000

// Page is embedded in the In of a list: which part of it is asked for.
type Page struct {
	Limit  int `query:"limit" minimum:"1" default:"1000" doc:"The most entries to return. A value over 1000 counts as 1000."`
	Offset int `query:"offset" minimum:"0" default:"0" doc:"How many entries to skip."`
}

// Part is the page as services take it, with the limit cut to 1000.
func (p Page) Part() store.Page { return store.Page{Limit: min(p.Limit, maxLimit), Offset: p.Offset} }

// List is the envelope of every list.
type List[T any] struct {
	Data   []T `json:"data" doc:"The entries of this page."`
	Limit  int `json:"limit" doc:"The most entries that this page could hold. A page ends before 5 MB: limit is then how many it holds, and the next one begins at the sum of offset and limit."`
	Offset int `json:"offset" doc:"How many entries were skipped."`
	Total  int `json:"total" doc:"How many entries there are in all."`
}

// list marks the envelope for single.
func (List[T]) list() {}

// single reports whether an Out has one thing for its body, and not a list.
func single(out reflect.Type) bool {
	body, ok := out.FieldByName("Body")
	return ok && !body.Type.Implements(reflect.TypeFor[interface{ list() }]())
}

// NewList makes the envelope of one page; data is never null in JSON. It is the
// only way to a list, and so every page ends where it has to: entries that no
// longer fit are left for the next one, and limit tells how many are here. So it
// does for a page that a service has ended early, by Fits.
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
	limit := page.Part().Limit
	if n := len(data); n > 0 && n < limit && page.Offset+n < total {
		limit = n
	}
	return List[T]{Data: data, Limit: limit, Offset: page.Offset, Total: total}
}

// Fits makes a function that is called with the entries of a page in their order
// and tells whether there is room for each beside those before it, for a service
// to which further entries cost reads. The first one always fits.
func Fits[V, T any](show func(V) T) func(V) bool {
	left, first := maxPageBytes, true
	return func(v V) bool {
		left -= carriedBytes(show(v)) + len(",")
		was := first
		first = false
		return was || left >= 0
	}
}

// carriedBytes is how much of the platform's limit a value takes: its JSON, which
// is carried as a text within JSON.
func carriedBytes(v any) int {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // as huma answers it
	if encoder.Encode(v) != nil {
		return 0 // which the answer itself will fail with
	}
	return quotedBytes(text.String())
}

// Slice returns the page's part of a whole list.
func Slice[T any](all []T, page Page) List[T] {
	from := min(page.Offset, len(all))
	return NewList(all[from:min(from+page.Part().Limit, len(all))], page, len(all))
}
