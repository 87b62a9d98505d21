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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/telemetry"
)

// problemType is the content type of error bodies (RFC 9457, contract 1.2).
const problemType = "application/problem+json"

// Bounds of the parts of a problem that repeat the request. For any request, the response
// must be within the platform's limit, and its detail must fit into the audit record.
const (
	// maxReportedFields is the maximum number of invalid fields that a problem lists.
	maxReportedFields = 100
	// maxLocationBytes is the maximum length of a field's location. All fields of
	// the API have shorter locations; names that clients choose can have any length.
	maxLocationBytes = 512
)

// Problem is the body of an error (contract 1.2), unless another protocol defines the format of its errors.
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

// Trace identifies the request that a problem belongs to.
type Trace struct {
	RequestID string `json:"requestId" doc:"The request's id, as in logs and audit records."`
	Timestamp string `json:"timestamp" format:"date-time" doc:"When the request came."`
}

// ProblemField is one field at fault.
type ProblemField struct {
	Location string `json:"location" doc:"Where the field is." example:"body.name"`
	Message  string `json:"message" doc:"What is wrong with it. Its value is never repeated."`
}

// Error returns the detail, for huma. The cause is logged elsewhere.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the status code, for huma.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the content type of problem documents, which is not plain JSON, for huma.
func (p *Problem) ContentType(string) string { return problemType }

// Unwrap returns the cause, for the log.
func (p *Problem) Unwrap() error { return p.cause }

// newProblem creates the problem document of the running request.
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

// StatusOf returns the status code of a fault. Only this function maps faults to status codes; problemFor replaces 429
// for polled operations.
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
	case fault.PreconditionFailed:
		return http.StatusPreconditionFailed
	case fault.TooLarge:
		return http.StatusRequestEntityTooLarge
	case fault.Throttled:
		return http.StatusTooManyRequests
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.DatabaseUnavailable, fault.Internal:
	}
	return http.StatusInternalServerError
}

// internalDetail is the text that callers receive for errors of the server.
// Neither the cause nor the effects of the request before the error are known.
const internalDetail = "Something went wrong on our side. Read what the request is about before repeating a change; " +
	"quote the request id when it goes on."

// problemFor returns the problem document of an error, and its headers. It uses the input to find the locations of a
// fault's fields in the request. The input is nil for a fault of this package, which already contains the locations.
func problemFor(ctx context.Context, err error, in *input) (*Problem, http.Header) {
	header := http.Header{}
	f := asFault(err)
	if f == nil || f.Kind == fault.Internal {
		p := newProblem(ctx, http.StatusInternalServerError, internalDetail)
		p.cause = err
		return p, header
	}
	status := StatusOf(f.Kind)
	if s := stateOf(ctx); status == http.StatusTooManyRequests && s != nil && s.operation != "" &&
		!slices.Contains(s.declaredErrors, status) {
		// The operation declares no 429 (Operation.Polled). Its clients end
		// polling at a 429, but repeat the request after a 500 (contract 3.1).
		status = http.StatusInternalServerError
	}
	p := newProblem(ctx, status, f.Public)
	p.cause = err
	if len(f.Details) > 0 {
		reported := slices.Clone(in.locate(f.Details[:min(len(f.Details), maxReportedFields)]))
		for i, d := range reported {
			reported[i].Field = telemetry.Truncate(d.Field, maxLocationBytes)
			p.Errors = append(p.Errors, ProblemField{Location: reported[i].Field, Message: d.Message})
		}
		p.Detail = fault.Text(reported)
		if omitted := len(f.Details) - len(reported); omitted > 0 {
			p.Detail += fmt.Sprintf("; and %d more", omitted)
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
	p, header := problemFor(ctx, err, in)
	setProblem(ctx, p)
	return huma.ErrorWithHeaders(p, header)
}

// writeProblem sends the problem document of an error that does not pass through huma.
func writeProblem(ctx context.Context, w http.ResponseWriter, err error) {
	p, header := problemFor(ctx, err, nil)
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

// setUpHuma makes huma use Problem for errors, and describe arrays as never
// null. Both are package variables of huma, so this is done once per process.
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

// missingBodyMessage is huma's message for a missing body. huma's error has no location.
const missingBodyMessage = "request body is required"

// humaProblem converts an error of huma to our problem: with status 400
// instead of 422, and without the invalid value, which may be a secret.
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
	count := 0
	for _, err := range errs {
		detail, ok := err.(huma.ErrorDetailer)
		if !ok {
			continue
		}
		if count++; count > maxReportedFields {
			continue
		}
		d := detail.ErrorDetail()
		p.Errors = append(p.Errors, ProblemField{
			Location: telemetry.Truncate(d.Location, maxLocationBytes),
			Message:  redactMessage(d.Message),
		})
	}
	if message == missingBodyMessage {
		p.Errors = []ProblemField{{Location: "body", Message: "is required: send a JSON document"}}
	}
	if len(p.Errors) > 0 {
		p.Detail = p.Errors[0].Location + ": " + p.Errors[0].Message
		switch omitted := max(count, len(p.Errors)) - 1; {
		case omitted >= maxReportedFields:
			p.Detail += fmt.Sprintf(" (and %d more, see errors for the first %d)", omitted, maxReportedFields)
		case omitted > 0:
			p.Detail += fmt.Sprintf(" (and %d more, see errors)", omitted)
		}
	}
	return p
}

// redactMessage removes messages of parsers that huma appends, as in "expected string to be RFC 4122 uuid: invalid
// UUID …", because they contain the invalid value. It replaces messages of the decoder, because they contain the names
// of Go types. It also replaces huma's messages about integers and alternatives, and writes large bounds without an
// exponent.
func redactMessage(message string) string {
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
	if strings.HasPrefix(message, "expected number ") { // huma writes a large bound as 9.007199254740991e+15
		at := strings.LastIndexByte(message, ' ') + 1
		if bound, err := strconv.ParseFloat(message[at:], 64); err == nil {
			message = message[:at] + strconv.FormatFloat(bound, 'f', -1, 64)
		}
	}
	return message
}

// Timestamp formats a time in the format of the whole API: RFC 3339 in UTC with milliseconds (contract 1.4).
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
