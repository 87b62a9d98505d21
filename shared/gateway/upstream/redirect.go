package upstream

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// maxRedirects is how many redirects Follow goes after.
const maxRedirects = 10

// Follow sends a request and follows redirects as far as that is safe: at most
// ten, never from https to http, never with a body: it was not kept, and it was
// meant for the first address. Where it stops, the redirect itself is the
// response. Beyond the first origin only the fields of carried go along.
func (a *Account) Follow(r *http.Request) (*http.Response, error) {
	response, err := a.follow.Do(r)
	if err != nil {
		// The wrapper's text holds the address with its query, which may hold
		// secrets.
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return nil, err
	}
	return response, nil
}

// carried are the fields that go along to another origin: what the caller can
// read, and nothing that says who it is or what it has asked before. Range and
// conditions stay behind: an answer without them is right, too. Via is no field of
// the caller's: it is how a loop through redirects ends.
var carried = []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "Via"}

// redirect decides about the next request of a chain, and replaces the fields
// that net/http has given it, which keeps the caller's own fields for any host
// and credentials for subdomains.
func redirect(next *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errRedirects
	}
	switch next.URL.Scheme {
	case "https":
	case "http":
		if via[len(via)-1].URL.Scheme == "https" {
			return http.ErrUseLastResponse
		}
	default:
		return http.ErrUseLastResponse
	}
	next.URL.User = nil // net/http would make credentials of it
	first := via[0]
	home := originOf(first.URL)
	if strayed := func(r *http.Request) bool { return originOf(r.URL) != home }; strayed(next) || slices.ContainsFunc(via, strayed) {
		// Also on the way back: who sent the chain home has chosen what is
		// asked there, so that is nothing that the caller has asked.
		next.Header = make(http.Header, len(carried)) //nolint:gosec // only what is carried is put in
		for _, name := range carried {
			if values, ok := first.Header[name]; ok {
				next.Header[name] = values
			}
		}
		return nil
	}
	next.Header = first.Header.Clone() //nolint:gosec // it has the same origin
	if next.Method != first.Method {
		// It has become a GET: what described the body is gone with it.
		for name := range next.Header {
			if strings.HasPrefix(name, "Content-") {
				delete(next.Header, name)
			}
		}
	}
	return nil
}

// origin is what RFC 6454 compares.
type origin struct{ scheme, host, port string }

func originOf(u *url.URL) origin {
	_, port, _ := net.SplitHostPort(addressOf(u))
	return origin{u.Scheme, strings.ToLower(u.Hostname()), port}
}
