// Package environment names the kinds of environment that a project has, in
// the spellings that contract 3.10 gives each place of the API.
package environment

import "strings"

// Kind is one of the three kinds, in the spelling of environments and of
// account keys' permissions.
type Kind string

// The kinds. Development is a developer's working copy.
const (
	Production  Kind = "production"
	Preview     Kind = "preview"
	Development Kind = "development"
)

// Kinds lists them, in the order in which people read them.
func Kinds() []Kind { return []Kind{Production, Preview, Development} }

// Parse accepts every spelling that Kind gives and reports whether text is one.
func Parse(text string) (Kind, bool) {
	for _, k := range Kinds() {
		if strings.EqualFold(text, string(k)) || text == k.Upper() || text == k.Slug() {
			return k, true
		}
	}
	return "", false
}

// OfBranch is the kind of a branch's environment: main, master and production
// are production, any other is a preview (contract 3.2).
func OfBranch(branch string) Kind {
	switch branch {
	case "main", "master", "production":
		return Production
	}
	return Preview
}

// Upper is the spelling of deployments, custom domains and bucket tags:
// PRODUCTION, PREVIEW or WORKING_COPY.
func (k Kind) Upper() string {
	return strings.ToUpper(strings.ReplaceAll(k.Slug(), "-", "_"))
}

// Slug is the spelling of names and of tunnels: production, preview or
// working-copy.
func (k Kind) Slug() string {
	if k == Development {
		return "working-copy"
	}
	return string(k)
}
