// Package heading computes the anchors of a Markdown file's headings with the rules of GitHub. A link with an anchor
// then works in the repository on GitHub, in the documentation that an installation serves, and in its search results.
//
// The package does not read Markdown: callers pass the headings in the order of the file.
//
// This is the only file.
package heading

import (
	"strconv"
	"strings"
	"unicode"
)

// Anchors computes the anchors of one file: lower case, hyphens instead of spaces, no punctuation except "-" and "_",
// and a number after an anchor that already exists. Create Anchors with make.
type Anchors map[string]int

// Next returns the anchor of the next heading. title is its text without markup.
func (a Anchors) Next(title string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
	n := a[name]
	a[name]++
	if n > 0 {
		return name + "-" + strconv.Itoa(n)
	}
	return name
}
