package auth

import "context"

// Viewer says what of an account a caller may see; Principal does.
type Viewer interface {
	// SeesProject reports whether the caller sees the project in at least one
	// kind of environment.
	SeesProject(project string) bool
	// MaySee reports whether the caller sees what belongs to a project's kind of
	// environment, in any spelling of package environment. An empty project or
	// kind asks about a thing that belongs to none.
	MaySee(project, kind string) bool
}

// Owner is the account whose things an operation is about, and what of them its
// caller may see. Services take it in place of the caller: who asked is for the
// audit record, not for them.
type Owner struct {
	AccountID string
	// Account is the account's name.
	Account string
	Viewer  Viewer
}

// OwnerFrom returns the account of the running operation's caller. It panics where
// none was authenticated, as From does.
func OwnerFrom(ctx context.Context) Owner {
	p := From(ctx)
	return Owner{AccountID: p.AccountID, Account: p.AccountName, Viewer: p}
}
