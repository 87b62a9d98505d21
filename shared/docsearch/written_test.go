package docsearch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/docsearch"
)

// writer writes a draft.
type writer func(ctx context.Context, question string, passages []docsearch.Passage) (docsearch.Draft, error)

func (w writer) Write(ctx context.Context, question string, passages []docsearch.Passage) (docsearch.Draft, error) {
	return w(ctx, question, passages)
}

// question is one that two passages answer: the one of the section on rotation is first, that on keys second.
const question = "What about rotating a key and the old key?"

// draft is of sentences that are in the passages.
func draft(sentences ...docsearch.DraftSentence) docsearch.Draft {
	return docsearch.Draft{Covered: true, Sentences: sentences, TokensIn: 900, TokensOut: 80}
}

func sentence(text string, quotes ...docsearch.DraftQuote) docsearch.DraftSentence {
	return docsearch.DraftSentence{Text: text, Quotes: quotes}
}

func quote(passage int, text string) docsearch.DraftQuote {
	return docsearch.DraftQuote{Passage: passage, Text: text}
}

// holds is a sentence that stands in the first passage.
var holds = sentence("The old key goes on working for an hour.", quote(1, "The old key works for an hour."))

func answered(t *testing.T, w docsearch.Writer, ask string) docsearch.Answer {
	t.Helper()
	answer, err := docsearch.NewWritten(lexical(), w, 10, time.Now).Answer(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// of is a writer that always writes the same.
func of(d docsearch.Draft, err error) writer {
	return func(context.Context, string, []docsearch.Passage) (docsearch.Draft, error) { return d, err }
}

func TestAModelAnswersFromThePassagesThatWereFound(t *testing.T) {
	var given []docsearch.Passage
	a := answered(t, writer(func(_ context.Context, asked string, passages []docsearch.Passage) (docsearch.Draft, error) {
		if asked != question {
			t.Errorf("it is asked %q", asked)
		}
		given = passages
		return draft(holds, sentence("A key opens a bucket, and the old key works.", quote(2, "A key  opens\nthe bucket."), quote(1, "The old key works for an hour."))), nil
	}), " What about rotating\n a key and the old key? ")
	if len(given) < 2 || given[0].Section() != "docs/keys.md#rotation" || given[1].Section() != "docs/keys.md#" {
		t.Fatalf("it is given %+v", given)
	}
	if a.By != "bedrock" || !a.Covered || a.NotWritten != nil || !a.Asked || a.TokensIn != 900 || a.TokensOut != 80 || a.LeftOut != 0 || a.Mode != docsearch.Lexical {
		t.Errorf("the answer is %+v", a)
	}
	if len(a.Sentences) != 2 || !slices.Equal(a.Sentences[0].Quotes, []int{0}) || !slices.Equal(a.Sentences[1].Quotes, []int{1, 0}) {
		t.Errorf("its sentences are %+v", a.Sentences)
	}
	want := []docsearch.Quote{
		{Text: "The old key works for an hour.", Title: "Keys › Rotation", Path: "docs/keys.md", Anchor: "rotation"},
		{Text: "A key opens the bucket.", Title: "Keys", Path: "docs/keys.md"},
	}
	if !slices.Equal(a.Quotes, want) {
		t.Errorf("it cites %+v, want %+v", a.Quotes, want)
	}
}

// TestWhatDoesNotHoldIsLeftOut: each sentence stands beside one that holds, and has to be missing.
func TestWhatDoesNotHoldIsLeftOut(t *testing.T) {
	old := quote(1, "The old key works for an hour.")
	tests := []struct {
		name string
		s    docsearch.DraftSentence
	}{
		{"no quote", sentence("The old key works.")},
		{"a passage that was not given", sentence("The old key works.", quote(9, old.Text))},
		{"passage 0", sentence("The old key works.", quote(0, old.Text))},
		{"a passage before the first", sentence("The old key works.", quote(-1, old.Text))},
		{"a made-up quote", sentence("The old key works.", quote(1, "The old key works for ever."))},
		{"a quote with a word changed", sentence("The old key works for a day.", quote(1, "The old key works for a day."))},
		{"a quote of another passage", sentence("The old key works.", quote(2, old.Text))},
		{"a quote that begins within a word", sentence("The old key works.", quote(1, "e old key works for an hour."))},
		{"a quote that ends within a word", sentence("The old key works.", quote(1, "The old key works for an h"))},
		{"a quote of a word", sentence("The old key works.", quote(1, "key"))},
		{"an empty quote", sentence("The old key works.", quote(1, " "))},
		{"no sentence", sentence(" \n", old)},
		{"a sentence without end", sentence("The old key works."+strings.Repeat(" The old key works.", 40), old)},
		{"a number that the quote has not", sentence("The old key works for 24 hours.", old)},
		{"an address that the passage has not", sentence("The old key works, see https://evil.example/key.", old)},
		{"a name that the passage has not", sentence("The old key works after rotateKey.", old)},
		{"an abbreviation that the passage has not", sentence("The old key works by SOAP.", old)},
		{"other words", sentence("Buy cheap watches, tickets and perfume at midnight.", old)},
		{"half of it in other words", sentence("The old key works for cheap watches.", old)},
		{"nothing but words that all texts have", sentence("It is what it is.", old)},
		{"characters that are not seen", sentence("The old key\u202e works.", old)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := answered(t, of(draft(tt.s, holds), nil), question)
			if len(a.Sentences) != 1 || a.Sentences[0].Text != holds.Text || a.LeftOut != 1 || len(a.Quotes) != 1 {
				t.Errorf("it says %+v, and leaves out %d", a.Sentences, a.LeftOut)
			}
			alone := answered(t, of(draft(tt.s), nil), question)
			if alone.By != "extractive" || alone.NotWritten == nil || alone.NotWritten.Reason != docsearch.Uncited || len(alone.Quotes) == 0 || !alone.Covered || len(alone.Sentences) != 0 {
				t.Errorf("without another it is answered by %s, since %v: %+v", alone.By, alone.NotWritten, alone.Sentences)
			}
			if !alone.Asked || alone.TokensIn != 900 {
				t.Error("what it cost is forgotten")
			}
		})
	}
}

func TestWhatHoldsIsShown(t *testing.T) {
	tests := []struct {
		name, want string
		s          docsearch.DraftSentence
	}{
		{"in the passage's words", "The old key works for an hour.", sentence("The old key works for an hour.", quote(1, "The old key works for an hour."))},
		{"over two lines of it", "The old key works: keep it safe.", sentence("The old key works: keep it safe.", quote(1, "works for an hour. Keep it in a safe place."))},
		{"a true quote beside a false one", "The old key works.", sentence("The old key works.", quote(1, "made up, all of it"), quote(1, "The old key works for an hour."))},
		{"numbers of passages", "The old key works.", sentence("The old key works [1, 2].", quote(1, "The old key works for an hour."))},
		{"more space", "The old key works.", sentence("The old  key\n works.", quote(1, "The old key works for an hour."))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := answered(t, of(draft(tt.s), nil), question)
			if len(a.Sentences) != 1 || a.Sentences[0].Text != tt.want || len(a.Quotes) != 1 || a.By != "bedrock" {
				t.Errorf("it says %+v by %s, since %v", a.Sentences, a.By, a.NotWritten)
			}
		})
	}
}

// TestAnAnswerHasAnEnd: a draft of a thousand sentences is cut.
func TestAnAnswerHasAnEnd(t *testing.T) {
	a := answered(t, of(draft(slices.Repeat([]docsearch.DraftSentence{holds}, 1000)...), nil), question)
	if len(a.Sentences) != 8 || a.LeftOut != 992 {
		t.Errorf("it has %d sentences, and %d are left out", len(a.Sentences), a.LeftOut)
	}
}

func TestAModelThatFindsNoAnswerIsBelieved(t *testing.T) {
	a := answered(t, of(docsearch.Draft{Sentences: []docsearch.DraftSentence{holds}}, nil), question)
	if a.Covered || a.By != "bedrock" || len(a.Sentences)+len(a.Quotes) != 0 || len(a.Near) == 0 || a.NotWritten != nil {
		t.Errorf("the answer is %+v", a)
	}
}

// TestWhatThePassagesDoNotCoverCostsNothing, nor does what is no question.
func TestWhatThePassagesDoNotCoverCostsNothing(t *testing.T) {
	never := writer(func(context.Context, string, []docsearch.Passage) (docsearch.Draft, error) {
		t.Error("the model is asked")
		return docsearch.Draft{}, nil
	})
	if a := answered(t, never, "Which giraffe, elephant or zebra of the savannah has a key?"); a.Covered || a.Asked || a.NotWritten != nil {
		t.Errorf("the answer is %+v", a)
	}
	if _, err := docsearch.NewWritten(lexical(), never, 10, time.Now).Answer(t.Context(), " "); !errors.Is(err, docsearch.ErrQuery) {
		t.Errorf("no question is answered %v", err)
	}
}

// TestWhereAModelFailsTheDocumentationIsQuoted, and the answer says why.
func TestWhereAModelFailsTheDocumentationIsQuoted(t *testing.T) {
	want, err := docsearch.NewExtractive(lexical()).Answer(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		err  error
		want docsearch.Reason
	}{
		"throttled":        {&docsearch.ModelError{Reason: docsearch.Throttled, Code: "ThrottlingException"}, docsearch.Throttled},
		"stopped":          {&docsearch.ModelError{Reason: docsearch.Stopped}, docsearch.Stopped},
		"an unknown error": {errors.New("no"), docsearch.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			a := answered(t, of(docsearch.Draft{TokensIn: 5}, tt.err), question)
			if a.By != "extractive" || !slices.Equal(a.Quotes, want.Quotes) || a.NotWritten == nil || a.NotWritten.Reason != tt.want || !a.Asked || a.TokensIn != 5 {
				t.Errorf("the answer is %+v, since %v", a, a.NotWritten)
			}
		})
	}
	if a := answered(t, of(docsearch.Draft{Covered: true}, nil), question); a.By != "extractive" || a.NotWritten.Reason != docsearch.Uncited {
		t.Errorf("an empty answer is shown by %s, since %v", a.By, a.NotWritten)
	}
}

// TestAModelIsAskedSoOftenADay: the search is public, and whoever runs it pays.
func TestAModelIsAskedSoOftenADay(t *testing.T) {
	now, n := time.Date(2026, 11, 24, 22, 0, 0, 0, time.UTC), 0
	w := docsearch.NewWritten(lexical(), writer(func(context.Context, string, []docsearch.Passage) (docsearch.Draft, error) {
		n++
		return draft(holds), nil
	}), 2, func() time.Time { return now })
	ask := func(text string) docsearch.Answer {
		t.Helper()
		a, err := w.Answer(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for range 3 { // remembered, and asked once
		if a := ask(question); a.By != "bedrock" {
			t.Fatalf("it is answered by %s, since %v", a.By, a.NotWritten)
		}
	}
	ask("rotating the old key")
	if a := ask("the old key and rotating"); a.By != "extractive" || a.NotWritten.Reason != docsearch.Spent || a.Asked || n != 2 {
		t.Errorf("after %d questions it is answered by %s, since %v", n, a.By, a.NotWritten)
	}
	if a := ask(question); a.By != "bedrock" || a.Asked || a.TokensIn != 0 {
		t.Errorf("what is remembered is answered by %s, asked %t", a.By, a.Asked)
	}
	now = now.Add(2 * time.Hour)
	if a := ask("the old key and rotating"); a.By != "bedrock" || n != 3 {
		t.Errorf("on the next day it is answered by %s, since %v", a.By, a.NotWritten)
	}
}

// TestAModelThatFailedIsNotAskedForAnAnswerAtOnce, after what another question would meet too.
func TestAModelThatFailedIsNotAskedForAnAnswerAtOnce(t *testing.T) {
	now, n := time.Unix(1000, 0), 0
	w := docsearch.NewWritten(lexical(), writer(func(context.Context, string, []docsearch.Passage) (docsearch.Draft, error) {
		n++
		return docsearch.Draft{}, &docsearch.ModelError{Reason: docsearch.Slow}
	}), 10, func() time.Time { return now })
	for _, want := range []docsearch.Reason{docsearch.Slow, docsearch.Resting} {
		if a, err := w.Answer(t.Context(), question); err != nil || a.NotWritten.Reason != want || n != 1 || a.Asked != (want == docsearch.Slow) {
			t.Errorf("it is %v, asked %d times, want %s", a.NotWritten, n, want)
		}
	}
	now = now.Add(10 * time.Second)
	if _, err := w.Answer(t.Context(), question); err != nil || n != 2 {
		t.Errorf("after ten seconds it was asked %d times", n)
	}
}

// TestThereIsTimeLeftToQuote: a request of which a model would take the whole time is answered before its end.
func TestThereIsTimeLeftToQuote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := docsearch.NewWritten(lexical(), writer(func(ctx context.Context, _ string, _ []docsearch.Passage) (docsearch.Draft, error) {
			<-ctx.Done()
			return docsearch.Draft{}, ctx.Err()
		}), 10, time.Now)
		ctx, cancel := context.WithTimeout(t.Context(), deadline.Long())
		defer cancel()
		a, err := w.Answer(ctx, question)
		if err != nil || a.By != "extractive" || a.NotWritten.Reason != docsearch.Slow {
			t.Errorf("it is answered by %q, since %v: %v", a.By, a.NotWritten, err)
		}
	})
}

// TestWhoLeavesIsNotAnswered, and the model is not blamed for it.
func TestWhoLeavesIsNotAnswered(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	n := 0
	w := docsearch.NewWritten(lexical(), writer(func(ctx context.Context, _ string, _ []docsearch.Passage) (docsearch.Draft, error) {
		if n++; n == 1 {
			leave()
			return docsearch.Draft{}, &docsearch.ModelError{Reason: docsearch.Unavailable}
		}
		return draft(holds), nil
	}), 10, time.Now)
	if _, err := w.Answer(ctx, question); !errors.Is(err, context.Canceled) {
		t.Errorf("who left is answered %v", err)
	}
	if a, err := w.Answer(t.Context(), question); err != nil || a.By != "bedrock" {
		t.Errorf("the next is answered by %s, since %v: %v", a.By, a.NotWritten, err)
	}
}
