package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"

	"github.com/gatewright/gatewright/shared/fault"
)

// Edge is a Server as the handler of a Lambda function behind API Gateway's
// REST API (payload version 1).
type Edge func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error)

// Edge makes the function handler of the server. It never answers an error for
// anything a client sent: that would be a 502.
func (s *Server) Edge() Edge {
	adapter := httpadapter.New(s)
	return func(ctx context.Context, event events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		if _, err := url.ParseRequestURI(event.Path); err != nil {
			return malformedPath(ctx, event)
		}
		event.MultiValueQueryStringParameters = allValues(event)
		return adapter.ProxyWithContext(ctx, event)
	}
}

// malformedPath answers a path that no URL can have, such as one with a bare
// "%": the adapter would not make a request of it.
func malformedPath(ctx context.Context, event events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
	p, _ := problemOf(ctx, fault.InvalidField("path", "is not percent-encoded; write a percent sign as %%25"))
	p.Trace = &Trace{RequestID: event.RequestContext.RequestID, Timestamp: event.RequestContext.RequestTime}
	body, err := json.Marshal(p)
	if err != nil {
		return events.APIGatewayProxyResponse{}, err
	}
	return events.APIGatewayProxyResponse{
		StatusCode:        http.StatusBadRequest,
		MultiValueHeaders: http.Header{"Content-Type": {problemType}, "X-Request-Id": {event.RequestContext.RequestID}},
		Body:              string(body),
	}, nil
}

// allValues gives the query with every value of each name. Some platforms fill
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
