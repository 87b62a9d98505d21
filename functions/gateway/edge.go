package gateway

import (
	"context"
	"net/http"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
)

// Edge makes a Lambda function of the gateway, behind API Gateway's REST API
// (payload version 1), which hands over a whole request and takes a whole
// answer: nothing streams and nothing is upgraded on this road.
func Edge(h http.Handler) func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
	adapter := httpadapter.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The adapter leaves the host among the other headers.
		if host := r.Header.Get("Host"); host != "" {
			r.Host = host
			r.Header.Del("Host")
		}
		h.ServeHTTP(w, r)
	}))
	return adapter.ProxyWithContext
}
