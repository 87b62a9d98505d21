package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// maxListSize is the maximum size of a list that is assembled in memory, in bytes. It is enough for about three million
// consumers.
const maxListSize = 1 << 30

// PageTracker detects a list whose pages never end, and limits the size of a list. The zero value is ready for the
// first page.
type PageTracker struct {
	visited map[string]bool
	bytes   int
}

// AddPage records that a page was read. pageSize is the page's size in bytes. after is the cursor of the next page, or
// "" for the last page. AddPage returns an error if an earlier page had the same cursor, because the list would never
// end. It also returns an error if the list is larger than maxListSize.
func (t *PageTracker) AddPage(pageSize int, after string) error {
	t.bytes += pageSize
	switch {
	case after != "" && t.visited[after]:
		return errors.New("the API says of a page of the list that it comes after itself, and the list would have no end")
	case t.bytes > maxListSize:
		return fmt.Errorf("the list has more than %d MiB: ask for a part of it, such as with --limit and --offset",
			maxListSize>>20)
	}
	if t.visited == nil {
		t.visited = map[string]bool{}
	}
	t.visited[after] = true
	return nil
}

// List is like ListAll, but takes the name of the operation, and arguments that it encodes as JSON.
func (a *API) List(ctx context.Context, name string, arguments map[string]any) ([]byte, error) {
	t, raw, err := encodeArguments(name, arguments)
	if err != nil {
		return nil, err
	}
	return a.ListAll(ctx, t, raw)
}

// ListAll calls a list operation until it has all pages. It returns one JSON object: data has all entries from the
// offset in values on, and total is the total number of entries. If the operation takes a cursor, ListAll uses the
// cursor, so that concurrent changes do not duplicate or skip entries. ListAll changes values.
func (a *API) ListAll(ctx context.Context, t *apitools.Tool, values map[string]json.RawMessage) ([]byte, error) {
	type page struct {
		Data  []json.RawMessage `json:"data"`
		Total int64             `json:"total"`
		Next  string            `json:"next"`
		// Pagination has the total if the page has none at the top level, as in the audit log.
		Pagination struct {
			Total int64 `json:"total"`
		} `json:"pagination"`
	}
	list := struct {
		Data  []json.RawMessage `json:"data"`
		Total int64             `json:"total"`
	}{Data: []json.RawMessage{}}
	offset := int64(0)
	if values["offset"] != nil {
		if err := json.Unmarshal(values["offset"], &offset); err != nil {
			return nil, fmt.Errorf("read the offset: %w", err)
		}
	}
	hasCursor := slices.ContainsFunc(t.Arguments, func(arg project.Argument) bool { return arg.Name == "after" })
	for tracker := (PageTracker{}); ; {
		resp, err := a.Do(ctx, t, values)
		if err != nil {
			return nil, err
		}
		var p page
		if err := Decode(resp.Body, &p); err != nil {
			return nil, fmt.Errorf("read a page of the list: %w", err)
		}
		if err := tracker.AddPage(len(resp.Body), p.Next); err != nil {
			return nil, err
		}
		list.Data, list.Total = append(list.Data, p.Data...), max(p.Total, p.Pagination.Total)
		offset += int64(len(p.Data))
		switch {
		case len(p.Data) == 0, hasCursor && p.Next == "", !hasCursor && offset >= p.Total:
			return json.Marshal(list)
		case hasCursor:
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
