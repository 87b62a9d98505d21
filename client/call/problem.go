package call

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
)

// Problem is an unsuccessful response of the API (RFC 9457, contract 1.2).
type Problem struct { //nolint:errname // the API's own name
	Status int
	Detail string
	// Fields are the invalid fields.
	Fields []Field
	// RequestID identifies the request for the operators of the installation, "" for none.
	RequestID string
	document  []byte
}

// Field is an invalid field.
type Field struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Document implements output.Documented.
func (p *Problem) Document() []byte { return p.document }

// These limits apply to the text for people. Document returns the whole problem.
const (
	maxTextLength  = 2000 // characters of a text
	maxFieldsShown = 50
)

// Error returns the detail, and a line for each of the first maxFieldsShown invalid fields. It omits a detail that only
// repeats these lines. For status 500 and higher it adds the request ID.
func (p *Problem) Error() string {
	var b strings.Builder
	lines := make([]string, len(p.Fields))
	for i, f := range p.Fields {
		lines[i] = f.Location + ": " + f.Message
	}
	if p.Detail != strings.Join(lines, "; ") { // do not repeat a detail that has only these lines
		b.WriteString(output.Truncate(p.Detail, maxTextLength))
	}
	for i, line := range lines {
		if i == maxFieldsShown {
			fmt.Fprintf(&b, "\nand %d more: --output json has them all", len(p.Fields)-maxFieldsShown)
			break
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(output.Truncate(line, maxTextLength))
	}
	if p.Status >= http.StatusInternalServerError && p.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", p.RequestID)
	}
	return b.String()
}

var _ output.Documented = (*Problem)(nil)

// exitCodes are the exit codes for HTTP statuses.
var exitCodes = map[int]exit.Code{
	http.StatusBadRequest: exit.Invalid, http.StatusUnprocessableEntity: exit.Invalid,
	http.StatusRequestEntityTooLarge: exit.Invalid, http.StatusUnsupportedMediaType: exit.Invalid,
	http.StatusUnauthorized: exit.NotAllowed, http.StatusForbidden: exit.NotAllowed,
	http.StatusPaymentRequired: exit.NotAllowed,
	http.StatusNotFound:        exit.NotFound, http.StatusGone: exit.NotFound,
	http.StatusConflict: exit.Conflict, http.StatusPreconditionFailed: exit.Conflict,
	http.StatusPreconditionRequired: exit.Conflict, http.StatusLocked: exit.Conflict,
	http.StatusRequestTimeout: exit.TimedOut, http.StatusGatewayTimeout: exit.TimedOut,
}

// problem returns a response as an error with its exit code. If the body is no problem document, another server than
// the API has sent the response, and the error says so.
func (a *API) problem(resp *Response) error {
	var body struct {
		Title  string  `json:"title"`
		Detail string  `json:"detail"`
		Errors []Field `json:"errors"`
		Trace  struct {
			RequestID string `json:"requestId"`
		} `json:"trace"`
	}
	p := &Problem{Status: resp.Status}
	if err := json.Unmarshal(resp.Body, &body); err == nil && body.Title != "" {
		p.Detail, p.Fields, p.RequestID, p.document = body.Detail, body.Errors, body.Trace.RequestID, resp.Body
		if p.Detail == "" {
			p.Detail = body.Title
		}
	} else {
		p.Detail = fmt.Sprintf("%s answers %d %s, and says no more: check that it is the address of a management API",
			a.Access.Origin.Host, resp.Status, http.StatusText(resp.Status))
	}
	code, known := exitCodes[resp.Status]
	if !known {
		code = exit.Failure
	}
	return exit.WithCode(code, p)
}

// malformedPrefix is the beginning of net/http's error for a response that is not HTTP. The error has no type of its
// own.
const malformedPrefix = "net/http: HTTP/1.x transport connection broken: "

// explain returns a text that says why a request got no response, or an incomplete one.
func (a *API) explain(err error) string {
	name, isDNS := errors.AsType[*net.DNSError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	_, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, notTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isDNS && name.IsNotFound:
		return "there is no machine of this name"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there"
	case isUnknown:
		return "its certificate is of an authority that this machine does not trust"
	case isCertificate:
		return "its certificate is not its own, or not valid now"
	case notTLS, errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNet && timeout.Timeout():
		return "it does not answer in time"
	case errors.Is(err, errBodyIdle):
		return errBodyIdle.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return "it ends the connection without an answer"
	case !isNet && strings.HasPrefix(err.Error(), malformedPrefix):
		return "it answers with what is no HTTP: check that it is the address of a management API"
	}
	return output.Printable(err.Error())
}
