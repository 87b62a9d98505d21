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

// elsewhere makes questions vectors by a model that is asked over a network, and has the vectors of all texts by the same model, which
// whoever deployed has made (docs/decisions/0050-vectors-of-bedrock-are-made-before-a-deployment.md).
type elsewhere struct {
	embedder Embedder
	read     func() (*Vectors, error)
	rest     rest
	known    *lru.Cache[string, []float32]
	flights  singleflight.Group
}

// With has questions made vectors by a model elsewhere first, where there is one, and by what is here where that fails. No search may have
// begun.
func (s *Searcher) With(m Models, now func() time.Time) *Searcher {
	if m.Embedder == nil {
		return s
	}
	known, err := lru.New[string, []float32](remembered) // 4 MB of a thousand numbers each
	if err != nil {
		panic("docsearch: " + err.Error()) // of a size that is not positive
	}
	s.elsewhere = &elsewhere{
		embedder: m.Embedder, known: known, rest: rest{now: now},
		read: sync.OnceValues(func() (*Vectors, error) {
			file, err := m.Vectors()
			if err != nil {
				return nil, fmt.Errorf("read the vectors: %w", err)
			}
			v, err := ReadVectors(file)
			if err != nil {
				return nil, err
			}
			return v, v.Fits(m.EmbeddingModel, s.index.Content)
		}),
	}
	return s
}

// Vectors reads the file of vectors unless it was read before, and says why searches do not use it: nil where they do, or where there
// is no model that it would be of.
func (s *Searcher) Vectors() error {
	if s.elsewhere == nil {
		return nil
	}
	_, err := s.elsewhere.read()
	return err
}

// vector is a question's, of length 1, with the vectors of the texts. Of several that ask the same at once, one does.
func (e *elsewhere) vector(ctx context.Context, question string) (*Vectors, []float32, *ModelError) {
	vectors, err := e.read()
	if err != nil {
		return nil, nil, &ModelError{Reason: NoVectors}
	}
	if vector, there := e.known.Get(question); there {
		return vectors, vector, nil
	}
	if !e.rest.over() {
		return nil, nil, &ModelError{Reason: Resting}
	}
	made := e.flights.DoChan(question, func() (any, error) {
		// Others may wait for it: it ends by its own bound, and not with whoever was first.
		vector, err := e.embedder.EmbedQuestion(context.WithoutCancel(ctx), question)
		if err == nil && !unit(vector, vectors.dimensions) {
			err = &ModelError{Reason: Unreadable}
		}
		if err != nil {
			failure := failureOf(err)
			e.rest.note(failure)
			return nil, failure
		}
		e.known.Add(question, vector)
		return vector, nil
	})
	select {
	case <-ctx.Done():
		return nil, nil, &ModelError{Reason: Slow}
	case result := <-made:
		if result.Err != nil {
			return nil, nil, failureOf(result.Err)
		}
		vector, _ := result.Val.([]float32)
		return vectors, vector, nil
	}
}

// unit makes a vector one of length 1, in place. It reports whether it is one at all: of so many numbers, all of them finite, not all zero.
func unit(vector []float32, dimensions int) bool {
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
