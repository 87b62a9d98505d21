package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// ReadBody reads the body to its end, and keeps the bytes in memory for later policies and the handler. Policies must not
// change the returned bytes. The bytes count toward the memory for bodies of the process (package bodies).
//
// For a body of more than limit bytes, ReadBody returns whole == false. If streams is set, the whole body can still be
// sent upstream. Otherwise the caller must end the exchange. If the body cannot be read, ReadBody returns a response that
// ends the exchange.
func (e *Exchange) ReadBody(limit int64, streams bool) (body []byte, whole bool, refusal *http.Response) {
	if refusal = e.writeBody(); refusal != nil || e.Body == nil || e.Body == http.NoBody {
		return nil, true, refusal
	}
	if kept, ok := e.Body.(*wholeBody); ok && kept.Len() == len(kept.bytes) && int64(len(kept.bytes)) <= limit {
		return kept.bytes, true, nil
	}
	if e.ContentLength > limit {
		return nil, false, nil
	}
	source := io.Reader(e.Body)
	if streams {
		limit++ // one byte more than the limit shows that the body is longer
		source = io.LimitReader(e.Body, limit)
	}
	body, err := bodies.Read(e.Context, source, e.ContentLength, limit)
	switch tooLarge, isTooLarge := errors.AsType[*http.MaxBytesError](err); {
	case isTooLarge && tooLarge.Limit == limit:
		return nil, false, nil
	case err != nil:
		if refusal = e.RefuseBody(err); refusal == nil {
			e.Cause = fmt.Errorf("read a request's body: %w", err)
			refusal = e.Problem(http.StatusBadRequest, "The body could not be read to its end. Send it again.")
		}
		return nil, false, refusal
	case streams && int64(len(body)) == limit:
		e.Body = &keptBody{io.MultiReader(bytes.NewReader(body), e.Body), e.Body}
		return nil, false, nil
	}
	_ = e.Body.Close()
	e.keep(body)
	return body, true, nil
}

// keep makes bytes in memory the body. It does not set the length of a body with a trailer, so that the trailer is sent.
func (e *Exchange) keep(body []byte) {
	e.Body = &wholeBody{bytes.NewReader(body), body}
	if e.Trailer == nil {
		e.ContentLength = int64(len(body))
	}
}

// wholeBody is a body that is in memory. Several policies that read it share its bytes.
type wholeBody struct {
	*bytes.Reader
	bytes []byte
}

// Close implements io.Closer.
func (*wholeBody) Close() error { return nil }

// keptBody is a body that begins with bytes that were already read.
type keptBody struct {
	io.Reader
	io.Closer
}

// ReplaceBody replaces the body, for example by the decompressed bytes. It removes the header fields that describe the old
// bytes, and the trailer. It keeps the media type.
func (e *Exchange) ReplaceBody(body []byte) {
	_ = e.Body.Close()
	for _, name := range bodyFields {
		delete(e.Header, name)
	}
	e.Trailer = nil
	e.keep(body)
}

// writeBody creates the body that SetBody has announced. If the
// function write refuses the exchange, writeBody returns its response.
func (e *Exchange) writeBody() *http.Response {
	if e.bodyFunc == nil {
		return nil
	}
	body, refusal := e.bodyFunc()
	if refusal == nil {
		e.bodyFunc = nil
		e.keep(body)
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
