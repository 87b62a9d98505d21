package api

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
)

// A cursor is the position at which a page of a list begins: after an entry. Entries that
// are added or removed before this entry do not change the page, and every page costs the
// same (contract 9). Cursors are opaque to clients. A position becomes a part of a query of
// the table, so a cursor is signed together with its list, and is valid only for this list.
//
// The In of a list with cursors embeds After and Page, and the list returns
// Paged[CursorList[T]]: Cursors.StorePage converts the page for the service, and RespondCursorPage
// converts the service's result to the response. A list with its own envelope returns Paged[T],
// where T has the member next (a string or null), and uses Cursors.Open and Cursors.Next.

// After is embedded in the In of a list that accepts after= in addition to limit.
type After struct {
	After string `query:"after" maxLength:"1024" doc:"Begins behind the page whose next this is. All else but limit has to be as it was there; it does not go with offset."`

	// list identifies the list: the request without the parameters that select the
	// page. A cursor is valid only for one list of one account, with the same filters.
	list string
	// query is the query of the request.
	query url.Values
}

// Resolve implements huma.Resolver. It sets list and query, and refuses after together with offset.
func (a *After) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	a.query = u.Query()
	if a.query.Has("after") && a.query.Has("offset") {
		return []error{&huma.ErrorDetail{Location: "query.offset", Message: "does not go with after, which says where the " +
			"page begins: leave one of them out"}}
	}
	filters := u.Query()
	filters.Del("after")
	filters.Del("limit")
	filters.Del("offset")
	a.list = strings.TrimSuffix(u.Path, "/") + "?" + filters.Encode()
	return nil
}

var _ huma.Resolver = (*After)(nil)

// Paged is the Out of a list that takes cursors.
type Paged[T any] struct {
	Link string `header:"Link" doc:"The address of the next page, with rel=\"next\" (RFC 8288). It is left out on the last one."`
	Body T
}

// CursorList is the envelope of a list that takes cursors.
type CursorList[T any] struct {
	List[T]
	Next *string `json:"next" nullable:"true" doc:"What to give as after for the next page, null on the last one."`
}

// Cursors creates and opens the cursors of lists. It is safe for concurrent use.
type Cursors struct{ hasher *seal.Hasher }

// OpenCursors returns the Cursors of an installation. An operation that uses them must list RootKey in its Uses.
func OpenCursors(p installation.Parts) Cursors { return Cursors{p.Hasher("list-cursor")} }

// Open returns the position after which a page begins, or "" for the beginning
// of the list. Fault: Invalid if after is not a cursor of this list.
func (c Cursors) Open(ctx context.Context, in After) (position string, err error) {
	if in.After == "" {
		return "", nil
	}
	encoded, signature, _ := strings.Cut(in.After, ".")
	raw, decodeErr := base64.RawURLEncoding.DecodeString(encoded)
	valid, err := c.hasher.Matches(ctx, textToSign(in.list, string(raw)), signature)
	if err != nil {
		return "", err
	}
	if decodeErr != nil || !valid {
		return "", fault.InvalidField("after",
			"is no cursor of this list: give next as the page before has it, with the filters of that page")
	}
	return string(raw), nil
}

// StorePage is like Page.StorePage, and also sets the position after which the page begins. Fault: as from Open.
func (c Cursors) StorePage(ctx context.Context, page Page, in After) (store.Page, error) {
	part := page.StorePage()
	var err error
	part.After, err = c.Open(ctx, in)
	return part, err
}

// RespondCursorPage is like RespondPage, for a list with cursors. The service also returns the position after which
// the next page begins, or "" for the last page. position returns the position of an entry. RespondCursorPage calls it
// if the response has fewer entries than the service has returned, because they would exceed maxPageBytes.
func RespondCursorPage[V, T any](
	ctx context.Context, c Cursors, page Page, in After, convert func(V) T, position func(V) string,
) func([]V, string, int, error) (*Paged[CursorList[T]], error) {
	return func(values []V, nextPosition string, total int, err error) (*Paged[CursorList[T]], error) {
		if err != nil {
			return nil, err
		}
		list := NewList(Map(values, convert), page, total)
		n := len(list.Data)
		if n < len(values) {
			nextPosition = position(values[n-1])
		}
		// NewList chose the limit by offset and total, which do not show whether entries follow a page with a cursor.
		// nextPosition shows it.
		list.Limit = page.StorePage().Limit
		if nextPosition != "" && n > 0 {
			list.Limit = n
		}
		out := &Paged[CursorList[T]]{Body: CursorList[T]{List: list}}
		out.Body.Next, out.Link, err = c.Next(ctx, in, nextPosition)
		return out, err
	}
}

// Next returns the cursor of the page that begins after position, and the value of the
// header Link. It returns nil and "" if position is "", because no entries follow.
func (c Cursors) Next(ctx context.Context, in After, position string) (next *string, link string, err error) {
	if position == "" {
		return nil, "", nil
	}
	signature, err := c.sign(ctx, in.list, position)
	if err != nil {
		return nil, "", err
	}
	cursor := base64.RawURLEncoding.EncodeToString([]byte(position)) + "." + signature
	in.query.Del("offset")
	in.query.Set("after", cursor)
	return &cursor, "<" + RequestURL(ctx) + "?" + in.query.Encode() + `>; rel="next"`, nil
}

func (c Cursors) sign(ctx context.Context, list, position string) (string, error) {
	return c.hasher.Hash(ctx, textToSign(list, position))
}

// textToSign returns a text that is unique to the list and the position, because no position contains a NUL.
func textToSign(list, position string) string { return position + "\x00" + list }
