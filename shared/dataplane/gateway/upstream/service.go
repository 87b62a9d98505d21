package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// Services sends requests to services behind tunnels.
type Services interface {
	// RoundTrip sends a request to a service of an account, on behalf of c. service is the exact name of the service.
	// It uses only the path and the query of r's URL, and appends them to the service's endpoint. It may change r's
	// header. A response of status 101 has a body that is an io.ReadWriteCloser. RoundTrip reports to the httptrace of
	// r's context when the request was written, and 1xx responses.
	//
	// If the error is a *tunnel.Error, tunnel.ErrNoAgent or tunnel.ErrBroken, it says why the request has
	// failed. Any other error means that the relay could not be called, or is the cause of r's context.
	RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error)
}

// errNoRelay is the error of calling a service if the installation has no relay.
var errNoRelay = errors.New("upstream: the installation has no relay")

// serviceError wraps an error of Services.
type serviceError struct{ err error }

func (e *serviceError) Error() string { return e.err.Error() }

func (e *serviceError) Unwrap() error { return e.err }

// WithCaller returns an Account that calls services with the identity c. It shares connections with the other requests of the account.
func (a *Account) WithCaller(c tunnel.Caller) *Account {
	out := *a
	out.caller = c
	return &out
}

// sendToService sends a request to a service behind a tunnel. It neither resolves
// nor dials the service's name: without Services, it returns an error.
func (a *Account) sendToService(
	r *http.Request, onInformational func(status int, header http.Header),
) (*http.Response, error) {
	if a.client.services == nil {
		return nil, &serviceError{errNoRelay}
	}
	if err := validateRequest(r); err != nil {
		return nil, err
	}
	hints := informational{handle: onInformational, recorder: new(headRecorder)}
	defer hints.stop()
	timer := responseTimer{responseTimeout: a.timeout, bodyTimeout: max(a.timeout, a.client.timeout)}
	out := timer.watch(hints.watch(r))
	target := *r.URL
	target.Scheme = "http" // http.Transport supports no scheme for services
	out.URL, out.Header = &target, r.Header.Clone()
	// Until the request is written, the time limit is bodyTimeout. For a request to switch
	// protocols, the end of the request is not reported, so responseTimeout starts immediately.
	initial := timer.bodyTimeout
	switched := func() {}
	if r.Header["Upgrade"] != nil {
		initial = timer.responseTimeout
		out, switched = detachOnSwitch(out)
	}
	timer.start(initial)
	response, err := a.client.services.RoundTrip(out, a.identity.account, r.URL.Host, a.caller)
	if timer.stop() {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, errResponseTimeout
	}
	if err != nil {
		return nil, &serviceError{fmt.Errorf("service %s: %w", r.URL.Host, err)}
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		switched()
	} else {
		// The response has arrived over HTTP/2, although its Proto says
		// HTTP/1.1. So it can have trailers that it does not announce.
		response.Proto, response.ProtoMajor, response.ProtoMinor = "HTTP/2.0", 2, 0
	}
	return checkResponse(response, r)
}

// detachOnSwitch returns a request whose context ends with the context of r until switched is
// called. After a switch of protocols, the connection must end only when it is closed: the client's
// request ends when the client has sent everything, but the client may still wait for data.
func detachOnSwitch(r *http.Request) (out *http.Request, switched func()) {
	parent := r.Context()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() { cancel(context.Cause(parent)) })
	return r.WithContext(ctx), func() { stop() }
}

// explain returns the Failure for the error. ctx is the context of the client's request, which the client has not canceled.
func (e *serviceError) explain(ctx context.Context) Failure {
	if ctx.Err() != nil {
		return gatewayTimeout()
	}
	if tunnelErr, ok := errors.AsType[*tunnel.Error](e.err); ok {
		return agentFailure(tunnelErr.Failure)
	}
	switch {
	case errors.Is(e.err, errNoRelay):
		return badGateway("This installation has no relay, so that no service behind a tunnel can be asked. Who runs the " +
			"installation can start one.")
	case errors.Is(e.err, tunnel.ErrBusy):
		return Failure{Status: http.StatusServiceUnavailable, Detail: "The connections of the tunnel's agents carry as " +
			"many requests as they can: 1000 each, WebSockets and streams included. Repeat the request in a few seconds, or " +
			"start another agent with the tunnel's token."}
	case errors.Is(e.err, tunnel.ErrNoAgent):
		return Failure{Status: http.StatusServiceUnavailable, Detail: "No agent of the service's tunnel is connected. " +
			"Start one where the service is, with the tunnel's token, and repeat the request."}
	case errors.Is(e.err, tunnel.ErrBroken):
		return badGateway("The connection to the tunnel's agent broke before the service answered, which may have got the " +
			"request. Repeat it where that is safe; if this goes on, the agent's log has to be read.")
	}
	return Failure{Status: http.StatusServiceUnavailable, Detail: "The service's tunnel can't be looked up or its relay " +
		"can't be asked now. Repeat the request in a few seconds."}
}

// agentFailure returns the Failure for a failure that an agent reports. If the project is not allowed to call the
// service, the status is 502: the upstream address is wrong, but after a 403 the client would check its own key.
func agentFailure(f tunnel.Failure) Failure {
	switch f {
	case tunnel.UnknownService:
		return badGateway("No tunnel of the account has a service of this name. Check the name in the route's upstream " +
			"address, capitals included; a service that was just configured is there within seconds.")
	case tunnel.NotAllowed:
		return badGateway("The service is not for this environment of the project. Check the service's configurations: " +
			"they have to list the project and the kind of the environment.")
	case tunnel.TimedOut:
		return gatewayTimeout()
	case tunnel.Unusable:
		return badGateway("The service's answer can't be passed on: it switched protocols unasked, its status is none, or " +
			"its header is too large. The agent's log says which.")
	case tunnel.Unreachable:
	}
	return badGateway("The tunnel's agent can't reach the service, or the service closed the connection before it " +
		"answered. Check that it is running and that the agent's machine reaches its endpoint.")
}
