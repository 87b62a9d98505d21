package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// origin identifies the file that a text comes from.
type origin struct {
	// Owner is the module with its version, or the part of the product.
	Owner string
	// File is the path of the file within the owner, with slashes.
	File string
}

// collection contains each text once, with all its origins. The modules of one project often have the same text.
type collection map[string][]origin

// add adds a text. Texts are the same if they differ only in line endings, or in line breaks at the beginning or the
// end.
func (c collection) add(raw []byte, source origin) {
	text := strings.Trim(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n")
	if !slices.Contains(c[text], source) {
		c[text] = append(c[text], source)
	}
}

// entry is one text of the file with its origins, which are sorted.
type entry struct {
	text    string
	origins []origin
}

// entries returns all texts, sorted by their first origin. The product's own texts come first.
func (c collection) entries() []entry {
	byOrigin := func(a, b origin) int {
		return cmp.Or(-compareBool(a.Owner == product, b.Owner == product), cmp.Compare(a.Owner, b.Owner),
			cmp.Compare(a.File, b.File))
	}
	var entries []entry
	for text, origins := range c {
		origins = slices.Clone(origins)
		slices.SortFunc(origins, byOrigin)
		entries = append(entries, entry{text, origins})
	}
	slices.SortFunc(entries, func(a, b entry) int { return byOrigin(a.origins[0], b.origins[0]) })
	return entries
}

// compareBool compares two booleans: false is less than true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// text returns the content of the file with the license texts.
func (c collection) text() []byte {
	var out bytes.Buffer
	out.WriteString("Licenses of Gatewright and of everything that its programs contain.\n\n" +
		"Each text below applies to the modules and files that are listed above it.\n")
	for _, e := range c.entries() {
		fmt.Fprintf(&out, "\n%s\n\n", strings.Repeat("=", 80))
		for _, o := range e.origins {
			fmt.Fprintf(&out, "%s: %s\n", o.Owner, o.File)
		}
		fmt.Fprintf(&out, "\n%s\n", e.text)
	}
	return out.Bytes()
}
