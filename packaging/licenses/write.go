package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// origin is the file that a text comes from.
type origin struct {
	// Owner is the module with its version, or the part of the product.
	Owner string
	// File is the path of the file within the owner, with slashes.
	File string
}

// collection contains each text once, with all its origins. The modules of one project often have the same text.
type collection map[string][]origin

// add adds a text. Texts are the same if they differ only in line endings, or in line breaks at the beginning or the end.
func (c collection) add(raw []byte, from origin) {
	text := strings.Trim(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n")
	if !slices.Contains(c[text], from) {
		c[text] = append(c[text], from)
	}
}

// entry is one text of the file with its origins, sorted.
type entry struct {
	text string
	from []origin
}

// entries returns all texts, sorted by their first origin. The product's own texts come first.
func (c collection) entries() []entry {
	byOrigin := func(a, b origin) int {
		return cmp.Or(-boolean(a.Owner == product, b.Owner == product), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.File, b.File))
	}
	var all []entry
	for text, from := range c {
		from = slices.Clone(from)
		slices.SortFunc(from, byOrigin)
		all = append(all, entry{text, from})
	}
	slices.SortFunc(all, func(a, b entry) int { return byOrigin(a.from[0], b.from[0]) })
	return all
}

// boolean compares two booleans: false is less than true.
func boolean(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// text returns the content of the file.
func (c collection) text() []byte {
	var out bytes.Buffer
	out.WriteString("Licenses of Gatewright and of everything that its programs contain.\n\n" +
		"Each text below applies to the modules and files that are listed above it.\n")
	for _, e := range c.entries() {
		fmt.Fprintf(&out, "\n%s\n\n", strings.Repeat("=", 80))
		for _, from := range e.from {
			fmt.Fprintf(&out, "%s: %s\n", from.Owner, from.File)
		}
		fmt.Fprintf(&out, "\n%s\n", e.text)
	}
	return out.Bytes()
}
