package upstream

import (
	"errors"
	"io"
	"net/http"

	"golang.org/x/net/http/httpguts"
)

// allowedInTrailer reports whether a field is allowed in a trailer. The list of forbidden fields in package httpguts
// lacks cookies, Location and Alt-Svc.
func allowedInTrailer(name string) bool {
	switch folded := foldName(name); folded {
	case "Cookie", "Cookie2", "Set-Cookie", "Location", "Alt-Svc":
		return false
	default:
		return httpguts.ValidTrailerHeader(folded)
	}
}

// FillTrailer returns a request's body that sets the values of the announced trailer fields at its
// end: for each key of to, it copies the values of from. from is the trailer that the server fills.
func FillTrailer(body io.ReadCloser, to, from http.Header) io.ReadCloser {
	return &eofBody{body, func() {
		for name := range to {
			to[name] = from[name]
		}
	}}
}

// eofBody is a body that calls onEOF at its end, before Read returns io.EOF.
type eofBody struct {
	io.ReadCloser
	onEOF func()
}

func (b *eofBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.onEOF()
	}
	return n, err
}
