// Command docsvectors makes the vectors by which a model of Bedrock searches the documentation, as `make docs-vectors` asks for it: of
// every text of the index, with the threshold from which on a question counts as covered, which each model has its own of. It
// asks the model the questions by which the search is measured, and prints how good it is.
//
// The file goes into the asset of a function, beside its bootstrap (functions/mcpdocs). Why it is made here, and not by
// the function, is in docs/decisions/0050-vectors-of-bedrock-are-made-before-a-deployment.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/cloud/bedrock"
	"github.com/gatewright/gatewright/shared/cloud/signin"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/docsearch"
	"github.com/gatewright/gatewright/shared/docsearch/corpus"
)

func main() {
	model := flag.String("model", "", "the model's id")
	vectors := flag.String("vectors", "", "the file, which is written anew")
	flag.Parse()
	if err := run(context.Background(), *model, *vectors, os.Getenv, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "make docs-vectors:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, model, path string, getenv func(string) string, out io.Writer) error {
	if !config.IsEmbeddingModel(model) {
		return fmt.Errorf("MODEL= is one of %s", strings.Join(config.EmbeddingModels(), ", "))
	}
	env, err := signin.Environment(ctx, getenv, signin.CommandLine)
	if err != nil {
		return err
	}
	sdk, err := cloud.SDK(env)
	if err != nil {
		return err
	}
	index, err := docsearch.Documentation()
	if err != nil {
		return err
	}
	questions, err := read(os.DirFS("."))
	if err != nil {
		return err
	}
	file, err := compute(ctx, bedrock.New(sdk, getenv(config.VarBedrockEndpoint), model), model, index, questions, out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // vectors of what is public
		return err
	}
	return os.WriteFile(path, file, 0o644) //nolint:gosec // vectors of what is public
}

// asked are the questions by which the search is measured.
type asked struct{ answerable, unanswerable corpus.BySet }

func read(repository fs.FS) (q asked, err error) {
	q.answerable, q.unanswerable, err = corpus.ReadQuestions(repository)
	return q, err
}

// model makes texts and questions vectors.
type model interface {
	docsearch.Embedder
	EmbedTexts(ctx context.Context, texts []string) ([][]float32, error)
}

// compute gives the file, and prints how good the search is by it.
func compute(ctx context.Context, by model, id string, index *docsearch.Index, questions asked, out io.Writer) ([]byte, error) {
	vectors, err := by.EmbedTexts(ctx, index.Texts())
	if err != nil {
		return nil, err
	}
	searching := func(covered float64) ([]byte, *docsearch.Searcher, error) {
		made, err := docsearch.NewVectors(id, index.Content, covered, vectors)
		if err != nil {
			return nil, nil, err
		}
		file, err := made.Write()
		return file, docsearch.New(index, nil).With(docsearch.Models{
			Embedder: by, EmbeddingModel: id, Vectors: func() ([]byte, error) { return file, nil },
		}, time.Now), err
	}
	_, searcher, err := searching(0)
	if err != nil {
		return nil, err
	}
	var found [len(corpus.Sets)]result
	for set := range found {
		if found[set], err = ask(ctx, searcher, questions, set); err != nil {
			return nil, err
		}
	}
	covered := threshold(found[corpus.Tuned].with, found[corpus.Tuned].without)
	file, _, err := searching(covered)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(out, "%d texts; a question counts as covered from %.3f on\n", len(vectors), covered)
	for set, name := range corpus.Sets {
		r := found[set]
		below := func(scores []float64) (n int) {
			for _, score := range scores {
				if score < covered {
					n++
				}
			}
			return n
		}
		_, _ = fmt.Fprintf(out, "%s: of %d questions %d found first, %d among the first five; refused %d of %d without an answer, and %d with one\n",
			name, len(r.with), r.first, r.five, below(r.without), len(r.without), below(r.with))
	}
	return file, nil
}

// result is what became of a set: the best score of each question with an answer and of each without, and of the former how many were
// found first and among the first five.
type result struct {
	with, without []float64
	first, five   int
}

func ask(ctx context.Context, s *docsearch.Searcher, questions asked, set int) (r result, err error) {
	const places = 5
	best := func(q corpus.Asked) ([]docsearch.Result, float64, error) {
		found, err := s.Search(ctx, q.Text, docsearch.MaxResults)
		switch {
		case err != nil:
			return nil, 0, err
		case found.Failed != nil:
			return nil, 0, found.Failed
		case len(found.Results) == 0:
			return nil, 0, nil
		}
		return found.Results, found.Results[0].Score, nil
	}
	for _, q := range questions.answerable[set] {
		results, score, err := best(q)
		if err != nil {
			return r, err
		}
		r.with = append(r.with, score)
		place := slices.IndexFunc(results, func(x docsearch.Result) bool { return slices.Contains(q.Sections, x.Section()) })
		if place == 0 {
			r.first++
		}
		if 0 <= place && place < places {
			r.five++
		}
	}
	for _, q := range questions.unanswerable[set] {
		_, score, err := best(q)
		if err != nil {
			return r, err
		}
		r.without = append(r.without, score)
	}
	return r, nil
}

// threshold is the score that parts questions with an answer from those without best: the share of the latter that is below and the share of the
// former that is not are most together. Between two scores it is halfway.
func threshold(with, without []float64) float64 {
	share := func(scores []float64, below float64) float64 {
		n := 0
		for _, score := range scores {
			if score < below {
				n++
			}
		}
		return float64(n) / float64(max(1, len(scores)))
	}
	all := slices.Concat(with, without)
	slices.Sort(all)
	best, at := math.Inf(-1), 0.0
	for i, score := range all {
		if gain := share(without, score) - share(with, score); gain > best {
			best, at = gain, score
			if i > 0 {
				at = (score + all[i-1]) / 2
			}
		}
	}
	return at
}
