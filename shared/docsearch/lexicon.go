package docsearch

import (
	"math"
	"strings"
	"unicode"

	"github.com/kljensen/snowball/english"
)

// The constants of BM25 as they are usual: how soon a word that is repeated stops counting, and how much a
// long passage is held against it.
const (
	saturation = 1.2
	lengthwise = 0.75
	// titleTimes is how often a word of the title counts.
	titleTimes = 2
)

// lexicon is what BM25 asks: which passages have which words, and how often.
type lexicon struct {
	postings map[string][]posting
	length   []float64 // of each passage, in words
	mean     float64
}

type posting struct {
	passage int
	times   float64
}

// lexicon returns the words of the index. All searchers of the index share them.
func (x *Index) lexicon() *lexicon {
	x.once.Do(func() { x.words = newLexicon(x) })
	return x.words
}

func newLexicon(x *Index) *lexicon {
	questions := make(map[string][]string)
	for _, q := range x.Questions {
		questions[q.Section] = append(questions[q.Section], q.Text)
	}
	stem := stemmer{}
	l := &lexicon{postings: make(map[string][]posting), length: make([]float64, len(x.Passages))}
	var all float64
	for i, p := range x.Passages {
		times := map[string]float64{}
		add := func(text string, n float64) {
			for _, word := range stem.stems(text) {
				times[word] += n
				l.length[i] += n
			}
		}
		add(p.Title, titleTimes)
		add(p.Text, 1)
		for _, question := range questions[p.Section()] {
			add(question, 1)
		}
		for word, n := range times {
			l.postings[word] = append(l.postings[word], posting{i, n})
		}
		all += l.length[i]
	}
	l.mean = all / float64(max(1, len(x.Passages)))
	return l
}

// scores gives each passage's by BM25, as a part of what the question's words bring to a passage that has
// all of them, once, in average length.
func (l *lexicon) scores(question string) []float64 {
	scores := make([]float64, len(l.length))
	var best float64
	seen := map[string]bool{}
	for _, word := range stems(question) {
		if seen[word] {
			continue
		}
		seen[word] = true
		rare := l.rare(word)
		best += rare
		for _, p := range l.postings[word] {
			scores[p.passage] += rare * p.times * (saturation + 1) / (p.times + saturation*(1-lengthwise+lengthwise*l.length[p.passage]/l.mean))
		}
	}
	for i := range scores {
		scores[i] /= max(best, 1)
	}
	return scores
}

// stemmer remembers what it made of each word: all texts together have ten times as many words as there are different ones.
type stemmer map[string]string

// stems gives the words of a text without their endings, and without those that every text has.
func (s stemmer) stems(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	kept := words[:0]
	for _, word := range words {
		stem, known := s[word]
		if !known && !english.IsStopWord(word) {
			stem = english.Stem(word, false)
		}
		if s[word] = stem; stem != "" {
			kept = append(kept, stem)
		}
	}
	return kept
}

// shared says how much of what a question's words weigh a sentence has.
func (l *lexicon) shared(question, sentence string) float64 {
	has := map[string]bool{}
	for _, word := range stems(sentence) {
		has[word] = true
	}
	var sum float64
	for _, word := range stems(question) {
		if has[word] {
			sum += l.rare(word)
			delete(has, word)
		}
	}
	return sum
}

// rare is how much a word weighs: the more, the fewer passages have it.
func (l *lexicon) rare(word string) float64 {
	n, has := float64(len(l.length)), float64(len(l.postings[word]))
	return math.Log(1 + (n-has+0.5)/(has+0.5))
}

// stems are those of a text alone.
func stems(text string) []string { return stemmer{}.stems(text) }
