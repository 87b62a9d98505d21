package apigateway

import (
	"encoding/base64"
	"encoding/pem"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/base/forwarded"
)

// The values in events for the AWS account, the API ID and the stage, which do not exist locally.
const (
	accountID = "000000000000"
	apiID     = "local"
	stage     = "local"
)

// timeFormat is the format of requestContext.requestTime.
const timeFormat = "02/Jan/2006:15:04:05 -0700"

// event returns the proxy event of a request. The path keeps the client's escaping. As in AWS, header and
// query have every value, and additionally the last value of each name. A body that is not UTF-8 is in base64.
func (g *Gateway) event(
	r *http.Request, body []byte, requestID, resource string, parameters map[string]string,
) events.APIGatewayProxyRequest {
	now := g.o.Now().UTC()
	origin := forwarded.Parse(r, g.o.TrustedProxies)
	header := headerOf(r, origin)
	// ServeHTTP has already rejected a query that cannot be parsed.
	query, _ := url.ParseQuery(r.URL.RawQuery)
	e := events.APIGatewayProxyRequest{
		Resource:                        resource,
		Path:                            r.URL.EscapedPath(),
		HTTPMethod:                      r.Method,
		Headers:                         lastValues(header),
		MultiValueHeaders:               header,
		QueryStringParameters:           lastValues(query),
		MultiValueQueryStringParameters: query,
		PathParameters:                  parameters,
		RequestContext: events.APIGatewayProxyRequestContext{
			AccountID:         accountID,
			APIID:             apiID,
			ResourceID:        resource,
			ResourcePath:      resource,
			OperationName:     "",
			Stage:             stage,
			DomainName:        g.o.Domain,
			DomainPrefix:      apiID,
			RequestID:         requestID,
			ExtendedRequestID: requestID,
			Protocol:          r.Proto,
			HTTPMethod:        r.Method,
			Path:              r.URL.EscapedPath(),
			RequestTime:       now.Format(timeFormat),
			RequestTimeEpoch:  now.UnixMilli(),
			Identity: events.APIGatewayRequestIdentity{
				SourceIP:   addressOf(origin.Client),
				UserAgent:  r.UserAgent(),
				ClientCert: clientCert(r),
			},
		},
		Body: string(body),
	}
	if !utf8.Valid(body) {
		e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return e
}

// headerOf returns the header that a function receives. It does not contain the fields that are only
// for the connection between the client and API Gateway. It contains Host, X-Forwarded-For and X-Forwarded-Proto, which
// API Gateway sets.
func headerOf(r *http.Request, origin forwarded.Origin) http.Header {
	header := maps.Clone(r.Header)
	for _, field := range r.Header.Values("Connection") {
		for name := range strings.SplitSeq(field, ",") {
			header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding",
		"Upgrade",
	} {
		header.Del(name)
	}
	header.Set("Host", r.Host)
	header.Set("X-Forwarded-For",
		strings.Join(append(slices.Clone(r.Header.Values("X-Forwarded-For")), addressOf(origin.Peer)), ", "))
	header.Set("X-Forwarded-Proto", origin.Scheme)
	return header
}

// addressOf returns an address in the format of events, or "" if the address is unknown.
func addressOf(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// clientCert returns the client certificate of the connection, or nil
// if there is none. As in AWS, the rest of the chain is not included.
func clientCert(r *http.Request) *events.APIGatewayCustomAuthorizerRequestTypeRequestIdentityClientCert {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	c := r.TLS.PeerCertificates[0]
	const dateFormat = "Jan _2 15:04:05 2006 MST"
	return &events.APIGatewayCustomAuthorizerRequestTypeRequestIdentityClientCert{
		ClientCertPem: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})),
		SubjectDN:     c.Subject.String(), IssuerDN: c.Issuer.String(), SerialNumber: c.SerialNumber.String(),
		Validity: events.APIGatewayCustomAuthorizerRequestTypeRequestIdentityClientCertValidity{
			NotBefore: c.NotBefore.UTC().Format(dateFormat), NotAfter: c.NotAfter.UTC().Format(dateFormat),
		},
	}
}

// lastValues returns the last value of each name.
func lastValues(values map[string][]string) map[string]string {
	out := make(map[string]string, len(values))
	for name, vs := range values {
		if len(vs) > 0 {
			out[name] = vs[len(vs)-1]
		}
	}
	return out
}
