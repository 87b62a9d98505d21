package docsearch_test

import (
	"bytes"
	"crypto/sha256"
	"os"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/docsearch"
	"github.com/gatewright/gatewright/shared/docsearch/corpus"
	"github.com/gatewright/gatewright/shared/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/docsearch/minilm/minilmtest"
)

// repository is its root, seen from this package.
const repository = "../.."

// TestIndexIsOfTheseDocuments fails when a page, an operation or a question has changed since the index was made. It
// needs neither weights nor a network.
func TestIndexIsOfTheseDocuments(t *testing.T) {
	index, err := docsearch.Documentation()
	if err != nil {
		t.Fatal(err)
	}
	want, err := corpus.Read(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	if index.Weights() == [32]byte{} {
		t.Error("the index is of no weights")
	}
	has := map[docsearch.Passage]bool{}
	for _, p := range index.Passages {
		has[p] = true
	}
	for _, p := range want.Passages {
		if !has[p] {
			t.Errorf("%s has changed since the index was made: run make docs-index, and commit shared/docsearch/index.bin with the page", p.Section())
		}
	}
	if !t.Failed() && !slices.Equal(index.Passages, want.Passages) {
		t.Error("the index has passages that are no longer there, or another order: run make docs-index")
	}
	if !slices.Equal(index.Questions, want.Questions) {
		t.Errorf("%s has changed since the index was made: run make docs-index", corpus.Questions)
	}
}

// TestIndexWasMadeWithTheWeightsOfTheRepository, or the product would refuse them and search by words.
func TestIndexWasMadeWithTheWeightsOfTheRepository(t *testing.T) {
	index, err := docsearch.Documentation()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sha256.Sum256(minilmtest.File(t)), index.Weights(); got != want {
		t.Errorf("the SHA-256 of the weights = %x, want %x as in the index: run make docs-index", got, want)
	}
}

// TestIndexIsReadAsItWasWritten: twice written it is the same, byte for byte.
func TestIndexIsReadAsItWasWritten(t *testing.T) {
	vectors := make([]minilm.Vector, len(pages.Texts()))
	for i := range vectors {
		vectors[i][i], vectors[i][i+1] = 0.6, -0.8 // the largest one is negative
	}
	index := docsearch.NewIndex([32]byte{1, 2, 3}, pages, vectors)
	written, err := index.Write()
	if err != nil {
		t.Fatal(err)
	}
	again, err := index.Write()
	if err != nil || !bytes.Equal(written, again) {
		t.Errorf("written twice it differs, or fails: %v", err)
	}
	read, err := docsearch.ReadIndex(written)
	if err != nil {
		t.Fatal(err)
	}
	if read.Weights() != index.Weights() || !slices.Equal(read.Passages, pages.Passages) || !slices.Equal(read.Questions, pages.Questions) {
		t.Error("it is read as another index")
	}
	for i, v := range read.Vectors() {
		if cosine := v.Dot(&vectors[i]); cosine < 0.999 {
			t.Errorf("vector %d has the cosine %.4f to the one that was written", i, cosine)
		}
	}
	for _, n := range []int{0, 10, 60, len(written) - 1} {
		if _, err := docsearch.ReadIndex(written[:n]); err == nil {
			t.Errorf("the first %d bytes are taken for an index", n)
		}
	}
	if _, err := docsearch.ReadIndex(append(slices.Clone(written), 0)); err == nil {
		t.Error("an index with something behind it is taken for one")
	}
	older := bytes.Replace(written, []byte("docs 2"), []byte("docs 1"), 1)
	if _, err := docsearch.ReadIndex(older); err == nil || bytes.Equal(older, written) {
		t.Error("an index of another version is taken for one")
	}
}
