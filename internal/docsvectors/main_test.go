package main

import (
	"bytes"
	"context"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/runtime/cloud/bedrock/bedrocktest"
)

const titan = "amazon.titan-embed-text-v2:0"

// environment returns a getenv function with credentials, and with url as the endpoint of Bedrock.
func environment(url string) func(string) string {
	return func(name string) string {
		return map[string]string{
			"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "an-id",
			"AWS_SECRET_ACCESS_KEY": "a-secret", config.VarBedrockEndpoint: url,
		}[name]
	}
}

// wordVector returns a vector for a text. Texts with many words in common have similar vectors.
func wordVector(text string) []float32 {
	v := make([]float32, 1024)
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(strings.Trim(word, ".,?!")))
		v[h.Sum32()%1024]++
	}
	return v
}

// TestRunWritesVectorsOfTheEmbeddedIndex checks that the vectors are for the embedded index, and that the command
// prints their quality.
func TestRunWritesVectorsOfTheEmbeddedIndex(t *testing.T) {
	t.Chdir("../..")
	b := bedrocktest.New(t)
	b.HandleInvoke(bedrocktest.Vector(wordVector))
	path := filepath.Join(t.TempDir(), "docsearch", "bedrock.vectors")
	var out bytes.Buffer
	if err := run(t.Context(), titan, path, environment(b.URL), &out); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	vectors, err := docsearch.ReadVectors(file)
	if err != nil {
		t.Fatal(err)
	}
	index, err := docsearch.DocumentationIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := vectors.CheckMatch(titan, index.Content); err != nil || vectors.MinCovered <= 0 || vectors.MinCovered >= 1 {
		t.Errorf("run() wrote vectors with CheckMatch() = %v and Covered = %v, want no error and a value between 0 and 1",
			err, vectors.MinCovered)
	}
	for _, want := range []string{
		"tuned: of 60 questions", "test: of 60 questions", "of 15 without an answer",
		"strangers: of 60 questions", "newcomers: of 30 questions",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("run() prints %q, want %q in it", out.String(), want)
		}
	}
	if want := len(index.Texts()) + 270; len(b.Requests("invoke")) != want {
		t.Errorf("run() sends %d requests to the model, want %d", len(b.Requests("invoke")), want)
	}
}

func TestFailureIsReportedAndWritesNothing(t *testing.T) {
	t.Chdir("../..")
	for name, tt := range map[string]struct {
		model, want string
		getenv      func(b *bedrocktest.Bedrock) func(string) string
	}{
		"another model": {"amazon.nova-lite-v1:0", titan, func(b *bedrocktest.Bedrock) func(string) string {
			return environment(b.URL)
		}},
		"no credentials": {titan, "AWS_REGION", func(*bedrocktest.Bedrock) func(string) string {
			return func(string) string { return "" }
		}},
		"no access": {titan, "AccessDeniedException", func(b *bedrocktest.Bedrock) func(string) string {
			return environment(b.URL)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := bedrocktest.New(t)
			b.HandleInvoke(bedrocktest.RespondError(403, "AccessDeniedException"))
			path := filepath.Join(t.TempDir(), "bedrock.vectors")
			err := run(context.Background(), tt.model, path, tt.getenv(b), new(bytes.Buffer))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run() error = %v, want one with %q", err, tt.want)
			}
			if _, err := os.Stat(path); err == nil {
				t.Errorf("run() with an error has written %s, want no file", path)
			}
		})
	}
}

func TestThresholdSeparatesBest(t *testing.T) {
	for name, tt := range map[string]struct {
		with, without []float64
		want          float64
	}{
		"two separate groups":              {[]float64{0.6, 0.8}, []float64{0.2, 0.4}, 0.5},
		"one low score with an answer":     {[]float64{0.1, 0.6, 0.7, 0.8}, []float64{0.2, 0.4}, 0.5},
		"one high score without an answer": {[]float64{0.6, 0.8}, []float64{0.2, 0.3, 0.4, 0.9}, 0.5},
	} {
		if got := threshold(tt.with, tt.without); got < tt.want-1e-9 || got > tt.want+1e-9 {
			t.Errorf("threshold(%s) = %v, want %v", name, got, tt.want)
		}
	}
}
