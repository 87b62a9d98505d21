package docsearch

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/docsearch/minilm"
)

// The scores from which on a question counts as covered. They are where, of the half of questions that is tuned on, few
// that have an answer are refused, and most that have none are (docs/search-quality.md has both).
const (
	semanticCovered = 0.43
	lexicalCovered  = 0.485
)

// alike is what the cosine to a question that a section is known to answer counts more than the one to a passage: two
// questions are more alike than a question and its answer. It was tuned as the scores above were.
const alike = 0.05

// own is how much the passage's own cosine counts beside the best one: of two sections with a known question that is
// near, the one whose text is near too is first. It was tuned in the same way.
const own = 0.7

// inWords is how much the words in common count beside meaning: names, numbers and rare words mean little to the model.
// It was tuned in the same way.
const inWords = 0.3

// semantic ranks by a vector of the weights.
func (s *Searcher) semantic(question string, vector minilm.Vector, limit int) Found {
	return s.nearest(Semantic, question, func(i int) float64 { return s.index.vectors[i].dot(&vector) }, limit, semanticCovered)
}

// nearest ranks sections by the cosine between the question and the passage, or the known question, that is nearest, by the
// passage alone, and by the words in common. Of each of the index's texts, cosine gives it.
func (s *Searcher) nearest(mode Mode, question string, cosine func(text int) float64, limit int, covered float64) Found {
	x := s.index
	passages := make([]float64, len(x.Passages))
	common := make(map[string]float64)
	for i, score := range s.words().scores(beginning(question)) {
		passages[i] = cosine(i)
		section := x.Passages[i].Section()
		common[section] = max(common[section], min(1, score))
	}
	known := make(map[string]float64)
	for i, q := range x.Questions {
		known[q.Section] = max(known[q.Section], min(1, cosine(len(passages)+i)+alike))
	}
	return s.found(mode, passages, func(section string, passage float64) float64 {
		meaning := (max(passage, known[section]) + own*passage) / (1 + own)
		return (meaning + inWords*common[section]) / (1 + inWords)
	}, limit, covered)
}

// beginning is as much of a question as counts at most for its meaning, so that no more of it counts in words.
func beginning(question string) string {
	words := strings.Fields(question)
	return strings.Join(words[:min(maxQuestionTokens, len(words))], " ")
}

// lexical ranks by the words in common.
func (s *Searcher) lexical(question string, limit int) Found {
	return s.found(Lexical, s.words().scores(question), func(_ string, passage float64) float64 { return passage }, limit, lexicalCovered)
}

// found gives the best sections, each by its best passage: ten pieces of a long section are one place to read. A section's
// score is made of that passage's by score. Of two that are equal the earlier one is first.
func (s *Searcher) found(mode Mode, passages []float64, score func(section string, passage float64) float64, limit int, covered float64) Found {
	var results []Result
	best := make(map[string]int) // of each section, its place in results
	for i, p := range s.index.Passages {
		section := p.Section()
		at, there := best[section]
		switch {
		case !there:
			best[section] = len(results)
			results = append(results, Result{Passage: p, Score: passages[i]})
		case passages[i] > results[at].Score:
			results[at] = Result{Passage: p, Score: passages[i]}
		}
	}
	for i := range results {
		results[i].Score = score(results[i].Section(), results[i].Score)
	}
	slices.SortStableFunc(results, func(a, b Result) int { return cmp.Compare(b.Score, a.Score) })
	results = slices.DeleteFunc(results, func(r Result) bool { return r.Score <= 0 })
	results = results[:min(limit, len(results))]
	return Found{Mode: mode, Covered: len(results) > 0 && results[0].Score >= covered, Results: results}
}
