package api

import (
	"slices"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// FullTableAccess returns the table access of the group's function: the group's own TableAccess, and the
// access that this package and the packages for authentication and limits need for each declared operation.
func (g Group) FullTableAccess() store.TableAccess {
	var operations []store.TableAccess
	for _, d := range g.completed(AnyOperation.outline) {
		operations = append(operations, d.tableAccess())
	}
	return g.TableAccess.Union(operations...)
}

// Restrict returns p with its table restricted to FullTableAccess, like the role of the group's function.
// An access that the role would deny then fails outside AWS too. Each group's Bind calls Restrict first.
func (g Group) Restrict(p installation.Parts) installation.Parts {
	if p.Table != nil { // the table is nil if only the routes are needed
		p.Table = p.Table.Restrict(g.FullTableAccess())
	}
	return p
}

// tableAccess returns the table access that this package and the packages for authentication
// and limits need for an operation, in addition to the operation's own access.
func (d Declaration) tableAccess() (access store.TableAccess) {
	if !d.Public {
		access.Reads = append(access.Reads, "credential") // the caller's key
	}
	if d.AcceptsSession() {
		access.Reads = append(access.Reads, "session")
	}
	if d.Audit != "" {
		access.Writes = append(access.Writes, "audit-new")
	}
	if d.TakesIdempotencyKey() {
		access.Reads = append(access.Reads, responsePrefix)
		access.Writes = append(access.Writes, responsePrefix)
	}
	if slices.Contains(d.Uses, RootKey) {
		access.Reads = append(access.Reads, "root-key")
	}
	if slices.Contains(d.Uses, CreateRootKey) {
		access.Writes = append(access.Writes, "root-key")
	}
	return access.Union(d.optionalTableAccess())
}

// optionalTableAccess returns the table access for OptionalUses: to record the day on which a key
// was last used (in the key's record and in the list of keys) and the time at which a session
// was last used, and to count requests for the limits of the account and its key.
func (d Declaration) optionalTableAccess() (access store.TableAccess) {
	if d.Public {
		return access
	}
	access = store.TableAccess{
		Reads:  []store.KeyPrefix{"account-limits", "allowance"},
		Writes: []store.KeyPrefix{"account-keys", "allowance", "credential"},
	}
	if d.AcceptsSession() {
		access.Writes = append(access.Writes, "session") // the time at which the session was last used
	}
	return access
}
