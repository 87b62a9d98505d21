// Package docs contains the guides of this folder, so that an installation serves the guides of its own version.
//
// It does not contain the pages that readers see: package shared/management/pages makes these pages from the guides. It
// does not contain decision records, which are for people who change the product. Read README.md first: it is the map
// of the guides. Package internal/repolint has the rules for links and headings.
package docs

import "embed"

// Guides are the Markdown files, README.md among them.
//
//go:embed *.md
var Guides embed.FS
