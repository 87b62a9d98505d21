package docsearch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Models are the models over a network that an installation has. A field is nil if there is no such model.
type Models struct {
	// Embedder computes the vectors of questions. EmbeddingModel is the id of its model, which must be the model of
	// the file of vectors.
	Embedder       Embedder
	EmbeddingModel string
	// Vectors returns the file of vectors for EmbeddingModel (`make docs-vectors`).
	// It is called once, by the first search or by Searcher.LoadVectors.
	Vectors func() ([]byte, error)
	// Writer writes the answer to a question.
	Writer Writer
}

// Embedder computes the vector of a question with a model over a network. It has its own timeout. An error that is
// not a *ModelError is treated as Unavailable.
type Embedder interface {
	EmbedQuestion(ctx context.Context, question string) ([]float32, error)
}

// Writer writes the answer to a question from passages, with a model over a network. It has its own
// timeout. Its result is not trusted: Generative checks it. Its errors are like those of an Embedder.
type Writer interface {
	Write(ctx context.Context, question string, passages []Passage) (Draft, error)
}

// Draft is the unchecked answer of a model.
type Draft struct {
	// Covered is false if the model finds no answer in the passages.
	Covered   bool
	Sentences []DraftSentence
	// TokensIn and TokensOut are the numbers of tokens to pay for.
	TokensIn, TokensOut int
}

// DraftSentence is a sentence of a Draft, with the quotes that the model names as its sources.
type DraftSentence struct {
	Text   string
	Quotes []DraftQuote
}

// DraftQuote is a quote from a passage. Passage is the number of the passage, beginning at 1.
type DraftQuote struct {
	Passage int
	Text    string
}

// Reason is the reason why a model over a network, or its result, was not used, as one or two words.
type Reason string

// The values of Reason.
const (
	// Throttled: the model accepts no more questions at the moment.
	Throttled Reason = "throttled"
	// Unavailable: the model was not reached, or failed.
	Unavailable Reason = "unavailable"
	// Slow: the model exceeded its timeout, or had no result before the end of the request's context.
	Slow Reason = "slow"
	// Denied: the installation has no permission, or there is no such model, or the model does not accept such questions.
	Denied Reason = "denied"
	// Unreadable: the response has an invalid format, or is too long.
	Unreadable Reason = "unreadable"
	// Stopped: the model stopped before its answer was complete, because of its length or of a filter.
	Stopped Reason = "stopped"
	// Unstructured: the answer does not have the required form.
	Unstructured Reason = "unstructured"
	// Uncited: no sentence of the answer is supported by its quotes and their passages (DraftSentence.verify).
	Uncited Reason = "uncited"
	// BudgetExhausted: the daily number of questions to the model is used up.
	BudgetExhausted Reason = "spent"
	// CoolingDown: the model has failed recently, and is not called until cooldownTime has passed.
	CoolingDown Reason = "resting"
	// NoVectors: there is no file of vectors that fits the model and the documentation.
	NoVectors Reason = "no vectors"
)

// ModelError is the error of a model over a network.
type ModelError struct {
	Reason Reason
	// Code is the service's error code, such as ThrottlingException. It is "" if there
	// was none. The service's error text is not kept, because it may repeat the question.
	Code string
}

// Error implements error.
func (e *ModelError) Error() string {
	if e.Code == "" {
		return "docsearch: the model is of no use: " + string(e.Reason)
	}
	return "docsearch: the model is of no use: " + string(e.Reason) + " (" + e.Code + ")"
}

// asModelError returns the ModelError in err, or Unavailable if there is none.
func asModelError(err error) *ModelError {
	if f, ok := errors.AsType[*ModelError](err); ok {
		return f
	}
	return &ModelError{Reason: Unavailable}
}

// cooldownTime is the time for which a model is not called after a failure. Otherwise,
// questions would wait without need, and more requests would not help a throttled model.
const cooldownTime = 10 * time.Second

// cooldown prevents calls of a model for cooldownTime after a failure.
type cooldown struct {
	now   func() time.Time
	mu    sync.Mutex
	until time.Time
}

// ready reports whether the model may be called.
func (c *cooldown) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.now().Before(c.until)
}

// recordFailure starts the cooldown after an error that other questions would
// cause too. It does not do so after a response of the model that cannot be used.
func (c *cooldown) recordFailure(f *ModelError) {
	if !slices.Contains([]Reason{Throttled, Unavailable, Slow, Denied}, f.Reason) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = c.now().Add(cooldownTime)
}
