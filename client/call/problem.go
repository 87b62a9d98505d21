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

// Problem is an answer of the API that is no good one (RFC 9457, contract 1.2).
type Problem struct { //nolint:errname // as the API calls it
	Status int
	Detail string
	// Fields are those at fault.
	Fields []Field
	// RequestID is what to quote to whoever runs the installation, "" for none.
	RequestID string
	document  []byte
}

// Field is one that is at fault.
type Field struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Document implements output.Described.
func (p *Problem) Document() []byte { return p.document }

// What a person is told of a problem at most: a document has all of it (Document).
const (
	mostTold   = 2000 // characters of a text
	mostFields = 50
)

// Error is a line for the whole, and one for each field.
func (p *Problem) Error() string {
	var b strings.Builder
	told := make([]string, len(p.Fields))
	for i, f := range p.Fields {
		told[i] = f.Location + ": " + f.Message
	}
	if p.Detail != strings.Join(told, "; ") { // the detail of several may be these alone
		b.WriteString(output.Cut(p.Detail, mostTold))
	}
	for i, line := range told {
		if i == mostFields {
			fmt.Fprintf(&b, "\nand %d more: --output json has them all", len(p.Fields)-mostFields)
			break
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(output.Cut(line, mostTold))
	}
	if p.Status >= http.StatusInternalServerError && p.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", p.RequestID)
	}
	return b.String()
}

var _ output.Described = (*Problem)(nil)

// codes are the exit codes of statuses.
var codes = map[int]exit.Code{
	http.StatusBadRequest: exit.Invalid, http.StatusUnprocessableEntity: exit.Invalid, http.StatusRequestEntityTooLarge: exit.Invalid, http.StatusUnsupportedMediaType: exit.Invalid,
	http.StatusUnauthorized: exit.NotAllowed, http.StatusForbidden: exit.NotAllowed, http.StatusPaymentRequired: exit.NotAllowed,
	http.StatusNotFound: exit.NotFound, http.StatusGone: exit.NotFound,
	http.StatusConflict: exit.Conflict, http.StatusPreconditionFailed: exit.Conflict, http.StatusPreconditionRequired: exit.Conflict, http.StatusLocked: exit.Conflict,
	http.StatusRequestTimeout: exit.TimedOut, http.StatusGatewayTimeout: exit.TimedOut,
}

// problem is an answer as an error with its exit code. What is no problem document is of something in between.
func (a *API) problem(answer *Answer) error {
	var said struct {
		Title  string  `json:"title"`
		Detail string  `json:"detail"`
		Errors []Field `json:"errors"`
		Trace  struct {
			RequestID string `json:"requestId"`
		} `json:"trace"`
	}
	p := &Problem{Status: answer.Status}
	if err := json.Unmarshal(answer.Body, &said); err == nil && said.Title != "" {
		p.Detail, p.Fields, p.RequestID, p.document = said.Detail, said.Errors, said.Trace.RequestID, answer.Body
		if p.Detail == "" {
			p.Detail = said.Title
		}
	} else {
		p.Detail = fmt.Sprintf("%s answers %d %s, and says no more: check that it is the address of a management API", a.Access.Origin.Host, answer.Status, http.StatusText(answer.Status))
	}
	code, known := codes[answer.Status]
	if !known {
		code = exit.Failure
	}
	return exit.With(code, p)
}

// malformed is how the error of an answer begins that is no HTTP, which has no type of its own (net/http, readLoop).
const malformed = "net/http: HTTP/1.x transport connection broken: "

// explain says what is wrong with a connection.
func (a *API) explain(err error) string {
	name, isDNS := errors.AsType[*net.DNSError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	_, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, isPlain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case isDNS && name.IsNotFound:
		return "there is no machine of this name"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there"
	case isUnknown:
		return "its certificate is of an authority that this machine does not trust"
	case isCertificate:
		return "its certificate is not its own, or not valid now"
	case isPlain, errors.Is(err, http.ErrSchemeMismatch):
		return "it does not speak TLS"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNet && timeout.Timeout():
		return "it does not answer in time"
	case errors.Is(err, errSilent):
		return errSilent.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "it ends the connection without an answer"
	case !isNet && strings.HasPrefix(err.Error(), malformed):
		return "it answers with what is no HTTP: check that it is the address of a management API"
	}
	return output.Printable(err.Error())
}
