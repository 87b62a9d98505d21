package upstream

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/credential"
)

// hopByHop are the fields that belong to one connection (RFC 9110, section
// 7.6.1, with the older names that are still seen).
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// ours are the request fields that the gateway writes itself: what a client
// says in them is read before, where the installation trusts it. Via is read
// from everybody: it can only make a request end sooner.
var ours = []string{
	"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Server",
	"X-Real-Ip", "X-Request-Id", "Traceparent", "Tracestate", "Via",
}

// misread are the names that upstreams take for something else than a field:
// CGI hands "Proxy" on as HTTP_PROXY, by which programs choose a proxy
// (CVE-2016-5385).
var misread = []string{"Proxy"}

// Filter decides which fields of a client's request go upstream. The zero value
// is the strict one.
type Filter struct {
	// Underscores lets names with "_" pass, which are dropped otherwise: CGI and
	// its successors (WSGI, Rack, PHP) read X_Forwarded_For as X-Forwarded-For,
	// so that a client could write the fields that are the gateway's.
	Underscores bool
}

// Reserved reports whether a project may not name a request field: the gateway
// writes it, or it belongs to the connection. Names count as one that upstreams
// may take for one.
func Reserved(name string) bool {
	name = fold(name)
	return isHopByHop(name) || isOurs(name) || isMisread(name) || isFraming(name)
}

// RefuseField says what to do about the name of a request field that a project
// writes, "" for a good one.
func RefuseField(name string) string {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return "Write the name of a header: letters, digits and hyphens."
	case Reserved(name):
		return "Choose another header: this one belongs to the connection, or is written by the gateway."
	}
	return ""
}

// SameField reports whether upstreams may take one name for the other.
func SameField(a, b string) bool { return fold(a) == fold(b) }

// RemoveField removes the field of a name, and those that upstreams may take for it.
func RemoveField(h http.Header, name string) {
	for other := range h {
		if SameField(other, name) {
			delete(h, other)
		}
	}
}

// Request returns the fields of a client's request that may go upstream, in a
// map of its own that shares the values, and the protocol that the client
// asks to switch to, "" for none. The time is linear in the size of in.
func (f Filter) Request(in http.Header) (out http.Header, upgrade string) {
	out = make(http.Header, len(in)+8)
	connection := in["Connection"]
	for name, values := range in {
		switch {
		case isCanonical(name):
			if isHopByHop(name) || isOurs(name) || isMisread(name) {
				continue
			}
			if _, twice := out[name]; !twice {
				out[name] = values
				continue
			}
		case !f.passes(name):
			if strings.EqualFold(name, "Connection") && name != "Connection" {
				connection = slices.Concat(connection, values)
			}
			continue
		}
		// Another spelling of the same name is there, or may come.
		name = textproto.CanonicalMIMEHeaderKey(name)
		out[name] = slices.Concat(out[name], values)
	}
	removeListed(out, connection)
	if httpguts.HeaderValuesContainsToken(in["Te"], "trailers") {
		out["Te"] = []string{"trailers"}
	}
	if httpguts.HeaderValuesContainsToken(in["Connection"], "upgrade") {
		upgrade = strings.Join(in["Upgrade"], ",")
	}
	return out, upgrade
}

// Trailer returns the names of a request's announced trailer fields that may go
// upstream, without values; FillTrailer brings those. A trailer is read after
// everything was decided, so nothing that decides may stand in it: framing,
// routing, authentication, conditions (RFC 9110, section 6.5.1). It is nil
// where nothing is left. in is the request's Trailer, connection its field of
// that name.
func (f Filter) Trailer(in http.Header, connection []string) http.Header {
	var out http.Header
	for name := range in {
		if !mayTrail(name) || !isCanonical(name) && !f.passes(name) || Reserved(name) {
			continue
		}
		if out == nil {
			out = make(http.Header, len(in))
		}
		out[name] = nil
	}
	removeListed(out, connection)
	return out
}

// passes reports whether a field may go upstream whose name is no canonical one.
func (f Filter) passes(name string) bool {
	return httpguts.ValidHeaderFieldName(name) && (f.Underscores || strings.IndexByte(name, '_') < 0) && !Reserved(name)
}

// CleanResponse removes the fields of an upstream's response that mean nothing
// beyond it, those of its trailer included, which come later.
func CleanResponse(r *http.Response) {
	connection := r.Header["Connection"]
	CleanHeader(r.Header, r.StatusCode)
	if r.ContentLength >= 0 && r.ProtoMajor < 2 && len(r.Trailer) == 0 || r.StatusCode == http.StatusSwitchingProtocols {
		return // HTTP/1 has trailers in chunked bodies alone
	}
	clean := func() {
		removeListed(r.Trailer, connection)
		for name := range r.Trailer {
			if !mayTrail(name) || isHopByHop(fold(name)) {
				delete(r.Trailer, name)
			}
		}
	}
	clean()
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &endedBody{r.Body, clean}
	}
}

// CleanHeader is CleanResponse for a header alone, such as that of a 1xx response.
func CleanHeader(h http.Header, status int) {
	removeListed(h, h["Connection"])
	for name := range h { // it has fewer names than the list
		if isHopByHop(name) {
			delete(h, name)
		}
	}
	// An alternative of the upstream's own origin: followed by a client, it
	// would lead around the gateway or nowhere (RFC 7838).
	delete(h, "Alt-Svc")
	removeSession(h)
	if status < http.StatusOK || status == http.StatusNoContent {
		delete(h, "Content-Length") // RFC 9110, section 8.6
	}
}

// removeSession removes what would set the cookie of the API's sessions: a cookie knows no ports, so that an upstream
// behind another port of the API's host could sign visitors of the console in to a session of its own.
func removeSession(h http.Header) {
	cookies := h["Set-Cookie"]
	if !slices.ContainsFunc(cookies, setsSession) {
		return
	}
	if cookies = slices.DeleteFunc(slices.Clone(cookies), setsSession); len(cookies) == 0 {
		delete(h, "Set-Cookie")
		return
	}
	h["Set-Cookie"] = cookies
}

// setsSession reports whether browsers may take a field of Set-Cookie for the session's cookie: they trim spaces, and send
// a cookie without a name as its value alone, which servers read as a name and a value.
func setsSession(cookie string) bool {
	pair, _, _ := strings.Cut(cookie, ";")
	name, _, _ := strings.Cut(strings.TrimLeft(pair, "= \t"), "=")
	return strings.EqualFold(strings.TrimRight(name, " \t"), credential.SessionCookie)
}

// removeListed removes the fields that a Connection field lists. Each name is
// looked up, none is searched for: who writes both lists chooses their lengths.
func removeListed(h http.Header, connection []string) {
	for _, value := range connection {
		if strings.EqualFold(value, "keep-alive") || strings.EqualFold(value, "close") {
			continue
		}
		for token := range strings.SplitSeq(value, ",") {
			if token = textproto.TrimString(token); token != "" {
				delete(h, textproto.CanonicalMIMEHeaderKey(token))
			}
		}
	}
}

// fold writes a name as it reads where only letters and digits tell names apart,
// in canonical form: X_Forwarded.for and X-Forwarded-For. are X-Forwarded-For.
func fold(name string) string {
	if isCanonical(name) {
		return name
	}
	words := strings.FieldsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	return textproto.CanonicalMIMEHeaderKey(strings.Join(words, "-"))
}

// isCanonical reports whether a name is one of words of letters and digits with
// single hyphens between them, as net/http writes it: nearly all are, and need no
// second look.
func isCanonical(name string) bool {
	begins := true
	for i := range len(name) {
		switch c := name[i]; {
		case c == '-':
			if begins {
				return false
			}
			begins = true
			continue
		case c >= 'a' && c <= 'z':
			if begins {
				return false
			}
		case c >= 'A' && c <= 'Z':
			if !begins {
				return false
			}
		case c < '0' || c > '9':
			return false
		}
		begins = false
	}
	return !begins
}

// isHopByHop, isOurs, isMisread and isFraming look a canonical name up. The
// switches on the first byte decide most names at once: this is done for each
// field of each request.
func isHopByHop(name string) bool {
	if name == "" {
		return false
	}
	switch name[0] {
	case 'C', 'K', 'P', 'T', 'U', 'H':
		return slices.Contains(hopByHop, name)
	}
	return false
}

func isOurs(name string) bool {
	if name == "" {
		return false
	}
	switch name[0] {
	case 'F', 'X', 'T', 'V':
		return slices.Contains(ours, name)
	}
	return false
}

func isMisread(name string) bool { return slices.Contains(misread, name) }

// isFraming: these are written from what the request is, whatever its fields
// say. Another spelling of theirs must not reach an upstream.
func isFraming(name string) bool { return name == "Content-Length" || name == "Host" }
