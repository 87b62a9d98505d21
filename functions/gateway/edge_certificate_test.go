package gateway_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

// TestClientsOfAPIGatewayAreThosePlatformNames: a certificate is in what the platform
// says of a request, and no header field makes one.
func TestClientsOfAPIGatewayAreThosePlatformNames(t *testing.T) {
	client := pkitest.CA(t, "CA", time.Now()).Client(t, "robot", time.Now())
	for name, test := range map[string]struct {
		identity events.APIGatewayRequestIdentity
		want     string
	}{
		"a client": {events.APIGatewayRequestIdentity{ClientCert: &events.APIGatewayCustomAuthorizerRequestTypeRequestIdentityClientCert{ClientCertPem: client.PEM()}}, "robot"},
		"damage":   {events.APIGatewayRequestIdentity{ClientCert: &events.APIGatewayCustomAuthorizerRequestTypeRequestIdentityClientCert{ClientCertPem: "x"}}, "nobody"},
		"nobody":   {events.APIGatewayRequestIdentity{}, "nobody"},
	} {
		edge := gateway.Edge(installation.Parts{Now: time.Now}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who := "nobody"
			if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
				who = r.TLS.PeerCertificates[0].Subject.CommonName
			}
			_, _ = w.Write([]byte(who))
		}))
		claim, _ := json.Marshal(client.PEM())
		answer, err := edge(t.Context(), events.APIGatewayProxyRequest{
			HTTPMethod: http.MethodGet, Path: "/", MultiValueHeaders: map[string][]string{
				"Host": {"shop.test"}, "X-Forwarded-Proto": {"https"}, "Client-Cert": {string(claim)}, "X-Amzn-Request-Context": {string(claim)},
			},
			RequestContext: events.APIGatewayProxyRequestContext{Identity: test.identity},
		})
		if err != nil || answer.Body != test.want {
			t.Errorf("%s: %q, %v", name, answer.Body, err)
		}
	}
}
