package gateway

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/shared/gateway/paths"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/listen/framing"
)

// writtenPath returns the path of a request's target, byte for byte: net/url
// would decode and escape the whole of it anew for one byte that it would
// escape, and make slashes of encoded ones. It keeps what was written beside the
// decoded path where the two say different things, whatever the target's form is.
func writtenPath(r *http.Request) string {
	switch u := r.URL; {
	case u.RawPath != "":
		return u.RawPath
	case u.Path == "" && u.Opaque == "":
		return "/" // "http://host" (RFC 9110, section 4.2.3)
	default:
		return u.EscapedPath()
	}
}

// readPath gives the exchange its canonical path. The error says why there is
// none; then it gets one to be told of by.
func readPath(r *http.Request, x *pipeline.Exchange) error {
	written := writtenPath(r)
	if len(written) > framing.MaxPathBytes {
		x.Path = "/…"
		return errLongPath
	}
	path, err := paths.Canonical(written)
	if err != nil {
		path = paths.Written(written)
	}
	x.Path = path
	return err
}

// errLongPath refuses a long path that the platform in front of a function has let pass. Our listeners refuse it earlier.
var errLongPath = errors.New("the path is too long. Shorten it, and put long values into the query or the body")

// refusePath returns the problem of a path that is none.
func refusePath(x *pipeline.Exchange, err error) *http.Response {
	text := err.Error()
	if errors.Is(err, errLongPath) {
		return x.Problem(http.StatusRequestURITooLong, strings.ToUpper(text[:1])+text[1:]+".")
	}
	return x.Problem(http.StatusBadRequest, strings.ToUpper(text[:1])+text[1:]+".")
}

// settlePath decides what goes upstream for the path of a matched request. It
// answers a problem where that could be another route's.
func (s *site) settlePath(r *http.Request, x *pipeline.Exchange) *http.Response {
	if !s.preserve {
		if s.router.Elsewhere(x.Path) {
			return x.Problem(http.StatusBadRequest, "Write the path so that it can be read in one way: once its escapes are decoded "+
				`and its path parameters (";") are cut off, it is the path of another route. Write "/" where segments end, and send a slash, a backslash or a ";" that is data in the query or the body.`)
		}
		return nil
	}
	x.Written = paths.Written(writtenPath(r))
	// Resolved for the route but not for the upstream, they would lead to two places.
	if _, err := paths.Within(x.Written); err != nil {
		return refusePath(x, err)
	}
	return nil
}
