package docsearch_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/docsearch"
	"github.com/gatewright/gatewright/shared/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/docsearch/minilm/minilmtest"
)

// pages are a small documentation.
var pages = docsearch.Content{
	Passages: []docsearch.Passage{
		{Title: "Keys", Path: "docs/keys.md", Text: "A key opens the bucket. It is replaced once a year."},
		{Title: "Keys › Rotation", Path: "docs/keys.md", Anchor: "rotation", Text: "Rotating a key gives another one. The old key works for an hour.\nKeep it in a safe place."},
		{Title: "Keys › Rotation", Path: "docs/keys.md", Anchor: "rotation", Text: "Rotating twice in an hour is refused."},
		{Title: "Tunnels", Path: "docs/tunnels.md", Text: "A tunnel leads to a machine behind a firewall."},
	},
	Questions: []docsearch.Question{
		{Section: "docs/tunnels.md#", Text: "How do I reach my intranet?"},
	},
}

// semantic returns a searcher over pages with random weights: only equal texts are near each other. All of these searchers share a model.
func semantic(t *testing.T) *docsearch.Searcher {
	t.Helper()
	file := minilmtest.Random(t)
	s := docsearch.New(indexed(t, file), func() ([]byte, error) { return file, nil })
	s.ShareModel(ofPages.searcher)
	return s
}

// ofPages has the index of pages by the random weights, and a searcher over it.
var ofPages struct {
	once     sync.Once
	index    *docsearch.Index
	searcher *docsearch.Searcher
}

// indexed returns the index of pages by the random weights, and makes it once.
func indexed(t *testing.T, weights []byte) *docsearch.Index {
	t.Helper()
	ofPages.once.Do(func() {
		model, err := minilm.Read(weights)
		if err != nil {
			return
		}
		texts := pages.Texts()
		vectors := make([]minilm.Vector, len(texts))
		for i, text := range texts {
			vectors[i] = model.Embed(text)
		}
		ofPages.index = docsearch.NewIndex(model.Digest(), pages, vectors)
		ofPages.searcher = docsearch.New(ofPages.index, func() ([]byte, error) { return weights, nil })
	})
	if ofPages.index == nil {
		t.Fatal("the random weights cannot be read")
	}
	return ofPages.index
}

// lexical makes one over pages without weights.
func lexical() *docsearch.Searcher {
	texts := pages.Texts()
	return docsearch.New(docsearch.NewIndex([32]byte{}, pages, make([]minilm.Vector, len(texts))), nil)
}

func search(t *testing.T, s *docsearch.Searcher, question string, limit int) docsearch.Found {
	t.Helper()
	found, err := s.Search(t.Context(), question, limit)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func sections(found docsearch.Found) string {
	var names []string
	for _, r := range found.Results {
		names = append(names, strings.TrimPrefix(r.Section(), "docs/"))
	}
	return strings.Join(names, " ")
}

func TestWithoutWeightsItRanksByWordsAndSaysSo(t *testing.T) {
	tests := []struct{ name, question, want string }{
		{"a word", "firewall", "tunnels.md#"},
		{"a word in another form", "rotated", "keys.md#rotation"},
		{"a word of the title", "tunnels", "tunnels.md#"},
		{"a word of a known question alone", "intranet", "tunnels.md#"},
		{"the rarer word decides", "key firewall", "tunnels.md# keys.md# keys.md#rotation"},
		{"no word of any passage", "giraffe", ""},
		{"nothing but words that all texts have", "is it of the", ""},
	}
	s := lexical()
	if err := s.Semantic(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is %v, want that there are no weights", err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := search(t, s, tt.question, 10)
			if got := sections(found); got != tt.want || found.Mode != docsearch.Lexical {
				t.Errorf("%s finds %q, want %q", found.Mode, got, tt.want)
			}
		})
	}
}

func TestWithWeightsTheNearestPassageOrKnownQuestionIsFirst(t *testing.T) {
	s := semantic(t)
	tests := []struct{ name, question, want string }{
		{"a passage", pages.Passages[0].Embedded(), "keys.md#"},
		{"the second passage of a section", pages.Passages[2].Embedded(), "keys.md#rotation"},
		{"a known question", "How do I reach my intranet?", "tunnels.md#"},
		{"spaces and lines make no difference", " How do I\n reach  my intranet? ", "tunnels.md#"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := search(t, s, tt.question, 10)
			if got := sections(found); !strings.HasPrefix(got, tt.want+" ") || found.Mode != docsearch.Semantic || !found.Covered {
				t.Errorf("%s finds %q, covered %t; want %q first, covered", found.Mode, got, found.Covered, tt.want)
			}
			if score := found.Results[0].Score; score < 0.95 || score > 1.001 { // a little for rounding
				t.Errorf("its score is %.3f", found.Results[0].Score)
			}
		})
	}
	if err := s.Semantic(); err != nil {
		t.Error(err)
	}
}

// TestOfASectionTheBestPassageIsFound: pieces of a long section do not fill the list.
func TestOfASectionTheBestPassageIsFound(t *testing.T) {
	found := search(t, lexical(), "rotating twice", 10)
	if got := sections(found); got != "keys.md#rotation" {
		t.Fatalf("it finds %q, want the section once", got)
	}
	if got := found.Results[0].Text; !strings.Contains(got, "twice") {
		t.Errorf("its passage is %q, want the one that fits best", got)
	}
}

func TestResultsAreBounded(t *testing.T) {
	for limit, want := range map[int]int{-1: 1, 0: 1, 2: 2, 100: 3} {
		if got := len(search(t, lexical(), "key tunnel bucket", limit).Results); got != want {
			t.Errorf("with the limit %d there are %d results, want %d", limit, got, want)
		}
	}
}

func TestWhatIsFarFromAllPassagesIsNotCovered(t *testing.T) {
	s := lexical()
	if found := search(t, s, "Which giraffe, elephant or zebra of the savannah has a key?", 5); found.Covered || len(found.Results) == 0 {
		t.Errorf("one word of many covers a question, and finds %q", sections(found))
	}
	if found := search(t, s, "rotating a key", 5); !found.Covered {
		t.Error("a question in the page's words is not covered")
	}
}

func TestQuestionsHaveBounds(t *testing.T) {
	if found := search(t, lexical(), "tunnel "+strings.Repeat("s", docsearch.MaxQueryBytes-7), 5); found.Mode != docsearch.Lexical {
		t.Errorf("a question as long as may be is answered %+v", found)
	}
	tests := []struct{ name, question string }{
		{"nothing", ""},
		{"nothing but space", " \n\t"},
		{"too long", strings.Repeat("key ", docsearch.MaxQueryBytes/4) + "keys"},
		{"no UTF-8", "key \xff"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := lexical().Search(t.Context(), tt.question, 5); !errors.Is(err, docsearch.ErrQuery) {
				t.Errorf("the fault is %v, want ErrQuery", err)
			}
		})
	}
}

// TestWeightsAreReadAtTheFirstSearchOnce: a process that nobody asks holds none.
func TestWeightsAreReadAtTheFirstSearchOnce(t *testing.T) {
	file, read := minilmtest.Random(t), 0
	index := indexed(t, file)
	s := docsearch.New(index, func() ([]byte, error) { read++; return file, nil })
	if read != 0 {
		t.Fatal("the weights are read before anybody asks")
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := s.Search(t.Context(), "How do I reach my intranet?", 1); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if read != 1 {
		t.Errorf("the weights are read %d times, want once", read)
	}
}

// TestWeightsOfAnotherIndexAreNotUsed: vectors of different weights do not compare.
func TestWeightsOfAnotherIndexAreNotUsed(t *testing.T) {
	file := minilmtest.Random(t)
	index := docsearch.NewIndex([32]byte{1}, pages, make([]minilm.Vector, len(pages.Texts())))
	broken := errors.New("the disk is broken")
	tests := []struct {
		name    string
		weights func() ([]byte, error)
	}{
		{"others than made the index", func() ([]byte, error) { return file, nil }},
		{"no weights but something else", func() ([]byte, error) { return []byte("something else"), nil }},
		{"they cannot be read", func() ([]byte, error) { return nil, broken }},
	}
	read := 0
	once := docsearch.New(index, func() ([]byte, error) { read++; return nil, broken })
	for range 3 {
		search(t, once, "tunnel", 5)
	}
	if read != 1 {
		t.Errorf("weights that cannot be read are read %d times, want once", read)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := docsearch.New(index, tt.weights)
			if found := search(t, s, "tunnel", 5); found.Mode != docsearch.Lexical || sections(found) != "tunnels.md#" {
				t.Errorf("%s finds %q, want tunnels.md# by words", found.Mode, sections(found))
			}
			if err := s.Semantic(); err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the cause is %v, want one that tells what is wrong", err)
			}
		})
	}
}

func TestSearchEndsWithItsContext(t *testing.T) {
	s := semantic(t)
	question := pages.Passages[0].Embedded()
	search(t, s, question, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// What is remembered needs no turn.
	if _, err := s.Search(ctx, question, 1); err != nil {
		t.Errorf("a question that was asked before is answered %v", err)
	}
	if found, err := s.Search(ctx, pages.Passages[1].Embedded(), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a new question is answered %v, %v", sections(found), err)
	}
}

// TestOfALongQuestionTheBeginningCounts: the whole of it would take a core for a second.
func TestOfALongQuestionTheBeginningCounts(t *testing.T) {
	s := semantic(t)
	long := strings.Repeat("key ", 100)
	got, want := search(t, s, long+"tunnel", 3), search(t, s, long+"bucket", 3)
	for i := range want.Results {
		if got.Results[i] != want.Results[i] {
			t.Errorf("what stands behind a hundred words changes the result %d", i+1)
		}
	}
}
