package gateway_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/installation"
)

// TestClientCertificateComesFromPlatform checks that the client's certificate is taken from the request context of the
// event, and never from a header.
func TestClientCertificateComesFromPlatform(t *testing.T) {
	client := pkitest.CA(t, "CA", time.Now()).Client(t, "robot", time.Now())
	for name, test := range map[string]struct {
		identity events.APIGatewayRequestIdentity
		want     string
	}{
		"client certificate": {
			events.APIGatewayRequestIdentity{ClientCert: &events.APIGatewayCustomAuthorizerRequestTypeRequestIdentityClientCert{
				ClientCertPem: client.PEM(),
			}}, "robot",
		},
		"damaged certificate": {
			events.APIGatewayRequestIdentity{ClientCert: &events.APIGatewayCustomAuthorizerRequestTypeRequestIdentityClientCert{
				ClientCertPem: "x",
			}}, "nobody",
		},
		"no certificate": {events.APIGatewayRequestIdentity{}, "nobody"},
	} {
		edge := gateway.Edge(installation.Parts{Now: time.Now},
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				commonName := "nobody"
				if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
					commonName = r.TLS.PeerCertificates[0].Subject.CommonName
				}
				_, _ = w.Write([]byte(commonName))
			}))
		forged, _ := json.Marshal(client.PEM())
		resp, err := edge(t.Context(), events.APIGatewayProxyRequest{
			HTTPMethod: http.MethodGet, Path: "/", MultiValueHeaders: map[string][]string{
				"Host": {"shop.test"}, "X-Forwarded-Proto": {"https"}, "Client-Cert": {string(forged)},
				"X-Amzn-Request-Context": {string(forged)},
			},
			RequestContext: events.APIGatewayProxyRequestContext{Identity: test.identity},
		})
		if err != nil || resp.Body != test.want {
			t.Errorf("%s: response = %q, %v, want %q", name, resp.Body, err, test.want)
		}
	}
}
