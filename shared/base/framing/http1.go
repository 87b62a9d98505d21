package framing

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"
	"strings"
)

// CheckHTTP1 applies the rules of this package to a request that net/http has parsed itself. r is the request from
// net/http. received has the bytes that net/http has read: the head, and possibly more. CheckHTTP1 returns the size
// of the head as net/http parses it. It can only refuse the request: it does not determine where the request ends.
func (l Limits) CheckHTTP1(r *http.Request, received []byte) (size int, refusal *Refusal) {
	from := bytes.NewReader(received)
	buffered := bufio.NewReader(from)
	parser := textproto.NewReader(buffered)
	requestLine, err := parser.ReadLine()
	if err != nil {
		return len(received), errRequestLine
	}
	fields, err := parser.ReadMIMEHeader()
	size = len(received) - from.Len() - buffered.Buffered()
	if err != nil {
		return size, errInvalidField
	}
	if size > l.Bytes {
		return size, tooLarge(len(requestLine) > l.Bytes)
	}
	if refusal := l.checkLines(received[:size]); refusal != nil {
		return size, refusal
	}
	switch {
	case len(r.Method) > maxMethodBytes:
		return size, errLongMethod
	case len(r.RequestURI) > l.path() && pathBytes(r.RequestURI) > l.path():
		return size, errLongPath
	}
	return size, checkFields(r, http.Header(fields))
}

// tooLarge returns the refusal of a head that is too large. inRequestLine says that the request line alone is too
// large.
func tooLarge(inRequestLine bool) *Refusal {
	if inRequestLine {
		return errLargeTarget
	}
	return errLargeHead
}

// checkLines refuses bare line feeds, fields that continue on a second line, and too many fields.
func (l Limits) checkLines(head []byte) *Refusal {
	fields := -2 // the request line and the empty line are no fields
	for line := range bytes.Lines(head) {
		fields++
		switch {
		case !bytes.HasSuffix(line, []byte("\r\n")):
			return errBareLF
		case line[0] == ' ' || line[0] == '\t':
			return errFolded
		}
	}
	if fields > l.Fields {
		return errManyFields
	}
	return nil
}

// checkFields checks the version, the fields and the target. net/http accepts some of the refused values. It removes
// others from the request, so fields has the fields as received.
func checkFields(r *http.Request, fields http.Header) *Refusal {
	lengths, encodings, hosts := fields["Content-Length"], fields["Transfer-Encoding"], fields["Host"]
	switch {
	case r.ProtoMajor != 1:
		return errVersion
	case len(hosts) > 1:
		return errMultipleHosts
	case len(hosts) == 1 && hosts[0] == "", len(hosts) == 0 && r.ProtoAtLeast(1, 1):
		return errNoHost
	case len(hosts) == 1 && !ValidHost(hosts[0]):
		return errInvalidHost
	case len(encodings) > 0 && len(lengths) > 0:
		return errTwoFramings
	case len(encodings) > 0 && !r.ProtoAtLeast(1, 1):
		return errHTTP10Encoding
	case len(encodings) > 1:
		return errTwoEncodings
	case len(lengths) > 1:
		return errTwoLengths
	}
	if len(lengths) == 1 {
		if _, ok := parseLength([]byte(lengths[0])); !ok {
			return errInvalidLength
		}
	}
	for name := range fields {
		if !isToken([]byte(name)) {
			return errInvalidField
		}
	}
	for _, value := range fields["Expect"] {
		if value != "" && !strings.EqualFold(value, "100-continue") {
			return errExpectation
		}
	}
	if !strings.HasPrefix(r.RequestURI, "/") {
		return checkTarget(r.Method, []byte(r.RequestURI))
	}
	return nil
}

// CheckPartial returns the refusal of a head whose end has not arrived, or nil if the head is within the limits. size
// is the number of bytes that have arrived, and lines is the number of complete lines.
func (l Limits) CheckPartial(size, lines int) *Refusal {
	switch {
	case size >= l.Bytes:
		return tooLarge(lines == 0)
	case lines > l.Fields+1: // including the request line
		return errManyFields
	}
	return nil
}

// FromNetHTTP returns the refusal of this package that corresponds to a refusal of net/http. It knows the statuses
// 417, 501 and 505. For other statuses, it returns the refusal of net/http.
func FromNetHTTP(refusal *Refusal) *Refusal {
	switch refusal.Status {
	case http.StatusHTTPVersionNotSupported:
		return errVersion
	case http.StatusExpectationFailed:
		return errExpectation
	case http.StatusNotImplemented:
		return errEncoding
	}
	return refusal
}
