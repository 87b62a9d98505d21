package gateway

import (
	"github.com/gatewright/gatewright/shared/gateway/handler"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
)

// Catalogue tells the compiler of projects which handlers and policies there
// are and what is wrong with their options. The zero value is ready.
type Catalogue struct{}

var _ project.Catalogue = Catalogue{}

// CheckHandler returns what is wrong with a route's handler.
func (Catalogue) CheckHandler(c project.Component) []project.Problem { return handler.Check(c) }

// CheckPolicy returns what is wrong with a policy.
func (Catalogue) CheckPolicy(p project.Policy) []project.Problem { return policy.Check(p) }

// DoubtInbound returns what is probably not meant of a route's inbound policies.
func (Catalogue) DoubtInbound(all []project.Policy) map[int]string { return policy.DoubtInbound(all) }

// Verify returns what would keep a gateway from serving an artifact: it makes
// everything ready as a gateway does, without connecting to anything. It finds
// what the Catalogue can't, which is asked about components alone: addresses
// made of variables, parameters that a path has not, policies on the wrong side.
// A build that Verify has no problem with never fails to initialise.
func Verify(a *project.Artifact) []project.Problem {
	keys := policy.NewKeyCache(nil, 1, [32]byte{}, nil)
	return newSite(a, installation{
		handler: handler.Setup{Upstream: &upstream.Account{}, Unbound: true},
		policy:  policy.Setup{Keys: keys},
	}).problems
}
