package docsearch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// writer is a function that implements docsearch.Writer.
type writer func(ctx context.Context, question string, passages []docsearch.Passage) (docsearch.Draft, error)

func (w writer) Write(ctx context.Context, question string, passages []docsearch.Passage) (docsearch.Draft, error) {
	return w(ctx, question, passages)
}

// question is a question that two passages answer: first the passage on rotation, then the one on keys.
const question = "What about rotating a key and the old key?"

// draft returns a draft with sentences, whose Covered is true.
func draft(sentences ...docsearch.DraftSentence) docsearch.Draft {
	return docsearch.Draft{Covered: true, Sentences: sentences, TokensIn: 900, TokensOut: 80}
}

func sentence(text string, quotes ...docsearch.DraftQuote) docsearch.DraftSentence {
	return docsearch.DraftSentence{Text: text, Quotes: quotes}
}

func quote(passage int, text string) docsearch.DraftQuote {
	return docsearch.DraftQuote{Passage: passage, Text: text}
}

// supportedSentence is a sentence that the first passage supports.
var supportedSentence = sentence("The old key goes on working for an hour.", quote(1, "The old key works for an hour."))

// answerWith returns the answer of a Generative with the writer w to a question.
func answerWith(t *testing.T, w docsearch.Writer, text string) docsearch.Answer {
	t.Helper()
	answer, err := docsearch.NewGenerative(lexical(), w, 10, time.Now).Answer(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// writerOf returns a writer that always returns d and err.
func writerOf(d docsearch.Draft, err error) writer {
	return func(context.Context, string, []docsearch.Passage) (docsearch.Draft, error) { return d, err }
}

// TestModelAnswersFromPassages checks that the model receives the question without superfluous white space and the best
// passages first, and that the answer has the sentences, the quotes and the usage of its draft.
func TestModelAnswersFromPassages(t *testing.T) {
	var received []docsearch.Passage
	a := answerWith(t,
		writer(func(_ context.Context, receivedQuestion string, passages []docsearch.Passage) (docsearch.Draft, error) {
			if receivedQuestion != question {
				t.Errorf("question to the model = %q, want %q", receivedQuestion, question)
			}
			received = passages
			return draft(supportedSentence, sentence("A key opens a bucket, and the old key works.",
				quote(2, "A key  opens\nthe bucket."), quote(1, "The old key works for an hour."))), nil
		}), " What about rotating\n a key and the old key? ")
	if len(received) < 2 || received[0].Section() != "docs/keys.md#rotation" || received[1].Section() != "docs/keys.md#" {
		t.Fatalf("passages to the model = %+v, want docs/keys.md#rotation and docs/keys.md# first", received)
	}
	if a.Kind != "bedrock" || a.Mode != docsearch.Lexical || !a.Covered || a.WriteError != nil {
		t.Errorf("answer = %s, %s, covered %t, %v, want bedrock, %s, covered and no error",
			a.Kind, a.Mode, a.Covered, a.WriteError, docsearch.Lexical)
	}
	if !a.ModelCalled || a.TokensIn != 900 || a.TokensOut != 80 || a.Dropped != 0 {
		t.Errorf("model called %t, %d tokens in, %d out, %d dropped, want true, 900, 80, 0",
			a.ModelCalled, a.TokensIn, a.TokensOut, a.Dropped)
	}
	if len(a.Sentences) != 2 || !slices.Equal(a.Sentences[0].Quotes, []int{0}) ||
		!slices.Equal(a.Sentences[1].Quotes, []int{1, 0}) {
		t.Errorf("sentences = %+v, want two with the quotes [0] and [1 0]", a.Sentences)
	}
	want := []docsearch.Quote{
		{Text: "The old key works for an hour.", Title: "Keys › Rotation", Path: "docs/keys.md", Anchor: "rotation"},
		{Text: "A key opens the bucket.", Title: "Keys", Path: "docs/keys.md"},
	}
	if !slices.Equal(a.Quotes, want) {
		t.Errorf("quotes of the answer = %+v, want %+v", a.Quotes, want)
	}
}

// TestUnsupportedSentencesAreDropped checks drafts with a supported and an unsupported sentence. The answer must have
// only the supported sentence. An answer to a draft with only the unsupported sentence must have quotes in place of
// sentences.
func TestUnsupportedSentencesAreDropped(t *testing.T) {
	old := quote(1, "The old key works for an hour.")
	tests := []struct {
		name string
		s    docsearch.DraftSentence
	}{
		{"no quote", sentence("The old key works.")},
		{"a passage outside the list", sentence("The old key works.", quote(9, old.Text))},
		{"passage 0", sentence("The old key works.", quote(0, old.Text))},
		{"a passage before the first", sentence("The old key works.", quote(-1, old.Text))},
		{"a made-up quote", sentence("The old key works.", quote(1, "The old key works for ever."))},
		{"a quote with a word changed", sentence("The old key works for a day.", quote(1, "The old key works for a day."))},
		{"a quote of another passage", sentence("The old key works.", quote(2, old.Text))},
		{"a quote that begins within a word", sentence("The old key works.", quote(1, "e old key works for an hour."))},
		{"a quote that ends within a word", sentence("The old key works.", quote(1, "The old key works for an h"))},
		{"a quote of one word", sentence("The old key works.", quote(1, "key"))},
		{"an empty quote", sentence("The old key works.", quote(1, " "))},
		{"an empty sentence", sentence(" \n", old)},
		{"a very long sentence", sentence("The old key works."+strings.Repeat(" The old key works.", 40), old)},
		{"a number that is not in the quote", sentence("The old key works for 24 hours.", old)},
		{"a URL that is not in the passage", sentence("The old key works, see https://evil.example/key.", old)},
		{"a name that is not in the passage", sentence("The old key works after rotateKey.", old)},
		{"an abbreviation that is not in the passage", sentence("The old key works by SOAP.", old)},
		{"a sentence in other words", sentence("Buy cheap watches, tickets and perfume at midnight.", old)},
		{"a sentence half in other words", sentence("The old key works for cheap watches.", old)},
		{"a sentence of only common words", sentence("It is what it is.", old)},
		{"invisible characters", sentence("The old key\u202e works.", old)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := answerWith(t, writerOf(draft(tt.s, supportedSentence), nil), question)
			if len(a.Sentences) != 1 || a.Sentences[0].Text != supportedSentence.Text || a.Dropped != 1 || len(a.Quotes) != 1 {
				t.Errorf("answer = %+v, %d dropped, %d quotes, want only the supported sentence, 1 dropped, 1 quote",
					a.Sentences, a.Dropped, len(a.Quotes))
			}
			alone := answerWith(t, writerOf(draft(tt.s), nil), question)
			if alone.WriteError == nil || alone.WriteError.Reason != docsearch.Uncited {
				t.Errorf("error of the unsupported answer = %v, want %s", alone.WriteError, docsearch.Uncited)
			}
			if alone.Kind != "extractive" || len(alone.Quotes) == 0 || !alone.Covered || len(alone.Sentences) != 0 {
				t.Errorf("answer = %s, %d quotes, covered %t, sentences %+v, want extractive, some quotes, covered, no sentences",
					alone.Kind, len(alone.Quotes), alone.Covered, alone.Sentences)
			}
			if !alone.ModelCalled || alone.TokensIn != 900 {
				t.Errorf("model called %t, %d tokens in, want true, 900", alone.ModelCalled, alone.TokensIn)
			}
		})
	}
}

func TestSupportedSentencesAreKept(t *testing.T) {
	tests := []struct {
		name, want string
		s          docsearch.DraftSentence
	}{
		{
			"a sentence in the passage's words", "The old key works for an hour.",
			sentence("The old key works for an hour.", quote(1, "The old key works for an hour.")),
		},
		{
			"a quote over two lines", "The old key works: keep it safe.",
			sentence("The old key works: keep it safe.", quote(1, "works for an hour. Keep it in a safe place.")),
		},
		{
			"a true quote and a false quote", "The old key works.",
			sentence("The old key works.", quote(1, "made up, all of it"), quote(1, "The old key works for an hour.")),
		},
		{
			"a sentence with numbers of passages", "The old key works.",
			sentence("The old key works [1, 2].", quote(1, "The old key works for an hour.")),
		},
		{
			"a sentence with more white space",
			"The old key works.", sentence("The old  key\n works.", quote(1, "The old key works for an hour.")),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := answerWith(t, writerOf(draft(tt.s), nil), question)
			if len(a.Sentences) != 1 || a.Sentences[0].Text != tt.want || len(a.Quotes) != 1 || a.Kind != "bedrock" {
				t.Errorf("answer = %+v by %s, %d quotes, %v, want %q by bedrock with one quote",
					a.Sentences, a.Kind, len(a.Quotes), a.WriteError, tt.want)
			}
		})
	}
}

// TestSentencesAreBounded checks that only eight sentences of a long draft are used.
func TestSentencesAreBounded(t *testing.T) {
	a := answerWith(t, writerOf(draft(slices.Repeat([]docsearch.DraftSentence{supportedSentence}, 1000)...), nil),
		question)
	if len(a.Sentences) != 8 || a.Dropped != 992 {
		t.Errorf("answer of 1000 sentences = %d sentences, %d dropped, want 8, 992", len(a.Sentences), a.Dropped)
	}
}

func TestModelWithoutAnswerIsNotCovered(t *testing.T) {
	a := answerWith(t, writerOf(docsearch.Draft{Sentences: []docsearch.DraftSentence{supportedSentence}}, nil), question)
	if a.Kind != "bedrock" || a.Covered || a.WriteError != nil {
		t.Errorf("answer = %s, covered %t, %v, want bedrock, not covered and no error", a.Kind, a.Covered, a.WriteError)
	}
	if len(a.Sentences)+len(a.Quotes) != 0 || len(a.Nearest) == 0 {
		t.Errorf("answer = %d sentences, %d quotes, %d nearest sections, want 0, 0, some",
			len(a.Sentences), len(a.Quotes), len(a.Nearest))
	}
}

// TestUncoveredQuestionDoesNotCallModel checks that the model is not called for an uncovered or invalid question.
func TestUncoveredQuestionDoesNotCallModel(t *testing.T) {
	never := writer(func(context.Context, string, []docsearch.Passage) (docsearch.Draft, error) {
		t.Error("the model is called, want no call")
		return docsearch.Draft{}, nil
	})
	if a := answerWith(t, never, "Which giraffe, elephant or zebra of the savannah has a key?"); a.Covered ||
		a.ModelCalled || a.WriteError != nil {
		t.Errorf("answer to an uncovered question: covered %t, model called %t, error %v, want false, false, none",
			a.Covered, a.ModelCalled, a.WriteError)
	}
	if _, err := docsearch.NewGenerative(lexical(), never, 10, time.Now).Answer(t.Context(), " "); !errors.Is(err,
		docsearch.ErrQuery) {
		t.Errorf("Answer(\" \") error = %v, want %v", err, docsearch.ErrQuery)
	}
}

// TestModelFailureFallsBackToQuotes checks that the answer has quotes and the reason if the model fails.
func TestModelFailureFallsBackToQuotes(t *testing.T) {
	want, err := docsearch.NewExtractive(lexical()).Answer(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		err  error
		want docsearch.Reason
	}{
		"throttled": {
			&docsearch.ModelError{Reason: docsearch.Throttled, Code: "ThrottlingException"},
			docsearch.Throttled,
		},
		"stopped":          {&docsearch.ModelError{Reason: docsearch.Stopped}, docsearch.Stopped},
		"an unknown error": {errors.New("no"), docsearch.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			a := answerWith(t, writerOf(docsearch.Draft{TokensIn: 5}, tt.err), question)
			if a.WriteError == nil || a.WriteError.Reason != tt.want {
				t.Errorf("error of the answer = %v, want %s", a.WriteError, tt.want)
			}
			if a.Kind != "extractive" || !slices.Equal(a.Quotes, want.Quotes) || !a.ModelCalled || a.TokensIn != 5 {
				t.Errorf("answer = %s with %q, model called %t, %d tokens in, want extractive with %q, true, 5",
					a.Kind, a.Quotes, a.ModelCalled, a.TokensIn, want.Quotes)
			}
		})
	}
	if a := answerWith(t, writerOf(docsearch.Draft{Covered: true}, nil), question); a.Kind != "extractive" ||
		a.WriteError.Reason != docsearch.Uncited {
		t.Errorf("empty answer of the model = %s, %v, want extractive, %s", a.Kind, a.WriteError, docsearch.Uncited)
	}
}

// TestDailyBudget checks that the number of calls of the model per day
// is limited. The search is public, and the operator pays for the model.
func TestDailyBudget(t *testing.T) {
	now, n := time.Date(2026, 11, 24, 22, 0, 0, 0, time.UTC), 0
	g := docsearch.NewGenerative(lexical(),
		writer(func(context.Context, string, []docsearch.Passage) (docsearch.Draft, error) {
			n++
			return draft(supportedSentence), nil
		}), 2, func() time.Time { return now })
	answerText := func(text string) docsearch.Answer {
		t.Helper()
		a, err := g.Answer(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for range 3 { // the answer is cached, so the model is called once
		if a := answerText(question); a.Kind != "bedrock" {
			t.Fatalf("answer = %s, %v, want bedrock", a.Kind, a.WriteError)
		}
	}
	answerText("rotating the old key")
	if a := answerText("the old key and rotating"); a.Kind != "extractive" ||
		a.WriteError.Reason != docsearch.BudgetExhausted || a.ModelCalled || n != 2 {
		t.Errorf("answer beyond the budget = %s, %v, model called %t, %d calls, want extractive, %s, false, 2",
			a.Kind, a.WriteError, a.ModelCalled, n, docsearch.BudgetExhausted)
	}
	if a := answerText(question); a.Kind != "bedrock" || a.ModelCalled || a.TokensIn != 0 {
		t.Errorf("cached answer = %s, model called %t, %d tokens in, want bedrock, false, 0",
			a.Kind, a.ModelCalled, a.TokensIn)
	}
	now = now.Add(2 * time.Hour)
	if a := answerText("the old key and rotating"); a.Kind != "bedrock" || n != 3 {
		t.Errorf("answer on the next day = %s, %v after %d calls, want bedrock after 3", a.Kind, a.WriteError, n)
	}
}

// TestFailedWriterCoolsDown checks that the model is not called for
// ten seconds after an error that other questions would cause too.
func TestFailedWriterCoolsDown(t *testing.T) {
	now, n := time.Unix(1000, 0), 0
	g := docsearch.NewGenerative(lexical(),
		writer(func(context.Context, string, []docsearch.Passage) (docsearch.Draft, error) {
			n++
			return docsearch.Draft{}, &docsearch.ModelError{Reason: docsearch.Slow}
		}), 10, func() time.Time { return now })
	for _, want := range []docsearch.Reason{docsearch.Slow, docsearch.CoolingDown} {
		if a, err := g.Answer(t.Context(), question); err != nil || a.WriteError.Reason != want || n != 1 ||
			a.ModelCalled != (want == docsearch.Slow) {
			t.Errorf("answer = %v, model called %t, %d calls, %v, want %s, %t, 1 and no error",
				a.WriteError, a.ModelCalled, n, err, want, want == docsearch.Slow)
		}
	}
	now = now.Add(10 * time.Second)
	if _, err := g.Answer(t.Context(), question); err != nil || n != 2 {
		t.Errorf("answer after ten seconds: %d calls, %v, want 2 and no error", n, err)
	}
}

// TestDeadlineMarginIsLeftForQuotes checks that the call of the model is canceled
// before the request's deadline, so that the request still gets an answer with quotes.
func TestDeadlineMarginIsLeftForQuotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := docsearch.NewGenerative(lexical(),
			writer(func(ctx context.Context, _ string, _ []docsearch.Passage) (docsearch.Draft, error) {
				<-ctx.Done()
				return docsearch.Draft{}, ctx.Err()
			}), 10, time.Now)
		ctx, cancel := context.WithTimeout(t.Context(), deadline.Timeout())
		defer cancel()
		a, err := g.Answer(ctx, question)
		if err != nil || a.Kind != "extractive" || a.WriteError.Reason != docsearch.Slow {
			t.Errorf("answer near the deadline = %q, %v, error %v, want extractive, %s, no error",
				a.Kind, a.WriteError, err, docsearch.Slow)
		}
	})
}

// TestCanceledQuestionIsNotAnswered checks that a canceled request
// returns context.Canceled, and does not start the model's cooldown.
func TestCanceledQuestionIsNotAnswered(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	g := docsearch.NewGenerative(lexical(),
		writer(func(ctx context.Context, _ string, _ []docsearch.Passage) (docsearch.Draft, error) {
			if n++; n == 1 {
				cancel()
				return docsearch.Draft{}, &docsearch.ModelError{Reason: docsearch.Unavailable}
			}
			return draft(supportedSentence), nil
		}), 10, time.Now)
	if _, err := g.Answer(ctx, question); !errors.Is(err, context.Canceled) {
		t.Errorf("Answer() of a canceled question error = %v, want %v", err, context.Canceled)
	}
	if a, err := g.Answer(t.Context(), question); err != nil || a.Kind != "bedrock" {
		t.Errorf("next answer = %s, %v, %v, want bedrock and no error", a.Kind, a.WriteError, err)
	}
}
