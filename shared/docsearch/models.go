package docsearch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Models are asked over a network, where an installation has them. Each is nil where there is none.
type Models struct {
	// Embedder makes questions vectors; EmbeddingModel is its id, which the file of vectors has to be of.
	Embedder       Embedder
	EmbeddingModel string
	// Vectors gives the file of vectors of that model (`make docs-vectors`). It is called at the first search, once.
	Vectors func() ([]byte, error)
	// Writer writes answers.
	Writer Writer
}

// Embedder makes a question a vector by a model elsewhere. It bounds its own time. An error is a *ModelError, or taken for one that is
// Unavailable.
type Embedder interface {
	EmbedQuestion(ctx context.Context, question string) ([]float32, error)
}

// Writer answers a question out of passages by a model elsewhere. It bounds its own time. What it gives is believed of nobody: Written
// checks it. An error is as an Embedder's.
type Writer interface {
	Write(ctx context.Context, question string, passages []Passage) (Draft, error)
}

// Draft is what a model wrote.
type Draft struct {
	// Covered is false where it finds no answer in the passages.
	Covered   bool
	Sentences []DraftSentence
	// TokensIn and TokensOut are what is paid for.
	TokensIn, TokensOut int
}

// DraftSentence is a sentence of it, with what it says that it has it from.
type DraftSentence struct {
	Text   string
	Quotes []DraftQuote
}

// DraftQuote is a piece of a passage, of which 1 is the first.
type DraftQuote struct {
	Passage int
	Text    string
}

// Reason says in a word why a model elsewhere was of no use.
type Reason string

// The reasons.
const (
	// Throttled: it takes no more questions at the moment.
	Throttled Reason = "throttled"
	// Unavailable: it was not reached, or failed.
	Unavailable Reason = "unavailable"
	// Slow: it took longer than it may.
	Slow Reason = "slow"
	// Denied: this installation may not ask it, or there is no such model, or it takes no such questions.
	Denied Reason = "denied"
	// Unreadable: what it answered is not what it answers, or too long.
	Unreadable Reason = "unreadable"
	// Stopped: it ended before its answer was whole, for its length or for a filter.
	Stopped Reason = "stopped"
	// Unstructured: it answered in another form than was demanded.
	Unstructured Reason = "unstructured"
	// Uncited: nothing that it wrote stands in the passages that it names.
	Uncited Reason = "uncited"
	// Spent: as many questions as a day may have were put to it.
	Spent Reason = "spent"
	// Resting: it failed a moment ago, and is not asked again yet.
	Resting Reason = "resting"
	// NoVectors: there is no file of vectors that fits the model and the documentation.
	NoVectors Reason = "no vectors"
)

// ModelError is why a model elsewhere gave nothing.
type ModelError struct {
	Reason Reason
	// Code is what the service calls it, a word such as ThrottlingException; "" where it said nothing. No text of the service's is
	// kept, which may repeat the question.
	Code string
}

// Error implements error.
func (f *ModelError) Error() string {
	if f.Code == "" {
		return "docsearch: the model is of no use: " + string(f.Reason)
	}
	return "docsearch: the model is of no use: " + string(f.Reason) + " (" + f.Code + ")"
}

func failureOf(err error) *ModelError {
	if f, is := errors.AsType[*ModelError](err); is {
		return f
	}
	return &ModelError{Reason: Unavailable}
}

// restFor is how long a model is left alone that failed: a question that waits for it in vain is slow for nothing, and one that is
// throttled is not helped by more of them.
const restFor = 10 * time.Second

// rest remembers that a model failed.
type rest struct {
	now   func() time.Time
	mu    sync.Mutex
	until time.Time
}

// over reports whether the model may be asked.
func (r *rest) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.now().Before(r.until)
}

// note begins a rest after what another question would meet too. A model that answered, even uselessly, is asked again.
func (r *rest) note(f *ModelError) {
	if !slices.Contains([]Reason{Throttled, Unavailable, Slow, Denied}, f.Reason) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = r.now().Add(restFor)
}
