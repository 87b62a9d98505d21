package framing

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"
	"strings"
)

// Lines applies the rules of this package to a request that net/http has parsed itself. r is the request
// as net/http has parsed it. lines are the bytes that net/http has read: the head, and maybe more. Lines
// returns the size of the head in net/http's parser. It only refuses requests, and decides no framing.
func (l Limits) Lines(r *http.Request, lines []byte) (size int, refusal *Refusal) {
	from := bytes.NewReader(lines)
	buffered := bufio.NewReader(from)
	parser := textproto.NewReader(buffered)
	first, err := parser.ReadLine()
	if err != nil {
		return len(lines), errRequestLine
	}
	fields, err := parser.ReadMIMEHeader()
	size = len(lines) - from.Len() - buffered.Buffered()
	if err != nil {
		return size, errField
	}
	if size > l.Bytes {
		return size, tooLarge(len(first) > l.Bytes)
	}
	if refusal := l.lineEnds(lines[:size]); refusal != nil {
		return size, refusal
	}
	switch {
	case len(r.Method) > maxMethodBytes:
		return size, errLongMethod
	case len(r.RequestURI) > l.path() && pathBytes(r.RequestURI) > l.path():
		return size, errLongPath
	}
	return size, parsedLines(r, http.Header(fields))
}

func tooLarge(firstLine bool) *Refusal {
	if firstLine {
		return errLargeTarget
	}
	return errLargeHead
}

// lineEnds refuses bare line feeds and fields that continue on a second line.
func (l Limits) lineEnds(head []byte) *Refusal {
	fields := -2 // without the request line and the empty line
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

// parsedLines refuses field values that net/http accepts, or removes from the request.
func parsedLines(r *http.Request, fields http.Header) *Refusal {
	lengths, encodings, hosts := fields["Content-Length"], fields["Transfer-Encoding"], fields["Host"]
	switch {
	case r.ProtoMajor != 1:
		return errVersion
	case len(hosts) > 1:
		return errHosts
	case len(hosts) == 1 && hosts[0] == "", len(hosts) == 0 && r.ProtoAtLeast(1, 1):
		return errNoHost
	case len(hosts) == 1 && !ValidHost(hosts[0]):
		return errHost
	case len(encodings) > 0 && len(lengths) > 0:
		return errTwoFramings
	case len(encodings) > 0 && !r.ProtoAtLeast(1, 1):
		return errOldEncoding
	case len(encodings) > 1:
		return errTwoEncodings
	case len(lengths) > 1:
		return errTwoLengths
	}
	if len(lengths) == 1 {
		if _, ok := parseLength([]byte(lengths[0])); !ok {
			return errNoLength
		}
	}
	for name := range fields {
		if !isToken([]byte(name)) {
			return errField
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

// Unfinished returns the refusal of a head whose end has not arrived, or nil if the head is within the limits. size is the
// number of bytes that have arrived, lines the number of lines that have ended.
func (l Limits) Unfinished(size, lines int) *Refusal {
	switch {
	case size >= l.Bytes:
		return tooLarge(lines == 0)
	case lines > l.Fields+1: // the request line is one of them
		return errManyFields
	}
	return nil
}

// OfStandard returns this package's refusal in place of a refusal of net/http.
func OfStandard(refusal *Refusal) *Refusal {
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
