// Package framing determines where the requests of an HTTP/1 connection begin and end, from the received bytes. Before
// a server reads the head, it checks details that a parsed request no longer shows. Examples are a Content-Length
// together with a Transfer-Encoding, a bare line feed, and the number of field lines.
//
// It is not a parser of requests. net/http reads the same bytes again, and refuses further mistakes, such as a path
// that cannot be decoded, or a control character in a value. If the two would frame a message differently, this
// package refuses it: FuzzHead checks that.
//
// Read framing.go for heads, then body.go for the end of a message, host.go for the form of a Host,
// http2.go for the rules that also apply to HTTP/2, and http1.go for HTTP/1 requests that net/http
// has parsed itself. The rules are RFC 9112, sections 2.2, 3.2, 5.1, 6.1 and 7.1, read strictly.
package framing

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"
)

// Limits bound a head: the request line, the fields and the empty line.
type Limits struct {
	// Bytes is the maximum size of the whole head. A head of exactly this size is accepted.
	Bytes int
	// Fields is the maximum number of field lines.
	Fields int
	// Path is the maximum size of a path without its query. 0 means DefaultMaxPathBytes.
	Path int
}

const (
	// DefaultMaxPathBytes is the default maximum size of a client's path. The path is matched with routes, logged and
	// recorded, so each byte of the path costs more than a byte of a field.
	DefaultMaxPathBytes = 8 << 10
	// maxMethodBytes and maxHostBytes limit the method and the Host, which log lines repeat.
	// No registered method has more than 17 bytes, and no name in the DNS more than 253.
	maxMethodBytes = 64
	maxHostBytes   = 255 + len(":65535")
)

func (l Limits) path() int { return cmp.Or(l.Path, DefaultMaxPathBytes) }

// Refusal is the status and the text of the response that refuses a request. Detail does not repeat anything from the
// request.
type Refusal struct {
	Status int
	Detail string
}

func badRequest(detail string) *Refusal { return &Refusal{http.StatusBadRequest, detail} }

// The refusals.
var (
	errLargeTarget = &Refusal{http.StatusRequestURITooLong, "The request line is too long. Send a shorter address."}
	errLongPath    = &Refusal{
		http.StatusRequestURITooLong,
		"The path is too long. Shorten it, and put long values into the query or the body.",
	}
	errLargeHead = &Refusal{
		http.StatusRequestHeaderFieldsTooLarge,
		"The request's header is too large. Send fewer or shorter fields.",
	}
	errManyFields = &Refusal{
		http.StatusRequestHeaderFieldsTooLarge,
		"The request's header has too many fields. Send fewer.",
	}
	errVersion = &Refusal{
		http.StatusHTTPVersionNotSupported,
		"This version of HTTP is not spoken here. Use HTTP/1.1.",
	}
	errExpectation = &Refusal{
		http.StatusExpectationFailed,
		"The only expectation that is met here is 100-continue. Send no other Expect field.",
	}
	errEncoding = &Refusal{
		http.StatusNotImplemented,
		"The request's transfer encoding is not known here. Send a Content-Length or the chunked encoding.",
	}
	errBareLF        = badRequest("A line of the request's header does not end with CR LF. End each line with both.")
	errRequestLine   = badRequest("Begin the request with a method, an address and HTTP/1.1, with one space between them.")
	errInvalidMethod = badRequest("The request's method has a character that none has. Send one such as GET or POST.")
	errLongMethod    = &Refusal{
		http.StatusNotImplemented,
		"The request's method is too long. Send a registered method, such as GET or POST.",
	}
	errInvalidTarget = badRequest("The request's address is neither a path nor the http or https address of a host. " +
		"Send a path that begins with a slash.")
	errInvalidField = badRequest("A header field has no name, no colon, or white space before the colon. Send each as " +
		"name, colon, value.")
	errFolded         = badRequest("A header field goes on in a second line. Send each field in one line.")
	errNoHost         = badRequest("The request names no host. Send one Host field.")
	errMultipleHosts  = badRequest("The request names its host more than once. Send one Host field.")
	errInvalidHost    = badRequest("The Host is no host name or address with or without a port. Send nothing but these.")
	errTwoFramings    = badRequest("The request has both a Content-Length and a Transfer-Encoding. Send one of them.")
	errHTTP10Encoding = badRequest("HTTP/1.0 has no Transfer-Encoding. Send a Content-Length, or use HTTP/1.1.")
	errTwoLengths     = badRequest("The request has more than one Content-Length. Send one.")
	errInvalidLength  = badRequest("The Content-Length is no number. Send the body's size in bytes.")
	errTwoEncodings   = badRequest("The request has more than one Transfer-Encoding. Send one.")
)

// Scanner reads one head. For the next head, create a new Scanner with Limits.
type Scanner struct {
	Limits Limits

	line, searched int // beginning of the incomplete line, and the offset up to which it was searched
	fields         int
	hasRequestLine bool // whether the request line was read
	http10         bool // whether the version is HTTP/1.0

	hosts, lengths, encodings int   // numbers of fields Host, Content-Length and Transfer-Encoding
	length                    int64 // value of Content-Length
	chunked                   bool  // whether the last Transfer-Encoding field is "chunked"
	badExpect                 bool  // whether an Expect field has an unsupported value
}

// Head describes a head that was read.
type Head struct {
	// Size is the size of the head in bytes.
	Size int
	// Body finds the end of the body.
	Body Body
}

// Scan reads the head at the beginning of b. Call it again with the same bytes
// and more, until done is true or the request is refused. It does not keep b.
func (s *Scanner) Scan(b []byte) (h Head, done bool, refusal *Refusal) {
	for {
		i := bytes.IndexByte(b[s.searched:], '\n')
		if i < 0 {
			s.searched = len(b)
			if len(b) >= s.Limits.Bytes {
				return h, false, s.tooLarge()
			}
			return h, false, nil
		}
		end := s.searched + i
		if end >= s.Limits.Bytes {
			return h, false, s.tooLarge()
		}
		if end == s.line || b[end-1] != '\r' {
			return h, false, errBareLF
		}
		line := b[s.line : end-1]
		s.line, s.searched = end+1, end+1
		switch {
		case !s.hasRequestLine:
			s.hasRequestLine = true
			refusal = s.requestLine(line)
		case len(line) == 0:
			h.Size = s.line
			h.Body, refusal = s.finish()
			return h, refusal == nil, refusal
		default:
			refusal = s.field(line)
		}
		if refusal != nil {
			return h, false, refusal
		}
	}
}

func (s *Scanner) tooLarge() *Refusal {
	if !s.hasRequestLine {
		return errLargeTarget
	}
	return errLargeHead
}

// requestLine reads method, target and version (RFC 9112, section 3).
func (s *Scanner) requestLine(line []byte) *Refusal {
	const version = "HTTP/1.1"
	method, rest, ok := bytes.Cut(line, []byte(" "))
	target, proto, found := bytes.Cut(rest, []byte(" "))
	if !ok || !found || !isToken(method) || len(target) == 0 {
		return errRequestLine
	}
	switch {
	case len(proto) != len(version) || string(proto[:5]) != version[:5] || !isDigit(proto[5]) || proto[6] != '.' ||
		!isDigit(proto[7]):
		return errRequestLine
	case proto[5] != '1':
		return errVersion
	}
	s.http10 = proto[7] == '0'
	if len(method) > maxMethodBytes {
		return errLongMethod
	}
	if len(target) > s.Limits.path() && pathBytes(target) > s.Limits.path() {
		return errLongPath
	}
	if target[0] == '/' {
		return nil
	}
	return checkTarget(string(method), target)
}

// pathBytes returns the size of a target's path. It does not count the query, nor the scheme and the host of an
// absolute address.
func pathBytes[T string | []byte](target T) int {
	path := string(target) // only long targets are copied
	path, _, _ = strings.Cut(path, "?")
	if !strings.HasPrefix(path, "/") {
		if _, rest, ok := strings.Cut(path, "://"); ok {
			path = rest[max(0, strings.IndexByte(rest+"/", '/')):]
		}
	}
	return len(path)
}

// checkTarget checks a target that is not a path (RFC 9112, section 3.2). It checks the host of an absolute target,
// because net/http uses this host and ignores the Host field.
func checkTarget(method string, target []byte) *Refusal {
	if method == http.MethodConnect {
		if !ValidHost(string(target)) {
			return errInvalidTarget
		}
		return nil
	}
	if string(target) == "*" {
		if method != http.MethodOptions {
			return errInvalidTarget
		}
		return nil
	}
	scheme, rest, ok := bytes.Cut(target, []byte("://"))
	if !ok || !bytes.EqualFold(scheme, []byte("http")) && !bytes.EqualFold(scheme, []byte("https")) {
		return errInvalidTarget
	}
	if i := bytes.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if !ValidHost(string(rest)) {
		return errInvalidTarget
	}
	return nil
}

// field reads a field line (RFC 9112, section 5).
func (s *Scanner) field(line []byte) *Refusal {
	if len(line) == 0 || line[0] == ' ' || line[0] == '\t' {
		return errFolded
	}
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || line[colon-1] == ' ' || line[colon-1] == '\t' {
		return errInvalidField
	}
	if s.fields++; s.fields > s.Limits.Fields {
		return errManyFields
	}
	name := line[:colon]
	switch len(name) { // most names differ in their length
	case len("host"):
		if isName(name, "host") {
			return s.host(line[colon+1:])
		}
	case len("expect"):
		if isName(name, "expect") {
			value := trim(line[colon+1:]) // an empty list is not an expectation
			s.badExpect = s.badExpect || len(value) > 0 && !isName(value, "100-continue")
		}
	case len("content-length"):
		if isName(name, "content-length") {
			return s.contentLength(trim(line[colon+1:]))
		}
	case len("transfer-encoding"):
		if isName(name, "transfer-encoding") {
			s.encodings++
			s.chunked = isName(trim(line[colon+1:]), "chunked")
		}
	}
	return nil
}

func (s *Scanner) host(value []byte) *Refusal {
	if s.hosts++; s.hosts > 1 {
		return errMultipleHosts
	}
	value = trim(value)
	if len(value) == 0 {
		return errNoHost
	}
	if !ValidHost(string(value)) {
		return errInvalidHost
	}
	return nil
}

// contentLength accepts only digits and only one field. A server may refuse a list of numbers, even of equal ones (RFC
// 9110, section 8.6).
func (s *Scanner) contentLength(value []byte) *Refusal {
	if s.lengths++; s.lengths > 1 {
		return errTwoLengths
	}
	length, ok := parseLength(value)
	if !ok {
		return errInvalidLength
	}
	s.length = length
	return nil
}

func parseLength(value []byte) (length int64, ok bool) {
	const maxLen = 18 // an int64 always holds this many digits
	if len(value) == 0 || len(value) > maxLen {
		return 0, false
	}
	for _, c := range value {
		if !isDigit(c) {
			return 0, false
		}
		length = length*10 + int64(c-'0')
	}
	return length, true
}

// finish checks rules that need the whole head, and determines how the message is framed.
func (s *Scanner) finish() (Body, *Refusal) {
	switch {
	case s.hosts == 0 && !s.http10:
		return Body{}, errNoHost
	case s.encodings > 0 && s.lengths > 0:
		return Body{}, errTwoFramings
	case s.encodings > 0 && s.http10:
		return Body{}, errHTTP10Encoding
	case s.encodings > 1:
		return Body{}, errTwoEncodings
	case s.encodings > 0 && !s.chunked:
		return Body{}, errEncoding
	case s.badExpect:
		return Body{}, errExpectation
	case s.chunked:
		return Body{state: chunkSize}, nil
	case s.length > 0:
		return Body{state: fixed, remaining: s.length}, nil
	}
	return Body{}, nil
}

// isName reports whether b is name in any case. name is in lower case.
func isName(b []byte, name string) bool {
	if len(b) != len(name) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != name[i] {
			return false
		}
	}
	return true
}

// trim removes optional white space (RFC 9110, section 5.6.3).
func trim(b []byte) []byte { return bytes.Trim(b, " \t") }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isToken reports whether b is a token (RFC 9110, section 5.6.2).
func isToken(b []byte) bool {
	for _, c := range b {
		if !isTokenByte(c) {
			return false
		}
	}
	return len(b) > 0
}

func isTokenByte(c byte) bool {
	return isLetter(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
