// Package docs contains the guides of this folder, so that an installation serves the guides of its own
// version.
//
// It is not the pages that a reader sees, which package shared/management/pages makes of them, and it has no
// decision records, which are for people who change the product. Read README.md first, the map of the
// guides; rules for links and headings are those of package internal/repolint.
package docs

import "embed"

// Guides are the Markdown files, README.md among them.
//
//go:embed *.md
var Guides embed.FS
