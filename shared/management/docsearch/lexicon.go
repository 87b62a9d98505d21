package docsearch

import (
	"math"
	"strings"
	"unicode"

	"github.com/kljensen/snowball/english"
)

// The constants of BM25, with their usual values: saturation limits the effect of
// repetitions of a word, and lengthWeight is the effect of a passage's length.
const (
	saturation   = 1.2
	lengthWeight = 0.75
	// titleWeight is the weight of a word in the title. A word in the text has the weight 1.
	titleWeight = 2
)

// lexicon is the data of BM25: for each word, the passages that contain it, and how often.
type lexicon struct {
	postings map[string][]posting
	length   []float64 // of each passage with its questions, in words; a word of the title counts titleWeight times
	mean     float64   // the mean of length
}

// posting is a passage that contains a word in its title, text or known questions.
// count is the number of occurrences. An occurrence in the title counts titleWeight times.
type posting struct {
	passage int
	count   float64
}

// lexicon returns the lexicon of the index. All searchers of the index share it.
func (in *Index) lexicon() *lexicon {
	in.once.Do(func() { in.cachedLexicon = newLexicon(in) })
	return in.cachedLexicon
}

func newLexicon(x *Index) *lexicon {
	questions := make(map[string][]string)
	for _, q := range x.Questions {
		questions[q.Section] = append(questions[q.Section], q.Text)
	}
	stem := stemmer{}
	l := &lexicon{postings: make(map[string][]posting), length: make([]float64, len(x.Passages))}
	var total float64
	for i, p := range x.Passages {
		counts := map[string]float64{}
		add := func(text string, n float64) {
			for _, word := range stem.stems(text) {
				counts[word] += n
				l.length[i] += n
			}
		}
		add(p.Title, titleWeight)
		add(p.Text, 1)
		for _, question := range questions[p.Section()] {
			add(question, 1)
		}
		for word, n := range counts {
			l.postings[word] = append(l.postings[word], posting{i, n})
		}
		total += l.length[i]
	}
	l.mean = total / float64(max(1, len(x.Passages)))
	return l
}

// scores returns the BM25 score of each passage, relative to the score of a passage of average
// length that contains each word of the question once, or to 1 if that score is below 1.
func (l *lexicon) scores(question string) []float64 {
	scores := make([]float64, len(l.length))
	var best float64
	seen := map[string]bool{}
	for _, word := range stems(question) {
		if seen[word] {
			continue
		}
		seen[word] = true
		idf := l.idf(word)
		best += idf
		for _, p := range l.postings[word] {
			norm := 1 - lengthWeight + lengthWeight*l.length[p.passage]/l.mean
			scores[p.passage] += idf * p.count * (saturation + 1) / (p.count + saturation*norm)
		}
	}
	for i := range scores {
		scores[i] /= max(best, 1)
	}
	return scores
}

// stemmer maps words to their stems, and stop words to "". It is a cache: each word occurs ten times on average.
type stemmer map[string]string

// stems returns the stems of a text's words, without stop words.
func (s stemmer) stems(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	out := words[:0]
	for _, word := range words {
		stem, cached := s[word]
		if !cached && !english.IsStopWord(word) {
			stem = english.Stem(word, false)
		}
		if s[word] = stem; stem != "" {
			out = append(out, stem)
		}
	}
	return out
}

// sharedWeight returns the sum of the weights (idf) of the words that a question and a sentence share.
func (l *lexicon) sharedWeight(question, sentence string) float64 {
	inSentence := map[string]bool{}
	for _, word := range stems(sentence) {
		inSentence[word] = true
	}
	var sum float64
	for _, word := range stems(question) {
		if inSentence[word] {
			sum += l.idf(word)
			delete(inSentence, word)
		}
	}
	return sum
}

// idf returns the weight of a word: rare words have more weight.
func (l *lexicon) idf(word string) float64 {
	n, containing := float64(len(l.length)), float64(len(l.postings[word]))
	return math.Log(1 + (n-containing+0.5)/(containing+0.5))
}

// stems returns the stems of a single text.
func stems(text string) []string { return stemmer{}.stems(text) }
