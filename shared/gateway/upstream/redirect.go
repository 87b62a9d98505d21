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

// maxRedirects is how many redirects Follow goes after.
const maxRedirects = 10

// Follow sends a request and follows redirects as far as that is safe: at most
// ten, never from https to http, never with a body, which was not kept and was
// meant for the first address, and never to what the chain has asked already. Where
// it stops, whatever the reason, the redirect itself is the response as it came.
// Beyond the first origin only the fields of carried go along.
//
// It is no http.Client: that waits for a part of a redirect's body, for ever if
// that does not come, and has errors in place of redirects that it can't follow.
// Nor does a client certificate, which says who we are: it is the first origin's.
func (a *Account) Follow(r *http.Request) (*http.Response, error) {
	stranger := a.client.Account(a.way.account).Waiting(a.wait) // no caller of services either
	return follow(r, func(r *http.Request, strayed bool) (*http.Response, error) {
		if strayed {
			return stranger.RoundTrip(r)
		}
		return a.RoundTrip(r)
	})
}

func follow(r *http.Request, send func(r *http.Request, strayed bool) (*http.Response, error)) (*http.Response, error) {
	c := chain{first: r}
	for {
		response, err := send(r, c.strayed)
		if err != nil {
			return nil, err
		}
		next := c.next(r, response)
		if next == nil {
			return response, nil
		}
		leave(response.Body)
		r = next
	}
}

// leave closes the body of a redirect that is followed. Nothing is waited for: what
// has come with the head is read, by which most connections can be used again.
func leave(body io.ReadCloser) {
	if b, ok := body.(*directBody); ok && b.conn != nil && b.conn.readUntil(time.Unix(1, 0)) == nil {
		_, _ = io.Copy(io.Discard, b)
	}
	_ = body.Close()
}

// chain is a request with the redirects that were followed from it.
type chain struct {
	first   *http.Request
	strayed bool     // from the first origin, now or before
	asked   []string // what each request but the last has asked for
}

// next is the request that a response to the last one redirects to, nil where the
// response is the answer.
func (c *chain) next(last *http.Request, response *http.Response) *http.Request {
	method := methodAfter(last, response.StatusCode)
	location := response.Header.Get("Location")
	if method == "" || location == "" || len(c.asked) == maxRedirects {
		return nil
	}
	to, err := last.URL.Parse(location)
	if err != nil || to.Hostname() == "" || to.Scheme != "https" && (to.Scheme != "http" || last.URL.Scheme == "https") {
		return nil
	}
	to.User = nil // who the caller is, no upstream decides
	to.Fragment, to.RawFragment = "", ""
	// Also on the way back: who sent the chain home has chosen what is asked
	// there, so that is nothing that the caller has asked.
	strayed := c.strayed || originOf(to) != originOf(c.first.URL)
	next := (&http.Request{
		Method: method, URL: to, Host: to.Host, Header: c.header(method, strayed),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(last.Context())
	if valid(next) != nil {
		return nil
	}
	c.asked = append(c.asked, asking(last, c.strayed))
	if c.strayed = strayed; slices.Contains(c.asked, asking(next, strayed)) {
		return nil
	}
	return next
}

// asking tells requests of a chain apart: those that are alike would be answered
// alike.
func asking(r *http.Request, strayed bool) string {
	if strayed {
		return r.Method + " " + r.URL.String()
	}
	return r.Method + " at home " + r.URL.String()
}

// methodAfter is the method that a redirect asks for, "" where it is none that is
// followed (RFC 9110, section 15.4).
func methodAfter(r *http.Request, status int) string {
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

// carried are the fields that go along to another origin: what the caller can
// read, and nothing that says who it is or what it has asked before. Range and
// conditions stay behind: an answer without them is right, too. Via is no field of
// the caller's: it is how a loop through redirects ends.
var carried = []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "Via"}

// header is that of the next request.
func (c *chain) header(method string, strayed bool) http.Header {
	first := c.first.Header
	if strayed {
		out := make(http.Header, len(carried))
		for _, name := range carried {
			if values, ok := first[name]; ok {
				out[name] = values
			}
		}
		return out
	}
	out := first.Clone()
	if method != c.first.Method {
		// It has become a GET: what described the body is gone with it.
		for name := range out {
			if strings.HasPrefix(name, "Content-") {
				delete(out, name)
			}
		}
	}
	return out
}

// origin is what RFC 6454 compares.
type origin struct{ scheme, host, port string }

func originOf(u *url.URL) origin {
	_, port, _ := net.SplitHostPort(addressOf(u))
	return origin{u.Scheme, strings.ToLower(u.Hostname()), port}
}
