package framing

import (
	"net/http"
	"strings"
)

var errWrongLength = badRequest("The Content-Length is not the size of the request's body. Send that, or none.")

// CheckHTTP2 checks the head of an HTTP/2 request with the rules for HTTP/1 lines, as far as the parsed request still
// shows them. It removes the Host field, which then equals r.Host. The limits, and the size that it returns, are
// those of the same head in HTTP/1.1, because the gateway forwards it to upstreams in that form.
//
// Some mistakes cannot occur in HTTP/2, such as white space before a colon, or a length together with an encoding.
// For malformed streams, the server resets the stream or responds 400 (RFC 9113, sections 8.1 to 8.3).
func (l Limits) CheckHTTP2(r *http.Request) (size int, refusal *Refusal) {
	const line, field = len("  HTTP/1.1\r\n"), len(": \r\n")
	first := line + len(r.Method) + len(r.RequestURI)
	size = first + len("Host") + field + len(r.Host) + len("\r\n")
	fields := 1
	for name, values := range r.Header {
		if name == "Host" {
			continue // the Host field repeats :authority
		}
		fields += len(values)
		for _, value := range values {
			size += len(name) + field + len(value)
		}
	}
	switch {
	case first > l.Bytes:
		return size, errLargeTarget
	case len(r.RequestURI) > l.path() && pathBytes(r.RequestURI) > l.path():
		return size, errLongPath
	case size > l.Bytes:
		return size, errLargeHead
	case fields > l.Fields:
		return size, errManyFields
	}
	if !isToken([]byte(r.Method)) { // net/http does not check the method
		return size, errInvalidMethod
	}
	if len(r.Method) > maxMethodBytes {
		return size, errLongMethod
	}
	if refusal := checkHost(r); refusal != nil {
		return size, refusal
	}
	if r.Method != http.MethodConnect && !strings.HasPrefix(r.RequestURI, "/") &&
		(r.RequestURI != "*" || r.Method != http.MethodOptions) {
		return size, errInvalidTarget
	}
	for _, value := range r.Header["Expect"] { // the server has already removed 100-continue
		if strings.Trim(value, " \t") != "" {
			return size, errExpectation
		}
	}
	return size, checkContentLength(r)
}

// checkHost accepts a Host field only if it equals :authority (RFC 9113, section 8.3.1).
func checkHost(r *http.Request) *Refusal {
	hosts := r.Header["Host"]
	delete(r.Header, "Host")
	switch {
	case len(hosts) > 1, len(hosts) == 1 && !strings.EqualFold(hosts[0], r.Host):
		return errMultipleHosts
	case r.Host == "":
		return errNoHost
	case !ValidHost(r.Host):
		return errInvalidHost
	}
	return nil
}

// checkContentLength checks the Content-Length. While it reads the body, the server counts the received bytes, and
// resets the stream if the body has another size.
func checkContentLength(r *http.Request) *Refusal {
	values := r.Header["Content-Length"]
	if len(values) > 1 {
		return errTwoLengths
	}
	if len(values) == 0 {
		return nil
	}
	length, ok := parseLength([]byte(values[0]))
	switch {
	case !ok:
		return errInvalidLength
	case length != r.ContentLength: // r.ContentLength is 0 if the stream has ended with its head
		return errWrongLength
	}
	return nil
}
