package docsearch

import "github.com/gatewright/gatewright/shared/docsearch/minilm"

// Occupy takes all turns, as questions do that are made vectors, until leave is called.
func (s *Searcher) Occupy() (leave func()) {
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	return func() {
		for range cap(s.turns) {
			<-s.turns
		}
	}
}

// Waiting is how many questions wait for a turn, of equal ones one.
func (s *Searcher) Waiting() int64 { return s.waiting.Load() }

// ShareQuestions has s use the vectors of the questions that other was asked, so that no question is made a vector twice.
func (s *Searcher) ShareQuestions(other *Searcher) { s.vectors = other.vectors }

// ShareModel has s use the model of other, so that no weights are read twice.
func (s *Searcher) ShareModel(other *Searcher) { s.read, s.failure = other.model() }

// Vector returns the vector of a question that was asked, which is the same for a search and here.
func (s *Searcher) Vector(question string) minilm.Vector {
	vector, _ := s.vectors.Get(squeezed(question))
	return vector
}
