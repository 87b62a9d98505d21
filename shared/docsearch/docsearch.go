// Package docsearch finds what the documentation says about a question, and answers with its own sentences
// (specification 4.1).
//
// Two ways of ranking are in it, and each answer says which it was; a third is by a model that is asked over a network, where an
// installation has one (elsewhere.go). Semantic compares meanings, and a little the words: the vector of the
// question, by a small sentence transformer (package minilm), with those of all passages. Its weights are a file of every
// release, which is read at the first search. The ranking is Lexical while too many questions wait, and if the file cannot be read: words that the question and the
// passage, or a question that the passage is known to answer (expansions.txt), have in common. How good each is stands in docs/search-quality.md.
//
// It speaks no HTTP and no MCP, and knows no accounts: the documentation is public. The passages and their vectors
// are embedded (index.bin), made by `make docs-index` from what package corpus reads; a test refuses an index that is out of date.
//
// Read this file first, then search.go, which ranks, index.go, which is what is ranked, and answer.go, which answers. written.go has the answers
// that a model writes, and check.go what is believed of them.
package docsearch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/gatewright/gatewright/shared/docsearch/minilm"
)

// MaxQueryBytes is how long a question may be.
const MaxQueryBytes = 2048

// maxQuestionTokens is how much of a question counts, some fifty words: more of it would take a core for a second.
const maxQuestionTokens = 64

// MaxResults is how many results a search gives at most.
const MaxResults = 20

// remembered is how many questions' vectors are kept: 1.6 MB.
const remembered = 1024

// patience is how long a question waits for its turn to be made a vector. Who would wait longer is answered by words, so
// that nobody waits a second behind sixteen clients (decision 0046).
const patience = 400 * time.Millisecond

// ErrQuery is of a question that is empty, longer than MaxQueryBytes or no UTF-8.
var ErrQuery = errors.New("docsearch: a question is 1 to 2,048 bytes of UTF-8")

// Mode is how results were ranked.
type Mode string

// The modes.
const (
	Semantic Mode = "semantic"
	Lexical  Mode = "lexical"
	// Bedrock compares meanings as Semantic does, by the vectors of a model that is asked over a network.
	Bedrock Mode = "bedrock"
)

// Found is what a search gives.
type Found struct {
	Mode Mode
	// Busy says that it is Lexical although there are weights: too many questions were before this one.
	Busy bool
	// Failed says why it is not Bedrock although there is such a model; nil where it is, or there is none.
	Failed *ModelError
	// Covered is false where the best result is so far from the question that the documentation probably says nothing about
	// it. The results are there nonetheless.
	Covered bool
	// Results are the best passages, the best first, at most one of each section.
	Results []Result
}

// Result is a passage and how well it fits. Scores are comparable within one mode: made of cosines and a part
// of the words in common where it is by meaning, from 0 to 1, and where it is lexical the part of what the question's words could have brought, from 0 on.
type Result struct {
	Passage
	Score float64
}

// Searcher searches an index. It may be used by many at once.
type Searcher struct {
	index   *Index
	words   func() *lexicon // made at the first search that needs it: it takes longer than a function's whole start may
	weights func() ([]byte, error)
	// reading guards the model that was read from the weights, or the reason why there is none.
	reading sync.Mutex
	read    *minilm.Model
	failure error
	vectors *lru.Cache[string, minilm.Vector]
	// flights are the questions that are waiting or made vectors: of several that are equal, one.
	flights singleflight.Group
	// turns bounds how many questions are made vectors at a time, and with it the memory for them: one a core, since
	// each takes all of one.
	turns chan struct{}
	// waiting is how many questions wait for a turn or have one, of equal ones one.
	waiting atomic.Int64
	// elsewhere is asked first, nil for none.
	elsewhere *elsewhere
}

// New returns a searcher. The function weights returns the bytes of the file of weights. The first search calls it, and a later one only
// after it returned fs.ErrNotExist, since the file may have been put into place. While it fails, or if it is nil, searches are lexical, and Semantic returns the reason.
func New(index *Index, weights func() ([]byte, error)) *Searcher {
	vectors, err := lru.New[string, minilm.Vector](remembered)
	if err != nil {
		panic("docsearch: " + err.Error()) // of a size that is not positive
	}
	if weights == nil {
		weights = func() ([]byte, error) { return nil, fs.ErrNotExist }
	}
	return &Searcher{
		index:   index,
		words:   index.lexicon,
		vectors: vectors,
		turns:   make(chan struct{}, runtime.GOMAXPROCS(0)),
		weights: weights,
	}
}

// model returns the model, or the reason why there is none.
func (s *Searcher) model() (*minilm.Model, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.read == nil && (s.failure == nil || errors.Is(s.failure, fs.ErrNotExist)) {
		s.read, s.failure = readWeights(s.index, s.weights)
	}
	return s.read, s.failure
}

// readWeights returns the model of a file of weights, if the file made the index.
func readWeights(index *Index, weights func() ([]byte, error)) (*minilm.Model, error) {
	file, err := weights()
	if err != nil {
		return nil, fmt.Errorf("read the weights: %w", err)
	}
	model, err := minilm.Read(file)
	if err != nil {
		return nil, err
	}
	if model.Digest() != index.weights {
		return nil, errors.New("docsearch: the weights are not those of the documentation's index: use the file of the same release, or run make docs-index")
	}
	return model, nil
}

// Semantic reads the weights unless they were read before. It returns nil if searches are semantic, and otherwise the reason why they are
// lexical: fs.ErrNotExist if there is no file of weights.
func (s *Searcher) Semantic() error {
	_, err := s.model()
	return err
}

// Search finds the passages that fit a question best, at most limit of them, of 1 to MaxResults. Its only faults are
// ErrQuery and the end of the context. A model elsewhere that fails is answered for by what is here.
func (s *Searcher) Search(ctx context.Context, question string, limit int) (Found, error) {
	question = squeezed(question)
	if question == "" || len(question) > MaxQueryBytes || !utf8.ValidString(question) {
		return Found{}, ErrQuery
	}
	limit = min(max(limit, 1), MaxResults)
	if s.elsewhere == nil {
		return s.here(ctx, question, limit)
	}
	vectors, vector, failure := s.elsewhere.vector(ctx, question)
	if failure == nil {
		return s.nearest(Bedrock, question, func(i int) float64 { return vectors.dot(i, vector) }, limit, vectors.Covered), nil
	}
	if err := context.Cause(ctx); err != nil {
		return Found{}, err
	}
	found, err := s.here(ctx, question, limit)
	found.Failed = failure
	return found, err
}

// here is Search without a network, of a question that is one.
func (s *Searcher) here(ctx context.Context, question string, limit int) (Found, error) {
	model, err := s.model()
	if err != nil {
		return s.lexical(question, limit), nil //nolint:nilerr // what kept the weights away is told by Semantic, and the answer's mode
	}
	vector, err := s.vector(ctx, model, question)
	switch {
	case errors.Is(err, errBusy):
		found := s.lexical(question, limit)
		found.Busy = true
		return found, nil
	case err != nil:
		return Found{}, err
	}
	return s.semantic(question, vector, limit), nil
}

// errBusy is of a question whose turn did not come in time.
var errBusy = errors.New("docsearch: too many questions wait")

// vector is a question's, remembered or made when it is its turn. Its faults are errBusy and the end of the context, which is not
// looked at while it waits: that is short, and others may wait for the same.
func (s *Searcher) vector(ctx context.Context, model *minilm.Model, question string) (minilm.Vector, error) {
	if vector, there := s.vectors.Get(question); there {
		return vector, nil
	}
	if err := context.Cause(ctx); err != nil {
		return minilm.Vector{}, err
	}
	made, err, _ := s.flights.Do(question, func() (any, error) {
		wait := time.NewTimer(patience)
		defer wait.Stop()
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		select {
		case s.turns <- struct{}{}:
			defer func() { <-s.turns }()
		case <-wait.C:
			return nil, errBusy
		}
		vector := model.EmbedFirst(question, maxQuestionTokens)
		s.vectors.Add(question, vector)
		return vector, nil
	})
	vector, _ := made.(minilm.Vector) // none with an error
	return vector, err
}
