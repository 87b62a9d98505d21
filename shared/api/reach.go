package api

import (
	"slices"

	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
)

// Reached is which spaces of the table the function of the group is held to: those that its operations ask for (Reach), and those that
// this package, and who it asks for callers and limits, asks for on behalf of each as it is declared.
func (g Group) Reached() store.Reach {
	var operations []store.Reach
	for _, d := range g.related(Declared.outline) {
		operations = append(operations, d.reached())
	}
	return g.Reach.And(operations...)
}

// Held gives the parts with the table held to what the group reaches, as its function's role is: what the role would refuse fails wherever
// it is asked for. A group's Bind begins with it.
func (g Group) Held(p installation.Parts) installation.Parts {
	if p.Table != nil { // there is none where somebody wants to know the routes alone
		p.Table = p.Table.Within(g.Reached())
	}
	return p
}

// reached is what is asked of the table around an operation, whatever it does itself.
func (d Declaration) reached() (r store.Reach) {
	if !d.Public {
		r.Reads = append(r.Reads, "credential") // the caller's key
	}
	if d.TakesSession() {
		r.Reads = append(r.Reads, "session")
	}
	if d.Audit != "" {
		r.Writes = append(r.Writes, "audit-new")
	}
	if d.Repeatable() {
		r = r.And(store.Reach{Reads: []store.Space{answerSpace}, Writes: []store.Space{answerSpace}})
	}
	if slices.Contains(d.Uses, RootKey) {
		r.Reads = append(r.Reads, "root-key")
	}
	if slices.Contains(d.Uses, MakeRootKey) {
		r.Writes = append(r.Writes, "root-key")
	}
	return r.And(d.besides())
}

// besides is what Asides ask for: they note the day on which a key was used, where the key is and where it is listed, and
// when a session was, and count what limits allow, of the account and of its key.
func (d Declaration) besides() (r store.Reach) {
	if d.Public {
		return r
	}
	r = store.Reach{Reads: []store.Space{"account-limits", "allowance"}, Writes: []store.Space{"account-keys", "allowance", "credential"}}
	if d.TakesSession() {
		r.Writes = append(r.Writes, "session") // when it was last used
	}
	return r
}
