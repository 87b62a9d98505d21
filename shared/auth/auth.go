// Package auth holds the caller of a management operation, and decides what its
// account key allows (specification 5, contract 3.9).
//
// Read auth.go, then owner.go: what services are told of a caller. scope.go has
// the scopes.
//
// It decides nothing about particular resources: package api refuses a missing
// scope, the services ask MaySee about the projects and environments they find.
package auth

import (
	"context"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/store"

	"github.com/gatewright/gatewright/shared/environment"
)

// AllProjects in Permissions.Projects means every project, those to come too.
const AllProjects = "*"

// Permissions are what an account key allows. They never change.
type Permissions struct {
	store.Rest

	// Projects are names, or AllProjects alone.
	Projects []string `dynamodbav:"projects"`
	// Environments are the kinds of environment.
	Environments []environment.Kind `dynamodbav:"environments"`
	// Scopes are the operations, by resource and direction.
	Scopes []Scope `dynamodbav:"scopes"`
	// Confirm has a person confirm what removes or replaces something where the key is used through MCP.
	Confirm bool `dynamodbav:"confirm,omitempty"`
}

// Full allows everything.
func Full() Permissions {
	return Permissions{Projects: []string{AllProjects}, Environments: environment.Kinds(), Scopes: Scopes()}
}

// Allows reports whether the scope is among them. A write scope holds the read
// scope of its resource.
func (p Permissions) Allows(s Scope) bool {
	return slices.Contains(p.Scopes, s) || s.Direction() == Read && slices.Contains(p.Scopes, s.Resource().Write())
}

// Lacks names the fields in which p allows less than q does: "scopes", "projects",
// "environments" and "confirmDestructive", none where p allows all that q does.
func (p Permissions) Lacks(q Permissions) (fields []string) {
	if slices.ContainsFunc(q.Scopes, func(s Scope) bool { return !p.Allows(s) }) {
		fields = append(fields, "scopes")
	}
	if !p.HasAllProjects() && slices.ContainsFunc(q.Projects, func(name string) bool { return !slices.Contains(p.Projects, name) }) {
		fields = append(fields, "projects")
	}
	if slices.ContainsFunc(q.Environments, func(k environment.Kind) bool { return !slices.Contains(p.Environments, k) }) {
		fields = append(fields, "environments")
	}
	if p.Confirm && !q.Confirm {
		fields = append(fields, "confirmDestructive")
	}
	return fields
}

// HasAllScopes reports whether every scope that there is is among them.
func (p Permissions) HasAllScopes() bool {
	return !slices.ContainsFunc(Scopes(), func(s Scope) bool { return !p.Allows(s) })
}

// HasAllProjects reports whether they are not limited to some projects.
func (p Permissions) HasAllProjects() bool { return slices.Contains(p.Projects, AllProjects) }

// IsFull reports whether p allows everything, if a person confirms it or not.
func (p Permissions) IsFull() bool {
	p.Confirm = false
	return len(p.Lacks(Full())) == 0
}

// Principal is the caller of an operation.
type Principal struct {
	// AccountID and AccountName are of the only account that the key sees.
	AccountID   string
	AccountName string
	// KeyID identifies the account key, in audit records and as `sub`.
	KeyID string
	// Label is the key's own name, for people.
	Label string
	// ExpiresOn is when the key stops working, nil for never.
	ExpiresOn *time.Time
	// Credential is the hash of the key's text, by which the key is known where its text is not.
	Credential string
	// Session is what the request was made with, nil for the key itself.
	Session *Session

	Permissions Permissions
}

// Session is what stands for an account key in a browser. It may what its key may, and ends no later.
type Session struct {
	// ID names it, in audit records.
	ID string
	// Hash is that of its token, by which it is found.
	Hash string
	// CreatedOn is when it was made, EndsOn when it ends however much it is used, IdleOn when it ends unless it is used before.
	CreatedOn, EndsOn, IdleOn time.Time
	// Polled says that its page makes the request by itself, so that it is no use of the session.
	Polled bool
}

// Allows reports whether the key has the scope.
func (p Principal) Allows(s Scope) bool { return p.Permissions.Allows(s) }

// SeesProject reports whether the project is within the key's projects, in at
// least one environment.
func (p Principal) SeesProject(project string) bool {
	return p.SeesAllProjects() || slices.Contains(p.Permissions.Projects, project)
}

// SeesAllProjects reports whether the key is not limited to some projects.
func (p Principal) SeesAllProjects() bool { return p.Permissions.HasAllProjects() }

// SeesEnvironment reports whether the kind is within the key's environments.
func (p Principal) SeesEnvironment(kind environment.Kind) bool {
	return slices.Contains(p.Permissions.Environments, kind)
}

// MaySee reports whether the key reaches something that belongs to a project's
// environment of a kind (any spelling of package environment). An empty
// project or kind means that the thing belongs to none, and only a key without
// limits in that respect reaches it.
func (p Principal) MaySee(project, kind string) bool {
	if project == "" && !p.SeesAllProjects() || project != "" && !p.SeesProject(project) {
		return false
	}
	if kind == "" {
		return !slices.ContainsFunc(environment.Kinds(), func(k environment.Kind) bool { return !p.SeesEnvironment(k) })
	}
	k, ok := environment.Parse(kind)
	return ok && p.SeesEnvironment(k)
}

type contextKey struct{}

// With puts the caller into the context.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From returns the caller of the running operation. It panics where none was
// authenticated: a public operation has no business asking.
func From(ctx context.Context) Principal {
	p, ok := ctx.Value(contextKey{}).(Principal)
	if !ok {
		panic("auth: nobody was authenticated: the operation is public")
	}
	return p
}
