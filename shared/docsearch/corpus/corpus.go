// Package corpus cuts the documentation into passages that a search can find: the pages in docs/, problems
// among them, and the operations of the OpenAPI description. It is what an index is made of, and what a test
// compares the index with (package docsearch, which is what functions link; this package they do not).
//
// A passage is a piece of one section, short enough for the sentence transformer to read all of it. Markdown is
// read by goldmark; that a heading's anchor is the one that a browser of the repository gives it is
// ours, as in internal/house.
//
// Read this file first; pages.go has the pages, operations.go the operations.
package corpus

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/gatewright/gatewright/shared/docsearch"
)

// MaxWords bounds a passage: words and punctuation marks, with words longer than seven letters counted as
// several. By this count, which needs no vocabulary, a text has about as many tokens as by the model's; the command that makes
// the index refuses a passage of which the model would not read everything.
const MaxWords = 110

const (
	// Docs is where the pages are.
	Docs = "docs"
	// OpenAPI is the description of the operations.
	OpenAPI = "functions/platform/openapi.json"
	// Questions are those that sections are known to answer.
	Questions = "shared/docsearch/expansions.txt"
)

// leftOut are pages that nobody is to find: what is written there follows from what is found.
var leftOut = []string{"docs/search-quality.md"}

// Read gives the passages of a repository, in the order of its pages and then of its operations, and the questions that
// are known of them. Two reads of the same files are equal.
func Read(repository fs.FS) (docsearch.Content, error) {
	pages, err := fs.Glob(repository, path.Join(Docs, "*.md"))
	if err != nil {
		return docsearch.Content{}, err
	}
	var content docsearch.Content
	for _, page := range pages {
		if slices.Contains(leftOut, page) {
			continue
		}
		source, err := fs.ReadFile(repository, page)
		if err != nil {
			return docsearch.Content{}, err
		}
		content.Passages = append(content.Passages, Page(page, source)...)
	}
	document, err := fs.ReadFile(repository, OpenAPI)
	if err != nil {
		return docsearch.Content{}, err
	}
	operations, err := Operations(document)
	if err != nil {
		return docsearch.Content{}, fmt.Errorf("read %s: %w", OpenAPI, err)
	}
	content.Passages = append(content.Passages, operations...)
	questions, err := fs.ReadFile(repository, Questions)
	if err != nil {
		return docsearch.Content{}, err
	}
	content.Questions = docsearch.ReadQuestions(string(questions))
	asked := map[string]bool{}
	for _, q := range content.Questions {
		asked[q.Section] = true
		if !slices.ContainsFunc(content.Passages, func(p docsearch.Passage) bool { return p.Section() == q.Section }) {
			return docsearch.Content{}, fmt.Errorf("%s has questions of %s, which is no section", Questions, q.Section)
		}
	}
	for _, p := range content.Passages {
		// An operation's summary says what it is for; a page's section is often read by who has other words for it.
		if p.Path != OpenAPI && !asked[p.Section()] {
			return docsearch.Content{}, fmt.Errorf("%s has no question of %s: write one that it answers, in other words than the page's", Questions, p.Section())
		}
	}
	return content, nil
}

// pack puts the blocks of a section into as few passages as their bound allows, in order. A block that is longer than
// a passage is divided where a sentence, or else a word, ends.
func pack(of docsearch.Passage, blocks []string) []docsearch.Passage {
	var all []docsearch.Passage
	var text []string
	size := 0
	flush := func() {
		if len(text) > 0 {
			of.Text = strings.Join(text, "\n")
			all = append(all, of)
		}
		text, size = nil, 0
	}
	for _, block := range blocks {
		for _, piece := range divide(block) {
			if n := Words(piece); size+n > MaxWords && size > 0 {
				flush()
			}
			text, size = append(text, piece), size+Words(piece)
		}
	}
	flush()
	return all
}

// divide gives a block in pieces of at most MaxWords.
func divide(block string) []string {
	if Words(block) <= MaxWords {
		return []string{block}
	}
	var pieces []string
	var piece string
	for _, sentence := range docsearch.Sentences(block) {
		for _, part := range parts(sentence) {
			if piece != "" && Words(piece)+Words(part) > MaxWords {
				pieces, piece = append(pieces, piece), ""
			}
			piece = strings.TrimSpace(piece + " " + part)
		}
	}
	return append(pieces, piece)
}

// parts divides a sentence that is longer than a passage between words.
func parts(sentence string) []string {
	if Words(sentence) <= MaxWords {
		return []string{sentence}
	}
	var all []string
	var part []string
	size := 0
	for _, word := range strings.Fields(sentence) {
		n := Words(word)
		if size+n > MaxWords && size > 0 {
			all, part, size = append(all, strings.Join(part, " ")), nil, 0
		}
		part, size = append(part, word), size+n
	}
	return append(all, strings.Join(part, " "))
}

// Words is how long a text is, as MaxWords counts.
func Words(text string) int {
	n, letters := 0, 0
	for _, r := range text {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if letters%7 == 0 {
				n++
			}
			letters++
		case unicode.IsSpace(r):
			letters = 0
		default:
			n, letters = n+1, 0
		}
	}
	return n
}
