package framing

import (
	"net/http"
	"strings"
)

var errOtherLength = bad("The Content-Length is not the size of the request's body. Send that, or none.")

// Parsed holds a head that came as frames of HTTP/2 to the rules of one that comes as lines, as
// far as a server that has parsed it leaves them to see, and takes the Host field out of it, which
// is r.Host then. It counts the bytes and the fields that the same head has in HTTP/1.1,
// which is how it goes on to upstreams.
//
// What only lines have, such as white space before a colon, or a length beside an encoding, does
// not exist there: the server resets the stream, or answers 400 (RFC 9113, sections 8.1 to 8.3).
func (l Limits) Parsed(r *http.Request) (size int, refusal *Refusal) {
	const line, field = len("  HTTP/1.1\r\n"), len(": \r\n")
	first := line + len(r.Method) + len(r.RequestURI)
	size = first + len("Host") + field + len(r.Host) + len("\r\n")
	fields := 1
	for name, values := range r.Header {
		if name == "Host" {
			continue // which stands beside :authority
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
	if !isToken([]byte(r.Method)) { // which net/http does not look at
		return size, errMethod
	}
	if len(r.Method) > maxMethodBytes {
		return size, errLongMethod
	}
	if refusal := parsedHost(r); refusal != nil {
		return size, refusal
	}
	if r.Method != http.MethodConnect && !strings.HasPrefix(r.RequestURI, "/") && (r.RequestURI != "*" || r.Method != http.MethodOptions) {
		return size, errTarget
	}
	for _, value := range r.Header["Expect"] { // without 100-continue, which the server has answered
		if strings.Trim(value, " \t") != "" {
			return size, errExpectation
		}
	}
	return size, parsedLength(r)
}

// parsedHost takes the Host field only as the same that :authority says (RFC 9113, section 8.3.1).
func parsedHost(r *http.Request) *Refusal {
	hosts := r.Header["Host"]
	delete(r.Header, "Host")
	switch {
	case len(hosts) > 1, len(hosts) == 1 && !strings.EqualFold(hosts[0], r.Host):
		return errHosts
	case r.Host == "":
		return errNoHost
	case !ValidHost(r.Host):
		return errHost
	}
	return nil
}

// parsedLength: the server counts what comes, and resets the stream of a body with another size.
func parsedLength(r *http.Request) *Refusal {
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
		return errNoLength
	case length != r.ContentLength: // the stream has ended with its head
		return errOtherLength
	}
	return nil
}
