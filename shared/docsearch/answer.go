package docsearch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"
)

// Answerer answers questions about the product by its documentation. What answers in other words than the
// documentation's is one too, as long as each of its sentences has a citation.
type Answerer interface {
	// Answer answers a question. Its faults are those of Searcher.Search.
	Answer(ctx context.Context, question string) (Answer, error)
}

// Answer is what an Answerer says.
type Answer struct {
	// By names who answers: an Extractive or a Written.
	By string
	// Mode is how the passages were found, Busy and NotFound as Busy and Failed in Found.
	Mode     Mode
	Busy     bool
	NotFound *ModelError
	// NotWritten says why it is not a Written's although there is a model; nil where it is, there is none, or the passages do not
	// cover the question, of which no model is asked.
	NotWritten *ModelError
	// Asked tells that a model was asked for it, and TokensIn and TokensOut what is paid for that.
	Asked               bool
	TokensIn, TokensOut int
	// Covered is false where the documentation probably says nothing about the question. Then there are no quotes.
	Covered bool
	// Sentences are the answer where it is in other words than the documentation's, none where the quotes are. LeftOut is how many
	// more there were which do not stand in what they cite.
	Sentences []Sentence
	LeftOut   int
	// Quotes are the answer, the best passage's first, or what its sentences have it from.
	Quotes []Quote
	// Near are the sections that are nearest to the question, covered or not, the best first.
	Near []Result
}

// Quote is a piece of an answer, and where it stands.
type Quote struct {
	// Text is a sentence, or a row of a table, word for word as the passage has it.
	Text string
	// Title, Path and Anchor are the passage's.
	Title, Path, Anchor string
}

// Sentence is one of an answer, with the places in Answer.Quotes of what it has it from: one at least.
type Sentence struct {
	Text   string
	Quotes []int
}

// Bounds of an extractive answer.
const (
	answerPassages  = 3
	answerSentences = 3 // of the best passage; of each other one fewer
	// nearlyAsGood is the part of the best score that another passage needs to be quoted too.
	nearlyAsGood = 0.85
)

// By of an Extractive.
const byExtractive = "extractive"

// Extractive answers with the sentences of the best passages, and adds nothing to them.
type Extractive struct{ searcher *Searcher }

var _ Answerer = (*Extractive)(nil)

// NewExtractive makes one.
func NewExtractive(s *Searcher) *Extractive { return &Extractive{searcher: s} }

// Answer quotes the sentences that have most of the question's words, in the order of the passage, or its first
// one where none has any: the passage was found by what it means.
func (e *Extractive) Answer(ctx context.Context, question string) (Answer, error) {
	found, err := e.searcher.Search(ctx, question, 2*answerPassages)
	if err != nil {
		return Answer{}, err
	}
	return e.of(question, found), nil
}

// of answers out of what was found.
func (e *Extractive) of(question string, found Found) Answer {
	answer := Answer{By: byExtractive, Mode: found.Mode, Busy: found.Busy, NotFound: found.Failed, Covered: found.Covered, Near: found.Results}
	if !found.Covered {
		return answer
	}
	for i, r := range found.Results[:min(answerPassages, len(found.Results))] {
		if r.Score < nearlyAsGood*found.Results[0].Score {
			break
		}
		for _, sentence := range e.best(question, r.Passage, answerSentences-min(i, 1)) {
			answer.Quotes = append(answer.Quotes, quoted(sentence, r.Passage))
		}
	}
	return answer
}

func quoted(text string, p Passage) Quote {
	return Quote{Text: text, Title: p.Title, Path: p.Path, Anchor: p.Anchor}
}

// best gives at most n sentences of a passage, in its order.
func (e *Extractive) best(question string, p Passage, n int) []string {
	type candidate struct {
		at    int
		score float64
	}
	var sentences []string
	for _, line := range e.said(p) {
		sentences = append(sentences, Sentences(line)...)
	}
	candidates := make([]candidate, len(sentences))
	for i, sentence := range sentences {
		candidates[i] = candidate{i, e.searcher.words().shared(question, sentence)}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(b.score, a.score) })
	var chosen []int
	for i, c := range candidates {
		if len(chosen) < n && (i == 0 || c.score > 0) {
			chosen = append(chosen, c.at)
		}
	}
	slices.Sort(chosen)
	best := make([]string, len(chosen))
	for i, at := range chosen {
		best[i] = sentences[at]
	}
	return best
}

// said gives the lines of a passage without the heads of its tables, which say nothing by themselves. A page's table begins
// with one, unless the passage begins within the table; an operation's list of parameters has none.
func (e *Extractive) said(p Passage) []string {
	lines := strings.Split(p.Text, "\n")
	if !strings.HasSuffix(p.Path, ".md") {
		return lines
	}
	var said []string
	within := e.beginsWithinTable(p)
	for i, line := range lines {
		row := isRow(line)
		if !row || within || i+1 < len(lines) && !isRow(lines[i+1]) {
			said = append(said, line)
		}
		within = row
	}
	return said
}

// beginsWithinTable reports whether the passage before this one, of the same section, ends with a row.
func (e *Extractive) beginsWithinTable(p Passage) bool {
	all := e.searcher.index.Passages
	at := slices.Index(all, p)
	return at > 0 && all[at-1].Section() == p.Section() && isRow(all[at-1].Text[strings.LastIndexByte(all[at-1].Text, '\n')+1:])
}

// isRow reports whether a line of a passage is a row of a table: one with a bar between cells, and not within code.
func isRow(line string) bool {
	for i, part := range strings.Split(line, "`") {
		if i%2 == 0 && strings.Contains(part, " | ") {
			return true
		}
	}
	return false
}

// Sentences divides a line of text where a sentence ends: at a mark behind which a space and no small letter follow.
// What is between back quotes is not looked into.
func Sentences(line string) []string {
	var all []string
	runes := []rune(line)
	start, quoted := 0, false
	for i, r := range runes {
		switch {
		case r == '`':
			quoted = !quoted
		case quoted || !strings.ContainsRune(".?!", r) || i+2 >= len(runes):
		case runes[i+1] == ' ' && !unicode.IsLower(runes[i+2]):
			all, start = append(all, strings.TrimSpace(string(runes[start:i+1]))), i+1
		}
	}
	if rest := strings.TrimSpace(string(runes[start:])); rest != "" {
		all = append(all, rest)
	}
	return all
}
