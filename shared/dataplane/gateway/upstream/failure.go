package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/gatewright/gatewright/shared/base/socket"
)

// Failure describes a failed round trip for the client.
type Failure struct {
	// Status is 502, 503 or 504, or 0 if the client has disconnected and no response is needed.
	Status int
	// Detail says what to do about the failure. It contains no address.
	Detail string
}

// gatewayTimeout returns the Failure for an upstream that does not respond in time.
func gatewayTimeout() Failure {
	return Failure{Status: http.StatusGatewayTimeout, Detail: "The upstream did not answer in time. Try again later; if " +
		"this goes on, its operator has to be told."}
}

func badGateway(detail string) Failure { return Failure{Status: http.StatusBadGateway, Detail: detail} }

// Explain returns the Failure for the error of a round trip. ctx is the context of the client's request.
func Explain(ctx context.Context, err error) Failure {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Failure{}
	}
	if serviceErr, ok := errors.AsType[*serviceError](err); ok {
		return serviceErr.explain(ctx)
	}
	if errors.Is(err, errAddressRefused) {
		return badGateway("The upstream's host leads to an address that this installation does not allow. Use one that is " +
			"reachable publicly: who runs the installation can allow private addresses, but never link-local ones and those " +
			"where a cloud answers its machines.")
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok && !dns.IsTimeout {
		return badGateway("The upstream's host name can't be resolved. Check the host of the route's upstream address.")
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, context.DeadlineExceeded) {
		return gatewayTimeout()
	}
	if socket.Refused(err) {
		return badGateway("The upstream refuses connections. Check that it is running and that the port of the route's " +
			"upstream address is right.")
	}
	if errors.Is(err, errSwitched) {
		return badGateway(
			"The upstream switched to a protocol that the request did not ask for. Its operator has to be told.")
	}
	if isTLS(err) {
		return badGateway("No secure connection to the upstream can be made. Check its certificate, its host name and that " +
			"its port speaks TLS; if it wants a certificate of its clients, also which one the handler shows, and which CAs " +
			"the upstream trusts.")
	}
	if socket.Closed(err) {
		return badGateway("The upstream closed the connection before it answered. Try again later; if this goes on, its " +
			"operator has to be told.")
	}
	return badGateway("The upstream's answer can't be used: it does not follow HTTP, or its header is too large. Check " +
		"that the route's upstream address is one of an HTTP server.")
}

// isTLS reports whether the error comes from TLS, such as a certificate that is not trusted.
func isTLS(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return true
	}
	// An alert about the client's certificate can arrive after the handshake: in TLS
	// 1.3, a client sends its request before the server has checked the certificate.
	if op, ok := errors.AsType[*net.OpError](err); ok && (op.Op == "remote error" || op.Op == "local error") {
		return true
	}
	if _, ok := errors.AsType[*tls.ECHRejectionError](err); ok {
		return true
	}
	// net/http replaces a tls.RecordHeaderError with an error that has only this text.
	return strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") ||
		strings.HasPrefix(err.Error(), "tls: ")
}
