package docsearch

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// remoteModel computes vectors of questions with a model over a network. It has the
// vectors of all texts, which the operator has computed with the same model before the
// deployment (docs/decisions/0050-vectors-of-bedrock-are-made-before-a-deployment.md).
type remoteModel struct {
	embedder Embedder
	read     func() (*Vectors, error)
	cooldown cooldown
	cache    *lru.Cache[string, []float32]
	calls    singleflight.Group
}

// UseModels makes s use m.Embedder for the vectors of questions, if there is an Embedder. If the
// Embedder fails, s searches without it. Call UseModels before the first search. It returns s.
func (s *Searcher) UseModels(m Models, now func() time.Time) *Searcher {
	if m.Embedder == nil {
		return s
	}
	cache, err := lru.New[string, []float32](cacheSize) // 4 MB: a vector has about a thousand numbers
	if err != nil {
		panic("docsearch: " + err.Error()) // only for a size that is not positive
	}
	s.remote = &remoteModel{
		embedder: m.Embedder, cache: cache, cooldown: cooldown{now: now},
		read: sync.OnceValues(func() (*Vectors, error) {
			file, err := m.Vectors()
			if err != nil {
				return nil, fmt.Errorf("read the vectors: %w", err)
			}
			v, err := ReadVectors(file)
			if err != nil {
				return nil, err
			}
			return v, v.CheckMatch(m.EmbeddingModel, s.index.Content)
		}),
	}
	return s
}

// LoadVectors reads the file of vectors unless it was read before, and returns the reason why searches
// do not use it. It returns nil if they use the file, or if there is no model over a network.
func (s *Searcher) LoadVectors() error {
	if s.remote == nil {
		return nil
	}
	_, err := s.remote.read()
	return err
}

// vector returns the vectors of the texts, and the vector of a question, of length 1. Concurrent calls with the
// same question share one request.
func (m *remoteModel) vector(ctx context.Context, question string) (*Vectors, []float32, *ModelError) {
	vectors, err := m.read()
	if err != nil {
		return nil, nil, &ModelError{Reason: NoVectors}
	}
	if vector, cached := m.cache.Get(question); cached {
		return vectors, vector, nil
	}
	if !m.cooldown.ready() {
		return nil, nil, &ModelError{Reason: CoolingDown}
	}
	pending := m.calls.DoChan(question, func() (any, error) {
		// Other callers may wait for the vector: the request ends at its own timeout, and not with the first caller.
		vector, err := m.embedder.EmbedQuestion(context.WithoutCancel(ctx), question)
		if err == nil && !normalize(vector, vectors.dimensions) {
			err = &ModelError{Reason: Unreadable}
		}
		if err != nil {
			failure := asModelError(err)
			m.cooldown.recordFailure(failure)
			return nil, failure
		}
		m.cache.Add(question, vector)
		return vector, nil
	})
	select {
	case <-ctx.Done():
		return nil, nil, &ModelError{Reason: Slow}
	case result := <-pending:
		if result.Err != nil {
			return nil, nil, asModelError(result.Err)
		}
		vector, _ := result.Val.([]float32)
		return vectors, vector, nil
	}
}

// normalize scales a vector to length 1, in place. It reports whether the vector is
// valid: it must have as many numbers as dimensions says, all finite and not all zero.
func normalize(vector []float32, dimensions int) bool {
	if len(vector) != dimensions {
		return false
	}
	var sum float64
	for _, v := range vector {
		sum += float64(v) * float64(v)
	}
	if length := math.Sqrt(sum); length > 0 && !math.IsInf(length, 0) && !math.IsNaN(length) {
		for i := range vector {
			vector[i] = float32(float64(vector[i]) / length)
		}
		return true
	}
	return false
}
