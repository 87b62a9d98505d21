// Package docsearch finds the sections of the documentation for a
// question, and quotes their sentences as the answer (specification 4.1).
//
// It has three rankings, and each result names its ranking. Semantic mainly compares meanings, and to a smaller extent
// words. It compares the vector of the question with the vectors of all passages and known questions (expansions.txt).
// A small sentence transformer (package minilm) computes the vector of the question. The transformer's weights are a
// file of every release, and the first search reads it. Lexical compares only words: it scores passages with BM25, and
// a passage includes the known questions for its section. A search is Lexical while too many questions wait, or if the
// file cannot be read. Bedrock is like Semantic, but uses a model over a network, if an installation has such a model
// (remote.go). docs/search-quality.md shows how good each ranking is.
//
// The package does not use HTTP, MCP or accounts: the documentation is public. The passages, the known questions and
// the vectors of both are embedded (index.bin). `make docs-index` creates this file from the result of package corpus.
// A test fails if the index is out of date.
//
// Read this file first, then search.go, which ranks, index.go, which has the ranked texts, and answer.go, which
// quotes them. generative.go uses a model to write an answer, and verify.go checks the model's sentences.
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

	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
)

// MaxQueryBytes is the maximum length of a question.
const MaxQueryBytes = 2048

// maxQuestionTokens is the maximum number of tokens of a question from which the local model computes a vector, some
// fifty words. Longer questions would use a core for up to a second.
const maxQuestionTokens = 64

// MaxResults is the maximum number of results of a search.
const MaxResults = 20

// cacheSize is the number of questions whose vectors are cached: 1.6 MB.
const cacheSize = 1024

// queueTimeout is the maximum time for which a question waits for a slot. After this time, the search is lexical.
// Without the timeout, 16 concurrent clients waited for up to 1.4 seconds (decision 0046).
const queueTimeout = 400 * time.Millisecond

// ErrQuery is the error for a question that is empty, longer than MaxQueryBytes or not UTF-8.
var ErrQuery = errors.New("docsearch: a question is 1 to 2,048 bytes of UTF-8")

// Mode is the ranking of results.
type Mode string

// The values of Mode.
const (
	Semantic Mode = "semantic"
	Lexical  Mode = "lexical"
	// Bedrock compares meanings as Semantic does, with the vectors of a model over a network.
	Bedrock Mode = "bedrock"
)

// SearchResult is the result of a search.
type SearchResult struct {
	Mode Mode
	// Busy is true if the ranking is Lexical because too many questions were waiting, although there are weights.
	Busy bool
	// RemoteError is the reason why the ranking is not Bedrock, although the installation has a
	// model over a network. It is nil if the ranking is Bedrock, or if there is no such model.
	RemoteError *ModelError
	// Covered is false if the best result is so far from the question that the documentation probably says nothing
	// about it. The results are returned nonetheless.
	Covered bool
	// Results are the best passages, at most one of each section, the best first.
	Results []Result
}

// Result is a passage and its score, which is above 0. Scores of the same mode are comparable. In the modes
// Semantic and Bedrock, a score is at most 1 and combines cosines with the score of common words. In the mode
// Lexical, it is only the score of common words (lexicon.scores), and can be above 1.
type Result struct {
	Passage
	Score float64
}

// Searcher searches an index. It is safe for concurrent use.
type Searcher struct {
	index *Index
	// lexicon returns the lexicon. The first call creates the lexicon, because
	// creating it at a cold start would delay the Lambda function.
	lexicon func() *lexicon
	weights func() ([]byte, error)
	// modelMu guards loaded and loadErr: the model that was read from the weights, or the error of reading it.
	modelMu sync.Mutex
	loaded  *minilm.Model
	loadErr error
	vectors *lru.Cache[string, minilm.Vector]
	// calls has the questions that wait for a slot, and the questions whose vectors are being computed. Equal questions
	// share one computation.
	calls singleflight.Group
	// slots bounds the number of vectors that are computed concurrently, and thus the
	// memory for them. There is one slot per core, since a computation uses a whole core.
	slots chan struct{}
	// pending is the number of different questions that wait for a slot, or whose vectors are being computed. Only tests
	// read it.
	pending atomic.Int64
	// remote is the model over a network, which searches try first. It is nil if there is no such model.
	remote *remoteModel
}

// New returns a searcher. weights is a function that returns the bytes of the file of weights. The first search or
// LoadWeights calls it. If it returns fs.ErrNotExist, the next search calls it again, since the file may have been
// added. Any other error is permanent. Without weights, searches are lexical, and LoadWeights returns the reason.
// weights may be nil.
func New(index *Index, weights func() ([]byte, error)) *Searcher {
	vectors, err := lru.New[string, minilm.Vector](cacheSize)
	if err != nil {
		panic("docsearch: " + err.Error()) // only for a size that is not positive
	}
	if weights == nil {
		weights = func() ([]byte, error) { return nil, fs.ErrNotExist }
	}
	return &Searcher{
		index:   index,
		lexicon: index.lexicon,
		vectors: vectors,
		slots:   make(chan struct{}, runtime.GOMAXPROCS(0)),
		weights: weights,
	}
}

// model returns the model, or the error of reading it.
func (s *Searcher) model() (*minilm.Model, error) {
	s.modelMu.Lock()
	defer s.modelMu.Unlock()
	if s.loaded == nil && (s.loadErr == nil || errors.Is(s.loadErr, fs.ErrNotExist)) {
		s.loaded, s.loadErr = readWeights(s.index, s.weights)
	}
	return s.loaded, s.loadErr
}

// readWeights returns the model with the weights of a file. It
// returns an error if the index was created with other weights.
func readWeights(index *Index, weights func() ([]byte, error)) (*minilm.Model, error) {
	file, err := weights()
	if err != nil {
		return nil, fmt.Errorf("read the weights: %w", err)
	}
	model, err := minilm.Read(file)
	if err != nil {
		return nil, err
	}
	if model.Digest() != index.weightsDigest {
		return nil, errors.New("docsearch: the weights are not those of the documentation's index: use the file of the " +
			"same release, or run make docs-index")
	}
	return model, nil
}

// LoadWeights reads the weights unless they were read before. It returns nil if searches are semantic, and otherwise
// the reason why they are lexical: fs.ErrNotExist if there is no file of weights.
func (s *Searcher) LoadWeights() error {
	_, err := s.model()
	return err
}

// Search returns at most limit passages for a question, the best first. It adjusts a
// limit below 1 or above MaxResults. Search returns ErrQuery or the error of the
// context. If the model over a network fails, the search continues without it.
func (s *Searcher) Search(ctx context.Context, question string, limit int) (SearchResult, error) {
	question = collapseSpace(question)
	if question == "" || len(question) > MaxQueryBytes || !utf8.ValidString(question) {
		return SearchResult{}, ErrQuery
	}
	limit = min(max(limit, 1), MaxResults)
	if s.remote == nil {
		return s.searchLocal(ctx, question, limit)
	}
	vectors, vector, failure := s.remote.vector(ctx, question)
	if failure == nil {
		return s.rank(Bedrock, question, func(i int) float64 { return vectors.dot(i, vector) }, limit,
			vectors.MinCovered), nil
	}
	if err := context.Cause(ctx); err != nil {
		return SearchResult{}, err
	}
	found, err := s.searchLocal(ctx, question, limit)
	found.RemoteError = failure
	return found, err
}

// searchLocal is like Search, but does not use the model over a network. The question must be valid.
func (s *Searcher) searchLocal(ctx context.Context, question string, limit int) (SearchResult, error) {
	model, err := s.model()
	if err != nil {
		return s.lexical(question, limit), nil //nolint:nilerr // LoadWeights returns it, the result's mode is Lexical
	}
	vector, err := s.vector(ctx, model, question)
	switch {
	case errors.Is(err, errBusy):
		found := s.lexical(question, limit)
		found.Busy = true
		return found, nil
	case err != nil:
		return SearchResult{}, err
	}
	return s.semantic(question, vector, limit), nil
}

// errBusy is the error for a question that got no slot within queueTimeout.
var errBusy = errors.New("docsearch: too many questions wait")

// vector returns a question's vector from the cache, or computes it when a slot is
// free. It returns errBusy or the error of the context. It does not check the context
// while it waits: the wait is short, and other callers may wait for the same vector.
func (s *Searcher) vector(ctx context.Context, model *minilm.Model, question string) (minilm.Vector, error) {
	if vector, cached := s.vectors.Get(question); cached {
		return vector, nil
	}
	if err := context.Cause(ctx); err != nil {
		return minilm.Vector{}, err
	}
	result, err, _ := s.calls.Do(question, func() (any, error) {
		wait := time.NewTimer(queueTimeout)
		defer wait.Stop()
		s.pending.Add(1)
		defer s.pending.Add(-1)
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-wait.C:
			return nil, errBusy
		}
		vector := model.EmbedFirst(question, maxQuestionTokens)
		s.vectors.Add(question, vector)
		return vector, nil
	})
	vector, _ := result.(minilm.Vector) // zero if there is an error
	return vector, err
}
