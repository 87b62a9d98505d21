package api

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// A cursor says where a page of a list begins: behind an entry, whatever comes or
// goes before it, and at the price of any other page (contract 9). To clients it
// is opaque. It is signed, with the list that it is of, so that it leads nowhere
// but to the page that was meant: a position is part of a query of the table.
//
// A list that takes cursors embeds After beside its Page in its In, and answers
// Paged[CursorList[T]]: Cursors.Part gives the page as its service takes it,
// AnswerCursors makes what the service gives into the answer. One with an envelope
// of its own answers Paged[T], with next|null in T, by Cursors.Open and Cursors.Next.

// After is embedded in the In of a list that takes after= beside limit.
type After struct {
	After string `query:"after" maxLength:"1024" doc:"Begins behind the page whose next this is. All else but limit has to be as it was there; it does not go with offset."`

	// list is the request without what says which page: a cursor is good for one
	// list alone, that of an account and of its filters.
	list string
	// query is the request's.
	query url.Values
}

// Resolve notes which list is asked for; huma calls it.
func (a *After) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	a.query = u.Query()
	if a.query.Has("after") && a.query.Has("offset") {
		return []error{&huma.ErrorDetail{Location: "query.offset", Message: "does not go with after, which says where the page begins: leave one of them out"}}
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

// Cursors makes and opens the cursors of lists. It is safe for concurrent use.
type Cursors struct{ hasher *seal.Hasher }

// OpenCursors makes the Cursors of an installation. Who uses them uses RootKey.
func OpenCursors(p installation.Parts) Cursors { return Cursors{p.Hasher("list-cursor")} }

// Open gives the position behind which a page begins, "" for the list's beginning.
// Fault: Invalid for what is no cursor of this list.
func (c Cursors) Open(ctx context.Context, in After) (position string, err error) {
	if in.After == "" {
		return "", nil
	}
	encoded, signature, _ := strings.Cut(in.After, ".")
	raw, notEncoded := base64.RawURLEncoding.DecodeString(encoded)
	ours, err := c.hasher.Matches(ctx, signedPosition(in.list, string(raw)), signature)
	if err != nil {
		return "", err
	}
	if notEncoded != nil || !ours {
		return "", fault.InvalidField("after", "is no cursor of this list: give next as the page before has it, with the filters of that page")
	}
	return string(raw), nil
}

// Part is Page.Part with the position where the page begins. Fault: as of Open.
func (c Cursors) Part(ctx context.Context, page Page, in After) (store.Page, error) {
	part := page.Part()
	var err error
	part.After, err = c.Open(ctx, in)
	return part, err
}

// AnswerCursors is AnswerPage for a list that takes cursors: the service tells the
// position behind its page, too, "" where that is the last one. position is that
// of an entry, for a page that has to end before the service's.
func AnswerCursors[V, T any](ctx context.Context, c Cursors, page Page, in After, show func(V) T, position func(V) string) func([]V, string, int, error) (*Paged[CursorList[T]], error) {
	return func(found []V, behind string, total int, err error) (*Paged[CursorList[T]], error) {
		if err != nil {
			return nil, err
		}
		list := NewList(Each(found, show), page, total)
		n := len(list.Data)
		if n < len(found) {
			behind = position(found[n-1])
		}
		// Behind a position, what is left of the total is not known.
		list.Limit = page.Part().Limit
		if behind != "" && n > 0 {
			list.Limit = n
		}
		out := &Paged[CursorList[T]]{Body: CursorList[T]{List: list}}
		out.Body.Next, out.Link, err = c.Next(ctx, in, behind)
		return out, err
	}
}

// Next gives the cursor behind the entry at a position, the last of a page, and
// the value of the header Link; nil and "" for "", where nothing is behind it.
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
	return &cursor, "<" + Address(ctx) + "?" + in.query.Encode() + `>; rel="next"`, nil
}

func (c Cursors) sign(ctx context.Context, list, position string) (string, error) {
	return c.hasher.Hash(ctx, signedPosition(list, position))
}

func signedPosition(list, position string) string { return position + "\x00" + list } // no position has a NUL
