package docsearch

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Vectors has the vectors of an index's texts, computed with a model over a network. The operator
// creates a file of Vectors (`make docs-vectors`) for one model and one version of the documentation.
type Vectors struct {
	// Model is the model's id. Content is the digest of the texts (Content.Digest).
	Model         string
	ContentDigest [32]byte
	// MinCovered is the minimum score of a covered question. The cosines of different models are not comparable.
	MinCovered float64
	dimensions int
	// scales has a number for each text, and cells has dimensions numbers for each text (quantize).
	scales []float32
	cells  []int8
}

// vectorsHead is the beginning of the file, as JSON.
type vectorsHead struct {
	Model      string  `json:"model"`
	Content    []byte  `json:"content"`
	Covered    float64 `json:"covered"`
	Texts      int     `json:"texts"`
	Dimensions int     `json:"dimensions"`
}

const (
	vectorsMagic = "gatewright vectors 1\n"
	// maxDimensions and maxTexts bound the size of a file: 80 MB.
	maxDimensions = 4096
	maxTexts      = 20_000
)

var errVectors = errors.New("docsearch: this is no file of vectors, or one of another version; make it with make " +
	"docs-vectors")

// NewVectors scales vectors to length 1 and quantizes them. vectors has one vector
// for each of content.Texts, in the same order. NewVectors returns an error unless
// all vectors have the same number of dimensions and are finite and not zero.
func NewVectors(model string, content Content, covered float64, vectors [][]float32) (*Vectors, error) {
	if n := len(content.Texts()); len(vectors) != n || n == 0 {
		return nil, fmt.Errorf("docsearch: %d vectors of %d texts", len(vectors), n)
	}
	v := &Vectors{Model: model, ContentDigest: content.Digest(), MinCovered: covered, dimensions: len(vectors[0])}
	v.cells, v.scales = make([]int8, len(vectors)*v.dimensions), make([]float32, len(vectors))
	for i, vector := range vectors {
		normalized := slices.Clone(vector)
		if !normalize(normalized, v.dimensions) {
			return nil, fmt.Errorf("docsearch: %.80q has a vector of %d numbers that is none, beside one of %d",
				content.Texts()[i], len(vector), v.dimensions)
		}
		v.scales[i] = quantize(normalized, v.cells[i*v.dimensions:(i+1)*v.dimensions])
	}
	return v, nil
}

// dot returns the cosine of a text's vector and a question's vector, which must have the same number of dimensions.
func (v *Vectors) dot(text int, question []float32) float64 {
	return dotProduct(v.scales[text], v.cells[text*v.dimensions:(text+1)*v.dimensions], question)
}

// Encode returns the vectors as a file: vectorsMagic, the length of the head in 32 bits,
// the head, the scales in 32 bits each, and the cells in 8 bits each.
func (v *Vectors) Encode() ([]byte, error) {
	head, err := json.Marshal(vectorsHead{v.Model, v.ContentDigest[:], v.MinCovered, len(v.scales), v.dimensions})
	if err != nil {
		return nil, fmt.Errorf("write the head: %w", err)
	}
	file := binary.LittleEndian.AppendUint32([]byte(vectorsMagic), uint32(len(head))) //nolint:gosec // some 200 bytes
	file = append(file, head...)
	for _, scale := range v.scales {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(scale))
	}
	for _, cell := range v.cells {
		file = append(file, byte(cell)) //nolint:gosec // ReadVectors converts the byte back to int8
	}
	return file, nil
}

// ReadVectors decodes a file that Encode has encoded.
func ReadVectors(file []byte) (*Vectors, error) {
	const prefixLen = len(vectorsMagic) + 4
	if len(file) < prefixLen || string(file[:len(vectorsMagic)]) != vectorsMagic {
		return nil, errVectors
	}
	length, rest := int(binary.LittleEndian.Uint32(file[len(vectorsMagic):])), file[prefixLen:]
	var head vectorsHead
	if length > len(rest) || json.Unmarshal(rest[:length], &head) != nil ||
		len(head.Content) != len(Vectors{}.ContentDigest) ||
		head.Dimensions < 1 || head.Dimensions > maxDimensions || head.Texts < 1 || head.Texts > maxTexts {
		return nil, errVectors
	}
	if rest = rest[length:]; len(rest) != head.Texts*(4+head.Dimensions) {
		return nil, errVectors
	}
	v := &Vectors{
		Model: head.Model, ContentDigest: [32]byte(head.Content), MinCovered: head.Covered, dimensions: head.Dimensions,
		scales: make([]float32, head.Texts), cells: make([]int8, head.Texts*head.Dimensions),
	}
	for i := range v.scales {
		v.scales[i] = math.Float32frombits(binary.LittleEndian.Uint32(rest[4*i:]))
	}
	for i, cell := range rest[4*head.Texts:] {
		v.cells[i] = int8(cell) //nolint:gosec // Encode converted an int8 to this byte
	}
	return v, nil
}

// CheckMatch returns an error if the vectors are not those of a model and a content.
func (v *Vectors) CheckMatch(model string, content Content) error {
	switch {
	case v.Model != model:
		return fmt.Errorf("docsearch: the vectors are of the model %q, and not of %q: make them with make "+
			"docs-vectors MODEL=%s", v.Model, model, model)
	case v.ContentDigest != content.Digest() || len(v.scales) != len(content.Passages)+len(content.Questions):
		return fmt.Errorf("docsearch: the vectors are of another version of the documentation: make them with make "+
			"docs-vectors MODEL=%s", model)
	}
	return nil
}
