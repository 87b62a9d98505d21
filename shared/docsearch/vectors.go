package docsearch

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Vectors are those of an index's texts by a model elsewhere: a file that whoever deploys makes (`make docs-vectors`) for one
// model and one version of the documentation.
type Vectors struct {
	// Model is the model's id, and Content the digest of what it made vectors of (Content.Digest).
	Model   string
	Content [32]byte
	// Covered is the score from which on a question counts as covered: cosines of two models do not compare.
	Covered    float64
	dimensions int
	scales     []float32
	cells      []int8
}

// vectorsHead is the file's beginning, as JSON.
type vectorsHead struct {
	Model      string  `json:"model"`
	Content    []byte  `json:"content"`
	Covered    float64 `json:"covered"`
	Texts      int     `json:"texts"`
	Dimensions int     `json:"dimensions"`
}

const (
	vectorsMagic = "gatewright vectors 1\n"
	// maxDimensions and maxTexts bound what a file is taken for: 80 MB.
	maxDimensions = 4096
	maxTexts      = 20_000
)

var errVectors = errors.New("docsearch: this is no file of vectors, or one of another version; make it with make docs-vectors")

// NewVectors packs vectors, one of each text of a content, in their order, and makes them ones of length 1. They are all of one size, finite
// and not zero, or it is an error.
func NewVectors(model string, content Content, covered float64, vectors [][]float32) (*Vectors, error) {
	if n := len(content.Texts()); len(vectors) != n || n == 0 {
		return nil, fmt.Errorf("docsearch: %d vectors of %d texts", len(vectors), n)
	}
	v := &Vectors{Model: model, Content: content.Digest(), Covered: covered, dimensions: len(vectors[0])}
	v.cells, v.scales = make([]int8, len(vectors)*v.dimensions), make([]float32, len(vectors))
	for i, vector := range vectors {
		one := slices.Clone(vector)
		if !unit(one, v.dimensions) {
			return nil, fmt.Errorf("docsearch: %.80q has a vector of %d numbers that is none, beside one of %d", content.Texts()[i], len(vector), v.dimensions)
		}
		v.scales[i] = shrink(one, v.cells[i*v.dimensions:(i+1)*v.dimensions])
	}
	return v, nil
}

// dot is the cosine of a text to a question's vector, which has as many numbers.
func (v *Vectors) dot(text int, question []float32) float64 {
	return product(v.scales[text], v.cells[text*v.dimensions:(text+1)*v.dimensions], question)
}

// Write gives the file: the head behind its length in 32 bits, then scales of 32 bits and cells.
func (v *Vectors) Write() ([]byte, error) {
	head, err := json.Marshal(vectorsHead{v.Model, v.Content[:], v.Covered, len(v.scales), v.dimensions})
	if err != nil {
		return nil, fmt.Errorf("write the head: %w", err)
	}
	file := binary.LittleEndian.AppendUint32([]byte(vectorsMagic), uint32(len(head))) //nolint:gosec // some 200 bytes
	file = append(file, head...)
	for _, scale := range v.scales {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(scale))
	}
	for _, cell := range v.cells {
		file = append(file, byte(cell)) //nolint:gosec // signed numbers are read as such again
	}
	return file, nil
}

// ReadVectors reads what Write wrote.
func ReadVectors(file []byte) (*Vectors, error) {
	const fixed = len(vectorsMagic) + 4
	if len(file) < fixed || string(file[:len(vectorsMagic)]) != vectorsMagic {
		return nil, errVectors
	}
	length, rest := int(binary.LittleEndian.Uint32(file[len(vectorsMagic):])), file[fixed:]
	var head vectorsHead
	if length > len(rest) || json.Unmarshal(rest[:length], &head) != nil || len(head.Content) != len(Vectors{}.Content) ||
		head.Dimensions < 1 || head.Dimensions > maxDimensions || head.Texts < 1 || head.Texts > maxTexts {
		return nil, errVectors
	}
	if rest = rest[length:]; len(rest) != head.Texts*(4+head.Dimensions) {
		return nil, errVectors
	}
	v := &Vectors{
		Model: head.Model, Content: [32]byte(head.Content), Covered: head.Covered, dimensions: head.Dimensions,
		scales: make([]float32, head.Texts), cells: make([]int8, head.Texts*head.Dimensions),
	}
	for i := range v.scales {
		v.scales[i] = math.Float32frombits(binary.LittleEndian.Uint32(rest[4*i:]))
	}
	for i, cell := range rest[4*head.Texts:] {
		v.cells[i] = int8(cell) //nolint:gosec // a byte as the signed number that it was
	}
	return v, nil
}

// Fits says why vectors do not serve for a model and a content, nil where they do.
func (v *Vectors) Fits(model string, content Content) error {
	switch {
	case v.Model != model:
		return fmt.Errorf("docsearch: the vectors are of the model %q, and not of %q: make them with make docs-vectors MODEL=%s", v.Model, model, model)
	case v.Content != content.Digest() || len(v.scales) != len(content.Passages)+len(content.Questions):
		return fmt.Errorf("docsearch: the vectors are of another version of the documentation: make them with make docs-vectors MODEL=%s", model)
	}
	return nil
}
