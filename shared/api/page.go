package api

import "github.com/gatewright/gatewright/shared/store"

// maxLimit is the longest page of a list (specification 8, contract 1.3).
const maxLimit = 1000

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
	Limit  int `json:"limit" doc:"The most entries that this page could hold."`
	Offset int `json:"offset" doc:"How many entries were skipped."`
	Total  int `json:"total" doc:"How many entries there are in all."`
}

// NewList makes the envelope of one page; data is never null in JSON.
func NewList[T any](data []T, page Page, total int) List[T] {
	if data == nil {
		data = []T{}
	}
	return List[T]{Data: data, Limit: page.Part().Limit, Offset: page.Offset, Total: total}
}

// Slice returns the page's part of a whole list.
func Slice[T any](all []T, page Page) List[T] {
	from := min(page.Offset, len(all))
	return NewList(all[from:min(from+page.Part().Limit, len(all))], page, len(all))
}
