package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/project"
)

// mostList bounds a list that is put together in memory, in bytes: some three million consumers.
const mostList = 1 << 30

// Cursor follows a list from page to page, and ends one that has no end. Its zero value is at the first page.
type Cursor struct {
	seen  map[string]bool
	bytes int
}

// Next is told each page, by its size in bytes and the cursor that it ends with, "" for none. Its error says that a page came before, so that
// the list would go round for ever, or that the list is too long for memory.
func (c *Cursor) Next(page int, after string) error {
	c.bytes += page
	switch {
	case after != "" && c.seen[after]:
		return errors.New("the API says of a page of the list that it comes after itself, and the list would have no end")
	case c.bytes > mostList:
		return fmt.Errorf("the list has more than %d MiB: ask for a part of it, such as with --limit and --offset", mostList>>20)
	}
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	c.seen[after] = true
	return nil
}

// List is Pages of an operation by its name, with arguments that are written in JSON.
func (a *API) List(ctx context.Context, name string, arguments map[string]any) ([]byte, error) {
	t, raw, err := written(name, arguments)
	if err != nil {
		return nil, err
	}
	return a.Pages(ctx, t, raw)
}

// Pages asks an operation that lists for page after page, and gives one list of all entries: a document with data and total. It
// goes on by the cursor where the operation has one, so that nobody's changes in between have an entry be twice in it or not at all.
func (a *API) Pages(ctx context.Context, t *apitools.Tool, values map[string]json.RawMessage) ([]byte, error) {
	type page struct {
		Data  []json.RawMessage `json:"data"`
		Total int64             `json:"total"`
		Next  string            `json:"next"`
		// Pagination has the total where the page itself has none, as those of the audit log.
		Pagination struct {
			Total int64 `json:"total"`
		} `json:"pagination"`
	}
	whole := struct {
		Data  []json.RawMessage `json:"data"`
		Total int64             `json:"total"`
	}{Data: []json.RawMessage{}}
	offset := int64(0)
	if values["offset"] != nil {
		if err := json.Unmarshal(values["offset"], &offset); err != nil {
			return nil, fmt.Errorf("read the offset: %w", err)
		}
	}
	cursors := slices.ContainsFunc(t.Arguments, func(g project.Argument) bool { return g.Name == "after" })
	for at := (Cursor{}); ; {
		answer, err := a.Do(ctx, t, values)
		if err != nil {
			return nil, err
		}
		var p page
		if err := Read(answer.Body, &p); err != nil {
			return nil, fmt.Errorf("read a page of the list: %w", err)
		}
		if err := at.Next(len(answer.Body), p.Next); err != nil {
			return nil, err
		}
		whole.Data, whole.Total = append(whole.Data, p.Data...), max(p.Total, p.Pagination.Total)
		offset += int64(len(p.Data))
		switch {
		case len(p.Data) == 0, cursors && p.Next == "", !cursors && offset >= p.Total:
			return json.Marshal(whole)
		case cursors:
			delete(values, "offset")
			values["after"], err = json.Marshal(p.Next)
		default:
			values["offset"], err = json.Marshal(offset)
		}
		if err != nil {
			return nil, fmt.Errorf("ask for the next page: %w", err)
		}
	}
}
