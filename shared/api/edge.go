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

	"github.com/gatewright/gatewright/shared/fault"
)

// Edge is an http.Handler as the handler of a Lambda function behind API
// Gateway's REST API (payload version 1).
type Edge func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error)

// EdgeOptions are what an Edge takes from outside.
type EdgeOptions struct {
	// Escaped gives an event's path percent-encoded, for platforms that send it
	// decoded; nil for API Gateway, which sends it as the client wrote it.
	Escaped func(path string) string
	// Log is told what only the edge sees: requests that took too long.
	Log *slog.Logger
	// Now is the clock that deadlines are compared with.
	Now func() time.Time
}

// Limits of the platform. API Gateway ends a request after 29 s, and the
// function's own time is set to that; what a function answers has at most 6 MB
// as JSON, headers and escapes included.
const (
	answerTime      = time.Second // what is left for answering that there was no answer
	maxAnswerBytes  = 6<<20 - headerAllowance
	headerAllowance = 64 << 10
)

// Edge makes the function handler of the server.
func (s *Server) Edge() Edge {
	o := EdgeOptions{Log: s.parts.Log, Now: s.parts.Now}
	if s.parts.Config.DecodedPaths {
		o.Escaped = s.escaped
	}
	return NewEdge(s, o)
}

// NewEdge makes the function handler of any handler. It answers no error for
// anything a client sent, since that would become a 502 without an
// explanation; nor does it let the platform cut a request short: a second
// before its deadline it answers 504 itself.
func NewEdge(h http.Handler, o EdgeOptions) Edge {
	adapter := httpadapter.New(h)
	return func(ctx context.Context, event events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		event, refusal := o.Normalise(event)
		if refusal != nil {
			return EdgeProblem(ctx, event, refusal)
		}
		answer, err := inTime(ctx, o, event, func(ctx context.Context) (events.APIGatewayProxyResponse, error) {
			return adapter.ProxyWithContext(ctx, event)
		})
		if err == nil && answerBytes(answer) > maxAnswerBytes {
			return EdgeAnswer(ctx, event, http.StatusBadGateway,
				"The answer has more than the 6 MB that the platform carries (4.5 MB if it is no text). Ask for less of it, or run the gateway in a container.")
		}
		return answer, err
	}
}

// Normalise brings an event into the one form that a request is made of: its path
// is percent-encoded, its query has every value of each name. It answers a fault
// for an event that no request can be made of (a path that does not parse, a body
// that is not the base64 it is said to be): the adapter would make it a failure of
// the function.
func (o EdgeOptions) Normalise(event events.APIGatewayProxyRequest) (events.APIGatewayProxyRequest, error) {
	if o.Escaped != nil {
		event.Path = o.Escaped(event.Path)
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

// inTime calls handle, and answers in its place when it takes too long or panics.
func inTime(ctx context.Context, o EdgeOptions, event events.APIGatewayProxyRequest,
	handle func(context.Context) (events.APIGatewayProxyResponse, error),
) (events.APIGatewayProxyResponse, error) {
	type outcome struct {
		answer events.APIGatewayProxyResponse
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // after the answer: what it makes fail must not become the answer
	done := make(chan outcome, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				o.Log.ErrorContext(ctx, "a request broke off", "requestId", event.RequestContext.RequestID,
					"error", fmt.Sprintf("%v\n%s", cause, debug.Stack()))
				answer, err := EdgeAnswer(ctx, event, http.StatusBadGateway, "The answer broke off midway. Repeat the request if that is safe.")
				done <- outcome{answer, err}
			}
		}()
		answer, err := handle(ctx)
		done <- outcome{answer, err}
	}()
	var late <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok {
		timer := time.NewTimer(deadline.Sub(o.Now()) - answerTime)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case out := <-done:
		return out.answer, out.err
	case <-late:
		o.Log.ErrorContext(ctx, "a request took too long", "requestId", event.RequestContext.RequestID)
		return EdgeAnswer(ctx, event, http.StatusGatewayTimeout,
			"The request took longer than the platform allows and was given up. What it changes may have been done: look before repeating it.")
	}
}

// answerBytes is how much of the platform's limit an answer takes.
func answerBytes(a events.APIGatewayProxyResponse) int {
	if len(a.Body) < maxAnswerBytes/6 { // no byte takes more than six
		return len(a.Body)
	}
	return quotedBytes(a.Body)
}

// quotedBytes is how long a text is within JSON, as Lambda's runtime writes it:
// it leaves markup as it is, which json.Marshal would make six bytes of.
func quotedBytes(text string) int {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(text) != nil {
		return len(text) // no text fails
	}
	return out.Len() - len("\n")
}

// EdgeProblem answers an error before there is a request, or instead of the
// handler's answer.
func EdgeProblem(ctx context.Context, event events.APIGatewayProxyRequest, err error) (events.APIGatewayProxyResponse, error) {
	p, _ := problemOf(ctx, err, nil)
	return edgeAnswer(event, p)
}

// EdgeAnswer answers a problem instead of the handler.
func EdgeAnswer(ctx context.Context, event events.APIGatewayProxyRequest, status int, detail string) (events.APIGatewayProxyResponse, error) {
	return edgeAnswer(event, newProblem(ctx, status, detail))
}

func edgeAnswer(event events.APIGatewayProxyRequest, p *Problem) (events.APIGatewayProxyResponse, error) {
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

// allValues returns the query with every value of each name. Some platforms fill
// in the single values alone.
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
