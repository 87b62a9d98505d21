package docsearch_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm/minilmtest"
)

// pages is the content of a small documentation.
var pages = docsearch.Content{
	Passages: []docsearch.Passage{
		{Title: "Keys", Path: "docs/keys.md", Text: "A key opens the bucket. It is replaced once a year."},
		{
			Title: "Keys › Rotation", Path: "docs/keys.md", Anchor: "rotation",
			Text: "Rotating a key gives another one. The old key works for an hour.\nKeep it in a safe place.",
		},
		{Title: "Keys › Rotation", Path: "docs/keys.md", Anchor: "rotation", Text: "Rotating twice in an hour is refused."},
		{Title: "Tunnels", Path: "docs/tunnels.md", Text: "A tunnel leads to a machine behind a firewall."},
	},
	Questions: []docsearch.Question{
		{Section: "docs/tunnels.md#", Text: "How do I reach my intranet?"},
	},
}

// semantic returns a searcher over pages with random weights, for which
// only equal texts are similar. All these searchers share a model.
func semantic(t *testing.T) *docsearch.Searcher {
	t.Helper()
	file := minilmtest.Random(t)
	s := docsearch.New(pagesIndexFor(t, file), func() ([]byte, error) { return file, nil })
	s.ShareModel(pagesIndex.searcher)
	return s
}

// pagesIndex has the index of pages for the random weights, and a searcher of this index.
var pagesIndex struct {
	once     sync.Once
	index    *docsearch.Index
	searcher *docsearch.Searcher
}

// pagesIndexFor returns the index of pages for the random weights. It creates the index only once.
func pagesIndexFor(t *testing.T, weights []byte) *docsearch.Index {
	t.Helper()
	pagesIndex.once.Do(func() {
		model, err := minilm.Read(weights)
		if err != nil {
			return
		}
		texts := pages.Texts()
		vectors := make([]minilm.Vector, len(texts))
		for i, text := range texts {
			vectors[i] = model.Embed(text)
		}
		pagesIndex.index = docsearch.NewIndex(model.Digest(), pages, vectors)
		pagesIndex.searcher = docsearch.New(pagesIndex.index, func() ([]byte, error) { return weights, nil })
	})
	if pagesIndex.index == nil {
		t.Fatal("minilm.Read(random weights) has failed, so there is no index, want no error")
	}
	return pagesIndex.index
}

// lexical returns a searcher over pages without weights.
func lexical() *docsearch.Searcher {
	texts := pages.Texts()
	return docsearch.New(docsearch.NewIndex([32]byte{}, pages, make([]minilm.Vector, len(texts))), nil)
}

func search(t *testing.T, s *docsearch.Searcher, question string, limit int) docsearch.SearchResult {
	t.Helper()
	found, err := s.Search(t.Context(), question, limit)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// sections returns the names of the sections in the results, without "docs/" and separated by spaces.
func sections(found docsearch.SearchResult) string {
	var names []string
	for _, r := range found.Results {
		names = append(names, strings.TrimPrefix(r.Section(), "docs/"))
	}
	return strings.Join(names, " ")
}

func TestSearchWithoutWeightsIsLexical(t *testing.T) {
	tests := []struct{ name, question, want string }{
		{"a word", "firewall", "tunnels.md#"},
		{"a word in another form", "rotated", "keys.md#rotation"},
		{"a word of the title", "tunnels", "tunnels.md#"},
		{"a word that occurs only in a known question", "intranet", "tunnels.md#"},
		{"the rarer word decides", "key firewall", "tunnels.md# keys.md# keys.md#rotation"},
		{"no word of any passage", "giraffe", ""},
		{"only common words", "is it of the", ""},
	}
	s := lexical()
	if err := s.LoadWeights(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("LoadWeights() without weights = %v, want %v", err, fs.ErrNotExist)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := search(t, s, tt.question, 10)
			if got := sections(found); got != tt.want || found.Mode != docsearch.Lexical {
				t.Errorf("search(%q) = %s %q, want %s %q", tt.question, found.Mode, got, docsearch.Lexical, tt.want)
			}
		})
	}
}

func TestSemanticRanking(t *testing.T) {
	s := semantic(t)
	tests := []struct{ name, question, want string }{
		{"a passage", pages.Passages[0].EmbeddingText(), "keys.md#"},
		{"the second passage of a section", pages.Passages[2].EmbeddingText(), "keys.md#rotation"},
		{"a known question", "How do I reach my intranet?", "tunnels.md#"},
		{"spaces and lines make no difference", " How do I\n reach  my intranet? ", "tunnels.md#"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := search(t, s, tt.question, 10)
			if got := sections(found); !strings.HasPrefix(got, tt.want+" ") || found.Mode != docsearch.Semantic ||
				!found.Covered {
				t.Errorf("search(%q) = %s %q, covered %t, want %s, %q first and covered",
					tt.question, found.Mode, got, found.Covered, docsearch.Semantic, tt.want)
			}
			if score := found.Results[0].Score; score < 0.95 || score > 1.001 { // 1 except for rounding errors
				t.Errorf("score of the first result = %.3f, want 0.95 to 1.001", score)
			}
		})
	}
	if err := s.LoadWeights(); err != nil {
		t.Errorf("LoadWeights() = %v, want nil", err)
	}
}

// TestBestPassageOfSectionIsReturned checks that a section has only its best passage in the results.
func TestBestPassageOfSectionIsReturned(t *testing.T) {
	found := search(t, lexical(), "rotating twice", 10)
	if got := sections(found); got != "keys.md#rotation" {
		t.Fatalf("sections found = %q, want keys.md#rotation once", got)
	}
	if got := found.Results[0].Text; !strings.Contains(got, "twice") {
		t.Errorf("passage of the section = %q, want the one that contains \"twice\"", got)
	}
}

func TestResultsAreBounded(t *testing.T) {
	for limit, want := range map[int]int{-1: 1, 0: 1, 2: 2, 100: 3} {
		if got := len(search(t, lexical(), "key tunnel bucket", limit).Results); got != want {
			t.Errorf("results with limit %d = %d, want %d", limit, got, want)
		}
	}
}

func TestUnrelatedQuestionIsNotCovered(t *testing.T) {
	s := lexical()
	if found := search(t, s, "Which giraffe, elephant or zebra of the savannah has a key?", 5); found.Covered ||
		len(found.Results) == 0 {
		t.Errorf("unrelated question: covered %t, sections %q, want false and some", found.Covered, sections(found))
	}
	if found := search(t, s, "rotating a key", 5); !found.Covered {
		t.Error("question in the words of the page: covered = false, want true")
	}
}

func TestQuestionsHaveBounds(t *testing.T) {
	if found := search(t, lexical(), "tunnel "+strings.Repeat("s", docsearch.MaxQueryBytes-7),
		5); found.Mode != docsearch.Lexical {
		t.Errorf("search of %d bytes: mode = %s, want %s", docsearch.MaxQueryBytes, found.Mode, docsearch.Lexical)
	}
	tests := []struct{ name, question string }{
		{"an empty question", ""},
		{"only white space", " \n\t"},
		{"too long", strings.Repeat("key ", docsearch.MaxQueryBytes/4) + "keys"},
		{"invalid UTF-8", "key \xff"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := lexical().Search(t.Context(), tt.question, 5); !errors.Is(err, docsearch.ErrQuery) {
				t.Errorf("Search(%.40q) error = %v, want %v", tt.question, err, docsearch.ErrQuery)
			}
		})
	}
}

// TestWeightsAreReadOnceAtFirstSearch checks that the weights are read once, and not
// before the first search: a process without searches does not need them in memory.
func TestWeightsAreReadOnceAtFirstSearch(t *testing.T) {
	file, reads := minilmtest.Random(t), 0
	index := pagesIndexFor(t, file)
	s := docsearch.New(index, func() ([]byte, error) { reads++; return file, nil })
	if reads != 0 {
		t.Fatalf("reads of the weights before the first search = %d, want 0", reads)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := s.Search(t.Context(), "How do I reach my intranet?", 1); err != nil {
				t.Errorf("Search() while others search: error = %v, want none", err)
			}
		})
	}
	wg.Wait()
	if reads != 1 {
		t.Errorf("reads of the weights = %d, want 1", reads)
	}
}

// TestWeightsOfAnotherIndexAreNotUsed checks that a search does not use weights if the index was created with other
// weights, because the vectors are not comparable. It also does not use weights that are invalid or cannot be read,
// and does not try to read them again.
func TestWeightsOfAnotherIndexAreNotUsed(t *testing.T) {
	file := minilmtest.Random(t)
	index := docsearch.NewIndex([32]byte{1}, pages, make([]minilm.Vector, len(pages.Texts())))
	errBroken := errors.New("the disk is broken")
	tests := []struct {
		name    string
		weights func() ([]byte, error)
	}{
		{"weights of another index", func() ([]byte, error) { return file, nil }},
		{"another format", func() ([]byte, error) { return []byte("something else"), nil }},
		{"weights that cannot be read", func() ([]byte, error) { return nil, errBroken }},
	}
	reads := 0
	searcher := docsearch.New(index, func() ([]byte, error) { reads++; return nil, errBroken })
	for range 3 {
		search(t, searcher, "tunnel", 5)
	}
	if reads != 1 {
		t.Errorf("reads of weights that cannot be read = %d, want 1", reads)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := docsearch.New(index, tt.weights)
			if found := search(t, s, "tunnel", 5); found.Mode != docsearch.Lexical || sections(found) != "tunnels.md#" {
				t.Errorf("search = %s %q, want %s \"tunnels.md#\"", found.Mode, sections(found), docsearch.Lexical)
			}
			if err := s.LoadWeights(); err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("LoadWeights() = %v, want the problem of the weights, not %v", err, fs.ErrNotExist)
			}
		})
	}
}

func TestSearchStopsWithContext(t *testing.T) {
	s := semantic(t)
	question := pages.Passages[0].EmbeddingText()
	search(t, s, question, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// The vector of this question is cached, so Search does not wait for a core to compute it.
	if _, err := s.Search(ctx, question, 1); err != nil {
		t.Errorf("Search() of a cached question error = %v, want none", err)
	}
	if found, err := s.Search(ctx, pages.Passages[1].EmbeddingText(), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Search() of a new question with a canceled context = %v, %v, want %v",
			sections(found), err, context.Canceled)
	}
}

// TestLongQuestionIsTruncated checks that only the beginning of a long
// question is used: the whole question would use a core for a second.
func TestLongQuestionIsTruncated(t *testing.T) {
	s := semantic(t)
	long := strings.Repeat("key ", 100)
	got, want := search(t, s, long+"tunnel", 3), search(t, s, long+"bucket", 3)
	if len(want.Results) == 0 || len(got.Results) != len(want.Results) {
		t.Fatalf("results of two truncated questions = %d and %d, want the same number, and some",
			len(got.Results), len(want.Results))
	}
	for i := range want.Results {
		if got.Results[i] != want.Results[i] {
			t.Errorf("result %d of a truncated question = %+v, want %+v", i+1, got.Results[i], want.Results[i])
		}
	}
}
