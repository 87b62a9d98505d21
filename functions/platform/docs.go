package platform

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/pages"
)

// library answers the pages of the documentation.
type library struct{ site *pages.Site }

func (l library) overview(ctx context.Context, _ *struct{}) (*pageOut, error) {
	return l.answer("", upFrom(ctx, 0))
}

func (l library) page(ctx context.Context, in *pageIn) (*pageOut, error) {
	return l.answer(in.Page, upFrom(ctx, 1))
}

var errNoPage = fault.New(fault.NotFound, "There is no such page. GET /docs is the map of all.")

func (l library) answer(name, up string) (*pageOut, error) {
	body, err := l.site.Page(name, up)
	switch {
	case errors.Is(err, pages.ErrNoPage):
		return nil, errNoPage
	case err != nil:
		return nil, fmt.Errorf("show the page %s: %w", name, err)
	}
	return &pageOut{
		ContentType: "text/html; charset=utf-8", ContentSecurity: contentSecurity(),
		ContentSniffing: "nosniff", Referrer: "no-referrer", Body: body,
	}, nil
}

// contentSecurity lets a page have its own style and icon, and nothing else: no script, no frame,
// no form, nothing that is loaded.
func contentSecurity() string {
	return "default-src 'none'; style-src '" + pages.StyleHash() + "'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// upFrom leads from the address of the running request, which is below the folder of /docs by
// some folders, to where that is. Links of pages are relative, since a stage of API Gateway or a
// path of a proxy may stand in front, and then a slash at the end of the address makes it deeper.
func upFrom(ctx context.Context, below int) string {
	if strings.HasSuffix(api.Address(ctx), "/") {
		below++
	}
	return strings.Repeat("../", below)
}
