package docsearch

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
