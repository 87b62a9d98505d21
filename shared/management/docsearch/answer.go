package docsearch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"
)

// Answerer can answer questions about the product from its documentation. An
// Answerer may use its own words if each sentence of an answer has a citation.
type Answerer interface {
	// Answer returns the answer to a question. Its errors are those of Searcher.Search.
	Answer(ctx context.Context, question string) (Answer, error)
}

// Answer is the answer of an Answerer.
type Answer struct {
	// Kind is kindBedrock if a model has created the answer. Otherwise it is kindExtractive, even if the
	// Answerer is a Generative.
	Kind string
	// Mode is the ranking of the passages. Busy and SearchError are Busy and RemoteError of the SearchResult.
	Mode        Mode
	Busy        bool
	SearchError *ModelError
	// WriteError is the reason why a Generative has quoted the documentation instead of
	// using its model. It is nil if the model has written the answer, if there is no model,
	// and if the passages do not cover the question: such questions are not sent to a model.
	WriteError *ModelError
	// ModelCalled is true if a model was called for the answer. TokensIn
	// and TokensOut are the numbers of tokens to pay for the call.
	ModelCalled         bool
	TokensIn, TokensOut int
	// Covered is false if the documentation probably says nothing about the question. Then there are no quotes.
	Covered bool
	// Sentences are the answer if a model has written it. Otherwise they are empty, and Quotes are the answer. Dropped is
	// the number of sentences of the model that were removed, because their citations do not support them or because
	// there were more than maxSentences.
	Sentences []Sentence
	Dropped   int
	// Quotes are the citations of Sentences. If there are no Sentences,
	// Quotes are the answer, beginning with quotes from the best passage.
	Quotes []Quote
	// Nearest are the sections nearest to the question, the best first, even if Covered is false.
	Nearest []Result
}

// Quote is a part of an answer, and its source.
type Quote struct {
	// Text is a part of the passage, word for word. In an extractive answer, it is a sentence or a row of a table.
	Text string
	// Title, Path and Anchor are those of the passage.
	Title, Path, Anchor string
}

// Sentence is a sentence of an answer. Quotes are the indexes of its citations in Answer.Quotes: at least one.
type Sentence struct {
	Text   string
	Quotes []int
}

// Bounds of an extractive answer.
const (
	answerPassages  = 3 // the maximum number of passages that are quoted
	answerSentences = 3 // the maximum number of sentences from the best passage; one less from each other passage
	// minRelativeScore is the minimum score of a further passage that is quoted, relative to the best score.
	minRelativeScore = 0.85
)

// kindExtractive is the Answer.Kind of an Extractive.
const kindExtractive = "extractive"

// Extractive is an Answerer that returns only sentences that it quotes from the best passages.
type Extractive struct{ searcher *Searcher }

var _ Answerer = (*Extractive)(nil)

// NewExtractive returns an Extractive.
func NewExtractive(s *Searcher) *Extractive { return &Extractive{searcher: s} }

// Answer quotes, from each of the best passages, the sentences that share the most words with the question, in the
// order of the passage. If no sentence shares a word, it quotes the first one, because the passage was found by its
// meaning. It quotes nothing if the documentation does not cover the question.
func (e *Extractive) Answer(ctx context.Context, question string) (Answer, error) {
	found, err := e.searcher.Search(ctx, question, 2*answerPassages)
	if err != nil {
		return Answer{}, err
	}
	return e.answerFrom(question, found), nil
}

// answerFrom returns the answer from the results of a search.
func (e *Extractive) answerFrom(question string, found SearchResult) Answer {
	answer := Answer{
		Kind: kindExtractive, Mode: found.Mode, Busy: found.Busy, SearchError: found.RemoteError,
		Covered: found.Covered, Nearest: found.Results,
	}
	if !found.Covered {
		return answer
	}
	for i, r := range found.Results[:min(answerPassages, len(found.Results))] {
		if r.Score < minRelativeScore*found.Results[0].Score {
			break
		}
		for _, sentence := range e.bestSentences(question, r.Passage, answerSentences-min(i, 1)) {
			answer.Quotes = append(answer.Quotes, newQuote(sentence, r.Passage))
		}
	}
	return answer
}

func newQuote(text string, p Passage) Quote {
	return Quote{Text: text, Title: p.Title, Path: p.Path, Anchor: p.Anchor}
}

// bestSentences returns the best sentences of a passage, at most n, in the order of the passage.
func (e *Extractive) bestSentences(question string, p Passage, n int) []string {
	type candidate struct {
		at    int
		score float64
	}
	var sentences []string
	for _, line := range e.contentLines(p) {
		sentences = append(sentences, Sentences(line)...)
	}
	candidates := make([]candidate, len(sentences))
	for i, sentence := range sentences {
		candidates[i] = candidate{i, e.searcher.lexicon().sharedWeight(question, sentence)}
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

// contentLines returns the lines of a passage without the header rows of tables, which
// are useless as quotes. A table of a page begins with a header row, unless the passage
// begins inside the table. The list of an operation's parameters has no header row.
func (e *Extractive) contentLines(p Passage) []string {
	lines := strings.Split(p.Text, "\n")
	if !strings.HasSuffix(p.Path, ".md") {
		return lines
	}
	var out []string
	inTable := e.beginsWithinTable(p)
	for i, line := range lines {
		row := isRow(line)
		if !row || inTable || i+1 < len(lines) && !isRow(lines[i+1]) {
			out = append(out, line)
		}
		inTable = row
	}
	return out
}

// beginsWithinTable reports whether the previous passage belongs to the same section and ends with a row of a table.
func (e *Extractive) beginsWithinTable(p Passage) bool {
	all := e.searcher.index.Passages
	at := slices.Index(all, p)
	return at > 0 && all[at-1].Section() == p.Section() &&
		isRow(all[at-1].Text[strings.LastIndexByte(all[at-1].Text, '\n')+1:])
}

// isRow reports whether a line of a passage is a row of a table: it has a vertical bar between cells, outside of code.
func isRow(line string) bool {
	for i, part := range strings.Split(line, "`") {
		if i%2 == 0 && strings.Contains(part, " | ") {
			return true
		}
	}
	return false
}

// Sentences divides a line of text at the ends of sentences: after a period, question mark or exclamation
// mark, if a space follows and then no lower-case letter. It does not divide text in backquotes.
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
