package docsearch_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/docsearch"
)

const aModel = "amazon.titan-embed-text-v2:0"

// embedder makes a question a vector.
type embedder func(ctx context.Context, question string) ([]float32, error)

func (e embedder) EmbedQuestion(ctx context.Context, question string) ([]float32, error) {
	return e(ctx, question)
}

// axis is the vector of the text at i of pages: each has a direction of its own.
func axis(i int) []float32 {
	v := make([]float32, len(pages.Texts()))
	v[i] = 7 // of no particular length
	return v
}

// vectorsOf is a file of vectors of a content by a model.
func vectorsOf(t *testing.T, model string, content docsearch.Content) []byte {
	t.Helper()
	var vectors [][]float32
	for i := range content.Texts() {
		vectors = append(vectors, axis(i))
		vectors[i][i] = 1
	}
	v, err := docsearch.NewVectors(model, content, 0.45, vectors)
	if err != nil {
		t.Fatal(err)
	}
	file, err := v.Write()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// elsewhere makes a searcher over pages whose questions are made vectors by e.
func elsewhere(t *testing.T, s *docsearch.Searcher, e embedder, now func() time.Time) *docsearch.Searcher {
	t.Helper()
	file := vectorsOf(t, aModel, pages)
	return s.With(docsearch.Models{Embedder: e, EmbeddingModel: aModel, Vectors: func() ([]byte, error) { return file, nil }}, now)
}

func TestAModelElsewhereRanksByItsOwnVectors(t *testing.T) {
	tests := []struct {
		name    string
		vector  []float32
		want    string
		covered bool
	}{
		{"a passage", axis(0), "keys.md# tunnels.md#", true},
		{"the second passage of a section", axis(2), "keys.md#rotation tunnels.md#", true},
		{"a known question", axis(4), "tunnels.md#", true},
		// Cosines of two models do not compare: 0.444 would be enough for the one that is built in.
		{"below its own threshold", []float32{1, 1, 1, 0, 0}, "keys.md# keys.md#rotation tunnels.md#", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := elsewhere(t, lexical(), func(context.Context, string) ([]float32, error) { return tt.vector, nil }, time.Now)
			found := search(t, s, "which?", 10)
			if found.Mode != docsearch.Bedrock || found.Failed != nil || sections(found) != tt.want || found.Covered != tt.covered {
				t.Errorf("%s finds %q, covered %t, failed %v; want %q", found.Mode, sections(found), found.Covered, found.Failed, tt.want)
			}
		})
	}
}

// near makes a searcher for which every question is this vector.
func near(t *testing.T, vector ...float32) *docsearch.Searcher {
	t.Helper()
	return elsewhere(t, lexical(), func(context.Context, string) ([]float32, error) { return vector, nil }, time.Now)
}

// TestOfEquallyNearSectionsTheOneWithTheWordsIsFirst: names and numbers mean little to a model.
func TestOfEquallyNearSectionsTheOneWithTheWordsIsFirst(t *testing.T) {
	s := near(t, 1, 0, 0, 1, 0) // as near to the page of keys as to that of tunnels
	for question, want := range map[string]string{"firewall?": "tunnels.md# keys.md#", "bucket?": "keys.md# tunnels.md#"} {
		if got := sections(search(t, s, question, 2)); got != want {
			t.Errorf("%q finds %q, want %q", question, got, want)
		}
	}
}

// TestAKnownQuestionAloneIsNotEnough against a text that is nearly as near.
func TestAKnownQuestionAloneIsNotEnough(t *testing.T) {
	if got := sections(search(t, near(t, 8, 0, 0, 0, 9), "which?", 2)); got != "keys.md# tunnels.md#" {
		t.Errorf("it finds %q", got)
	}
}

// TestWhereAModelElsewhereFailsWhatIsHereSearches, and the answer says both.
func TestWhereAModelElsewhereFailsWhatIsHereSearches(t *testing.T) {
	not := func(v ...float32) embedder {
		return func(context.Context, string) ([]float32, error) { return v, nil }
	}
	tests := []struct {
		name   string
		e      embedder
		reason docsearch.Reason
	}{
		{"throttled", func(context.Context, string) ([]float32, error) {
			return nil, &docsearch.ModelError{Reason: docsearch.Throttled, Code: "ThrottlingException"}
		}, docsearch.Throttled},
		{"an error of another kind", func(context.Context, string) ([]float32, error) { return nil, errors.New("no") }, docsearch.Unavailable},
		{"a vector that is too short", not(1, 0), docsearch.Unreadable},
		{"one that is too long", not(1, 0, 0, 0, 0, 0), docsearch.Unreadable},
		{"none", not(), docsearch.Unreadable},
		{"nothing but zeros", not(0, 0, 0, 0, 0), docsearch.Unreadable},
		{"not a number", not(float32(math.NaN()), 0, 0, 0, 1), docsearch.Unreadable},
		{"infinite", not(float32(math.Inf(1)), 0, 0, 0, 1), docsearch.Unreadable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for want, s := range map[docsearch.Mode]*docsearch.Searcher{
				docsearch.Lexical:  lexical(),
				docsearch.Semantic: semantic(t),
			} {
				found := search(t, elsewhere(t, s, tt.e, time.Now), "A tunnel leads to a machine behind a firewall.", 5)
				if found.Mode != want || found.Failed == nil || found.Failed.Reason != tt.reason || len(found.Results) == 0 {
					t.Errorf("%s, failed %v, finds %q; want %s, %s", found.Mode, found.Failed, sections(found), want, tt.reason)
				}
			}
		})
	}
}

// TestVectorsOfSomethingElseAreNotUsed: nor is the model asked, whose answer would be of no use.
func TestVectorsOfSomethingElseAreNotUsed(t *testing.T) {
	other := docsearch.Content{Passages: pages.Passages[1:], Questions: append(pages.Questions[:1:1], docsearch.Question{Section: "docs/keys.md#", Text: "x"})}
	good := vectorsOf(t, aModel, pages)
	tests := []struct {
		name  string
		file  []byte
		err   error
		wants string
	}{
		{"another model", vectorsOf(t, "cohere.embed-english-v3", pages), nil, "MODEL=" + aModel},
		{"another version of the documentation", vectorsOf(t, aModel, other), nil, "another version"},
		{"no file of vectors", []byte("something else"), nil, "make docs-vectors"},
		{"cut off", good[:len(good)-1], nil, "make docs-vectors"},
		{"cut off in its head", good[:40], nil, "make docs-vectors"},
		{"none", nil, fs.ErrNotExist, "read the vectors"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := lexical().With(docsearch.Models{
				EmbeddingModel: aModel, Vectors: func() ([]byte, error) { return tt.file, tt.err },
				Embedder: embedder(func(context.Context, string) ([]float32, error) {
					t.Error("the model is asked")
					return axis(0), nil
				}),
			}, time.Now)
			if err := s.Vectors(); err == nil || !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("the cause is %v, want one that says %q", err, tt.wants)
			}
			if found := search(t, s, "tunnel", 5); found.Mode != docsearch.Lexical || found.Failed == nil || found.Failed.Reason != docsearch.NoVectors {
				t.Errorf("it searches %s, failed %v", found.Mode, found.Failed)
			}
		})
	}
}

func TestVectorsAreReadAsTheyWereWritten(t *testing.T) {
	file := vectorsOf(t, aModel, pages)
	v, err := docsearch.ReadVectors(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := v.Write()
	if err != nil || !bytes.Equal(again, file) {
		t.Errorf("read and written they differ, %v", err)
	}
	if err := v.Fits(aModel, pages); err != nil || v.Covered != 0.45 {
		t.Errorf("they cover from %v on, and do not fit: %v", v.Covered, err)
	}
	if _, err := docsearch.NewVectors(aModel, pages, 0.45, [][]float32{{1}}); err == nil {
		t.Error("one vector is taken for five texts")
	}
	if _, err := docsearch.NewVectors(aModel, pages, 0.5, [][]float32{{1}, {1}, {1}, {1}, {1, 0}}); err == nil {
		t.Error("vectors of two sizes are taken")
	}
}

// TestAModelThatFailedIsLeftAloneForAWhile: nobody waits in vain again and again.
func TestAModelThatFailedIsLeftAloneForAWhile(t *testing.T) {
	for reason, asked := range map[docsearch.Reason]int{docsearch.Slow: 1, docsearch.Throttled: 1, docsearch.Denied: 1, docsearch.Unavailable: 1, docsearch.Unreadable: 2} {
		t.Run(string(reason), func(t *testing.T) {
			now, n := time.Unix(1000, 0), 0
			s := elsewhere(t, lexical(), func(context.Context, string) ([]float32, error) {
				if n++; n <= asked {
					return nil, &docsearch.ModelError{Reason: reason}
				}
				return axis(3), nil
			}, func() time.Time { return now })
			search(t, s, "tunnel", 1)
			now = now.Add(9 * time.Second)
			want := docsearch.Resting
			if asked > 1 {
				want = reason
			}
			if found := search(t, s, "tunnel", 1); found.Failed == nil || found.Failed.Reason != want || n != asked {
				t.Errorf("it was asked %d times, and failed %v; want %d and %s", n, found.Failed, asked, want)
			}
			now = now.Add(time.Second)
			if found := search(t, s, "tunnel", 1); found.Mode != docsearch.Bedrock {
				t.Errorf("after ten seconds it is %s, failed %v", found.Mode, found.Failed)
			}
		})
	}
}

// TestEqualQuestionsAreAskedElsewhereOnce, whether at once or one after the other, and nobody's leaving ends what others wait for.
func TestEqualQuestionsAreAskedElsewhereOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, answer := 0, make(chan struct{})
		s := elsewhere(t, lexical(), func(ctx context.Context, _ string) ([]float32, error) {
			n++
			select {
			case <-answer:
			case <-ctx.Done():
			}
			return axis(3), ctx.Err()
		}, time.Now)
		first, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := s.Search(first, "tunnel", 1); !errors.Is(err, context.Canceled) {
				t.Errorf("who left is answered %v", err)
			}
		})
		synctest.Wait()
		for range 20 {
			all.Go(func() {
				if found := search(t, s, " tunnel ", 1); found.Mode != docsearch.Bedrock {
					t.Errorf("it is %s, failed %v", found.Mode, found.Failed)
				}
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(answer)
		all.Wait()
		if search(t, s, "tunnel", 1); n != 1 {
			t.Errorf("the model is asked %d times, want once", n)
		}
	})
}
