package upstream

import (
	"errors"
	"io"
	"net/http"

	"golang.org/x/net/http/httpguts"
)

// mayTrail reports whether a field may stand in a trailer. Cookies are missing
// in the library's list; they authenticate.
func mayTrail(name string) bool {
	switch folded := fold(name); folded {
	case "Cookie", "Cookie2", "Set-Cookie", "Location", "Alt-Svc":
		return false
	default:
		return httpguts.ValidTrailerHeader(folded)
	}
}

// FillTrailer returns a request's body that, at its end, brings the values of the
// trailer fields that are announced in to, a key of to for each. from is the
// trailer as the server fills it.
func FillTrailer(body io.ReadCloser, to, from http.Header) io.ReadCloser {
	return &endedBody{body, func() {
		for name := range to {
			to[name] = from[name]
		}
	}}
}

// endedBody calls ended when the body has been read to its end, before its
// reader learns of that.
type endedBody struct {
	io.ReadCloser
	ended func()
}

func (b *endedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended()
	}
	return n, err
}
