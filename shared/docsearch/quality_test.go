package docsearch_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/docsearch"
	"github.com/gatewright/gatewright/shared/docsearch/corpus"
	"github.com/gatewright/gatewright/shared/docsearch/minilm/minilmtest"
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

// bars are those of the semantic mode for each set, in percent: what is first, what is among the first five, and what is refused of
// those without an answer. The test's are the issue's. Of the questions of strangers and newcomers, nine of ten have to be among the first five.
var bars = [...]struct{ first, five, refused int }{corpus.Test: {60, 92, 80}, corpus.Strangers: {70, 90, 75}, corpus.Newcomers: {60, 90, 0}}

// nearlyTheSame is the cosine from which on two questions ask for about the same.
const nearlyTheSame = 0.6

// questions reads the questions that have an answer and those that have none.
func questions(t *testing.T) (answerable, unanswerable corpus.BySet) {
	t.Helper()
	answerable, unanswerable, err := corpus.ReadQuestions(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	return answerable, unanswerable
}

// TestQuestionsNameSectionsThatAreThere keeps the sets of questions whole.
func TestQuestionsNameSectionsThatAreThere(t *testing.T) {
	index, err := docsearch.Documentation()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, p := range index.Passages {
		there[p.Section()] = true
	}
	answerable, unanswerable := questions(t)
	sizes := [len(corpus.Sets)]struct{ with, without int }{
		corpus.Tuned: {60, 15}, corpus.Test: {60, 15}, corpus.Strangers: {60, 30}, corpus.Newcomers: {30, 0},
	}
	for set, name := range corpus.Sets {
		if with, without := len(answerable[set]), len(unanswerable[set]); with != sizes[set].with || without != sizes[set].without {
			t.Errorf("the set %s has %d questions with an answer and %d without, want %d and %d", name, with, without, sizes[set].with, sizes[set].without)
		}
		for _, q := range answerable[set] {
			if len(q.Sections) == 0 {
				t.Errorf("%q has no section that answers it", q.Text)
			}
			for _, section := range q.Sections {
				if !there[section] {
					t.Errorf("%q is answered by %s, which is no section", q.Text, section)
				}
			}
		}
	}
}

// TestExpansionsAreNoQuestionsOfTheTest: a known question that is one of the test's in a few other words would measure
// nothing. Half of the words of the shorter one in common is too many.
func TestExpansionsAreNoQuestionsOfTheTest(t *testing.T) {
	index, err := docsearch.Documentation()
	if err != nil {
		t.Fatal(err)
	}
	words := func(text string) map[string]bool {
		set := map[string]bool{}
		for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' }) {
			if len(word) > 3 {
				set[word] = true
			}
		}
		return set
	}
	answerable, _ := questions(t)
	for _, q := range answerable[corpus.Test] {
		mine := words(q.Text)
		for _, known := range index.Questions {
			theirs, common := words(known.Text), 0
			for word := range theirs {
				if mine[word] {
					common++
				}
			}
			if shorter := min(len(mine), len(theirs)); shorter >= 4 && 2*common > shorter {
				t.Errorf("the known question %q of %s is nearly the measured %q", known.Text, known.Section, q.Text)
			}
		}
	}
}

// ranking is a way to search, and whether it says that a question is covered.
type ranking struct {
	name   string
	search func(t *testing.T, question string) docsearch.Found
	covers bool
}

// measured is what a ranking does with a set: of the questions with an answer how many are found first and among the first five, and
// how many are said to have none; of those without one how many are.
type measured struct{ first, five, lost, refused int }

func (r ranking) measure(t *testing.T, answerable, unanswerable []corpus.Asked) (m measured) {
	t.Helper()
	for _, q := range answerable {
		found := r.search(t, q.Text)
		place := place(q, found)
		if place == 0 {
			m.first++
		}
		if 0 <= place && place < 5 {
			m.five++
		}
		if !found.Covered {
			m.lost++
		}
	}
	for _, q := range unanswerable {
		if !r.search(t, q.Text).Covered {
			m.refused++
		}
	}
	return m
}

// place is where among results the first section is that answers, -1 for nowhere.
func place(q corpus.Asked, found docsearch.Found) int {
	return slices.IndexFunc(found.Results, func(r docsearch.Result) bool { return slices.Contains(q.Sections, r.Section()) })
}

// fused ranks by the places in both rankings, as is usual: 1/(60+place), summed.
func fused(a, b docsearch.Found) docsearch.Found {
	var both []docsearch.Result
	for _, found := range []docsearch.Found{a, b} {
		for place, r := range found.Results {
			r.Score = 1 / float64(61+place)
			if at := slices.IndexFunc(both, func(x docsearch.Result) bool { return x.Section() == r.Section() }); at >= 0 {
				both[at].Score += r.Score
			} else {
				both = append(both, r)
			}
		}
	}
	slices.SortStableFunc(both, func(x, y docsearch.Result) int { return cmp.Compare(y.Score, x.Score) })
	return docsearch.Found{Results: both}
}

// TestSearchFindsWhatIsAsked measures all ways of ranking on both halves, holds the semantic one to its bars, and writes
// docs/search-quality.md.
func TestSearchFindsWhatIsAsked(t *testing.T) {
	simulations.Sequential(t)
	weights := minilmtest.File(t)
	index, err := docsearch.Documentation()
	if err != nil {
		t.Fatal(err)
	}
	passages := len(index.Passages)
	plain := docsearch.NewIndex(index.Weights(), docsearch.Content{Passages: index.Passages}, index.Vectors()[:passages])
	get := func() ([]byte, error) { return weights, nil }
	by := func(s *docsearch.Searcher) func(*testing.T, string) docsearch.Found {
		return func(t *testing.T, question string) docsearch.Found {
			return search(t, s, question, docsearch.MaxResults)
		}
	}
	semantic, semanticPlain, lexical := docsearch.New(index, get), docsearch.New(plain, get), docsearch.New(index, nil)
	semanticPlain.ShareQuestions(semantic)
	semanticPlain.ShareModel(semantic)
	if err := semantic.Semantic(); err != nil {
		t.Fatal(err)
	}
	rankings := []ranking{
		{"semantic", by(semantic), true},
		{"semantic, by passages alone", by(semanticPlain), false},
		{"lexical", by(lexical), true},
		{"lexical, by passages alone", by(docsearch.New(plain, nil)), false},
		{"both, fused by their places", func(t *testing.T, question string) docsearch.Found {
			return fused(by(semantic)(t, question), by(lexical)(t, question))
		}, false},
	}
	answerable, unanswerable := questions(t)
	var hits, covered strings.Builder
	for i, r := range rankings {
		fmt.Fprintf(&hits, "| %s |", r.name)
		covers := fmt.Sprintf("| %s |", r.name)
		for set, name := range corpus.Sets {
			m := r.measure(t, answerable[set], unanswerable[set])
			fmt.Fprintf(&hits, " %d | %d |", m.first, m.five)
			if len(unanswerable[set]) == 0 {
				covers += fmt.Sprintf(" %d |", m.lost)
			} else {
				covers += fmt.Sprintf(" %d of %d | %d |", m.refused, len(unanswerable[set]), m.lost)
			}
			bar := bars[set]
			if i == 0 && (100*m.first < bar.first*len(answerable[set]) || 100*m.five < bar.five*len(answerable[set]) || 100*m.refused < bar.refused*len(unanswerable[set])) { // of no questions, none are refused
				t.Errorf("%s: of %d questions %d are first and %d among the first five, and of %d that have no answer %d are refused; want %d, %d and %d %%",
					name, len(answerable[set]), m.first, m.five, len(unanswerable[set]), m.refused, bar.first, bar.five, bar.refused)
			}
		}
		hits.WriteByte('\n')
		if r.covers {
			covered.WriteString(covers + "\n")
		}
	}
	// Test questions that no known one is near to, and what is found of them.
	var far, farFirst, farFive int
	vectors := index.Vectors()
	for _, q := range answerable[corpus.Test] {
		vector, nearest := semantic.Vector(q.Text), float32(0)
		for i := range index.Questions {
			nearest = max(nearest, vector.Dot(&vectors[passages+i]))
		}
		if nearest >= nearlyTheSame {
			continue
		}
		place := place(q, rankings[0].search(t, q.Text))
		far++
		if place == 0 {
			farFirst++
		}
		if 0 <= place && place < 5 {
			farFive++
		}
	}
	golden.Equal(t, repository+"/docs/search-quality.md", fmt.Sprintf(page, len(index.Passages), len(index.Questions), hits.String(), covered.String(), nearlyTheSame, far, farFirst, farFive))
}

const page = `# How good the search is

What [the documentation's MCP server](mcp-docs.md) finds. Written by ` + "`make docs-index`" + ` with the weights that every release has. The documentation has %d passages, and %d known questions: what sections
answer in words that they do not have, written and reviewed by hand (` + "`shared/docsearch/expansions.txt`" + `).

Three sets of 60 questions and one of 30 have an answer, each question in one section or in some, and are in other words than the pages. On the first set bonuses and
thresholds were tuned, the second is the test; the third was asked by somebody who had read the pages, and neither known questions nor results; the fourth, the newcomers', by somebody who
had read the README and the headings of the pages. A section counts once in a list of results.

| of 60 questions, of newcomers 30 | tuned: first | tuned: among the first five | test: first | test: among the first five | strangers: first | strangers: among the first five | newcomers: first | newcomers: among the first five |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
%s
Of the questions without an answer some are far from what the product is about, some near; of the strangers' half are about what products of this kind have and this one has not. What is less alike than a threshold is
answered as not covered.

| | tuned: refused of those without an answer | tuned: of 60 with one | test: refused of those without | test: of 60 with one | strangers: refused of those without | strangers: of 60 with one | newcomers: of 30 with one |
|---|--:|--:|--:|--:|--:|--:|--:|
%s
The mode ` + "`bedrock`" + ` is not here: nobody has run it against Bedrock. ` + "`make docs-vectors`" + ` asks the model these questions and prints the same figures, before anything
is deployed ([Bedrock](mcp-docs.md#with-models-of-bedrock)). What a model writes out of what was found is not measured either.

Semantic is the mode of the product: meaning, and a little the words in common. Lexical (BM25 of stems) is the mode of a question that would wait too long, or of a product without its file of weights; the others show what the known questions bring, and what both
modes come to by their places alone. A quarter of the known questions are by the hand that wrote the first two sets: no known question is nearly one of the test's, but whoever
writes both thinks alike. So the third and the fourth set are what to expect. Of the test's questions that have no known one within a cosine of
%.1f, which are %d, %d are found first and %d among the first five. What passages alone bring is the lower bound.
`
