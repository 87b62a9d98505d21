package docsearch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// kindBedrock is the Kind of an Answer that a Generative's model has written.
const kindBedrock = "bedrock"

const (
	// generativePassages is the maximum number of passages that a model receives. An Extractive chooses from the same
	// number.
	generativePassages = 2 * answerPassages
	// answerCacheSize is the maximum number of entries in the cache of a Generative. They need about 1 MB.
	answerCacheSize = 256
	// maxSentences is the maximum number of sentences of a draft that are used.
	maxSentences = 8
	// deadlineMargin is the time before the deadline of a request at which the call of the model is canceled.
	deadlineMargin = 2 * time.Second
)

// Generative is an Answerer that uses a model to write each answer. It checks each sentence against
// the passages that the sentence cites (verify.go). If the model fails, it quotes sentences
// like an Extractive. It does not call the model if the passages do not cover the question.
type Generative struct {
	searcher *Searcher
	writer   Writer
	fallback *Extractive
	cooldown cooldown
	cache    *lru.Cache[string, Answer]
	budget   budget
}

var _ Answerer = (*Generative)(nil)

// NewGenerative returns a Generative that sends at most perDay questions per day to the model; each process counts its
// own questions. A question whose answer is cached is not sent again.
func NewGenerative(s *Searcher, w Writer, perDay int, now func() time.Time) *Generative {
	cache, err := lru.New[string, Answer](answerCacheSize)
	if err != nil {
		panic("docsearch: " + err.Error()) // only for a size that is not positive
	}
	return &Generative{
		searcher: s, writer: w, fallback: NewExtractive(s), cache: cache,
		cooldown: cooldown{now: now}, budget: budget{perDay: perDay, now: now},
	}
}

// Answer implements Answerer.
func (g *Generative) Answer(ctx context.Context, question string) (Answer, error) {
	question = collapseSpace(question)
	if answer, cached := g.cache.Get(question); cached {
		return answer, nil
	}
	found, err := g.searcher.Search(ctx, question, generativePassages)
	if err != nil {
		return Answer{}, err
	}
	if !found.Covered {
		return g.fallback.answerFrom(question, found), nil
	}
	passages := make([]Passage, len(found.Results))
	for i, r := range found.Results {
		passages[i] = r.Passage
	}
	draft, failure := g.draft(ctx, question, passages)
	if err := context.Cause(ctx); err != nil {
		return Answer{}, err
	}
	generated := Answer{
		Kind: kindBedrock, Mode: found.Mode, Busy: found.Busy, SearchError: found.RemoteError, Nearest: found.Results,
		Covered: draft.Covered,
	}
	if failure == nil && draft.Covered {
		generated.Sentences, generated.Quotes, generated.Dropped = verifyDraft(draft, passages)
		if len(generated.Sentences) == 0 {
			failure = &ModelError{Reason: Uncited}
		}
	}
	if failure != nil {
		answer := g.fallback.answerFrom(question, found)
		answer.WriteError = failure
		answer.ModelCalled, answer.TokensIn, answer.TokensOut = modelCalled(failure), draft.TokensIn, draft.TokensOut
		return answer, nil
	}
	g.cache.Add(question, generated)
	generated.ModelCalled, generated.TokensIn, generated.TokensOut = true, draft.TokensIn, draft.TokensOut
	return generated, nil
}

// draft returns the model's draft of an answer. It does not call the model if the daily limit is reached, or if the
// model has failed recently.
func (g *Generative) draft(ctx context.Context, question string, passages []Passage) (Draft, *ModelError) {
	if !g.cooldown.ready() {
		return Draft{}, &ModelError{Reason: CoolingDown}
	}
	if !g.budget.take() {
		return Draft{}, &ModelError{Reason: BudgetExhausted}
	}
	modelCtx := ctx
	if deadline, ok := ctx.Deadline(); ok {
		// Cancel the call before the deadline, so that there is time to send an extractive answer.
		withMargin, cancel := context.WithDeadline(ctx, deadline.Add(-deadlineMargin))
		defer cancel()
		modelCtx = withMargin
	}
	draft, err := g.writer.Write(modelCtx, question, passages)
	if err == nil {
		return draft, nil
	}
	failure := asModelError(err)
	if errors.Is(modelCtx.Err(), context.DeadlineExceeded) {
		failure = &ModelError{Reason: Slow}
	}
	if ctx.Err() == nil {
		g.cooldown.recordFailure(failure)
	}
	return draft, failure
}

// modelCalled reports whether the model was called before draft returned this error.
func modelCalled(f *ModelError) bool { return f.Reason != CoolingDown && f.Reason != BudgetExhausted }

// verifyDraft returns at most maxSentences sentences of a draft, each supported by a citation. quotes has these
// citations without duplicates. dropped is the number of the other sentences.
func verifyDraft(draft Draft, passages []Passage) (sentences []Sentence, quotes []Quote, dropped int) {
	for i, s := range draft.Sentences {
		text, verified := s.verify(passages)
		if i >= maxSentences || len(verified) == 0 {
			dropped++
			continue
		}
		sentence := Sentence{Text: text}
		for _, q := range verified {
			at := slices.Index(quotes, q)
			if at < 0 {
				at, quotes = len(quotes), append(quotes, q)
			}
			if !slices.Contains(sentence.Quotes, at) {
				sentence.Quotes = append(sentence.Quotes, at)
			}
		}
		sentences = append(sentences, sentence)
	}
	return sentences, quotes, dropped
}

// budget limits the number of questions that this process sends to a model per day.
type budget struct {
	perDay int
	now    func() time.Time
	mu     sync.Mutex
	day    int64
	used   int
}

// take reports whether another question may be sent today, and counts it if so. Days are those of UTC.
func (b *budget) take() bool {
	const secondsPerDay = 24 * 60 * 60
	b.mu.Lock()
	defer b.mu.Unlock()
	if day := b.now().Unix() / secondsPerDay; day != b.day {
		b.day, b.used = day, 0
	}
	if b.used >= b.perDay {
		return false
	}
	b.used++
	return true
}

// collapseSpace returns a text with each run of white space replaced by one space.
func collapseSpace(text string) string { return strings.Join(strings.Fields(text), " ") }
