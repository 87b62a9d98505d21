package auth

import "context"

// Viewer reports which resources of an account a caller can see. Principal implements it.
type Viewer interface {
	// CanSeeProject reports whether the caller can see the project, in any of the caller's kinds of environment.
	CanSeeProject(project string) bool
	// CanSee reports whether the caller can see something that belongs to a project and a kind of environment. kind can
	// have any spelling that package environment parses. If project or kind is empty, the thing belongs to none.
	CanSee(project, kind string) bool
}

// Owner is the account whose resources an operation concerns, and the caller's view of these resources.
// Services take an Owner instead of a Principal, because the caller's identity is only for the audit record.
type Owner struct {
	AccountID string
	// Account is the account's name.
	Account string
	Viewer  Viewer
}

// OwnerFrom returns the account of the current operation's caller.
// It panics if no caller was authenticated, as PrincipalFrom does.
func OwnerFrom(ctx context.Context) Owner {
	p := PrincipalFrom(ctx)
	return Owner{AccountID: p.AccountID, Account: p.AccountName, Viewer: p}
}
