// Package docs holds the guides of this folder, so that an installation serves those of its own
// version.
//
// It is not the pages that a reader sees, which package shared/pages makes of them, and it has no
// decision records: those are for who changes the product. Read README.md first, the map of the
// guides; rules for links and headings are those of package internal/house.
package docs

import "embed"

// Guides are the Markdown files, README.md among them.
//
//go:embed *.md
var Guides embed.FS
