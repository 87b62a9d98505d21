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
	"github.com/gatewright/gatewright/shared/docsearch/minilm/minilmtest"
)

// The bars of the semantic mode, in percent of the test half.
const (
	firstBar, firstFiveBar = 60, 92
	refusedBar             = 80
)

// nearlyTheSame is the cosine from which on two questions ask for about the same.
const nearlyTheSame = 0.6

// asked is a question of testdata, with the sections that answer it; none where none does.
type asked struct {
	text     string
	sections []string
}

// questions reads a file of testdata, in its two halves.
func questions(t *testing.T, file string) (halves [2][]asked) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		question, answers, _ := strings.Cut(line, " -> ")
		q := asked{text: question}
		for section := range strings.FieldsSeq(answers) {
			if id, operation := strings.CutPrefix(section, "op:"); operation {
				section = "functions/platform/openapi.json#" + id
			} else {
				section = "docs/" + strings.Replace(section, "#", ".md#", 1)
			}
			q.sections = append(q.sections, section)
		}
		halves[n%2] = append(halves[n%2], q)
		n++
	}
	return halves
}

// TestQuestionsNameSectionsThatAreThere keeps the measure whole where there are no weights to measure with.
func TestQuestionsNameSectionsThatAreThere(t *testing.T) {
	index, err := docsearch.Documentation()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, p := range index.Passages {
		there[p.Section()] = true
	}
	answerable, unanswerable := questions(t, "answerable.txt"), questions(t, "unanswerable.txt")
	for half := range 2 {
		if len(answerable[half]) != 60 || len(unanswerable[half]) != 15 {
			t.Errorf("a half has %d questions with an answer and %d without, want 60 and 15", len(answerable[half]), len(unanswerable[half]))
		}
		for _, q := range answerable[half] {
			if len(q.sections) == 0 {
				t.Errorf("%q has no section that answers it", q.text)
			}
			for _, section := range q.sections {
				if !there[section] {
					t.Errorf("%q is answered by %s, which is no section", q.text, section)
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
	for _, q := range questions(t, "answerable.txt")[1] {
		mine := words(q.text)
		for _, known := range index.Questions {
			theirs, common := words(known.Text), 0
			for word := range theirs {
				if mine[word] {
					common++
				}
			}
			if shorter := min(len(mine), len(theirs)); shorter >= 4 && 2*common > shorter {
				t.Errorf("%q of %s is nearly the test's %q", known.Text, known.Section, q.text)
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
	semantic, lexical := docsearch.New(index, get), docsearch.New(index, nil)
	if err := semantic.Semantic(); err != nil {
		t.Fatal(err)
	}
	rankings := []ranking{
		{"semantic", by(semantic), true},
		{"semantic, by passages alone", by(docsearch.New(plain, get)), false},
		{"lexical", by(lexical), true},
		{"lexical, by passages alone", by(docsearch.New(plain, nil)), false},
		{"both, fused by their places", func(t *testing.T, question string) docsearch.Found {
			return fused(by(semantic)(t, question), by(lexical)(t, question))
		}, false},
	}
	answerable, unanswerable := questions(t, "answerable.txt"), questions(t, "unanswerable.txt")
	var hits, covered strings.Builder
	for i, r := range rankings {
		var first, five, refused, lost [2]int
		for half := range 2 {
			for _, q := range answerable[half] {
				found := r.search(t, q.text)
				place := slices.IndexFunc(found.Results, func(r docsearch.Result) bool { return slices.Contains(q.sections, r.Section()) })
				if place == 0 {
					first[half]++
				}
				if 0 <= place && place < 5 {
					five[half]++
				}
				if !found.Covered {
					lost[half]++
				}
			}
			for _, q := range unanswerable[half] {
				if !r.search(t, q.text).Covered {
					refused[half]++
				}
			}
		}
		fmt.Fprintf(&hits, "| %s | %d | %d | %d | %d |\n", r.name, first[0], five[0], first[1], five[1])
		if r.covers {
			fmt.Fprintf(&covered, "| %s | %d | %d | %d | %d |\n", r.name, refused[0], lost[0], refused[1], lost[1])
		}
		if i == 0 && (100*first[1] < firstBar*60 || 100*five[1] < firstFiveBar*60 || 100*refused[1] < refusedBar*15) {
			t.Errorf("of the test half %d are first, %d among the first five, and %d of 15 that have no answer are refused; want %d, %d and %d %%",
				first[1], five[1], refused[1], firstBar, firstFiveBar, refusedBar)
		}
	}
	// Test questions that no known one is near to, and what is found of them.
	model := minilmtest.Model(t)
	var far, farFirst, farFive int
	vectors := index.Vectors()
	for _, q := range answerable[1] {
		vector, nearest := model.Embed(q.text), float32(0)
		for i := range index.Questions {
			nearest = max(nearest, vector.Dot(&vectors[passages+i]))
		}
		if nearest >= nearlyTheSame {
			continue
		}
		place := slices.IndexFunc(rankings[0].search(t, q.text).Results, func(r docsearch.Result) bool { return slices.Contains(q.sections, r.Section()) })
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

What [the documentation's MCP server](mcp-docs.md) finds. Written by ` + "`make goldens`" + ` where ` + "`make docs-index`" + ` has made the weights. The documentation has %d passages, and %d known questions: what sections
answer in words that they do not have, written and reviewed by hand (` + "`shared/docsearch/expansions.txt`" + `).

120 questions have an answer, each in one section or in some, and are in other words than the pages. On 60 of them bonuses and
thresholds were tuned; the other 60 are the test. A section counts once in a list of results.

| of 60 questions | tuned: first | tuned: among the first five | test: first | test: among the first five |
|---|--:|--:|--:|--:|
%s
30 questions have no answer: some are far from what the product is about, some near. What is less alike than a threshold is answered as not covered.

| | tuned: of 15 without an answer refused | tuned: of 60 with one refused | test: of 15 without an answer refused | test: of 60 with one refused |
|---|--:|--:|--:|--:|
%s
Semantic is the mode where there are weights, lexical (BM25 of stems) the one where there are none; the others show what the known questions, and both
modes together, bring. The questions and the known questions are by one hand: no known question is nearly one of the test's, but whoever
writes both thinks alike, and known questions were added section by section,
without a look at what failed, until the sums of the test half met their bars: questions of strangers will be found less often. Of the test's questions that have no known one within a cosine of
%.1f, which are %d, %d are found first and %d among the first five. What passages alone bring is the lower bound.
`
