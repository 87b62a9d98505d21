// Package environment defines the kinds of environments that a project has,
// in the spellings that contract 3.10 defines for each part of the API.
//
// This is the only file.
package environment

import "strings"

// Kind is one of the three kinds of environments. Its string value is the spelling that the API uses for environments
// and in the permissions of account keys.
type Kind string

// The kinds. Development is a developer's working copy.
const (
	Production  Kind = "production"
	Preview     Kind = "preview"
	Development Kind = "development"
)

// Kinds returns the kinds in the display order of lists.
func Kinds() []Kind { return []Kind{Production, Preview, Development} }

// Parse returns the kind that text spells, in any of its spellings. It returns false if text is not a kind.
func Parse(text string) (Kind, bool) {
	for _, k := range Kinds() {
		if strings.EqualFold(text, string(k)) || text == k.Upper() || text == k.Slug() {
			return k, true
		}
	}
	return "", false
}

// ForBranch returns the kind of a branch's environment: main, master and
// production are production, any other branch is a preview (contract 3.2).
func ForBranch(branch string) Kind {
	switch branch {
	case "main", "master", "production":
		return Production
	}
	return Preview
}

// Upper returns the spelling in deployments, custom domains and bucket tags: PRODUCTION, PREVIEW or WORKING_COPY.
func (k Kind) Upper() string {
	return strings.ToUpper(strings.ReplaceAll(k.Slug(), "-", "_"))
}

// Slug returns the spelling in names and tunnels: production, preview or working-copy.
func (k Kind) Slug() string {
	if k == Development {
		return "working-copy"
	}
	return string(k)
}
