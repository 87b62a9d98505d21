// Package auth describes the caller of a management operation, and decides
// what the caller's account key allows (specification 5, contract 3.9).
//
// Read auth.go, then owner.go, which has the part of a caller that services see. scope.go has the scopes.
//
// The package does not decide about particular resources: package api refuses requests with a
// missing scope, and the services call CanSee for the projects and environments that they find.
package auth

import (
	"context"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"

	"github.com/gatewright/gatewright/shared/format/environment"
)

// AllProjects in Permissions.Projects means every project, including future ones.
const AllProjects = "*"

// Permissions are the permissions of an account key. They never change after the key is created.
type Permissions struct {
	store.UnknownAttributes

	// Projects are the names of the allowed projects, or only AllProjects.
	Projects []string `dynamodbav:"projects"`
	// Environments are the allowed kinds of environment.
	Environments []environment.Kind `dynamodbav:"environments"`
	// Scopes are the allowed operations, by resource and direction.
	Scopes []Scope `dynamodbav:"scopes"`
	// Confirm requires confirmation by a person for deletions and replacements if the key is used through MCP.
	Confirm bool `dynamodbav:"confirm,omitempty"`
}

// Full returns the permissions that allow everything.
func Full() Permissions {
	return Permissions{Projects: []string{AllProjects}, Environments: environment.Kinds(), Scopes: Scopes()}
}

// Allows reports whether the permissions include the scope. A write scope includes the read scope of its resource.
func (p Permissions) Allows(s Scope) bool {
	return slices.Contains(p.Scopes, s) || s.Direction() == Read && slices.Contains(p.Scopes, s.Resource().Write())
}

// MissingFields returns the names of the fields that allow less in p than in q: "scopes", "projects",
// "environments" and "confirmDestructive". It returns none if p allows everything that q allows.
func (p Permissions) MissingFields(q Permissions) (fields []string) {
	if slices.ContainsFunc(q.Scopes, func(s Scope) bool { return !p.Allows(s) }) {
		fields = append(fields, "scopes")
	}
	if !p.HasAllProjects() && slices.ContainsFunc(q.Projects, func(name string) bool {
		return !slices.Contains(p.Projects, name)
	}) {
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

// HasAllScopes reports whether the permissions include every scope.
func (p Permissions) HasAllScopes() bool {
	return !slices.ContainsFunc(Scopes(), func(s Scope) bool { return !p.Allows(s) })
}

// HasAllProjects reports whether the permissions include all projects.
func (p Permissions) HasAllProjects() bool { return slices.Contains(p.Projects, AllProjects) }

// IsFull reports whether p allows everything, with or without confirmation by a person.
func (p Permissions) IsFull() bool {
	p.Confirm = false
	return len(p.MissingFields(Full())) == 0
}

// Principal is the caller of an operation.
type Principal struct {
	// AccountID and AccountName identify the only account that the key can access.
	AccountID   string
	AccountName string
	// KeyID identifies the account key, in audit records and as `sub`.
	KeyID string
	// Label is the key's name, for people.
	Label string
	// ExpiresOn is when the key expires, nil for never.
	ExpiresOn *time.Time
	// Credential is the hash of the key's text. It identifies the key in places that must not store the text.
	Credential string
	// Session is the session of the request, nil if the request was made with the key itself.
	Session *Session

	Permissions Permissions
}

// Session represents an account key in a browser. It has the permissions of its key, and ends no later than the key.
type Session struct {
	// ID identifies the session in audit records.
	ID string
	// Hash is the hash of the session's token, for lookups.
	Hash string
	// CreatedOn is when the session was created. ExpiresOn is when the session ends
	// even if it is used. IdleExpiresOn is when it ends unless it is used before.
	CreatedOn, ExpiresOn, IdleExpiresOn time.Time
	// Polled means that the page sends the request automatically, so the request does not count as a use of the session.
	Polled bool
}

// Allows reports whether the key has the scope.
func (p Principal) Allows(s Scope) bool { return p.Permissions.Allows(s) }

// CanSeeProject reports whether the key includes the project. It does not check the kinds of environment.
func (p Principal) CanSeeProject(project string) bool {
	return p.CanSeeAllProjects() || slices.Contains(p.Permissions.Projects, project)
}

// CanSeeAllProjects reports whether the key includes all projects.
func (p Principal) CanSeeAllProjects() bool { return p.Permissions.HasAllProjects() }

// CanSeeEnvironment reports whether the key includes the kind of environment.
func (p Principal) CanSeeEnvironment(kind environment.Kind) bool {
	return slices.Contains(p.Permissions.Environments, kind)
}

// CanSee reports whether the key can access something that belongs to a project and a kind of environment (in any
// spelling that package environment parses). If project is empty, the thing belongs to no project, and
// only a key with all projects can access it. If kind is empty, only a key with all kinds can access it.
func (p Principal) CanSee(project, kind string) bool {
	if project == "" && !p.CanSeeAllProjects() || project != "" && !p.CanSeeProject(project) {
		return false
	}
	if kind == "" {
		return !slices.ContainsFunc(environment.Kinds(), func(k environment.Kind) bool { return !p.CanSeeEnvironment(k) })
	}
	k, ok := environment.Parse(kind)
	return ok && p.CanSeeEnvironment(k)
}

type contextKey struct{}

// WithPrincipal returns a context with the caller.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// PrincipalFrom returns the caller of the current operation. It panics
// if no caller was authenticated, so public operations must not call it.
func PrincipalFrom(ctx context.Context) Principal {
	p, ok := ctx.Value(contextKey{}).(Principal)
	if !ok {
		panic("auth: nobody was authenticated: the operation is public")
	}
	return p
}
