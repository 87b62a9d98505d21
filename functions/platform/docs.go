package platform

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/pages"
)

// docsSite serves the pages of the documentation.
type docsSite struct{ site *pages.Site }

func (s docsSite) overview(ctx context.Context, _ *struct{}) (*pageOut, error) {
	return s.render("", relativeRoot(ctx, 0))
}

func (s docsSite) page(ctx context.Context, in *pageIn) (*pageOut, error) {
	return s.render(in.Page, relativeRoot(ctx, 1))
}

var errNoPage = fault.New(fault.NotFound, "There is no such page. GET /docs is the map of all.")

func (s docsSite) render(name, root string) (*pageOut, error) {
	body, err := s.site.Page(name, root)
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

// contentSecurity returns a Content-Security-Policy that allows only the page's own style and icon. Scripts, frames,
// forms and other files are not allowed.
func contentSecurity() string {
	return "default-src 'none'; style-src '" +
		pages.StyleHash() + "'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// relativeRoot returns the relative path from the URL of the current request to the folder that contains docs. depth is
// the number of folders between them if the URL does not end in a slash. Links of pages are relative, because a stage
// of API Gateway or the path of a proxy can precede /docs.
func relativeRoot(ctx context.Context, depth int) string {
	if strings.HasSuffix(api.RequestURL(ctx), "/") { // browsers resolve links one folder deeper
		depth++
	}
	return strings.Repeat("../", depth)
}
