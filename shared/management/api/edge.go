package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"github.com/gatewright/gatewright/shared/base/fault"
)

// LambdaHandler is an http.Handler in the form of a handler of a Lambda function behind API Gateway's REST API (payload
// version 1).
type LambdaHandler func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error)

// LambdaHandlerOptions are the dependencies of a LambdaHandler.
type LambdaHandlerOptions struct {
	// Escape percent-encodes an event's path, for platforms that send it decoded. It is nil for API Gateway, which
	// sends the path as the client wrote it.
	Escape func(path string) string
	// Log receives events that the handler cannot log: requests that took too long, and panics.
	Log *slog.Logger
	// Now is the clock for deadlines.
	Now func() time.Time
}

// Limits of the platform. API Gateway ends a request after 29 s, and the function's timeout is
// set to that. A function's response has at most 6 MB of JSON, including headers and escapes.
const (
	responseReserve  = time.Second // time before the deadline that is reserved for sending a 504
	maxResponseBytes = 6<<20 - headerAllowance
	headerAllowance  = 64 << 10
)

// Edge returns the function handler of the server.
func (s *Server) Edge() LambdaHandler {
	o := LambdaHandlerOptions{Log: s.parts.Log, Now: s.parts.Now}
	if s.parts.Config.DecodedPaths {
		o.Escape = s.escapeForRoute
	}
	return NewLambdaHandler(s, o)
}

// NewLambdaHandler returns the function handler of any http.Handler. The function handler returns no error for
// any request of a client, because an error would become a 502 without an explanation. One second before
// the deadline, it responds with 504, so that the platform does not end the request without a response.
func NewLambdaHandler(h http.Handler, o LambdaHandlerOptions) LambdaHandler {
	adapter := httpadapter.New(h)
	return func(ctx context.Context, event events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		event, refusal := o.Normalize(event)
		if refusal != nil {
			return EdgeProblem(ctx, event, refusal)
		}
		response, err := withDeadline(ctx, o, event, func(ctx context.Context) (events.APIGatewayProxyResponse, error) {
			return adapter.ProxyWithContext(ctx, event)
		})
		if err == nil && responseBytes(response) > maxResponseBytes {
			return EdgeResponse(ctx, event, http.StatusBadGateway,
				"The answer has more than the 6 MB that the platform carries (4.5 MB if it is no text). Ask for less of it, or "+
					"run the gateway in a container.")
		}
		return response, err
	}
}

// Normalize converts an event to the form from which requests are created: its path is
// percent-encoded, and its query has every value of each name. It returns a fault if the
// event cannot become a request (its path does not parse, or its body is not base64 although
// the event says so). The adapter would turn such an event into a failure of the function.
func (o LambdaHandlerOptions) Normalize(event events.APIGatewayProxyRequest) (events.APIGatewayProxyRequest, error) {
	if o.Escape != nil {
		event.Path = o.Escape(event.Path)
	}
	if _, err := url.ParseRequestURI(event.Path); err != nil {
		return event, fault.InvalidField("path", "is not percent-encoded; write a percent sign as %%25")
	}
	if event.IsBase64Encoded {
		if _, err := base64.StdEncoding.DecodeString(event.Body); err != nil {
			return event, fault.InvalidField("body", "arrived broken: it is not the base64 that it is said to be")
		}
	}
	event.MultiValueQueryStringParameters = allValues(event)
	return event, nil
}

// withDeadline calls handle. If handle takes too long or panics, withDeadline returns an error response instead.
func withDeadline(ctx context.Context, o LambdaHandlerOptions, event events.APIGatewayProxyRequest,
	handle func(context.Context) (events.APIGatewayProxyResponse, error),
) (events.APIGatewayProxyResponse, error) {
	type outcome struct {
		response events.APIGatewayProxyResponse
		err      error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // after the return, so that a failure caused by cancel does not become the response
	done := make(chan outcome, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				o.Log.ErrorContext(ctx, "a request broke off", "requestId", event.RequestContext.RequestID,
					"error", fmt.Sprintf("%v\n%s", cause, debug.Stack()))
				response, err := EdgeResponse(ctx, event, http.StatusBadGateway,
					"The answer broke off midway. Repeat the request if that is safe.")
				done <- outcome{response, err}
			}
		}()
		response, err := handle(ctx)
		done <- outcome{response, err}
	}()
	var expired <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok {
		timer := time.NewTimer(deadline.Sub(o.Now()) - responseReserve)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case out := <-done:
		return out.response, out.err
	case <-expired:
		o.Log.ErrorContext(ctx, "a request took too long", "requestId", event.RequestContext.RequestID)
		return EdgeResponse(ctx, event, http.StatusGatewayTimeout,
			"The request took longer than the platform allows and was given up. What it changes may have been done: look "+
				"before repeating it.")
	}
}

// responseBytes returns the size of a response's body for the platform's
// limit. For a small body, it returns the size without escapes.
func responseBytes(response events.APIGatewayProxyResponse) int {
	if len(response.Body) < maxResponseBytes/6 { // a byte becomes at most six bytes in JSON
		return len(response.Body)
	}
	return quotedBytes(response.Body)
}

// quotedBytes returns the length of a text as a JSON string, as Lambda's runtime writes it. The
// runtime does not escape markup characters. json.Marshal would write six bytes for each of them.
func quotedBytes(text string) int {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(text) != nil {
		return len(text) // never happens: every text can be encoded
	}
	return out.Len() - len("\n")
}

// EdgeProblem returns the response for an error: one that occurs before
// a request is created, or one that replaces the handler's response.
func EdgeProblem(
	ctx context.Context, event events.APIGatewayProxyRequest, err error,
) (events.APIGatewayProxyResponse, error) {
	p, _ := problemFor(ctx, err, nil)
	return edgeResponse(event, p)
}

// EdgeResponse returns a response with a problem, to be sent in place of the handler's response.
func EdgeResponse(
	ctx context.Context, event events.APIGatewayProxyRequest, status int, detail string,
) (events.APIGatewayProxyResponse, error) {
	return edgeResponse(event, newProblem(ctx, status, detail))
}

func edgeResponse(event events.APIGatewayProxyRequest, p *Problem) (events.APIGatewayProxyResponse, error) {
	p.Trace = &Trace{RequestID: event.RequestContext.RequestID, Timestamp: event.RequestContext.RequestTime}
	if ms := event.RequestContext.RequestTimeEpoch; ms > 0 {
		p.Trace.Timestamp = Timestamp(time.UnixMilli(ms))
	}
	body, err := json.Marshal(p)
	if err != nil {
		return events.APIGatewayProxyResponse{}, fmt.Errorf("encode a problem: %w", err)
	}
	return events.APIGatewayProxyResponse{
		StatusCode:        p.Status,
		MultiValueHeaders: http.Header{"Content-Type": {problemType}, "X-Request-Id": {event.RequestContext.RequestID}},
		Body:              string(body),
	}, nil
}

// allValues returns the query with every value of each name. Some platforms
// set only QueryStringParameters, which has one value for each name.
func allValues(event events.APIGatewayProxyRequest) map[string][]string {
	if len(event.MultiValueQueryStringParameters) > 0 {
		return event.MultiValueQueryStringParameters
	}
	out := make(map[string][]string, len(event.QueryStringParameters))
	for name, value := range event.QueryStringParameters {
		out[name] = []string{value}
	}
	return out
}
