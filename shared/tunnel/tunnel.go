// Package tunnel carries requests to services in private networks, over connections
// that an agent there has dialled: no port of that network is open (specification
// 4.8, contract 2.8; design, section 7).
//
// An agent dials a relay and asks it, by HTTP, to switch to Protocol; from then on
// the roles are turned round, and the relay asks the agent by HTTP/2 on that
// connection. Streams, trailers, cancellation and flow control are HTTP/2's own. Where a
// proxy lets nothing through but WebSockets, the same bytes go in WebSocket messages.
//
// What it is not: it knows no table, no account and no token's meaning. Who may open a
// tunnel, an Authorizer says, and which services there are, whoever calls
// Link.Configure; a request names its service and is made by a gateway.
//
// Read this file, then link.go with leaving.go and links.go (the relay's end), agent.go (the other
// end), forward.go with hints.go (from the agent to the service) and switched.go (WebSockets
// within). connect.go is how an agent dials, served.go what its server is given.
package tunnel

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Protocol is what an agent asks to switch to (RFC 9110, section 7.8).
const Protocol = "gatewright-tunnel/1"

// webSocket is what it asks for where only that passes; Protocol is the subprotocol then.
const webSocket = "websocket"

// ConnectPath is where a relay is asked.
const ConnectPath = "/connect"

const (
	// pingEvery is how long a connection is silent before its peer is asked whether it
	// is there: proxies and address translators forget connections after a minute.
	pingEvery = 30 * time.Second
	// pingTimeout is how long the answer may take.
	pingTimeout = 15 * time.Second
	// maxStreams is how many requests a connection carries at once.
	maxStreams = 1000
	// streamWindow is how much of a body waits for a slow reader, in bytes; all of a
	// connection's bodies together have connectionWindow. As many readers as have it all stop the
	// others for as long as they are waited for, so it is far more than a few of them take.
	streamWindow     = 512 << 10
	connectionWindow = 32<<20 - 1
	// frameBytes is the largest piece of a body in one frame: each is a call of the kernel, or two.
	frameBytes = 256 << 10
	// maxHeaderBytes bounds the head of a request or an answer.
	maxHeaderBytes = 256 << 10
)

// The fields by which a relay and an agent talk about a request. An agent takes them
// off before the service sees it, a relay off the answer.
const (
	fieldService     = "Gatewright-Tunnel-Service"
	fieldProject     = "Gatewright-Tunnel-Project"
	fieldEnvironment = "Gatewright-Tunnel-Environment"
	// fieldUpgrade is the protocol that the client asks to switch to, which HTTP/2 has no
	// place for; fieldSwitched is the one that the service has switched to.
	fieldUpgrade  = "Gatewright-Tunnel-Upgrade"
	fieldSwitched = "Gatewright-Tunnel-Switched"
	// fieldFailure says that an answer is the agent's own: which Failure it is.
	fieldFailure = "Gatewright-Tunnel-Failure"
)

var fields = []string{fieldService, fieldProject, fieldEnvironment, fieldUpgrade, fieldSwitched, fieldFailure}

// takeOff removes the fields of this package.
func takeOff(h http.Header) {
	for _, name := range fields {
		delete(h, name)
	}
}

// controlHost is the authority of requests to the agent itself.
const controlHost = "agent.gatewright"

// serviceHost is the authority of requests for services.
const serviceHost = "service.gatewright"

// Service is one that a tunnel leads to.
type Service struct {
	Name string `json:"name"`
	// Endpoint is an absolute URL, which requests' paths are appended to.
	Endpoint string `json:"endpoint"`
	// Access lists who may ask it; nobody else may.
	Access []Access `json:"access"`
}

// Access lets the environments of a project ask a service.
type Access struct {
	Project string `json:"project"`
	// Environments are kinds, as contract 3.10 spells them for tunnels: working-copy,
	// preview, production.
	Environments []string `json:"environments"`
}

// Caller is whose request it is.
type Caller struct{ Project, Environment string }

// Allows reports whether a caller may ask the service.
func (s Service) Allows(c Caller) bool {
	return slices.ContainsFunc(s.Access, func(a Access) bool {
		return a.Project == c.Project && slices.Contains(a.Environments, c.Environment)
	})
}

// Failure is why an agent answered in a service's place.
type Failure string

// The failures.
const (
	// UnknownService: the agent knows no service of the name.
	UnknownService Failure = "unknown-service"
	// NotAllowed: the service is not for the caller.
	NotAllowed Failure = "not-allowed"
	// Unreachable: no connection to the service could be made, or it broke before the
	// answer.
	Unreachable Failure = "unreachable"
	// Late: the service did not answer in time.
	Late Failure = "late"
	// Unusable: what the service answered can't be passed on.
	Unusable Failure = "unusable"
)

// failureNamed is the failure that an agent names. One that nobody knows is Unreachable: relays
// have failures of their own, which no agent may tell of in their words.
func failureNamed(text string) Failure {
	switch f := Failure(text); f {
	case UnknownService, NotAllowed, Unreachable, Late, Unusable:
		return f
	}
	return Unreachable
}

// Error is what a round trip answers that ended at the agent.
type Error struct{ Failure Failure }

// Error implements error.
func (e *Error) Error() string { return "tunnel: the agent answers " + string(e.Failure) }

var (
	// ErrNoAgent says that no agent is connected.
	ErrNoAgent = errors.New("tunnel: no agent is connected")
	// ErrBusy is ErrNoAgent where agents are connected, and each connection carries as many
	// requests as it takes.
	ErrBusy = fmt.Errorf("%w that takes another request", ErrNoAgent)
	// ErrBroken says that the connection to the agent ended before the answer, and that
	// the request may have reached the service.
	ErrBroken = errors.New("tunnel: the connection to the agent broke")
	// ErrUnavailable says that no relay could be asked, or none that knows who has the
	// tunnel: the request did not reach the service, and may be sent again.
	ErrUnavailable = errors.New("tunnel: no relay can be asked")
)
