// Package corpus divides the documentation into passages for a search: the pages docs/*.md except excludedPages, and
// the operations of the OpenAPI description. The index is created from these passages, and a test compares the index
// with them. Lambda functions contain package docsearch, but not this package.
//
// A passage is a piece of one section, short enough that the sentence transformer reads all
// of it. goldmark parses the Markdown. Package heading computes the anchors of headings.
//
// Read this file first. pages.go has the pages, and operations.go the operations.
package corpus

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/gatewright/gatewright/shared/management/docsearch"
)

// MaxPassageTokens is the maximum length of a passage in tokens, as EstimateTokens counts them. The command that
// creates the index refuses a passage that the model would not read completely.
const MaxPassageTokens = 110

const (
	// DocsFolder is the folder of the pages.
	DocsFolder = "docs"
	// OpenAPIFile is the file of the OpenAPI description.
	OpenAPIFile = "functions/platform/openapi.json"
	// QuestionsFile is the file with the known questions of each section.
	QuestionsFile = "shared/management/docsearch/expansions.txt"
)

// excludedPages are pages that the search must not find, because their content depends on the results of searches.
var excludedPages = []string{"docs/search-quality.md"}

// Read returns the passages of a repository, first those of the pages and then those of the operations. It also returns
// the known questions for the passages. It returns an error if a section of a page has no question, or if a
// question names no section. The same files have the same result.
func Read(repository fs.FS) (docsearch.Content, error) {
	pages, err := fs.Glob(repository, path.Join(DocsFolder, "*.md"))
	if err != nil {
		return docsearch.Content{}, err
	}
	var content docsearch.Content
	for _, page := range pages {
		if slices.Contains(excludedPages, page) {
			continue
		}
		source, err := fs.ReadFile(repository, page)
		if err != nil {
			return docsearch.Content{}, err
		}
		content.Passages = append(content.Passages, Page(page, source)...)
	}
	document, err := fs.ReadFile(repository, OpenAPIFile)
	if err != nil {
		return docsearch.Content{}, err
	}
	operations, err := Operations(document)
	if err != nil {
		return docsearch.Content{}, fmt.Errorf("read %s: %w", OpenAPIFile, err)
	}
	content.Passages = append(content.Passages, operations...)
	questions, err := fs.ReadFile(repository, QuestionsFile)
	if err != nil {
		return docsearch.Content{}, err
	}
	content.Questions = docsearch.ReadQuestions(string(questions))
	hasQuestion := map[string]bool{}
	for _, q := range content.Questions {
		hasQuestion[q.Section] = true
		if !slices.ContainsFunc(content.Passages, func(p docsearch.Passage) bool { return p.Section() == q.Section }) {
			return docsearch.Content{}, fmt.Errorf("%s has questions of %s, which is no section", QuestionsFile, q.Section)
		}
	}
	for _, p := range content.Passages {
		// Require questions for the sections of pages, because readers often use other words than
		// the author. An operation needs none, because its summary describes it well enough.
		if p.Path != OpenAPIFile && !hasQuestion[p.Section()] {
			return docsearch.Content{},
				fmt.Errorf("%s has no question of %s: write one that it answers, in other words than the page's", QuestionsFile,
					p.Section())
		}
	}
	return content, nil
}

// pack packs the blocks of a section into as few passages as MaxPassageTokens allows, in order. passage has their
// title, path and anchor. A block that is longer than a passage is divided at the ends of sentences, or between words
// if a sentence is too long.
func pack(passage docsearch.Passage, blocks []string) []docsearch.Passage {
	var all []docsearch.Passage
	var text []string
	size := 0
	flush := func() {
		if len(text) > 0 {
			passage.Text = strings.Join(text, "\n")
			all = append(all, passage)
		}
		text, size = nil, 0
	}
	for _, block := range blocks {
		for _, piece := range splitBlock(block) {
			if n := EstimateTokens(piece); size+n > MaxPassageTokens && size > 0 {
				flush()
			}
			text, size = append(text, piece), size+EstimateTokens(piece)
		}
	}
	flush()
	return all
}

// splitBlock returns the pieces of a block, of at most MaxPassageTokens each.
func splitBlock(block string) []string {
	if EstimateTokens(block) <= MaxPassageTokens {
		return []string{block}
	}
	var pieces []string
	var piece string
	for _, sentence := range docsearch.Sentences(block) {
		for _, part := range splitSentence(sentence) {
			if piece != "" && EstimateTokens(piece)+EstimateTokens(part) > MaxPassageTokens {
				pieces, piece = append(pieces, piece), ""
			}
			piece = strings.TrimSpace(piece + " " + part)
		}
	}
	return append(pieces, piece)
}

// splitSentence divides a sentence that is longer than MaxPassageTokens between words.
func splitSentence(sentence string) []string {
	if EstimateTokens(sentence) <= MaxPassageTokens {
		return []string{sentence}
	}
	var all []string
	var part []string
	size := 0
	for _, word := range strings.Fields(sentence) {
		n := EstimateTokens(word)
		if size+n > MaxPassageTokens && size > 0 {
			all, part, size = append(all, strings.Join(part, " ")), nil, 0
		}
		part, size = append(part, word), size+n
	}
	return append(all, strings.Join(part, " "))
}

// EstimateTokens returns approximately the number of the model's tokens in a text. It needs no vocabulary: each
// punctuation mark is a token, and so are each seven letters of a word and the rest of the word.
func EstimateTokens(text string) int {
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
