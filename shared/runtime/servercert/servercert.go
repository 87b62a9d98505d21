// Package servercert provides the server certificates of an installation's own names: its management API, its relay,
// and deployments below its domain. The certificates come from files that another program renews (Files), from a
// setting (Text), or from an ACME authority when a client first connects with a name (Authority).
//
// The package does not handle custom domains. Their certificates are in the table and are obtained in advance (packages
// customdomains and issuance). The package does not know which names exist: its caller provides them (Names).
//
// Read servercert.go first, then files.go, text.go and authority.go. cache.go stores the data of an Authority. The
// rules are in section 7 of the design, in RFC 8555, and in docs/decisions/0056-certificates-of-ones-own-names.md.
package servercert

import "context"

// Names are the installation's own names.
type Names interface {
	// Owns reports, without a read of the table, whether a name has the form of one of the Names. The name is in lower
	// case, without a final dot.
	Owns(name string) bool
	// Served reports whether anything is served at one of the Names.
	Served(ctx context.Context, name string) (bool, error)
}
