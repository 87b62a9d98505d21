package docsearch_test

import (
	"bytes"
	"crypto/sha256"
	"os"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/management/docsearch/corpus"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm/minilmtest"
)

// repository is the path of the repository's root from this package.
const repository = "../../.."

// TestIndexIsUpToDate fails if a page, an operation or a question has changed
// since the index was created. It needs neither weights nor a network.
func TestIndexIsUpToDate(t *testing.T) {
	index, err := docsearch.DocumentationIndex()
	if err != nil {
		t.Fatal(err)
	}
	want, err := corpus.Read(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	if index.WeightsDigest() == [32]byte{} {
		t.Error("digest of the weights in the index = 0, want that of the model")
	}
	indexed := map[docsearch.Passage]bool{}
	for _, p := range index.Passages {
		indexed[p] = true
	}
	for _, p := range want.Passages {
		if !indexed[p] {
			t.Errorf("%s is not in the index, want its current text: run make docs-index, "+
				"and commit shared/management/docsearch/index.bin with the page", p.Section())
		}
	}
	if !t.Failed() && !slices.Equal(index.Passages, want.Passages) {
		t.Error("passages of the index differ from the pages, want the same in the same order: run make docs-index")
	}
	if !slices.Equal(index.Questions, want.Questions) {
		t.Errorf("questions of the index differ from %s, want the same: run make docs-index", corpus.QuestionsFile)
	}
}

// TestIndexMatchesWeights checks that the index has the digest of the weights.
// Otherwise the product would refuse the weights, and its searches would be lexical.
func TestIndexMatchesWeights(t *testing.T) {
	index, err := docsearch.DocumentationIndex()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sha256.Sum256(minilmtest.File(t)), index.WeightsDigest(); got != want {
		t.Errorf("the SHA-256 of the weights = %x, want %x as in the index: run make docs-index", got, want)
	}
}

// TestIndexRoundTrip checks that an index that is written, read and written again is the same,
// byte for byte. It also checks that ReadIndex refuses truncated, longer and older files.
func TestIndexRoundTrip(t *testing.T) {
	vectors := make([]minilm.Vector, len(pages.Texts()))
	for i := range vectors {
		vectors[i][i], vectors[i][i+1] = 0.6, -0.8 // the number with the largest absolute value is negative
	}
	index := docsearch.NewIndex([32]byte{1, 2, 3}, pages, vectors)
	written, err := index.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := docsearch.ReadIndex(written)
	if err != nil {
		t.Fatal(err)
	}
	rewritten, err := read.Encode()
	if err != nil || !bytes.Equal(written, rewritten) {
		t.Errorf("Encode() of the index that was read differs or fails with %v, want the same bytes and no error", err)
	}
	if read.WeightsDigest() != index.WeightsDigest() || !slices.Equal(read.Passages, pages.Passages) ||
		!slices.Equal(read.Questions, pages.Questions) {
		t.Error("ReadIndex() = another index, want the weights, passages and questions that were written")
	}
	for i, v := range read.Vectors() {
		if cosine := v.Dot(&vectors[i]); cosine < 0.999 {
			t.Errorf("cosine of vector %d to the written one = %.4f, want at least 0.999", i, cosine)
		}
	}
	for _, n := range []int{0, 10, 60, len(written) - 1} {
		if _, err := docsearch.ReadIndex(written[:n]); err == nil {
			t.Errorf("ReadIndex(first %d bytes) = no error, want one", n)
		}
	}
	if _, err := docsearch.ReadIndex(append(slices.Clone(written), 0)); err == nil {
		t.Error("ReadIndex(index with a further byte) = no error, want one")
	}
	older := bytes.Replace(written, []byte("docs 2"), []byte("docs 1"), 1)
	if bytes.Equal(older, written) {
		t.Fatal("the index does not contain \"docs 2\", so its version was not replaced, want the version in this test")
	}
	if _, err := docsearch.ReadIndex(older); err == nil {
		t.Error("ReadIndex(index of another version) = no error, want one")
	}
}
