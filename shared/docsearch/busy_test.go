package docsearch_test

import (
	"io/fs"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/docsearch"
	"github.com/gatewright/gatewright/shared/docsearch/minilm/minilmtest"
)

// TestWhoWouldWaitTooLongIsAnsweredByWords, and is told so: nobody waits for a second, however many were before.
func TestWhoWouldWaitTooLongIsAnsweredByWords(t *testing.T) {
	file := minilmtest.Random(t)
	index := indexed(t, file)
	synctest.Test(t, func(t *testing.T) {
		s := docsearch.New(index, func() ([]byte, error) { return file, nil })
		search(t, s, pages.Passages[0].Embedded(), 1) // remembered from now on
		leave := s.Occupy()
		begun := time.Now()
		found := search(t, s, "tunnel firewall", 1)
		if waited := time.Since(begun); waited > time.Second/2 {
			t.Errorf("it waited for %s", waited)
		}
		if found.Mode != docsearch.Lexical || !found.Busy || sections(found) != "tunnels.md#" {
			t.Errorf("%s, busy %t, finds %q; want tunnels.md# by words, since it is busy", found.Mode, found.Busy, sections(found))
		}
		if found := search(t, s, pages.Passages[0].Embedded(), 1); found.Mode != docsearch.Semantic || found.Busy {
			t.Error("a question that was asked before needs a turn")
		}
		leave()
		if found := search(t, s, "tunnel firewall", 1); found.Mode != docsearch.Semantic || found.Busy {
			t.Error("a question that found no turn is answered by words for ever")
		}
	})
}

// occupied has a test play with a searcher whose turns are all taken, until leave is called.
func occupied(t *testing.T, test func(t *testing.T, s *docsearch.Searcher, leave func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := semantic(t)
		if err := s.Semantic(); err != nil {
			t.Fatal(err)
		}
		test(t, s, s.Occupy())
	})
}

// TestEqualQuestionsTakeOneTurn: of many that ask the same at once, one is made a vector.
func TestEqualQuestionsTakeOneTurn(t *testing.T) {
	occupied(t, func(t *testing.T, s *docsearch.Searcher, leave func()) {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if found := search(t, s, "How do I reach my intranet?", 1); found.Mode != docsearch.Semantic {
					t.Errorf("it is answered %s", found.Mode)
				}
			})
		}
		synctest.Wait()
		if n := s.Waiting(); n != 1 {
			t.Errorf("%d of 50 equal questions wait for a turn, want 1", n)
		}
		leave()
		all.Wait()
	})
}

// TestQuestionsThatWaitTogetherAreAnsweredEachForItself: a flight is of one question.
func TestQuestionsThatWaitTogetherAreAnsweredEachForItself(t *testing.T) {
	occupied(t, func(t *testing.T, s *docsearch.Searcher, leave func()) {
		var all sync.WaitGroup
		for _, p := range pages.Passages {
			all.Go(func() {
				if found := search(t, s, p.Embedded(), 1); found.Results[0].Text != p.Text {
					t.Errorf("who asks for %q is answered %q", p.Text, found.Results[0].Text)
				}
			})
		}
		synctest.Wait()
		leave()
		all.Wait()
	})
}

// TestAnAnswerSaysThatOthersWereBefore, as a search does.
func TestAnAnswerSaysThatOthersWereBefore(t *testing.T) {
	occupied(t, func(t *testing.T, s *docsearch.Searcher, leave func()) {
		defer leave()
		if answer, err := docsearch.NewExtractive(s).Answer(t.Context(), "tunnel firewall"); err != nil || !answer.Busy || answer.Mode != docsearch.Lexical {
			t.Errorf("it is %+v, %v", answer, err)
		}
	})
}

// TestWeightsThatComeLaterAreUsed: they may be fetched while the product runs.
func TestWeightsThatComeLaterAreUsed(t *testing.T) {
	file := minilmtest.Random(t)
	var there []byte
	s := docsearch.New(indexed(t, file), func() ([]byte, error) {
		if there == nil {
			return nil, fs.ErrNotExist
		}
		return there, nil
	})
	if found := search(t, s, "tunnel", 1); found.Mode != docsearch.Lexical {
		t.Fatalf("without weights it is %s", found.Mode)
	}
	there = file
	if found := search(t, s, "tunnel", 1); found.Mode != docsearch.Semantic {
		t.Errorf("with weights that came later it is %s", found.Mode)
	}
}
