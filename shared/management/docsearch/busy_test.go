package docsearch_test

import (
	"io/fs"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm/minilmtest"
)

// TestQueueTimeoutFallsBackToLexical checks that a search is lexical and busy if no slot becomes free, and that it
// waits at most half a second. A search of a cached question needs no slot.
func TestQueueTimeoutFallsBackToLexical(t *testing.T) {
	file := minilmtest.Random(t)
	index := pagesIndexFor(t, file)
	synctest.Test(t, func(t *testing.T) {
		s := docsearch.New(index, func() ([]byte, error) { return file, nil })
		search(t, s, pages.Passages[0].EmbeddingText(), 1) // caches the vector of this question
		release := s.FillSlots()
		start := time.Now()
		found := search(t, s, "tunnel firewall", 1)
		if waited := time.Since(start); waited > time.Second/2 {
			t.Errorf("search with full slots takes %s, want at most 500ms", waited)
		}
		if found.Mode != docsearch.Lexical || !found.Busy || sections(found) != "tunnels.md#" {
			t.Errorf("search with full slots = %s, busy %t, %q, want lexical, true, tunnels.md#",
				found.Mode, found.Busy, sections(found))
		}
		if found := search(t, s, pages.Passages[0].EmbeddingText(), 1); found.Mode != docsearch.Semantic || found.Busy {
			t.Errorf("search of a cached question = %s, busy %t, want %s, false", found.Mode, found.Busy, docsearch.Semantic)
		}
		release()
		if found := search(t, s, "tunnel firewall", 1); found.Mode != docsearch.Semantic || found.Busy {
			t.Errorf("search after the release = %s, busy %t, want %s, false", found.Mode, found.Busy, docsearch.Semantic)
		}
	})
}

// withFullSlots runs a test with a searcher whose slots are all in use until release is called.
func withFullSlots(t *testing.T, test func(t *testing.T, s *docsearch.Searcher, release func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := semantic(t)
		if err := s.LoadWeights(); err != nil {
			t.Fatal(err)
		}
		test(t, s, s.FillSlots())
	})
}

// TestEqualQuestionsShareOneSlot checks that concurrent equal questions compute their vector once.
func TestEqualQuestionsShareOneSlot(t *testing.T) {
	withFullSlots(t, func(t *testing.T, s *docsearch.Searcher, release func()) {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if found := search(t, s, "How do I reach my intranet?", 1); found.Mode != docsearch.Semantic {
					t.Errorf("mode of the search = %s, want %s", found.Mode, docsearch.Semantic)
				}
			})
		}
		synctest.Wait()
		if n := s.Waiting(); n != 1 {
			t.Errorf("Waiting() with 50 equal questions = %d, want 1", n)
		}
		release()
		wg.Wait()
	})
}

// TestWaitingQuestionsGetTheirOwnResults checks that different questions that wait at the same time
// do not share a computation: each gets its own result.
func TestWaitingQuestionsGetTheirOwnResults(t *testing.T) {
	withFullSlots(t, func(t *testing.T, s *docsearch.Searcher, release func()) {
		var wg sync.WaitGroup
		for _, p := range pages.Passages {
			wg.Go(func() {
				if found := search(t, s, p.EmbeddingText(), 1); found.Results[0].Text != p.Text {
					t.Errorf("search of the passage %q = %q, want the same passage", p.Text, found.Results[0].Text)
				}
			})
		}
		synctest.Wait()
		release()
		wg.Wait()
	})
}

// TestAnswerReportsBusy checks that Answer reports Busy like Search.
func TestAnswerReportsBusy(t *testing.T) {
	withFullSlots(t, func(t *testing.T, s *docsearch.Searcher, release func()) {
		defer release()
		if answer, err := docsearch.NewExtractive(s).Answer(t.Context(), "tunnel firewall"); err != nil || !answer.Busy ||
			answer.Mode != docsearch.Lexical {
			t.Errorf("Answer() with full slots = %+v, %v, want busy, %s and no error", answer, err, docsearch.Lexical)
		}
	})
}

// TestLateWeightsAreUsed checks that a search uses weights that were missing during an earlier search.
func TestLateWeightsAreUsed(t *testing.T) {
	file := minilmtest.Random(t)
	var available []byte
	s := docsearch.New(pagesIndexFor(t, file), func() ([]byte, error) {
		if available == nil {
			return nil, fs.ErrNotExist
		}
		return available, nil
	})
	if found := search(t, s, "tunnel", 1); found.Mode != docsearch.Lexical {
		t.Fatalf("mode without weights = %s, want %s", found.Mode, docsearch.Lexical)
	}
	available = file
	if found := search(t, s, "tunnel", 1); found.Mode != docsearch.Semantic {
		t.Errorf("mode with later weights = %s, want %s", found.Mode, docsearch.Semantic)
	}
}
