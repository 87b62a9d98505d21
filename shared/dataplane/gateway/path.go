package gateway

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/format/paths"
)

// rawPath returns the path of a request's target exactly as the client wrote it. It
// uses url.URL.RawPath, which net/url sets if the written path differs from the default
// encoding of the decoded path. Otherwise EscapedPath returns the written path.
func rawPath(r *http.Request) string {
	switch u := r.URL; {
	case u.RawPath != "":
		return u.RawPath
	case u.Path == "" && u.Opaque == "":
		return "/" // "http://host" (RFC 9110, section 4.2.3)
	default:
		return u.EscapedPath()
	}
}

// readPath sets the exchange's Path to the canonical path. If the path is too long or has no canonical form, readPath
// returns the reason and sets Path to a text for problems and logs: "/…", or the path with invalid bytes escaped.
func (r *request) readPath() error {
	raw := rawPath(r.in)
	if len(raw) > framing.DefaultMaxPathBytes {
		r.x.Path = "/…"
		return errPathTooLong
	}
	path, err := paths.Canonical(raw)
	if err != nil {
		path = paths.EscapeInvalid(raw)
	}
	r.x.Path = path
	return err
}

// errPathTooLong is the error for a path that is longer than framing.MaxPathBytes. Our
// listeners refuse such a path earlier, but AWS can pass it to a Lambda.
var errPathTooLong = errors.New("the path is too long. Shorten it, and put long values into the query or the body")

// refusePath returns the problem for an error of readPath or checkPath.
func (r *request) refusePath(err error) *http.Response {
	text := err.Error()
	if errors.Is(err, errPathTooLong) {
		return r.x.Problem(http.StatusRequestURITooLong, strings.ToUpper(text[:1])+text[1:]+".")
	}
	return r.x.Problem(http.StatusBadRequest, strings.ToUpper(text[:1])+text[1:]+".")
}

// checkPath returns a problem if the upstream could interpret the path of a matched request as the path
// of another route. If the project preserves paths, it also sets RawPath, which is sent upstream.
func (r *request) checkPath() *http.Response {
	s, x := r.site, &r.x
	if !s.preservePaths {
		if s.router.IsAmbiguous(x.Path) {
			return x.Problem(http.StatusBadRequest,
				"Write the path so that it can be read in one way: once its escapes are decoded "+
					`and its path parameters (";") are cut off, it is the path of another route. Write "/" where segments end, and `+
					`send a slash, a backslash or a ";" that is data in the query or the body.`)
		}
		return nil
	}
	x.RawPath = paths.EscapeInvalid(rawPath(r.in))
	// The route was chosen by the canonical path, but the upstream receives the path as the client wrote
	// it. Refuse a path that the upstream could resolve to another path.
	if _, err := paths.CanonicalStrict(x.RawPath); err != nil {
		return r.refusePath(err)
	}
	return nil
}
