package api

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
)

// A cursor says where a page of a list begins: behind an entry, whatever comes or
// goes before it, and at the price of any other page (contract 9). To clients it
// is opaque. It is signed, with the list that it is of, so that it leads nowhere
// but to the page that was meant: a position is part of a query of the table.
//
// A list that takes cursors embeds After beside its page in its In, answers
// Paged[T], and has next|null in T. Cursors.Open gives its service's position,
// Cursors.Next what stands behind a page.

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
	want, err := c.sign(ctx, in.list, string(raw))
	if err != nil {
		return "", err
	}
	if notEncoded != nil || subtle.ConstantTimeCompare([]byte(signature), []byte(want)) == 0 {
		return "", fault.InvalidField("after", "is no cursor of this list: give next as the page before has it, with the filters of that page")
	}
	return string(raw), nil
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
	return c.hasher.Hash(ctx, position+"\x00"+list) // no position has a NUL
}
