// Package pipeline defines how a request is processed inside the gateway: the exchange, and the three kinds
// of stages of a route, which are inbound policies, one handler, and outbound policies (contract 4.1).
//
// The package contains no policies and handlers (see packages policy and handler) and
// no listener: package gateway converts requests into exchanges and writes responses.
// An exchange can also start inside the process, for example for a call of an MCP tool.
//
// Read this file first, then exchange.go.
package pipeline

import (
	"fmt"
	"net/http"
	"time"
)

// Inbound is a policy that runs before the handler.
type Inbound interface {
	// Inbound returns nil to let the exchange through, changed or unchanged. A response ends the
	// exchange: the handler and the outbound policies do not run. Inbound is called concurrently.
	Inbound(x *Exchange) *http.Response
}

// Outbound is a policy that runs after the handler, with its response, unless the response switches protocols.
type Outbound interface {
	// Outbound returns the response to continue with: r itself, changed or unchanged, or another response,
	// after closing r's body. It is called concurrently, and must not delay a body that streams.
	Outbound(x *Exchange, r *http.Response) *http.Response
}

// Opener is an outbound policy that sees every exchange of its route, including those that an inbound policy ends.
type Opener interface {
	// Open is called before all inbound policies. It can call OnResponse to see the exchange's response.
	Open(x *Exchange)
}

// Preparer is an outbound policy that changes or refuses the request for the upstream, before it sees the response.
type Preparer interface {
	// Prepare is called after all inbound policies have let the exchange through. It returns nil to
	// let the exchange through. A response ends the exchange like the response of an inbound policy.
	Prepare(x *Exchange) *http.Response
}

// Handler serves the requests of a route.
type Handler interface {
	// Handle always returns a response, and the caller closes its body.
	// A response of status 101 has a body that is an io.ReadWriteCloser.
	Handle(x *Exchange) *http.Response
}

// Switcher is a handler that lets clients switch their connection to another protocol.
type Switcher interface {
	// Switches reports whether the client requests a protocol that the handler
	// supports. A request for any other protocol is served as an ordinary request.
	Switches(x *Exchange) bool
}

// StatusClientGone is the status of a request whose client disconnected
// before the response, as in nginx. Only logs and metrics show it.
const StatusClientGone = 499

// Route is a provisioned route: everything that a matched request needs.
type Route struct {
	// Info describes the route for logs, receipts of quotas, analytics and problems.
	Info     Info
	Inbound  []Inbound
	Handler  Handler
	Outbound []Outbound
	// Description describes the route's requests and responses. It is nil if no policy of the route validates them.
	Description *Description
	// InboundNames and OutboundNames are the project's names of the policies, in their order; nil if no names are needed.
	InboundNames, OutboundNames []string
}

// nameOf returns the project's name of a policy, "" for one without a name.
func nameOf(names []string, i int) string {
	if i >= len(names) {
		return ""
	}
	return names[i]
}

// Info identifies a route: an operation of a deployment.
type Info struct {
	OperationID string
	Method      string
	Path        string // the template, such as /todos/{id}
	// Project and Deployment are names, Account is an ID.
	Account, Project, Environment, Deployment, BuildID string
}

// Run sends an exchange through the route and returns the response. It
// does not recover panics: the gateway does that for the whole request.
func (r *Route) Run(x *Exchange) *http.Response {
	response := r.runPolicies(x)
	if response == nil && x.Admit != nil {
		response = x.Admit()
	}
	if response != nil {
		x.callOnResponse(response, false)
		return x.ApplyResponseFields(response)
	}
	if x.EnableStreaming != nil {
		x.EnableStreaming()
	}
	var start time.Time
	if x.Now != nil {
		start = x.Now()
	}
	response = r.Handler.Handle(x)
	if x.Now != nil {
		x.UpstreamLatency = x.Now().Sub(start)
	}
	if response == nil {
		panic(fmt.Sprintf("pipeline: the handler %T of %s %s answered nothing", r.Handler, r.Info.Method, r.Info.Path))
	}
	x.callOnResponse(response, true)
	if response.StatusCode == http.StatusSwitchingProtocols {
		// After this response, the connection belongs to the two peers. Outbound policies do not see it.
		return response
	}
	for _, policy := range r.Outbound {
		response = policy.Outbound(x, response)
	}
	return x.ApplyResponseFields(response)
}

// runPolicies runs the policies before the handler. It returns nil if all let the
// exchange through, and otherwise the response that ends the exchange.
func (r *Route) runPolicies(x *Exchange) *http.Response {
	for _, policy := range r.Outbound {
		if opener, ok := policy.(Opener); ok {
			opener.Open(x)
		}
	}
	for i, policy := range r.Inbound {
		if response := policy.Inbound(x); response != nil {
			x.RefusedBy = nameOf(r.InboundNames, i)
			return response
		}
	}
	for i, policy := range r.Outbound {
		if preparer, ok := policy.(Preparer); ok {
			if response := preparer.Prepare(x); response != nil {
				x.RefusedBy = nameOf(r.OutboundNames, i)
				return response
			}
		}
	}
	return x.writeBody()
}
