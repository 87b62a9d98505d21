package console

import (
	"bytes"
	"context"
	"strings"

	"github.com/danielgtaylor/huma/v2/negotiation"

	"github.com/gatewright/gatewright/console"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	return Routes(p, console.Embedded())
}

// Routes returns the routes that serve the files of site.
func Routes(_ installation.Parts, site console.Site) []api.Route {
	h := handlers{site}
	return []api.Route{show.HandledBy(h.show), asset.HandledBy(h.asset)}
}

type handlers struct{ site console.Site }

// contentSecurity allows the page to load files from its own origin, but not to run inline scripts. It requires Trusted
// Types and allows no policy for them, so that the page cannot turn text into markup or script.
const contentSecurity = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const (
	revalidate = "no-cache" // the response to a conditional request is 304 if the file has not changed
	immutable  = "public, max-age=31536000, immutable"
)

var errNoFile = fault.New(fault.NotFound, "There is no such file of the console. It may be one of an earlier "+
	"release: load /console anew.")

func (h handlers) show(ctx context.Context, _ *showIn) (*fileOut, error) {
	page := h.site.Page()
	// The URL of the assets is relative, because a stage of API Gateway or the path of a proxy can precede /console. If
	// the page's URL ends in a slash, the browser resolves relative URLs below the page.
	assets := "console"
	if strings.HasSuffix(api.RequestURL(ctx), "/") {
		assets = "."
	}
	page.Body = bytes.ReplaceAll(page.Body, []byte(console.AssetsPlaceholder), []byte(assets))
	return newFileOut(page), nil
}

func (h handlers) asset(_ context.Context, in *assetIn) (*fileOut, error) {
	file, ok := h.site.Asset(in.File)
	if !ok {
		return nil, errNoFile
	}
	out := newFileOut(file)
	out.Vary = "Accept-Encoding"
	// If both encodings have the same weight, SelectQValue returns the first: identity.
	if file.Brotli != nil && negotiation.SelectQValue(in.AcceptEncoding, []string{"identity", "br"}) == "br" {
		out.ContentEncoding, out.Body = "br", file.Brotli
	}
	return out, nil
}

func newFileOut(f console.File) *fileOut {
	out := &fileOut{
		ContentType: f.ContentType, CacheControl: revalidate, ContentSecurity: contentSecurity,
		ContentSniffing: "nosniff", Referrer: "no-referrer", OpenerPolicy: "same-origin", ResourcePolicy: "same-origin",
		PermissionsPolicy: "camera=(), geolocation=(), microphone=(), payment=(), usb=()", FrameOptions: "DENY",
		Body: f.Body,
	}
	if f.Immutable {
		out.CacheControl = immutable
	}
	return out
}
