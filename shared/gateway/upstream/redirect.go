package upstream

import (
	"errors"
	"net/http"
	"net/url"
)

// maxRedirects is how many redirects Follow goes after.
const maxRedirects = 10

// Follow sends a request and follows redirects as far as that is safe: at most
// ten, never from https to http, never with a body that can't be sent again.
// Where it stops, the redirect itself is the response. Credentials go to the
// first host and its subdomains only (net/http).
func (a *Account) Follow(r *http.Request) (*http.Response, error) {
	response, err := a.follow.Do(r) //nolint:gosec // the guard decides where it may go, at the dial
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

func redirect(next *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errRedirects
	}
	if next.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https" {
		return http.ErrUseLastResponse
	}
	return nil
}
