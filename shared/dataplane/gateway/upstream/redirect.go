package upstream

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxRedirects is the maximum number of redirects that Follow follows.
const maxRedirects = 10

// Follow sends a request and follows redirects if that is safe. It follows at most ten redirects, and none from https
// to http. It follows no redirect that would repeat the request's body, and none to a request that it has already sent.
// It returns all other redirects without a change. To another origin, it sends only crossOriginFields.
//
// It does not use http.Client, which waits for a part of a redirect's body, possibly forever, and returns an error for
// a redirect that it can't follow. Unlike http.Client, Follow presents a client certificate only to the first origin.
func (a *Account) Follow(r *http.Request) (*http.Response, error) {
	// anonymous has neither the client certificate nor the identity for calls of services.
	anonymous := a.client.Account(a.identity.account).WithTimeout(a.timeout)
	return follow(r, func(r *http.Request, crossOrigin bool) (*http.Response, error) {
		if crossOrigin {
			return anonymous.RoundTrip(r)
		}
		return a.RoundTrip(r)
	})
}

func follow(
	r *http.Request, send func(r *http.Request, crossOrigin bool) (*http.Response, error),
) (*http.Response, error) {
	c := chain{first: r}
	for {
		response, err := send(r, c.crossOrigin)
		if err != nil {
			return nil, err
		}
		next := c.next(r, response)
		if next == nil {
			return response, nil
		}
		closeRedirectBody(response.Body)
		r = next
	}
}

// closeRedirectBody closes the body of a redirect that is followed. It does not block: it reads only bytes
// that have already arrived. Most bodies are complete then, so that their connections can be reused.
func closeRedirectBody(body io.ReadCloser) {
	if b, ok := body.(*directBody); ok && b.conn != nil && b.conn.readUntil(time.Unix(1, 0)) == nil {
		_, _ = io.Copy(io.Discard, b)
	}
	_ = body.Close()
}

// chain is a request with the redirects that were followed.
type chain struct {
	first       *http.Request
	crossOrigin bool     // whether a request of the chain was for another origin
	requested   []string // the requestKey of each request except the last
}

// next returns the request to which a response to the last request redirects. It returns nil if the response is not a
// redirect, or is one that Follow does not follow.
func (c *chain) next(last *http.Request, response *http.Response) *http.Request {
	method := redirectMethod(last, response.StatusCode)
	location := response.Header.Get("Location")
	if method == "" || location == "" || len(c.requested) == maxRedirects {
		return nil
	}
	to, err := last.URL.Parse(location)
	if err != nil || to.Hostname() == "" || to.Scheme != "https" && (to.Scheme != "http" || last.URL.Scheme == "https") {
		return nil
	}
	to.User = nil // an upstream must not choose credentials for the request
	to.Fragment, to.RawFragment = "", ""
	// A redirect from another origin back to the first origin is also
	// cross-origin, because the other origin has chosen that request.
	crossOrigin := c.crossOrigin || originOf(to) != originOf(c.first.URL)
	next := (&http.Request{
		Method: method, URL: to, Host: to.Host, Header: c.header(method, crossOrigin),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(last.Context())
	if validateRequest(next) != nil {
		return nil
	}
	c.requested = append(c.requested, requestKey(last, c.crossOrigin))
	if c.crossOrigin = crossOrigin; slices.Contains(c.requested, requestKey(next, crossOrigin)) {
		return nil
	}
	return next
}

// requestKey returns a text that identifies a request of a chain. Two
// requests with the same text would probably get the same response.
func requestKey(r *http.Request, crossOrigin bool) string {
	if crossOrigin {
		return r.Method + " " + r.URL.String()
	}
	return r.Method + " in the first origin " + r.URL.String()
}

// redirectMethod returns the method for following a redirect, "" if the redirect is not followed (RFC 9110, section 15.4).
func redirectMethod(r *http.Request, status int) string {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		if r.Method == http.MethodHead {
			return http.MethodHead
		}
		return http.MethodGet
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if r.Body == nil || r.Body == http.NoBody {
			return r.Method
		}
	}
	return ""
}

// crossOriginFields are the fields that are sent to another origin: which responses the client accepts,
// but nothing about its identity or earlier requests. Range and conditional fields are not sent, because
// a response without them is correct, too. The gateway writes Via, which ends loops through redirects.
var crossOriginFields = []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "Via"}

// header returns the header of the next request.
func (c *chain) header(method string, crossOrigin bool) http.Header {
	first := c.first.Header
	if crossOrigin {
		out := make(http.Header, len(crossOriginFields))
		for _, name := range crossOriginFields {
			if values, ok := first[name]; ok {
				out[name] = values
			}
		}
		return out
	}
	out := first.Clone()
	if method != c.first.Method {
		// The redirect has changed the method to GET: remove the fields that described the body.
		for name := range out {
			if strings.HasPrefix(name, "Content-") {
				delete(out, name)
			}
		}
	}
	return out
}

// origin has the parts that RFC 6454 compares.
type origin struct{ scheme, host, port string }

func originOf(u *url.URL) origin {
	_, port, _ := net.SplitHostPort(addressOf(u))
	return origin{u.Scheme, strings.ToLower(u.Hostname()), port}
}
