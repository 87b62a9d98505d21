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

// By of a Written.
const byBedrock = "bedrock"

const (
	// writtenPassages is how many passages a model is given: as many as an extractive answer is chosen from.
	writtenPassages = 2 * answerPassages
	// answersRemembered is how many written answers are kept: 1 MB or so.
	answersRemembered = 256
	// maxSentences bounds what of a draft is read.
	maxSentences = 8
	// timeLeft is how long before a request's end a model is given up.
	timeLeft = 2 * time.Second
)

// Written answers in a model's words, of which each sentence was checked against the passages that it cites (check.go), and as an
// Extractive where the model is of no use. The model is not asked about what the passages do not cover.
type Written struct {
	searcher  *Searcher
	writer    Writer
	otherwise *Extractive
	rest      rest
	known     *lru.Cache[string, Answer]
	budget    budget
}

var _ Answerer = (*Written)(nil)

// NewWritten makes one that puts so many questions of a day to a model; equal ones are put to it once while they are remembered.
func NewWritten(s *Searcher, w Writer, perDay int, now func() time.Time) *Written {
	known, err := lru.New[string, Answer](answersRemembered)
	if err != nil {
		panic("docsearch: " + err.Error()) // of a size that is not positive
	}
	return &Written{
		searcher: s, writer: w, otherwise: NewExtractive(s), known: known,
		rest: rest{now: now}, budget: budget{perDay: perDay, now: now},
	}
}

// Answer implements Answerer.
func (w *Written) Answer(ctx context.Context, question string) (Answer, error) {
	question = squeezed(question)
	if answer, there := w.known.Get(question); there {
		return answer, nil
	}
	found, err := w.searcher.Search(ctx, question, writtenPassages)
	if err != nil {
		return Answer{}, err
	}
	if !found.Covered {
		return w.otherwise.of(question, found), nil
	}
	passages := make([]Passage, len(found.Results))
	for i, r := range found.Results {
		passages[i] = r.Passage
	}
	draft, failure := w.draft(ctx, question, passages)
	if err := context.Cause(ctx); err != nil {
		return Answer{}, err
	}
	written := Answer{
		By: byBedrock, Mode: found.Mode, Busy: found.Busy, NotFound: found.Failed, Near: found.Results, Covered: draft.Covered,
	}
	if failure == nil && draft.Covered {
		written.Sentences, written.Quotes, written.LeftOut = checked(draft, passages)
		if len(written.Sentences) == 0 {
			failure = &ModelError{Reason: Uncited}
		}
	}
	if failure != nil {
		answer := w.otherwise.of(question, found)
		answer.NotWritten = failure
		answer.Asked, answer.TokensIn, answer.TokensOut = asked(failure), draft.TokensIn, draft.TokensOut
		return answer, nil
	}
	w.known.Add(question, written)
	written.Asked, written.TokensIn, written.TokensOut = true, draft.TokensIn, draft.TokensOut
	return written, nil
}

// draft asks the model, unless it has been asked enough for a day or has failed a moment ago.
func (w *Written) draft(ctx context.Context, question string, passages []Passage) (Draft, *ModelError) {
	if !w.rest.over() {
		return Draft{}, &ModelError{Reason: Resting}
	}
	if !w.budget.take() {
		return Draft{}, &ModelError{Reason: Spent}
	}
	within := ctx
	if end, has := ctx.Deadline(); has {
		// What is here answers while there is still somebody to answer: a batch may have spent most of its time.
		sooner, cancel := context.WithDeadline(ctx, end.Add(-timeLeft))
		defer cancel()
		within = sooner
	}
	draft, err := w.writer.Write(within, question, passages)
	if err == nil {
		return draft, nil
	}
	failure := failureOf(err)
	if errors.Is(within.Err(), context.DeadlineExceeded) {
		failure = &ModelError{Reason: Slow}
	}
	if ctx.Err() == nil {
		w.rest.note(failure)
	}
	return draft, failure
}

// asked reports whether a model was asked before it failed so.
func asked(f *ModelError) bool { return f.Reason != Resting && f.Reason != Spent }

// checked gives what of a draft holds: its sentences, what they cite, each piece once, and how many sentences do not.
func checked(draft Draft, passages []Passage) (sentences []Sentence, quotes []Quote, leftOut int) {
	for i, s := range draft.Sentences {
		text, from := s.holds(passages)
		if i >= maxSentences || len(from) == 0 {
			leftOut++
			continue
		}
		sentence := Sentence{Text: text}
		for _, q := range from {
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
	return sentences, quotes, leftOut
}

// budget is how many questions of a day are put to a model by this process.
type budget struct {
	perDay int
	now    func() time.Time
	mu     sync.Mutex
	day    int64
	taken  int
}

func (b *budget) take() bool {
	const secondsOfADay = 24 * 60 * 60
	b.mu.Lock()
	defer b.mu.Unlock()
	if day := b.now().Unix() / secondsOfADay; day != b.day {
		b.day, b.taken = day, 0
	}
	if b.taken >= b.perDay {
		return false
	}
	b.taken++
	return true
}

// squeezed is a text with one space where it has space.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }
