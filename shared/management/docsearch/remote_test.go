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

	"github.com/gatewright/gatewright/shared/management/docsearch"
)

const modelID = "amazon.titan-embed-text-v2:0"

// embedder is a function that implements docsearch.Embedder.
type embedder func(ctx context.Context, question string) ([]float32, error)

func (e embedder) EmbedQuestion(ctx context.Context, question string) ([]float32, error) {
	return e(ctx, question)
}

// axis returns the vector of the text with index i in pages. It has a number
// for each text, and only the number at i is not 0.
func axis(i int) []float32 {
	v := make([]float32, len(pages.Texts()))
	v[i] = 7 // any length is accepted
	return v
}

// vectorsOf returns the file of vectors for a content and a model.
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
	file, err := v.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// useRemoteModel makes s use e for the vectors of questions. It returns s.
func useRemoteModel(t *testing.T, s *docsearch.Searcher, e embedder, now func() time.Time) *docsearch.Searcher {
	t.Helper()
	file := vectorsOf(t, modelID, pages)
	return s.UseModels(docsearch.Models{Embedder: e, EmbeddingModel: modelID, Vectors: func() ([]byte, error) {
		return file, nil
	}}, now)
}

func TestRemoteModelRanksByItsVectors(t *testing.T) {
	tests := []struct {
		name    string
		vector  []float32
		want    string
		covered bool
	}{
		{"a passage", axis(0), "keys.md# tunnels.md#", true},
		{"the second passage of a section", axis(2), "keys.md#rotation tunnels.md#", true},
		{"a known question", axis(4), "tunnels.md#", true},
		// Cosines of different models are not comparable: a score of 0.444 would be sufficient for the local model.
		{"a cosine below the remote threshold", []float32{1, 1, 1, 0, 0}, "keys.md# keys.md#rotation tunnels.md#", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := searcherOf(t, tt.vector...)
			found := search(t, s, "which?", 10)
			if found.Mode != docsearch.Bedrock || found.RemoteError != nil || sections(found) != tt.want ||
				found.Covered != tt.covered {
				t.Errorf("search = %s %q, covered %t, %v, want %s %q, covered %t and no error", found.Mode, sections(found),
					found.Covered, found.RemoteError, docsearch.Bedrock, tt.want, tt.covered)
			}
		})
	}
}

// searcherOf returns a searcher that uses vector for every question.
func searcherOf(t *testing.T, vector ...float32) *docsearch.Searcher {
	t.Helper()
	return useRemoteModel(t, lexical(), func(context.Context, string) ([]float32, error) { return vector, nil }, time.Now)
}

// TestEqualCosinesAreRankedByWords checks that words decide between
// equal cosines, because a model knows little about names and numbers.
func TestEqualCosinesAreRankedByWords(t *testing.T) {
	s := searcherOf(t, 1, 0, 0, 1, 0) // equally near to the pages of keys and of tunnels
	for question, want := range map[string]string{"firewall?": "tunnels.md# keys.md#", "bucket?": "keys.md# tunnels.md#"} {
		if got := sections(search(t, s, question, 2)); got != want {
			t.Errorf("search(%q) = %q, want %q", question, got, want)
		}
	}
}

// TestKnownQuestionDoesNotOutrankPassage checks that a similar passage
// comes before a known question that is only slightly more similar.
func TestKnownQuestionDoesNotOutrankPassage(t *testing.T) {
	if got := sections(search(t, searcherOf(t, 8, 0, 0, 0, 9), "which?", 2)); got != "keys.md# tunnels.md#" {
		t.Errorf("sections found = %q, want \"keys.md# tunnels.md#\"", got)
	}
}

// TestRemoteModelFailureFallsBack checks that the search continues with the
// local ranking if the model fails, and that the result has the reason.
func TestRemoteModelFailureFallsBack(t *testing.T) {
	returning := func(v ...float32) embedder {
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
		{"an error of another kind", func(context.Context, string) ([]float32, error) {
			return nil, errors.New("no")
		}, docsearch.Unavailable},
		{"a vector that is too short", returning(1, 0), docsearch.Unreadable},
		{"a vector that is too long", returning(1, 0, 0, 0, 0, 0), docsearch.Unreadable},
		{"no vector", returning(), docsearch.Unreadable},
		{"a vector of zeros", returning(0, 0, 0, 0, 0), docsearch.Unreadable},
		{"a vector with NaN", returning(float32(math.NaN()), 0, 0, 0, 1), docsearch.Unreadable},
		{"a vector with an infinite number", returning(float32(math.Inf(1)), 0, 0, 0, 1), docsearch.Unreadable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for want, s := range map[docsearch.Mode]*docsearch.Searcher{
				docsearch.Lexical:  lexical(),
				docsearch.Semantic: semantic(t),
			} {
				found := search(t, useRemoteModel(t, s, tt.e, time.Now), "A tunnel leads to a machine behind a firewall.", 5)
				if found.Mode != want || found.RemoteError == nil || found.RemoteError.Reason != tt.reason ||
					len(found.Results) == 0 {
					t.Errorf("search = %s, RemoteError %v, sections %q, want %s, %s, some sections",
						found.Mode, found.RemoteError, sections(found), want, tt.reason)
				}
			}
		})
	}
}

// TestMismatchedVectorsAreNotUsed checks that a file of vectors is not used if it is of another model or
// content, or cannot be read. The model is not called either, because its vector would be useless.
func TestMismatchedVectorsAreNotUsed(t *testing.T) {
	other := docsearch.Content{
		Passages:  pages.Passages[1:],
		Questions: append(pages.Questions[:1:1], docsearch.Question{Section: "docs/keys.md#", Text: "x"}),
	}
	valid := vectorsOf(t, modelID, pages)
	tests := []struct {
		name    string
		file    []byte
		err     error
		message string
	}{
		{"another model", vectorsOf(t, "cohere.embed-english-v3", pages), nil, "MODEL=" + modelID},
		{"another version of the documentation", vectorsOf(t, modelID, other), nil, "another version"},
		{"no file of vectors", []byte("something else"), nil, "make docs-vectors"},
		{"a truncated file", valid[:len(valid)-1], nil, "make docs-vectors"},
		{"a truncated header", valid[:40], nil, "make docs-vectors"},
		{"a missing file", nil, fs.ErrNotExist, "read the vectors"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := lexical().UseModels(docsearch.Models{
				EmbeddingModel: modelID, Vectors: func() ([]byte, error) { return tt.file, tt.err },
				Embedder: embedder(func(context.Context, string) ([]float32, error) {
					t.Error("the model is called, want no call")
					return axis(0), nil
				}),
			}, time.Now)
			if err := s.LoadVectors(); err == nil || !strings.Contains(err.Error(), tt.message) {
				t.Errorf("LoadVectors() = %v, want an error with %q", err, tt.message)
			}
			if found := search(t, s, "tunnel", 5); found.Mode != docsearch.Lexical || found.RemoteError == nil ||
				found.RemoteError.Reason != docsearch.NoVectors {
				t.Errorf("search = %s, %v, want %s, %s", found.Mode, found.RemoteError, docsearch.Lexical, docsearch.NoVectors)
			}
		})
	}
}

func TestVectorsRoundTrip(t *testing.T) {
	file := vectorsOf(t, modelID, pages)
	v, err := docsearch.ReadVectors(file)
	if err != nil {
		t.Fatal(err)
	}
	rewritten, err := v.Encode()
	if err != nil || !bytes.Equal(rewritten, file) {
		t.Errorf("second Encode() differs or fails with %v, want the same bytes and no error", err)
	}
	if err := v.CheckMatch(modelID, pages); err != nil || v.MinCovered != 0.45 {
		t.Errorf("CheckMatch() = %v, Covered = %v, want nil, 0.45", err, v.MinCovered)
	}
	if _, err := docsearch.NewVectors(modelID, pages, 0.45, [][]float32{{1}}); err == nil {
		t.Error("NewVectors(one vector for five texts) = no error, want one")
	}
	if _, err := docsearch.NewVectors(modelID, pages, 0.5, [][]float32{{1}, {1}, {1}, {1}, {1, 0}}); err == nil {
		t.Error("NewVectors(vectors of two sizes) = no error, want one")
	}
}

// TestFailedModelCoolsDown checks that a model that has failed is not called for ten seconds, so that
// questions do not wait for it. After an unreadable vector, the model is called again at once.
func TestFailedModelCoolsDown(t *testing.T) {
	for reason, calls := range map[docsearch.Reason]int{
		docsearch.Slow: 1, docsearch.Throttled: 1, docsearch.Denied: 1,
		docsearch.Unavailable: 1, docsearch.Unreadable: 2,
	} {
		t.Run(string(reason), func(t *testing.T) {
			now, n := time.Unix(1000, 0), 0
			s := useRemoteModel(t, lexical(), func(context.Context, string) ([]float32, error) {
				if n++; n <= calls {
					return nil, &docsearch.ModelError{Reason: reason}
				}
				return axis(3), nil
			}, func() time.Time { return now })
			search(t, s, "tunnel", 1)
			now = now.Add(9 * time.Second)
			want := docsearch.CoolingDown
			if calls > 1 {
				want = reason
			}
			if found := search(t, s, "tunnel", 1); found.RemoteError == nil || found.RemoteError.Reason != want || n != calls {
				t.Errorf("calls of the model = %d, RemoteError = %v, want %d, %s", n, found.RemoteError, calls, want)
			}
			now = now.Add(time.Second)
			if found := search(t, s, "tunnel", 1); found.Mode != docsearch.Bedrock {
				t.Errorf("search after the cooldown = %s, %v, want %s", found.Mode, found.RemoteError, docsearch.Bedrock)
			}
		})
	}
}

// TestEqualQuestionsShareOneRemoteCall checks that equal questions share one call, both concurrent
// and consecutive questions. A client that disconnects must not cancel the call for the others.
func TestEqualQuestionsShareOneRemoteCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, respond := 0, make(chan struct{})
		s := useRemoteModel(t, lexical(), func(ctx context.Context, _ string) ([]float32, error) {
			n++
			select {
			case <-respond:
			case <-ctx.Done():
			}
			return axis(3), ctx.Err()
		}, time.Now)
		first, cancelFirst := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := s.Search(first, "tunnel", 1); !errors.Is(err, context.Canceled) {
				t.Errorf("canceled search error = %v, want %v", err, context.Canceled)
			}
		})
		synctest.Wait()
		for range 20 {
			wg.Go(func() {
				if found := search(t, s, " tunnel ", 1); found.Mode != docsearch.Bedrock {
					t.Errorf("search = %s, %v, want %s", found.Mode, found.RemoteError, docsearch.Bedrock)
				}
			})
		}
		synctest.Wait()
		cancelFirst()
		synctest.Wait()
		close(respond)
		wg.Wait()
		if search(t, s, "tunnel", 1); n != 1 {
			t.Errorf("calls of the model = %d, want 1", n)
		}
	})
}
