package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// Services carries requests to services behind tunnels.
type Services interface {
	// RoundTrip sends a request to the service of an account that has exactly this name, on
	// behalf of c. Of r's URL only the path and the query count, which are appended to the service's
	// endpoint; r's header belongs to RoundTrip. A response of status 101 has a body that is an
	// io.ReadWriteCloser. When the request was written, and of 1xx responses, the httptrace of r's
	// context is told.
	//
	// An *tunnel.Error, tunnel.ErrNoAgent and tunnel.ErrBroken say what became of the request; any
	// other error that the relay could not be asked, or the cause of r's context.
	RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error)
}

// errNoRelay is what asking for a service is where nobody carries requests to any.
var errNoRelay = errors.New("upstream: the installation has no relay")

// serviceError is what asking for a service ended with, in Services' words.
type serviceError struct{ err error }

func (e *serviceError) Error() string { return e.err.Error() }

func (e *serviceError) Unwrap() error { return e.err }

// Calling returns the way of those of the account's requests that a caller makes, who is who
// services are asked by. Connections are those of all others.
func (a *Account) Calling(c tunnel.Caller) *Account {
	out := *a
	out.caller = c
	return &out
}

// serve asks a service behind a tunnel. Nothing is looked up or dialled here, whatever
// the service is called: without Services, there are none.
func (a *Account) serve(r *http.Request, onInformational func(status int, header http.Header)) (*http.Response, error) {
	if a.client.services == nil {
		return nil, &serviceError{errNoRelay}
	}
	if err := valid(r); err != nil {
		return nil, err
	}
	e := informational{handle: onInformational, tap: new(tap)}
	defer e.stop()
	w := wait{limit: a.wait, sending: max(a.wait, a.client.wait)}
	asked := w.watch(e.watch(r))
	at := *r.URL
	at.Scheme = "http" // for transports, which know no other
	asked.URL, asked.Header = &at, r.Header.Clone()
	// Until the request is written, the relay has as long as for a part of its body. One that asks
	// for another protocol is never written to its end.
	first := w.sending
	switched := func() {}
	if r.Header["Upgrade"] != nil {
		first = w.limit
		asked, switched = outlasting(asked)
	}
	w.begin(first)
	response, err := a.client.services.RoundTrip(asked, a.way.account, r.URL.Host, a.caller)
	if w.stop() {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, errLate
	}
	if err != nil {
		return nil, &serviceError{fmt.Errorf("service %s: %w", r.URL.Host, err)}
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		switched()
	} else {
		// It came by HTTP/2, whatever it says: trailers may follow that it does not announce.
		response.Proto, response.ProtoMajor, response.ProtoMinor = "HTTP/2.0", 2, 0
	}
	return checked(response, r)
}

// outlasting gives a request whose context ends with r's until it has switched protocols, which it is
// told: from then on there is a connection, which ends by being closed. A client that has said all that it
// has to say ends its request, and still waits for the answer.
func outlasting(r *http.Request) (out *http.Request, switched func()) {
	asking := r.Context()
	ctx, end := context.WithCancelCause(context.WithoutCancel(asking))
	stop := context.AfterFunc(asking, func() { end(context.Cause(asking)) })
	return r.WithContext(ctx), func() { stop() }
}

// explain turns the error into a Failure. ctx is that of the client's request, which the
// client has not ended.
func (e *serviceError) explain(ctx context.Context) Failure {
	if ctx.Err() != nil {
		return tooLate()
	}
	if its, ok := errors.AsType[*tunnel.Error](e.err); ok {
		return ofAgent(its.Failure)
	}
	switch {
	case errors.Is(e.err, errNoRelay):
		return bad("This installation has no relay, so that no service behind a tunnel can be asked. Who runs the installation can start one.")
	case errors.Is(e.err, tunnel.ErrBusy):
		return Failure{Status: http.StatusServiceUnavailable, Detail: "The connections of the tunnel's agents carry as many requests as they can: 1000 each, WebSockets and streams included. Repeat the request in a few seconds, or start another agent with the tunnel's token."}
	case errors.Is(e.err, tunnel.ErrNoAgent):
		return Failure{Status: http.StatusServiceUnavailable, Detail: "No agent of the service's tunnel is connected. Start one where the service is, with the tunnel's token, and repeat the request."}
	case errors.Is(e.err, tunnel.ErrBroken):
		return bad("The connection to the tunnel's agent broke before the service answered, which may have got the request. Repeat it where that is safe; if this goes on, the agent's log has to be read.")
	}
	return Failure{Status: http.StatusServiceUnavailable, Detail: "The service's tunnel can't be looked up or its relay can't be asked now. Repeat the request in a few seconds."}
}

// ofAgent is what an agent's end of a request means for the client. That the project may not
// ask is the upstream address's fault and not the client's: by a 403 a client would look at its own
// key.
func ofAgent(f tunnel.Failure) Failure {
	switch f {
	case tunnel.UnknownService:
		return bad("No tunnel of the account has a service of this name. Check the name in the route's upstream address, capitals included; a service that was just configured is there within seconds.")
	case tunnel.NotAllowed:
		return bad("The service is not for this environment of the project. Check the service's configurations: they have to list the project and the kind of the environment.")
	case tunnel.Late:
		return tooLate()
	case tunnel.Unusable:
		return bad("The service's answer can't be passed on: it switched protocols unasked, its status is none, or its header is too large. The agent's log says which.")
	case tunnel.Unreachable:
	}
	return bad("The tunnel's agent can't reach the service, or the service closed the connection before it answered. Check that it is running and that the agent's machine reaches its endpoint.")
}
