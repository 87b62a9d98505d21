// Package owncert has the certificates of an installation's own names: of its management API, of
// its relay, and of deployments below its domain. They come from files that somebody else renews
// (Files), from a setting (Text), or from an authority by ACME when a name is first asked for (Authority).
//
// What it is not: for custom domains, whose certificates are the table's and are obtained before
// anybody asks (packages customdomains and issuance). Nor does it know which names there are: its
// caller does (Names).
//
// Read owncert.go, then files.go, text.go and authority.go; kept.go is what an Authority keeps. The rules are those of design, section 7, RFC 8555
// and docs/decisions/0056-certificates-of-ones-own-names.md.
package owncert

import "context"

// Names are the installation's own.
type Names interface {
	// Owns reports, without a read, whether a name (in lower case, without a dot at its end) is
	// of a form that one of them has.
	Owns(name string) bool
	// Served reports whether anything is served at a name that it owns.
	Served(ctx context.Context, name string) (bool, error)
}
