package docsearch

import "github.com/gatewright/gatewright/shared/management/docsearch/minilm"

// FillSlots occupies all slots, like questions whose vectors are being computed, until release is called.
func (s *Searcher) FillSlots() (release func()) {
	for range cap(s.slots) {
		s.slots <- struct{}{}
	}
	return func() {
		for range cap(s.slots) {
			<-s.slots
		}
	}
}

// Waiting returns the number of different questions that wait for a slot, or whose vectors are being computed.
func (s *Searcher) Waiting() int64 { return s.pending.Load() }

// ShareQuestions makes s use the cache of other for vectors of questions, so that no vector is computed twice.
func (s *Searcher) ShareQuestions(other *Searcher) { s.vectors = other.vectors }

// ShareModel makes s use the model of other, so that the weights are read once.
func (s *Searcher) ShareModel(other *Searcher) { s.loaded, s.loadErr = other.model() }

// Vector returns the cached vector of a question.
func (s *Searcher) Vector(question string) minilm.Vector {
	vector, _ := s.vectors.Get(collapseSpace(question))
	return vector
}
