package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

// TestEdgeServesEvents checks that LambdaHandler serves an event of the platform as the server would serve the client's
// request. The response must have the platform's request ID.
func TestEdgeServesEvents(t *testing.T) {
	for _, c := range []struct {
		name  string
		event events.APIGatewayProxyRequest
		want  int
		body  string
	}{
		{
			"an encoded segment",
			events.APIGatewayProxyRequest{HTTPMethod: "GET", Path: thing + "feature%2Fx"},
			200,
			`"name":"feature/x"`,
		},
		{"a query in MultiValueQueryStringParameters", events.APIGatewayProxyRequest{
			HTTPMethod: "GET", Path: thing + "x",
			MultiValueQueryStringParameters: map[string][]string{"tag.a": {"b"}, "tag.c": {"d"}},
		}, 200, `{"a":"b","c":"d"}`},
		{"a query in QueryStringParameters", events.APIGatewayProxyRequest{
			HTTPMethod: "GET", Path: thing + "x", QueryStringParameters: map[string]string{"tag.a": "b"},
		}, 200, `{"a":"b"}`},
		{"a bare percent sign", events.APIGatewayProxyRequest{HTTPMethod: "GET", Path: thing + "%"}, 400, "percent"},
		{"a base64 body", events.APIGatewayProxyRequest{
			HTTPMethod: "PATCH", Path: thing + "x", Body: "e30=", IsBase64Encoded: true,
		}, 200, `"set":false`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.event.MultiValueHeaders = map[string][]string{"authorization": {"Bearer " + goodKey}}
			c.event.RequestContext.RequestID = "req-1"
			out, err := newFixture(t).server.Edge()(t.Context(), c.event)
			if err != nil || out.StatusCode != c.want || !strings.Contains(out.Body, c.body) {
				t.Fatalf("Edge() = %d %s, %v, want %d with %q and no error", out.StatusCode, out.Body, err, c.want, c.body)
			}
			if got := http.Header(out.MultiValueHeaders).Get("X-Request-Id"); got != "req-1" {
				t.Errorf("X-Request-Id = %q, want \"req-1\"", got)
			}
		})
	}
}

// TestAddressIsTheClientURL checks that RequestURL returns the URL that the client has used.
// On a domain name of the platform, the client's path begins with the stage, but the
// function's path does not. On a domain name of the installation, neither path has a stage.
func TestAddressIsTheClientURL(t *testing.T) {
	for want, event := range map[string]events.APIGatewayProxyRequest{
		"https://x1.example.net/prod/v1/accounts/acme/things/x": {
			Headers: map[string]string{"X-Forwarded-Proto": "https"},
			RequestContext: events.APIGatewayProxyRequestContext{
				DomainName: "x1.example.net",
				Path:       "/prod/v1/accounts/acme/things/x",
			},
		},
		"http://127.0.0.1:9000/v1/accounts/acme/things/x": {
			Headers: map[string]string{"X-Forwarded-Proto": "http"},
			RequestContext: events.APIGatewayProxyRequestContext{
				DomainName: "127.0.0.1:9000",
				Path:       "/v1/accounts/acme/things/x",
			},
		},
	} {
		event.HTTPMethod, event.Path = "GET", "/v1/accounts/acme/things/x"
		event.Headers["Authorization"] = "Bearer " + goodKey
		event.QueryStringParameters = map[string]string{"count": "1"}
		f := newFixture(t)
		if _, err := f.server.Edge()(t.Context(), event); err != nil {
			t.Errorf("Edge() for %s: error = %v, want nil", want, err)
		}
		if f.url != want {
			t.Errorf("RequestURL() = %s, want %s", f.url, want)
		}
	}
}
