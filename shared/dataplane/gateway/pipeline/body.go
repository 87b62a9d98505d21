package pipeline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/format/graphql"
)

// GraphQL has the parsed body of a request for the GraphQL policies. The body is parsed once for all of them.
type GraphQL struct {
	Body *graphql.Body
	// Documents are the documents of the body's requests, as far as they could be parsed.
	Documents []*graphql.Document
	// Introspections has an element for each of the body's requests, nil for a request that
	// is not an introspection. It is nil before a filter has looked for introspections.
	Introspections []*graphql.Introspection
}

// GraphQLLimits are the limits of a request's documents, in place of the options of the policy that limits documents.
type GraphQLLimits struct{ Depth, Complexity int }

const malformedBody = "The body ended early or is not encoded as its header says. Send it again."

// RefuseBody returns a problem response if a request failed because its body could not be read to its end. It returns
// nil if the body was not the reason. err is the error of the body's reader. It is nil if the reader has reported none,
// for example because the context of the request ended first.
func (e *Exchange) RefuseBody(err error) *http.Response {
	// Check this before the cause: the listener ends a body to free memory in the same way as a stalled body.
	if errors.Is(err, bodies.ErrBusy) {
		response := e.Problem(bodies.Refusal(err))
		response.Header["Retry-After"] = []string{bodies.RetryAfterSeconds()}
		return response
	}
	// The listener ends the context of a request with these causes (package
	// listen). The error of the round trip does not contain the cause.
	switch cause := context.Cause(e.Context); {
	case errors.Is(cause, os.ErrDeadlineExceeded):
		e.Cause = cause
		return e.Problem(bodies.Refusal(cause))
	case errors.Is(cause, framing.ErrChunks):
		e.Cause = cause
		return e.Problem(http.StatusBadRequest, malformedBody)
	}
	if err == nil || e.Context.Err() != nil {
		return nil
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return e.Problem(http.StatusRequestEntityTooLarge, "The body is larger than this gateway takes. Send less.")
	}
	e.Cause = err
	return e.Problem(http.StatusBadRequest, malformedBody)
}

// bodyFields are the fields that describe the bytes of a body.
var bodyFields = [...]string{"Content-Encoding", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5"}

// SetBody replaces a body that was read to its end. It removes fields that describe the old bytes, and the
// trailer, which a body of known length can't have. write returns the new body. It is called only after all
// policies have let the exchange through, so that refused requests do not cost this work. Until then the
// body is empty. write can return a response instead, which ends the exchange like a policy's response.
func (e *Exchange) SetBody(write func() ([]byte, *http.Response), contentType string) {
	_ = e.Body.Close()
	e.Body, e.ContentLength, e.bodyFunc = http.NoBody, -1, write
	for _, name := range bodyFields {
		delete(e.Header, name)
	}
	e.Header["Content-Type"] = []string{contentType}
	e.Trailer = nil
}

// writeBody creates the body that SetBody has announced. If the
// function write refuses the exchange, writeBody returns its response.
func (e *Exchange) writeBody() *http.Response {
	if e.bodyFunc == nil {
		return nil
	}
	body, refusal := e.bodyFunc()
	if refusal == nil {
		e.Body, e.ContentLength, e.bodyFunc = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	}
	return refusal
}

// SetResponseBody replaces the body of a response, and closes the old one. It removes
// fields that describe the old bytes, and the trailer.
func SetResponseBody(r *http.Response, body []byte) {
	_ = r.Body.Close()
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	for _, name := range bodyFields {
		delete(r.Header, name)
	}
	r.Trailer = nil
	delete(r.Header, "Etag")
	delete(r.Header, "Accept-Ranges")
	r.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
}
