package main

import (
	"bytes"
	"context"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/cloud/bedrock/bedrocktest"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/docsearch"
)

const titan = "amazon.titan-embed-text-v2:0"

func environment(url string) func(string) string {
	return func(name string) string {
		return map[string]string{"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret", config.VarBedrockEndpoint: url}[name]
	}
}

// words is a vector by which texts with words in common are near.
func words(text string) []float32 {
	v := make([]float32, 1024)
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(strings.Trim(word, ".,?!")))
		v[h.Sum32()%1024]++
	}
	return v
}

// TestVectorsAreMadeOfTheIndexThatIsBuiltIn, and say how good they are.
func TestVectorsAreMadeOfTheIndexThatIsBuiltIn(t *testing.T) {
	t.Chdir("../..")
	b := bedrocktest.New(t)
	b.Invoke(bedrocktest.Vector(words))
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
	index, err := docsearch.Documentation()
	if err != nil {
		t.Fatal(err)
	}
	if err := vectors.Fits(titan, index.Content); err != nil || vectors.Covered <= 0 || vectors.Covered >= 1 {
		t.Errorf("they cover from %v on, and do not fit: %v", vectors.Covered, err)
	}
	for _, want := range []string{"tuned: of 60 questions", "test: of 60 questions", "of 15 without an answer", "strangers: of 60 questions", "newcomers: of 30 questions"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it prints %q, without %q", out.String(), want)
		}
	}
	if want := len(index.Texts()) + 270; len(b.Asked("invoke")) != want {
		t.Errorf("it asks %d times, want %d", len(b.Asked("invoke")), want)
	}
}

func TestWhatCannotBeMadeIsToldAndNotWritten(t *testing.T) {
	t.Chdir("../..")
	for name, tt := range map[string]struct {
		model, want string
		getenv      func(b *bedrocktest.Bedrock) func(string) string
	}{
		"another model":  {"amazon.nova-lite-v1:0", titan, func(b *bedrocktest.Bedrock) func(string) string { return environment(b.URL) }},
		"no credentials": {titan, "AWS_REGION", func(*bedrocktest.Bedrock) func(string) string { return func(string) string { return "" } }},
		"no access":      {titan, "AccessDeniedException", func(b *bedrocktest.Bedrock) func(string) string { return environment(b.URL) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := bedrocktest.New(t)
			b.Invoke(bedrocktest.Fails(403, "AccessDeniedException"))
			path := filepath.Join(t.TempDir(), "bedrock.vectors")
			err := run(context.Background(), tt.model, path, tt.getenv(b), new(bytes.Buffer))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("it says %v, want %q", err, tt.want)
			}
			if _, err := os.Stat(path); err == nil {
				t.Error("there is a file")
			}
		})
	}
}

func TestThresholdPartsBest(t *testing.T) {
	for name, tt := range map[string]struct {
		with, without []float64
		want          float64
	}{
		"two heaps":           {[]float64{0.6, 0.8}, []float64{0.2, 0.4}, 0.5},
		"one on the far side": {[]float64{0.1, 0.6, 0.7, 0.8}, []float64{0.2, 0.4}, 0.5},
		"the other way":       {[]float64{0.6, 0.8}, []float64{0.2, 0.3, 0.4, 0.9}, 0.5},
	} {
		if got := threshold(tt.with, tt.without); got < tt.want-1e-9 || got > tt.want+1e-9 {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
