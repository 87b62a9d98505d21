// Command docsvectors creates the vectors with which a model of Bedrock searches the documentation, for `make
// docs-vectors`: one vector for every text of the index. The file also has the score from which a question counts as
// covered by the documentation, because it differs between models. The command also sends the model the questions that
// measure the search, and prints the quality of the search.
//
// The file becomes part of a function's asset, next to the bootstrap (functions/mcpdocs). The decision
// docs/decisions/0050-vectors-of-bedrock-are-made-before-a-deployment.md says why this command creates the file, and
// not the function. There is only this file.
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

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/management/docsearch/corpus"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
	"github.com/gatewright/gatewright/shared/runtime/cloud/bedrock"
	"github.com/gatewright/gatewright/shared/runtime/cloud/signin"
)

func main() {
	model := flag.String("model", "", "the model's id")
	vectors := flag.String("vectors", "", "the file of vectors to create or replace")
	flag.Parse()
	if err := run(context.Background(), *model, *vectors, os.Getenv, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "make docs-vectors:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, model, path string, getenv func(string) string, out io.Writer) error {
	if !config.IsEmbeddingModel(model) {
		return fmt.Errorf("set MODEL to one of %s", strings.Join(config.EmbeddingModels(), ", "))
	}
	env, err := signin.Environment(ctx, getenv, signin.CommandLine)
	if err != nil {
		return err
	}
	sdk, err := cloud.SDK(env)
	if err != nil {
		return err
	}
	index, err := docsearch.DocumentationIndex()
	if err != nil {
		return err
	}
	questions, err := readQuestions(os.DirFS("."))
	if err != nil {
		return err
	}
	file, err := compute(ctx, bedrock.New(sdk, getenv(config.VarBedrockEndpoint), model), model, index, questions, out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // vectors of public texts
		return err
	}
	return os.WriteFile(path, file, 0o644) //nolint:gosec // vectors of public texts
}

// questionSets contains the questions that measure the search.
type questionSets struct{ answerable, unanswerable corpus.QuestionSets }

func readQuestions(repository fs.FS) (q questionSets, err error) {
	q.answerable, q.unanswerable, err = corpus.ReadQuestions(repository)
	return q, err
}

// model converts texts and questions to vectors.
type model interface {
	docsearch.Embedder
	EmbedTexts(ctx context.Context, texts []string) ([][]float32, error)
}

// compute returns the contents of the file, and prints the quality of the search with these vectors.
func compute(
	ctx context.Context, embedder model, id string, index *docsearch.Index, questions questionSets, out io.Writer,
) ([]byte, error) {
	vectors, err := embedder.EmbedTexts(ctx, index.Texts())
	if err != nil {
		return nil, err
	}
	// newSearcher returns a file with the vectors and the score covered, and a searcher that uses the file.
	newSearcher := func(covered float64) ([]byte, *docsearch.Searcher, error) {
		vectorFile, err := docsearch.NewVectors(id, index.Content, covered, vectors)
		if err != nil {
			return nil, nil, err
		}
		file, err := vectorFile.Encode()
		return file, docsearch.New(index, nil).UseModels(docsearch.Models{
			Embedder: embedder, EmbeddingModel: id, Vectors: func() ([]byte, error) { return file, nil },
		}, time.Now), err
	}
	_, searcher, err := newSearcher(0)
	if err != nil {
		return nil, err
	}
	var found [len(corpus.SetNames)]result
	for set := range found {
		if found[set], err = evaluate(ctx, searcher, questions, set); err != nil {
			return nil, err
		}
	}
	covered := threshold(found[corpus.Tuning].answerable, found[corpus.Tuning].unanswerable)
	file, _, err := newSearcher(covered)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(out, "%d texts; a question counts as covered from %.3f on\n", len(vectors), covered)
	for set, name := range corpus.SetNames {
		r := found[set]
		below := func(scores []float64) (n int) {
			for _, score := range scores {
				if score < covered {
					n++
				}
			}
			return n
		}
		_, _ = fmt.Fprintf(out, "%s: of %d questions %d found first, %d among the first five; refused %d of %d without an "+
			"answer, and %d with one\n",
			name, len(r.answerable), r.first, r.firstFive, below(r.unanswerable), len(r.unanswerable), below(r.answerable))
	}
	return file, nil
}

// result is the result of a set of questions: the best score of each question with an answer and of each without an
// answer. It also has the number of questions whose answer was the first search result, and whose answer was among the
// first five.
type result struct {
	answerable, unanswerable []float64
	first, firstFive         int
}

// evaluate searches with the questions of a set.
func evaluate(ctx context.Context, s *docsearch.Searcher, questions questionSets, set int) (r result, err error) {
	const maxPosition = 5
	search := func(q corpus.EvalQuestion) ([]docsearch.Result, float64, error) {
		found, err := s.Search(ctx, q.Text, docsearch.MaxResults)
		switch {
		case err != nil:
			return nil, 0, err
		case found.RemoteError != nil:
			return nil, 0, found.RemoteError
		case len(found.Results) == 0:
			return nil, 0, nil
		}
		return found.Results, found.Results[0].Score, nil
	}
	for _, q := range questions.answerable[set] {
		results, score, err := search(q)
		if err != nil {
			return r, err
		}
		r.answerable = append(r.answerable, score)
		position := slices.IndexFunc(results, func(x docsearch.Result) bool {
			return slices.Contains(q.Sections, x.Section())
		})
		if position == 0 {
			r.first++
		}
		if 0 <= position && position < maxPosition {
			r.firstFive++
		}
	}
	for _, q := range questions.unanswerable[set] {
		_, score, err := search(q)
		if err != nil {
			return r, err
		}
		r.unanswerable = append(r.unanswerable, score)
	}
	return r, nil
}

// threshold returns the score that best separates questions with an answer from questions without. It maximizes a sum:
// the share of questions without an answer that are below it, and the share of questions with an answer that are not.
// It is halfway between two neighboring scores, or the lowest score.
func threshold(answerable, unanswerable []float64) float64 {
	share := func(scores []float64, below float64) float64 {
		n := 0
		for _, score := range scores {
			if score < below {
				n++
			}
		}
		return float64(n) / float64(max(1, len(scores)))
	}
	all := slices.Concat(answerable, unanswerable)
	slices.Sort(all)
	maxGain, best := math.Inf(-1), 0.0
	for i, score := range all {
		if gain := share(unanswerable, score) - share(answerable, score); gain > maxGain {
			maxGain, best = gain, score
			if i > 0 {
				best = (score + all[i-1]) / 2
			}
		}
	}
	return best
}
