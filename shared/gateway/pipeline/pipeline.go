// Package pipeline is what a request travels through inside the gateway: the
// exchange, and the three kinds of station that may stand on a route: inbound
// policies, one handler, outbound policies (contract 4.1).
//
// It holds no station itself (packages policy and handler do) and knows no
// listener: package gateway makes exchanges of requests and writes responses.
// An exchange can also be made inside the process, as calls of MCP tools are.
//
// Read this file, then exchange.go.
package pipeline

import (
	"fmt"
	"net/http"
	"time"
)

// Inbound is a policy that a request passes on its way to the handler.
type Inbound interface {
	// Inbound answers nil to let the exchange go on, changed or not. A response
	// ends it there: the handler is not called, outbound policies are not run.
	// It is called by many requests at once.
	Inbound(x *Exchange) *http.Response
}

// Outbound is a policy that a response passes on its way to the client.
type Outbound interface {
	// Outbound answers the response to go on with: r itself, changed or not, or
	// another one, after closing r's body. It is called by many requests at
	// once and must not hold back a body that streams.
	Outbound(x *Exchange, r *http.Response) *http.Response
}

// Opener is an outbound policy that has to know of every exchange of its route, of those too
// which an inbound policy ends.
type Opener interface {
	// Open is called before all inbound policies. After is there for what comes of the
	// exchange.
	Open(x *Exchange)
}

// Preparer is an outbound policy that has a say in what is asked for, before it looks at the
// answer.
type Preparer interface {
	// Prepare is called when all inbound policies have let the exchange go on. A response ends
	// it there, as one of theirs does.
	Prepare(x *Exchange) *http.Response
}

// Handler answers the request of a route.
type Handler interface {
	// Handle always answers a response; its body is the caller's to close. A
	// response of status 101 has a body that is an io.ReadWriteCloser.
	Handle(x *Exchange) *http.Response
}

// Switcher is a handler that lets clients switch their connection to another protocol.
type Switcher interface {
	// Switches reports whether the exchange, as its client has sent it, asks for a protocol that the handler leads to. Any other is
	// answered as if it had not asked.
	Switches(x *Exchange) bool
}

// StatusClientGone is the status of a request that nobody waited for any more: it is nginx's word for it, and seen
// by observers only.
const StatusClientGone = 499

// Route is a provisioned route: everything a matched request needs.
type Route struct {
	// Info names the route for logs, allowances and problems.
	Info     Info
	Inbound  []Inbound
	Handler  Handler
	Outbound []Outbound
	// InboundNames and OutboundNames are what the project calls the policies, in their order; nil where nobody asks.
	InboundNames, OutboundNames []string
}

// nameOf is what a project calls a policy, "" for one without a name.
func nameOf(names []string, i int) string {
	if i >= len(names) {
		return ""
	}
	return names[i]
}

// Info says which operation of which deployment a route is.
type Info struct {
	OperationID string
	Method      string
	Path        string // the template, such as /todos/{id}
	// Project and Deployment name where it is served; Account is an id.
	Account, Project, Environment, Deployment, BuildID string
}

// Run sends an exchange through the route. A panic of a station is not caught
// here: the gateway does that for the whole request.
func (r *Route) Run(x *Exchange) *http.Response {
	response := r.ask(x)
	if response == nil && x.Admit != nil {
		response = x.Admit()
	}
	if response != nil {
		x.settle(response, false)
		return x.Told(response)
	}
	if x.Streaming != nil {
		x.Streaming()
	}
	var start time.Time
	if x.Now != nil {
		start = x.Now()
	}
	response = r.Handler.Handle(x)
	if x.Now != nil {
		x.Waited = x.Now().Sub(start)
	}
	if response == nil {
		panic(fmt.Sprintf("pipeline: the handler %T of %s %s answered nothing", r.Handler, r.Info.Method, r.Info.Path))
	}
	x.settle(response, true)
	if response.StatusCode == http.StatusSwitchingProtocols {
		// From here on the bytes are the peers' own.
		return response
	}
	for _, policy := range r.Outbound {
		response = policy.Outbound(x, response)
	}
	return x.Told(response)
}

// ask sends the request past the policies, nil for one that may go to the handler.
func (r *Route) ask(x *Exchange) *http.Response {
	for _, policy := range r.Outbound {
		if opener, ok := policy.(Opener); ok {
			opener.Open(x)
		}
	}
	for i, policy := range r.Inbound {
		if response := policy.Inbound(x); response != nil {
			x.Refused = nameOf(r.InboundNames, i)
			return response
		}
	}
	for i, policy := range r.Outbound {
		if preparer, ok := policy.(Preparer); ok {
			if response := preparer.Prepare(x); response != nil {
				x.Refused = nameOf(r.OutboundNames, i)
				return response
			}
		}
	}
	return x.writeBody()
}
