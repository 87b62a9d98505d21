package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// problemType is the content type of error bodies (RFC 9457, contract 1.2).
const problemType = "application/problem+json"

// Bounds of what a problem repeats of its request: the answer has to fit the
// platform, its detail the audit record, whatever a client has sent.
const (
	// maxTold is how many fields at fault are told.
	maxTold = 100
	// maxLocationBytes is how much of a field's place is told. No field of ours
	// is farther in; names that clients invent are as long as they like.
	maxLocationBytes = 512
)

// Problem is the body of every error (contract 1.2).
type Problem struct { //nolint:errname // it is a document of RFC 9457 first; huma wants it to be an error too
	Type     string         `json:"type" format:"uri" doc:"Names the kind of problem: one address for each status." example:"https://httpproblems.com/http-status/404"`
	Title    string         `json:"title" doc:"The status in words." example:"Not Found"`
	Status   int            `json:"status" doc:"The status code." example:"404"`
	Detail   string         `json:"detail,omitempty" doc:"What is wrong with this request and what to do about it."`
	Instance string         `json:"instance,omitempty" doc:"The path of the request."`
	Trace    *Trace         `json:"trace,omitempty" doc:"What to quote when you ask for help."`
	Errors   []ProblemField `json:"errors,omitempty" doc:"The fields at fault, for a 400: the first 100 of them."`

	cause error
}

// Trace tells which request a problem belongs to.
type Trace struct {
	RequestID string `json:"requestId" doc:"The request's id, as in logs and audit records."`
	Timestamp string `json:"timestamp" format:"date-time" doc:"When the request came."`
}

// ProblemField is one field at fault.
type ProblemField struct {
	Location string `json:"location" doc:"Where the field is." example:"body.name"`
	Message  string `json:"message" doc:"What is wrong with it. Its value is never repeated."`
}

// Error returns the detail, for huma; the cause is logged elsewhere.
func (p *Problem) Error() string { return p.Detail }

// GetStatus tells huma the status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType tells huma that this body is no plain JSON.
func (p *Problem) ContentType(string) string { return problemType }

// Unwrap returns the cause, for the log.
func (p *Problem) Unwrap() error { return p.cause }

// newProblem makes the problem document of the running request.
func newProblem(ctx context.Context, status int, detail string) *Problem {
	p := &Problem{
		Type:   "https://httpproblems.com/http-status/" + strconv.Itoa(status),
		Title:  http.StatusText(status),
		Status: status,
		Detail: detail,
	}
	if s := stateOf(ctx); s != nil {
		p.Instance = s.path
		p.Trace = &Trace{RequestID: s.requestID, Timestamp: Timestamp(s.start)}
	}
	return p
}

// StatusOf is the one place that gives faults their status codes.
func StatusOf(kind fault.Kind) int {
	switch kind {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.Unauthenticated:
		return http.StatusUnauthorized
	case fault.Forbidden:
		return http.StatusForbidden
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Unprocessable:
		return http.StatusUnprocessableEntity
	case fault.Outdated:
		return http.StatusPreconditionFailed
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.Throttled:
		return http.StatusTooManyRequests
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.Unanswered, fault.Internal:
	}
	return http.StatusInternalServerError
}

// internalDetail is all that a caller learns of what we got wrong. Where that
// came to pass is not known, so neither is what was done before.
const internalDetail = "Something went wrong on our side. Read what the request is about before repeating a change; quote the request id when it goes on."

// problemOf returns the problem document of an error, and its headers. in says
// where the fields of a fault stood in the request, nil for a fault of this
// package, which says it itself.
func problemOf(ctx context.Context, err error, in *input) (*Problem, http.Header) {
	header := http.Header{}
	f := faultIn(err)
	if f == nil || f.Kind == fault.Internal {
		p := newProblem(ctx, http.StatusInternalServerError, internalDetail)
		p.cause = err
		return p, header
	}
	status := StatusOf(f.Kind)
	if s := stateOf(ctx); status == http.StatusTooManyRequests && s != nil && s.operation != "" && !slices.Contains(s.declared, status) {
		// Its clients know no 429: one that polls a status takes it for the end,
		// and asks again after a 500 (contract 3.2).
		status = http.StatusInternalServerError
	}
	p := newProblem(ctx, status, f.Public)
	p.cause = err
	if len(f.Details) > 0 {
		told := slices.Clone(in.locate(f.Details[:min(len(f.Details), maxTold)]))
		for i, d := range told {
			told[i].Field = telemetry.Clip(d.Field, maxLocationBytes)
			p.Errors = append(p.Errors, ProblemField{Location: told[i].Field, Message: d.Message})
		}
		p.Detail = fault.Text(told)
		if more := len(f.Details) - len(told); more > 0 {
			p.Detail += fmt.Sprintf("; and %d more", more)
		}
	}
	switch f.Kind {
	case fault.Unauthenticated:
		header.Set("WWW-Authenticate", "Bearer")
	case fault.Conflict:
		if f.RetryAfter > 0 {
			header.Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
		}
	case fault.Throttled, fault.Unavailable:
		header.Set("Retry-After", strconv.Itoa(max(1, int(f.RetryAfter/time.Second))))
	default:
	}
	return p, header
}

// asStatusError prepares a handler's error for huma.
func asStatusError(ctx context.Context, err error, in *input) error {
	p, header := problemOf(ctx, err, in)
	setProblem(ctx, p)
	return huma.ErrorWithHeaders(p, header)
}

// writeProblem answers with an error's problem document, outside of huma.
func writeProblem(ctx context.Context, w http.ResponseWriter, err error) {
	p, header := problemOf(ctx, err, nil)
	for name := range header {
		w.Header().Set(name, header.Get(name))
	}
	sendProblem(ctx, w, p)
}

func sendProblem(ctx context.Context, w http.ResponseWriter, p *Problem) {
	setProblem(ctx, p)
	body, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("api: a problem cannot be encoded: %v", err))
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

// setUpHuma gives huma our error type and our meaning of arrays. They are
// variables of its package, so this is done once for the process.
var setUpHuma = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return humaProblem(context.Background(), status, message, errs)
	}
	huma.NewErrorWithContext = func(hc huma.Context, status int, message string, errs ...error) huma.StatusError {
		p := humaProblem(hc.Context(), status, message, errs)
		setProblem(hc.Context(), p)
		return p
	}
})

// noBody is what huma says of a body that is missing, without a location.
const noBody = "request body is required"

// humaProblem turns what huma found wrong into our problem: 400 instead of its
// 422, and never with the offending value, which may be a secret.
func humaProblem(ctx context.Context, status int, message string, errs []error) *Problem {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	if status == http.StatusInternalServerError {
		p := newProblem(ctx, status, internalDetail)
		if len(errs) > 0 {
			p.cause = errs[0]
		}
		return p
	}
	p := newProblem(ctx, status, message)
	found := 0
	for _, err := range errs {
		detail, ok := err.(huma.ErrorDetailer)
		if !ok {
			continue
		}
		if found++; found > maxTold {
			continue
		}
		d := detail.ErrorDetail()
		p.Errors = append(p.Errors, ProblemField{Location: telemetry.Clip(d.Location, maxLocationBytes), Message: withoutValue(d.Message)})
	}
	if message == noBody {
		p.Errors = []ProblemField{{Location: "body", Message: "is required: send a JSON document"}}
	}
	if len(p.Errors) > 0 {
		p.Detail = p.Errors[0].Location + ": " + p.Errors[0].Message
		switch more := max(found, len(p.Errors)) - 1; {
		case more >= maxTold:
			p.Detail += fmt.Sprintf(" (and %d more, see errors for the first %d)", more, maxTold)
		case more > 0:
			p.Detail += fmt.Sprintf(" (and %d more, see errors)", more)
		}
	}
	return p
}

// withoutValue cuts what huma appends to a message from parsers that repeat
// the value, as in "expected string to be RFC 4122 uuid: invalid UUID …". The
// decoder speaks of Go's types. Bounds are spelled as they are written in requests.
func withoutValue(message string) string {
	if strings.HasPrefix(message, "json: ") || strings.HasPrefix(message, "jsontext: ") {
		return "has a field of another type than it has to be"
	}
	if strings.HasPrefix(message, "expected value to match exactly one schema") {
		return "has to have exactly one of the forms that GET /openapi lists for it"
	}
	if message == "invalid integer" {
		return "has to be a whole number"
	}
	if strings.HasPrefix(message, "expected string to be") {
		message, _, _ = strings.Cut(message, ":")
	}
	if strings.HasPrefix(message, "expected number ") { // huma spells a large bound as 9.007199254740991e+15
		at := strings.LastIndexByte(message, ' ') + 1
		if bound, err := strconv.ParseFloat(message[at:], 64); err == nil {
			message = message[:at] + strconv.FormatFloat(bound, 'f', -1, 64)
		}
	}
	return message
}

// Timestamp spells an instant as the whole API does: RFC 3339 in UTC with
// milliseconds (contract 1.4).
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
