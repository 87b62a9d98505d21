// Package heading names the headings of a Markdown file as they are named where the repository is browsed, so that links
// into a page lead to the same place on every page that is made of it: there, in the documentation that an installation
// serves, and in what is found by searching it.
//
// It reads no Markdown: whoever does so gives the headings in their order.
package heading

import (
	"strconv"
	"strings"
	"unicode"
)

// Anchors names the headings of one file: lower case, spaces to hyphens, punctuation dropped, and a number after a name
// that is there already. It is made by make.
type Anchors map[string]int

// Next is the name of the next heading, of which title is the text without marks.
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
