package upstream

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/format/credential"
)

// hopByHopFields are the fields that belong to one connection: those
// in RFC 9110, section 7.6.1, and older fields that are still in use.
var hopByHopFields = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// gatewayFields are the request fields whose client values are not sent upstream as they are. The gateway writes most
// of them itself. It builds on the client's X-Forwarded-For, Forwarded and X-Request-Id only if the installation trusts
// the client. It builds on Via, Traceparent and Tracestate of all clients: a forged Via can only make the gateway
// refuse the request, and a forged trace affects only tracing.
var gatewayFields = []string{
	"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Server",
	"X-Real-Ip", "X-Request-Id", "Traceparent", "Tracestate", "Via",
}

// misinterpretedFields are the fields that upstreams can interpret as something else. CGI converts the field
// "Proxy" to the variable HTTP_PROXY, from which programs read the address of a proxy (CVE-2016-5385).
var misinterpretedFields = []string{"Proxy"}

// Filter decides which fields of a client's request are sent upstream. The zero value is the strictest filter.
type Filter struct {
	// Underscores also forwards fields with "_" in their names. By default these are dropped: CGI and its successors
	// (WSGI, Rack, PHP) read X_Forwarded_For as X-Forwarded-For, so a client could overwrite the gateway's own fields.
	Underscores bool
}

// Reserved reports whether a project must not set a request field, because it is one of gatewayFields, belongs to the
// connection, is misinterpreted, or is Content-Length or Host. It also reports true for names that upstreams can
// confuse with such a field.
func Reserved(name string) bool {
	name = foldName(name)
	return isHopByHop(name) || isGatewayField(name) || isMisinterpreted(name) || isFraming(name)
}

// CheckFieldName checks the name of a request field that a project sets.
// It returns a text that says what to correct, "" for a valid name.
func CheckFieldName(name string) string {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return "Write the name of a header: letters, digits and hyphens."
	case Reserved(name):
		return "Choose another header: this one belongs to the connection, or is written by the gateway."
	}
	return ""
}

// CheckResponseFieldName checks the name of a response field that a project sets, removes or renames. It returns a text
// that says what to correct, "" for a valid name.
func CheckResponseFieldName(name string) string {
	switch folded := foldName(name); {
	case !httpguts.ValidHeaderFieldName(name):
		return "Write the name of a header: letters, digits and hyphens."
	case isHopByHop(folded), folded == "Content-Length", folded == "X-Request-Id", folded == "Alt-Svc":
		return "Choose another header: this one belongs to the connection, or is written by the gateway."
	}
	return ""
}

// RemoveSession removes response fields that set the cookie of the API's sessions.
func RemoveSession(h http.Header) { removeSession(h) }

// SameField reports whether upstreams can confuse two names.
func SameField(a, b string) bool { return foldName(a) == foldName(b) }

// RemoveField removes a field, and the fields that upstreams can confuse with it.
func RemoveField(h http.Header, name string) {
	for other := range h {
		if SameField(other, name) {
			delete(h, other)
		}
	}
}

// Request returns those fields of a client's request that are sent upstream. in is the header of the client's request.
// The result is a new map that shares its values with this header. unsent has the fields that are not sent upstream only
// because their names have "_", by their canonical names. It is nil if there are none. Request also returns the value of
// the Upgrade field if the client wants to switch to another protocol, otherwise "". The time is linear in the size of the
// header.
func (f Filter) Request(in http.Header) (out, unsent http.Header, upgrade string) {
	out = make(http.Header, len(in)+8)
	connection := in["Connection"]
	for name, values := range in {
		switch {
		case isCanonical(name):
			if isHopByHop(name) || isGatewayField(name) || isMisinterpreted(name) {
				continue
			}
			if _, exists := out[name]; !exists {
				out[name] = values
				continue
			}
		case !f.allows(name):
			if strings.EqualFold(name, "Connection") && name != "Connection" {
				connection = slices.Concat(connection, values)
			}
			if (Filter{Underscores: true}).allows(name) {
				unsent = add(unsent, name, values)
			}
			continue
		}
		// out can already have this field from another spelling of the name: join the values.
		out = add(out, name, values)
	}
	removeListed(out, connection)
	if httpguts.HeaderValuesContainsToken(in["Te"], "trailers") {
		out["Te"] = []string{"trailers"}
	}
	if httpguts.HeaderValuesContainsToken(in["Connection"], "upgrade") {
		upgrade = strings.Join(in["Upgrade"], ",")
	}
	return out, unsent, upgrade
}

// add adds the values of a field to a header and returns the header. It creates the header if it is nil.
func add(header http.Header, name string, values []string) http.Header {
	if header == nil {
		header = http.Header{}
	}
	name = textproto.CanonicalMIMEHeaderKey(name)
	header[name] = slices.Concat(header[name], values)
	return header
}

// Trailer returns the names of a request's announced trailer fields that are sent upstream, without values;
// FillTrailer adds the values. The result is nil or empty if no field is sent. in is the request's Trailer, and
// connection the values of its Connection field. A trailer arrives after the gateway has routed and checked the
// request, so fields for framing, routing, authentication and conditions are not allowed (RFC 9110, section 6.5.1).
func (f Filter) Trailer(in http.Header, connection []string) http.Header {
	var out http.Header
	for name := range in {
		if !allowedInTrailer(name) || !isCanonical(name) && !f.allows(name) || Reserved(name) {
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

// allows reports whether a field with a non-canonical name is sent upstream.
func (f Filter) allows(name string) bool {
	return httpguts.ValidHeaderFieldName(name) && (f.Underscores || strings.IndexByte(name, '_') < 0) && !Reserved(name)
}

// CleanResponse removes the fields of an upstream's response that are not for the client. It also removes such fields
// from the announced trailer, and again when the trailer has arrived.
func CleanResponse(r *http.Response) {
	connection := r.Header["Connection"]
	CleanHeader(r.Header, r.StatusCode)
	if r.ContentLength >= 0 && r.ProtoMajor < 2 && len(r.Trailer) == 0 || r.StatusCode == http.StatusSwitchingProtocols {
		return // HTTP/1 has trailers only in chunked bodies
	}
	clean := func() {
		removeListed(r.Trailer, connection)
		for name := range r.Trailer {
			if !allowedInTrailer(name) || isHopByHop(foldName(name)) {
				delete(r.Trailer, name)
			}
		}
	}
	clean()
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &eofBody{r.Body, clean}
	}
}

// CleanHeader removes the fields of a response's header that are not for
// the client. Unlike CleanResponse, it can be used for a 1xx response.
func CleanHeader(h http.Header, status int) {
	removeListed(h, h["Connection"])
	for name := range h { // a header usually has fewer names than hopByHopFields
		if isHopByHop(name) {
			delete(h, name)
		}
	}
	// Alt-Svc names an alternative to the upstream's own origin. A client
	// that follows it would bypass the gateway or reach nothing (RFC 7838).
	delete(h, "Alt-Svc")
	removeSession(h)
	if status < http.StatusOK || status == http.StatusNoContent {
		delete(h, "Content-Length") // RFC 9110, section 8.6
	}
}

// removeSession removes fields that set the cookie of the API's sessions. Browsers send cookies to all ports of a host.
// So an upstream that is served on another port of the API's host could sign the console's visitors in to a session
// that the upstream has chosen.
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

// setsSession reports whether browsers can interpret a Set-Cookie field as the cookie of a session. Browsers trim
// spaces. They send only the value of a cookie without a name, and servers then parse this value as a name and a value.
func setsSession(cookie string) bool {
	pair, _, _ := strings.Cut(cookie, ";")
	name, _, _ := strings.Cut(strings.TrimLeft(pair, "= \t"), "=")
	return strings.EqualFold(strings.TrimRight(name, " \t"), credential.SessionCookie)
}

// removeListed removes the fields that a Connection field lists. It looks up each name in
// the map, because a search would be expensive: the peer chooses the lengths of both lists.
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

// foldName joins the words of letters and digits in a name with hyphens, and returns the result in canonical form. So
// it returns the same name for all names that upstreams can confuse. For example, it returns "X-Forwarded-For" for
// "X_Forwarded.for".
func foldName(name string) string {
	if isCanonical(name) {
		return name
	}
	parts := strings.FieldsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	return textproto.CanonicalMIMEHeaderKey(strings.Join(parts, "-"))
}

// isCanonical reports whether a name consists of words of letters and digits with single hyphens
// between them, as net/http writes it. Nearly all names are canonical, and need no further check.
func isCanonical(name string) bool {
	wordStart := true
	for i := range len(name) {
		switch c := name[i]; {
		case c == '-':
			if wordStart {
				return false
			}
			wordStart = true
			continue
		case c >= 'a' && c <= 'z':
			if wordStart {
				return false
			}
		case c >= 'A' && c <= 'Z':
			if !wordStart {
				return false
			}
		case c < '0' || c > '9':
			return false
		}
		wordStart = false
	}
	return !wordStart
}

// isHopByHop, isGatewayField and isMisinterpreted report whether a canonical name is in the corresponding list. They
// are called for each field of each request. In the long lists, a switch on the first byte excludes most names quickly.
func isHopByHop(name string) bool {
	if name == "" {
		return false
	}
	switch name[0] {
	case 'C', 'K', 'P', 'T', 'U', 'H':
		return slices.Contains(hopByHopFields, name)
	}
	return false
}

func isGatewayField(name string) bool {
	if name == "" {
		return false
	}
	switch name[0] {
	case 'F', 'X', 'T', 'V':
		return slices.Contains(gatewayFields, name)
	}
	return false
}

func isMisinterpreted(name string) bool { return slices.Contains(misinterpretedFields, name) }

// isFraming reports whether the gateway writes a field from the properties of the request
// and not from the client's field. Other spellings of these names must not be sent upstream.
func isFraming(name string) bool { return name == "Content-Length" || name == "Host" }
