package console

import (
	"bytes"
	"context"
	"strings"

	"github.com/danielgtaylor/huma/v2/negotiation"

	"github.com/gatewright/gatewright/console"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
)

// Bind gives the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Held(p)
	return Serving(p, console.Embedded())
}

// Serving gives the routes of a console.
func Serving(_ installation.Parts, site console.Site) []api.Route {
	h := handlers{site}
	return []api.Route{show.To(h.show), asset.To(h.asset)}
}

type handlers struct{ site console.Site }

// contentSecurity lets the page have what is of its own origin, and no script that is text: Trusted Types without a policy refuse
// what would make markup or script of one.
const contentSecurity = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const (
	asksEachTime = "no-cache" // and is answered 304 as long as it is the same
	aYear        = "public, max-age=31536000, immutable"
)

var errNoFile = fault.New(fault.NotFound, "There is no such file of the console. It may be one of an earlier release: load /console anew.")

func (h handlers) show(ctx context.Context, _ *showIn) (*fileOut, error) {
	page := h.site.Page()
	// A stage of API Gateway or the path of a proxy may stand in front, so that the address is relative; a slash
	// at the end of the page's makes it one of a folder.
	assets := "console"
	if strings.HasSuffix(api.Address(ctx), "/") {
		assets = "."
	}
	page.Body = bytes.ReplaceAll(page.Body, []byte(console.AssetsMark), []byte(assets))
	return answer(page), nil
}

func (h handlers) asset(_ context.Context, in *assetIn) (*fileOut, error) {
	file, ok := h.site.Asset(in.File)
	if !ok {
		return nil, errNoFile
	}
	out := answer(file)
	out.Vary = "Accept-Encoding"
	// The first of the two counts where both are as welcome.
	if file.Brotli != nil && negotiation.SelectQValue(in.AcceptEncoding, []string{"identity", "br"}) == "br" {
		out.ContentEncoding, out.Body = "br", file.Brotli
	}
	return out, nil
}

func answer(f console.File) *fileOut {
	out := &fileOut{
		ContentType: f.ContentType, CacheControl: asksEachTime, ContentSecurity: contentSecurity,
		ContentSniffing: "nosniff", Referrer: "no-referrer", OpenerPolicy: "same-origin", ResourcePolicy: "same-origin",
		PermissionsPolicy: "camera=(), geolocation=(), microphone=(), payment=(), usb=()", FrameOptions: "DENY",
		Body: f.Body,
	}
	if f.Immutable {
		out.CacheControl = aYear
	}
	return out
}
