package docsearch

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
)

// The minimum scores of a covered question. They were tuned with corpus.Tuning: few questions with an answer
// are below them, and most of the questions without an answer (docs/search-quality.md has both rates).
const (
	semanticCovered = 0.43
	lexicalCovered  = 0.485
)

// questionBonus is added to the cosine of the question and a known question of a section before it is compared with the
// cosine of a passage: a known question is more reliable than the passage itself. It was tuned like the scores above.
const questionBonus = 0.05

// passageWeight is the weight of the passage's cosine relative to the best cosine of its section: if two sections
// have a similar known question, the section with the more similar text comes first. It was tuned in the same way.
const passageWeight = 0.7

// wordWeight is the weight of common words relative to meaning: the model knows
// little about names, numbers and rare words. It was tuned in the same way.
const wordWeight = 0.3

// semantic ranks sections by the vector of the question from the local model.
func (s *Searcher) semantic(question string, vector minilm.Vector, limit int) SearchResult {
	return s.rank(Semantic, question, func(i int) float64 {
		return s.index.vectors[i].dot(&vector)
	}, limit, semanticCovered)
}

// rank ranks sections by three values: the cosine of the question and the nearest
// passage or known question, the cosine of the passage alone, and the words in common.
// cosine returns the cosine of the question and the text at an index of Content.Texts. minCovered is the minimum
// score of a covered question.
func (s *Searcher) rank(
	mode Mode, question string, cosine func(text int) float64, limit int, minCovered float64,
) SearchResult {
	x := s.index
	cosines := make([]float64, len(x.Passages))
	common := make(map[string]float64)
	for i, score := range s.lexicon().scores(firstWords(question)) {
		cosines[i] = cosine(i)
		section := x.Passages[i].Section()
		common[section] = max(common[section], min(1, score))
	}
	questionScores := make(map[string]float64)
	for i, q := range x.Questions {
		questionScores[q.Section] = max(questionScores[q.Section], min(1, cosine(len(cosines)+i)+questionBonus))
	}
	return s.bestSections(mode, cosines, func(section string, passage float64) float64 {
		meaning := (max(passage, questionScores[section]) + passageWeight*passage) / (1 + passageWeight)
		return (meaning + wordWeight*common[section]) / (1 + wordWeight)
	}, limit, minCovered)
}

// firstWords returns the first words of a question, at most maxQuestionTokens. The
// model reads no more of the question, so further words must not count either.
func firstWords(question string) string {
	words := strings.Fields(question)
	return strings.Join(words[:min(maxQuestionTokens, len(words))], " ")
}

// lexical ranks sections only by the words in common.
func (s *Searcher) lexical(question string, limit int) SearchResult {
	return s.bestSections(Lexical, s.lexicon().scores(question), func(_ string, passage float64) float64 {
		return passage
	}, limit, lexicalCovered)
}

// bestSections returns the best sections with a score above 0. A section has only its best passage as a result,
// because all passages of a section have the same link. passageScores are the scores of all passages. score computes a
// section's score from the score of its best passage. Sections with equal scores keep their order.
func (s *Searcher) bestSections(
	mode Mode, passageScores []float64, score func(section string, passage float64) float64, limit int,
	minCovered float64,
) SearchResult {
	var results []Result
	best := make(map[string]int) // the index in results of each section
	for i, p := range s.index.Passages {
		section := p.Section()
		at, exists := best[section]
		switch {
		case !exists:
			best[section] = len(results)
			results = append(results, Result{Passage: p, Score: passageScores[i]})
		case passageScores[i] > results[at].Score:
			results[at] = Result{Passage: p, Score: passageScores[i]}
		}
	}
	for i := range results {
		results[i].Score = score(results[i].Section(), results[i].Score)
	}
	slices.SortStableFunc(results, func(a, b Result) int { return cmp.Compare(b.Score, a.Score) })
	results = slices.DeleteFunc(results, func(r Result) bool { return r.Score <= 0 })
	results = results[:min(limit, len(results))]
	return SearchResult{Mode: mode, Covered: len(results) > 0 && results[0].Score >= minCovered, Results: results}
}
