// Package tunnel forwards requests to services in private networks. An agent in
// such a network dials the connections over which the requests arrive, so the
// network needs no open port (specification 4.8, contract 2.8; design, section 7).
//
// An agent connects to a relay and requests, by HTTP, a switch to Protocol. After the switch, the roles are
// reversed: the relay sends HTTP/2 requests to the agent on that connection. HTTP/2 provides streams, trailers,
// cancellation and flow control. If a proxy allows only WebSockets, the same bytes are sent in WebSocket messages.
//
// The package does not use tables or accounts, and does not interpret tokens. An Authorizer
// decides which agents can connect for a tunnel. RelayOptions.Services provides the
// services of a tunnel. A gateway sends the requests, and each request names its service.
//
// Read this file first, then relay.go with link.go, disconnect.go and links.go (the relay's end), agent.go (the
// agent's end), forward.go with hints.go (from the agent to the service) and upgrade.go (WebSockets in a tunnel).
// connect.go dials, and listener.go has the listener of the agent's server.
package tunnel

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Protocol is the name of the protocol that an agent switches to (RFC 9110, section 7.8).
const Protocol = "gatewright-tunnel/1"

// webSocket is the protocol that an agent switches to if proxies allow
// only WebSockets. Protocol is then the subprotocol of the WebSocket.
const webSocket = "websocket"

// ConnectPath is the path of the relay to which agents connect.
const ConnectPath = "/connect"

const (
	// pingInterval is the time without data after which one end of a connection pings the
	// other: proxies and address translators drop connections that are idle for a minute.
	pingInterval = 30 * time.Second
	// pingTimeout is the maximum time until the response to a ping.
	pingTimeout = 15 * time.Second
	// maxStreams is the maximum number of concurrent requests on a connection.
	maxStreams = 1000
	// streamWindow is the maximum number of bytes of one body that wait for a slow reader.
	// connectionWindow is the maximum for all bodies of a connection together. If slow readers
	// use up connectionWindow, all other requests on the connection stop until these readers
	// continue. connectionWindow is therefore far larger than a few slow readers need.
	streamWindow     = 512 << 10
	connectionWindow = 32<<20 - 1
	// frameBytes is the maximum size of a frame of a body. It is
	// large because each frame needs one or two system calls.
	frameBytes = 256 << 10
	// maxHeaderBytes is the maximum size of the head of a request or a response.
	maxHeaderBytes = 256 << 10
)

// The header fields that a relay and an agent use for their own data about a request. An agent
// removes them before the service sees the request, and a relay removes them from the response.
const (
	fieldService     = "Gatewright-Tunnel-Service"
	fieldProject     = "Gatewright-Tunnel-Project"
	fieldEnvironment = "Gatewright-Tunnel-Environment"
	// fieldUpgrade is the protocol that the client wants to switch to, since HTTP/2 has
	// no field for it. fieldSwitched is the protocol that the service has switched to.
	fieldUpgrade  = "Gatewright-Tunnel-Upgrade"
	fieldSwitched = "Gatewright-Tunnel-Switched"
	// fieldFailure marks a response of the agent itself and names its Failure.
	fieldFailure = "Gatewright-Tunnel-Failure"
)

// fields are all of these header fields.
var fields = []string{fieldService, fieldProject, fieldEnvironment, fieldUpgrade, fieldSwitched, fieldFailure}

// removeFields removes the fields of this package.
func removeFields(h http.Header) {
	for _, name := range fields {
		delete(h, name)
	}
}

// controlHost is the authority of requests to the agent itself.
const controlHost = "agent.gatewright"

// serviceHost is the authority of requests for services.
const serviceHost = "service.gatewright"

// Service is a service that is reachable through a tunnel.
type Service struct {
	Name string `json:"name"`
	// Endpoint is an absolute URL. Paths of requests are appended to it.
	Endpoint string `json:"endpoint"`
	// Access lists the callers that are allowed to use the service. All others are refused.
	Access []Access `json:"access"`
}

// Access allows environments of a project to call a service.
type Access struct {
	Project string `json:"project"`
	// Environments are kinds of environments, in the spelling of
	// contract 3.10 for tunnels: working-copy, preview, production.
	Environments []string `json:"environments"`
}

// Caller is the project and the environment that a request comes from.
type Caller struct{ Project, Environment string }

// Allows reports whether a caller is allowed to use the service.
func (s Service) Allows(c Caller) bool {
	return slices.ContainsFunc(s.Access, func(a Access) bool {
		return a.Project == c.Project && slices.Contains(a.Environments, c.Environment)
	})
}

// Failure is the reason why an agent responded in place of a service.
type Failure string

// The failures.
const (
	// UnknownService means that the agent has no service with this name.
	UnknownService Failure = "unknown-service"
	// NotAllowed means that the caller is not allowed to use the service.
	NotAllowed Failure = "not-allowed"
	// Unreachable means that the agent could not connect to the service, or that the connection broke before the response.
	Unreachable Failure = "unreachable"
	// TimedOut means that the service did not respond in time.
	TimedOut Failure = "late"
	// Unusable means that the service's response cannot be forwarded.
	Unusable Failure = "unusable"
)

// parseFailure returns the failure that an agent names. Unknown names become Unreachable:
// relays have other failures, and an agent must not be able to report those.
func parseFailure(text string) Failure {
	switch f := Failure(text); f {
	case UnknownService, NotAllowed, Unreachable, TimedOut, Unusable:
		return f
	}
	return Unreachable
}

// Error means that the agent itself responded to a request, in place of the service. It also reports a service that
// switched protocols without a request to do so.
type Error struct{ Failure Failure }

// Error implements error.
func (e *Error) Error() string { return "tunnel: the agent answers " + string(e.Failure) }

var (
	// ErrNoAgent means that no agent is connected.
	ErrNoAgent = errors.New("tunnel: no agent is connected")
	// ErrBusy is an ErrNoAgent: agents are connected, but each connection already has its maximum number of requests.
	ErrBusy = fmt.Errorf("%w that takes another request", ErrNoAgent)
	// ErrBroken means that the connection to the agent ended before the response, and that the request could have reached
	// the service.
	ErrBroken = errors.New("tunnel: the connection to the agent broke")
	// ErrUnavailable means that no relay could be reached, or that it is unknown which
	// relay has the tunnel. The request did not reach the service and can be sent again.
	ErrUnavailable = errors.New("tunnel: no relay can be asked")
)
