package docsearch_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/management/docsearch/corpus"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm/minilmtest"
	"github.com/gatewright/gatewright/shared/testing/golden"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// thresholds are the minimum rates of the semantic ranking for each set except Tuning, in percent: the questions
// whose section is the first result, the questions whose section is among the first five results, and, of the
// questions without an answer, those that are refused.
var thresholds = [...]struct{ first, five, refused int }{
	corpus.HeldOut: {60, 92, 80}, corpus.Strangers: {70, 90, 75},
	corpus.Newcomers: {60, 90, 0},
}

// minParaphraseCosine is the minimum cosine of two questions with about the same meaning.
const minParaphraseCosine = 0.6

// questions returns the questions with and without an answer in the documentation.
func questions(t *testing.T) (answerable, unanswerable corpus.QuestionSets) {
	t.Helper()
	answerable, unanswerable, err := corpus.ReadQuestions(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	return answerable, unanswerable
}

// TestQuestionsNameExistingSections checks the sizes of the sets
// of questions, and that the questions name existing sections.
func TestQuestionsNameExistingSections(t *testing.T) {
	index, err := docsearch.DocumentationIndex()
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, p := range index.Passages {
		sections[p.Section()] = true
	}
	answerable, unanswerable := questions(t)
	sizes := [len(corpus.SetNames)]struct{ answerableCount, unanswerableCount int }{
		corpus.Tuning: {60, 15}, corpus.HeldOut: {60, 15}, corpus.Strangers: {60, 30}, corpus.Newcomers: {30, 0},
	}
	for set, name := range corpus.SetNames {
		if answerableCount, unanswerableCount := len(answerable[set]),
			len(unanswerable[set]); answerableCount != sizes[set].answerableCount ||
			unanswerableCount != sizes[set].unanswerableCount {
			t.Errorf("the set %s has %d questions with an answer and %d without, want %d and %d", name, answerableCount,
				unanswerableCount, sizes[set].answerableCount, sizes[set].unanswerableCount)
		}
		for _, q := range answerable[set] {
			if len(q.Sections) == 0 {
				t.Errorf("%q has no section, want one with an answer", q.Text)
			}
			for _, section := range q.Sections {
				if !sections[section] {
					t.Errorf("section of %q = %s, want an existing one", q.Text, section)
				}
			}
		}
	}
}

// TestExpansionsDoNotContainTestQuestions checks that no known question is a test question in slightly different
// words: the rates with such questions would mean nothing. If a known question and a test question each have at least
// four words of more than three letters, they must share at most half of those of the shorter one.
func TestExpansionsDoNotContainTestQuestions(t *testing.T) {
	index, err := docsearch.DocumentationIndex()
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
	for _, q := range answerable[corpus.HeldOut] {
		testWords := words(q.Text)
		for _, known := range index.Questions {
			knownWords, common := words(known.Text), 0
			for word := range knownWords {
				if testWords[word] {
					common++
				}
			}
			if shorter := min(len(testWords), len(knownWords)); shorter >= 4 && 2*common > shorter {
				t.Errorf("known question %q of %s shares %d words with the test question %q, want at most half of %d",
					known.Text, known.Section, common, q.Text, shorter)
			}
		}
	}
}

// ranking is a kind of search. hasCoverage is true if its results show whether a question is covered.
type ranking struct {
	name        string
	search      func(t *testing.T, question string) docsearch.SearchResult
	hasCoverage bool
}

// measured has the results of a ranking for a set of questions. first, five and lost are numbers of
// questions with an answer: those whose section is the first result, those whose section is among the first
// five results, and those that were refused. refused is the number of refused questions without an answer.
type measured struct{ first, five, lost, refused int }

// measure searches all questions with the ranking and counts the results.
func (r ranking) measure(t *testing.T, answerable, unanswerable []corpus.EvalQuestion) (m measured) {
	t.Helper()
	for _, q := range answerable {
		found := r.search(t, q.Text)
		rank := position(q, found)
		if rank == 0 {
			m.first++
		}
		if 0 <= rank && rank < 5 {
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

// position returns the index of the first result with a correct section, or -1 if there is none.
func position(q corpus.EvalQuestion, found docsearch.SearchResult) int {
	return slices.IndexFunc(found.Results, func(r docsearch.Result) bool {
		return slices.Contains(q.Sections, r.Section())
	})
}

// fuseRankings combines two rankings with reciprocal rank fusion: the
// score of a result is the sum of 1/(60+rank) over both rankings.
func fuseRankings(a, b docsearch.SearchResult) docsearch.SearchResult {
	var results []docsearch.Result
	for _, found := range []docsearch.SearchResult{a, b} {
		for rank, r := range found.Results {
			r.Score = 1 / float64(61+rank)
			if at := slices.IndexFunc(results, func(x docsearch.Result) bool { return x.Section() == r.Section() }); at >= 0 {
				results[at].Score += r.Score
			} else {
				results = append(results, r)
			}
		}
	}
	slices.SortStableFunc(results, func(x, y docsearch.Result) int { return cmp.Compare(y.Score, x.Score) })
	return docsearch.SearchResult{Results: results}
}

// TestSearchQuality measures all rankings with all sets of questions, checks the semantic
// ranking against thresholds, and compares the results with docs/search-quality.md.
func TestSearchQuality(t *testing.T) {
	simulations.SkipUnderRace(t)
	weights := minilmtest.File(t)
	index, err := docsearch.DocumentationIndex()
	if err != nil {
		t.Fatal(err)
	}
	vectors, passages := index.Vectors(), len(index.Passages)
	// plain is the index without the known questions.
	plain := docsearch.NewIndex(index.WeightsDigest(), docsearch.Content{Passages: index.Passages}, vectors[:passages])
	get := func() ([]byte, error) { return weights, nil }
	searchWith := func(s *docsearch.Searcher) func(*testing.T, string) docsearch.SearchResult {
		return func(t *testing.T, question string) docsearch.SearchResult {
			return search(t, s, question, docsearch.MaxResults)
		}
	}
	semantic, semanticPlain, lexical := docsearch.New(index, get), docsearch.New(plain, get), docsearch.New(index, nil)
	semanticPlain.ShareQuestions(semantic)
	semanticPlain.ShareModel(semantic)
	if err := semantic.LoadWeights(); err != nil {
		t.Fatal(err)
	}
	rankings := []ranking{
		{"semantic", searchWith(semantic), true},
		{"semantic, by passages alone", searchWith(semanticPlain), false},
		{"lexical", searchWith(lexical), true},
		{"lexical, by passages alone", searchWith(docsearch.New(plain, nil)), false},
		{"both, fused by their places", func(t *testing.T, question string) docsearch.SearchResult {
			return fuseRankings(searchWith(semantic)(t, question), searchWith(lexical)(t, question))
		}, false},
	}
	answerable, unanswerable := questions(t)
	var hits, covered strings.Builder
	for i, r := range rankings {
		fmt.Fprintf(&hits, "| %s |", r.name)
		covers := fmt.Sprintf("| %s |", r.name)
		for set, name := range corpus.SetNames {
			m := r.measure(t, answerable[set], unanswerable[set])
			fmt.Fprintf(&hits, " %d | %d |", m.first, m.five)
			if len(unanswerable[set]) == 0 {
				covers += fmt.Sprintf(" %d |", m.lost)
			} else {
				covers += fmt.Sprintf(" %d of %d | %d |", m.refused, len(unanswerable[set]), m.lost)
			}
			threshold := thresholds[set]
			// If the set has no questions without an answer, both sides of the last comparison are 0.
			if i == 0 && (100*m.first < threshold.first*len(answerable[set]) ||
				100*m.five < threshold.five*len(answerable[set]) || 100*m.refused < threshold.refused*len(unanswerable[set])) {
				t.Errorf("%s: first = %d and first five = %d of %d questions with an answer, refused = %d of %d without one; "+
					"want at least %d %%, %d %% and %d %%",
					name, m.first, m.five, len(answerable[set]), m.refused, len(unanswerable[set]),
					threshold.first, threshold.five, threshold.refused)
			}
		}
		hits.WriteByte('\n')
		if r.hasCoverage {
			covered.WriteString(covers + "\n")
		}
	}
	// Test questions without a similar known question: all, those found first, and those among the first five.
	var far, farFirst, farFive int
	for _, q := range answerable[corpus.HeldOut] {
		vector, nearest := semantic.Vector(q.Text), float32(0)
		for i := range index.Questions {
			nearest = max(nearest, vector.Dot(&vectors[passages+i]))
		}
		if nearest >= minParaphraseCosine {
			continue
		}
		rank := position(q, rankings[0].search(t, q.Text))
		far++
		if rank == 0 {
			farFirst++
		}
		if 0 <= rank && rank < 5 {
			farFive++
		}
	}
	golden.Equal(t, repository+"/docs/search-quality.md", fmt.Sprintf(page, len(index.Passages), len(index.Questions),
		hits.String(), covered.String(), minParaphraseCosine, far, farFirst, farFive))
}

const page = `# How good the search is

What [the documentation's MCP server](mcp-docs.md) finds. Written by ` + "`make docs-index`" + ` with the weights that every release has. The documentation has %d passages, and %d known questions: what sections
answer in words that they do not have, written and reviewed by hand (` + "`shared/management/docsearch/expansions.txt`" + `).

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
