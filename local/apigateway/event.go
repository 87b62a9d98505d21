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

	"github.com/gatewright/gatewright/shared/forwarded"
)

// What events say about an API that has no account and no id.
const (
	accountID = "000000000000"
	apiID     = "local"
	stage     = "local"
)

// timeFormat is that of requestContext.requestTime.
const timeFormat = "02/Jan/2006:15:04:05 -0700"

// event makes the proxy event of a request. The path stays as the client
// escaped it; header and query have every value, and the last one of each name
// once more, as AWS has it. A body that is no text is in base64.
func (g *Gateway) event(r *http.Request, body []byte, requestID, resource string, parameters map[string]string) events.APIGatewayProxyRequest {
	now := g.o.Now().UTC()
	from := forwarded.Of(r, g.o.Trusted)
	header := headerOf(r, from)
	// ServeHTTP has refused a query that cannot be parsed.
	query, _ := url.ParseQuery(r.URL.RawQuery)
	e := events.APIGatewayProxyRequest{
		Resource:                        resource,
		Path:                            r.URL.EscapedPath(),
		HTTPMethod:                      r.Method,
		Headers:                         last(header),
		MultiValueHeaders:               header,
		QueryStringParameters:           last(query),
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
				SourceIP:   addressOf(from.Client),
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

// headerOf returns the request's header as a function gets it: without what is
// between the client and API Gateway alone, with what API Gateway adds.
func headerOf(r *http.Request, from forwarded.Origin) http.Header {
	header := maps.Clone(r.Header)
	for _, named := range r.Header.Values("Connection") {
		for name := range strings.SplitSeq(named, ",") {
			header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"} {
		header.Del(name)
	}
	header.Set("Host", r.Host)
	header.Set("X-Forwarded-For", strings.Join(append(slices.Clone(r.Header.Values("X-Forwarded-For")), addressOf(from.Peer)), ", "))
	header.Set("X-Forwarded-Proto", from.Scheme)
	return header
}

// addressOf is an address as events have it, "" for a connection that has none.
func addressOf(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// clientCert is the certificate that the client has shown, nil for none: its own alone,
// as in AWS.
func clientCert(r *http.Request) *events.APIGatewayCustomAuthorizerRequestTypeRequestIdentityClientCert {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	c := r.TLS.PeerCertificates[0]
	const dates = "Jan _2 15:04:05 2006 MST"
	return &events.APIGatewayCustomAuthorizerRequestTypeRequestIdentityClientCert{
		ClientCertPem: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})),
		SubjectDN:     c.Subject.String(), IssuerDN: c.Issuer.String(), SerialNumber: c.SerialNumber.String(),
		Validity: events.APIGatewayCustomAuthorizerRequestTypeRequestIdentityClientCertValidity{
			NotBefore: c.NotBefore.UTC().Format(dates), NotAfter: c.NotAfter.UTC().Format(dates),
		},
	}
}

// last returns the last value of each name.
func last(values map[string][]string) map[string]string {
	out := make(map[string]string, len(values))
	for name, vs := range values {
		if len(vs) > 0 {
			out[name] = vs[len(vs)-1]
		}
	}
	return out
}
