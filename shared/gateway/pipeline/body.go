package pipeline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/graphql"
	"github.com/gatewright/gatewright/shared/listen/framing"
)

// GraphQL is a request's body as GraphQL policies read it: once for all of them.
type GraphQL struct {
	Body *graphql.Body
	// Documents are those of the body's requests, as far as they could be read.
	Documents []*graphql.Document
	// Shown are the introspections that a filter has made of the body's requests, nil before it
	// has; in it, nil for a request that is none.
	Shown []*graphql.Introspection
}

const malformedBody = "The body ended early or is not encoded as its header says. Send it again."

// RefuseBody answers the problem that a body is which could not be read to its end: err is what its
// reader said, nil where the end of the request itself came first. It answers nil where
// neither is the client's fault.
func (x *Exchange) RefuseBody(err error) *http.Response {
	if errors.Is(err, bodies.ErrBusy) { // checked before the cause, since a body that was ended to make room fails like one that stalls
		response := x.Problem(bodies.Refusal(err))
		response.Header["Retry-After"] = []string{bodies.RetryAfterSeconds()}
		return response
	}
	// The listener ends a request with these causes (package listen), and a round
	// trip ends with the request, before it knows why.
	switch cause := context.Cause(x.Context); {
	case errors.Is(cause, os.ErrDeadlineExceeded):
		x.Cause = cause
		return x.Problem(bodies.Refusal(cause))
	case errors.Is(cause, framing.ErrChunks):
		x.Cause = cause
		return x.Problem(http.StatusBadRequest, malformedBody)
	}
	if err == nil || x.Context.Err() != nil {
		return nil
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return x.Problem(http.StatusRequestEntityTooLarge, "The body is larger than this gateway takes. Send less.")
	}
	x.Cause = err
	return x.Problem(http.StatusBadRequest, malformedBody)
}

// describing are the fields that say something of a body's bytes.
var describing = [...]string{"Content-Encoding", "Content-Digest", "Repr-Digest", "Digest", "Content-Md5"}

// SetBody puts another body in place of one that has been read to its end. Fields that tell of the
// old one's bytes go, and so does the trailer, which a body of known length has none of. The body is written when
// all policies have let the exchange go on: most of what is refused is so by then. There is none before. write may
// refuse it, with a response that ends the exchange as one of a policy does.
func (x *Exchange) SetBody(write func() ([]byte, *http.Response), contentType string) {
	_ = x.Body.Close()
	x.Body, x.ContentLength, x.write = http.NoBody, -1, write
	for _, name := range describing {
		delete(x.Header, name)
	}
	x.Header["Content-Type"] = []string{contentType}
	x.Trailer = nil
}

// writeBody makes the body that SetBody has put in place. It answers nil, or why there is none.
func (x *Exchange) writeBody() *http.Response {
	if x.write == nil {
		return nil
	}
	body, refused := x.write()
	if refused == nil {
		x.Body, x.ContentLength, x.write = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	}
	return refused
}

// SetResponseBody puts another body in place of a response's, which it closes.
func SetResponseBody(r *http.Response, body []byte) {
	_ = r.Body.Close()
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	for _, name := range describing {
		delete(r.Header, name)
	}
	r.Trailer = nil
	delete(r.Header, "Etag")
	delete(r.Header, "Accept-Ranges")
	r.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
}
