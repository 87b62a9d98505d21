package docsearch

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/gatewright/gatewright/shared/docsearch/minilm"
)

// Passage is a piece of the documentation.
type Passage struct {
	// Title is what it is about: the page's title and the headings above it.
	Title string `json:"title"`
	// Path is the file, from the root of the repository, and Anchor the section's in it, or the operation's id. It is empty
	// above a page's second heading.
	Path   string `json:"path"`
	Anchor string `json:"anchor"`
	// Text is what it says, in plain text: each paragraph, entry of a list and row of a table in a line of its own. Code
	// blocks are left out: what they do is said beside them.
	Text string `json:"text"`
}

// Section names the section that the passage is a piece of.
func (p Passage) Section() string { return p.Path + "#" + p.Anchor }

// Embedded is the text by which a passage is compared: what it is about, and what it says.
func (p Passage) Embedded() string { return p.Title + ". " + p.Text }

// Question is one that a section answers, in words that the section does not have. Questions were written and reviewed
// by hand (expansions.txt).
type Question struct {
	// Section is the name of the section: Passage.Section.
	Section string `json:"section"`
	Text    string `json:"text"`
}

// Content is what an index is made of.
type Content struct {
	Passages  []Passage  `json:"passages"`
	Questions []Question `json:"questions"`
}

// Texts are those that have a vector, in the order of the vectors: the passages', then the questions'.
func (c Content) Texts() []string {
	texts := make([]string, 0, len(c.Passages)+len(c.Questions))
	for _, p := range c.Passages {
		texts = append(texts, p.Embedded())
	}
	for _, q := range c.Questions {
		texts = append(texts, q.Text)
	}
	return texts
}

// Digest tells one content from another.
func (c Content) Digest() [32]byte {
	written, err := json.Marshal(c)
	if err != nil {
		panic("docsearch: " + err.Error()) // texts are all that is in it
	}
	return sha256.Sum256(written)
}

// Index holds the passages, the questions that are known of them, and a vector of each. Nothing changes it.
type Index struct {
	Content
	// weights is the digest of those that made the vectors.
	weights [32]byte
	vectors []vector
	// once guards words, which the first search makes.
	once  sync.Once
	words *lexicon
}

// vector is a text's, of 8 bits: the number at i is scale times cells[i].
type vector struct {
	scale float32
	cells [minilm.Dimensions]int8
}

//go:embed index.bin
var embedded []byte

// Documentation returns the index of this build's documentation. All callers share one index and only read it.
func Documentation() (*Index, error) { return documentation() }

var documentation = sync.OnceValues(func() (*Index, error) { return ReadIndex(embedded) })

// NewIndex makes an index of a content and the vectors of its texts, as many, by the model with this digest.
func NewIndex(weights [32]byte, content Content, vectors []minilm.Vector) *Index {
	x := &Index{Content: content, weights: weights, vectors: make([]vector, len(vectors))}
	for i := range vectors {
		to := &x.vectors[i]
		to.scale = shrink(vectors[i][:], to.cells[:])
	}
	return x
}

// Weights is the digest of those that made the vectors.
func (x *Index) Weights() [32]byte { return x.weights }

// Vectors are those of Texts, as exact as the index has them.
func (x *Index) Vectors() []minilm.Vector {
	all := make([]minilm.Vector, len(x.vectors))
	for i := range x.vectors {
		for c, cell := range x.vectors[i].cells {
			all[i][c] = x.vectors[i].scale * float32(cell)
		}
	}
	return all
}

// dot is the cosine to a question's vector.
func (v *vector) dot(question *minilm.Vector) float64 {
	return product(v.scale, v.cells[:], question[:])
}

// shrink writes a vector as cells of 8 bits, as many, and gives their scale.
func shrink(from []float32, cells []int8) (scale float32) {
	var largest float32
	for _, v := range from {
		largest = max(largest, v, -v)
	}
	if largest == 0 {
		return 0
	}
	scale = largest / math.MaxInt8
	for c, v := range from {
		cells[c] = int8(math.RoundToEven(float64(v / scale)))
	}
	return scale
}

// product is what Dot gives of a vector that was shrunk.
func product(scale float32, cells []int8, question []float32) float64 {
	var sum float32
	for i, cell := range cells {
		sum += float32(cell) * question[i]
	}
	return float64(sum * scale)
}

const (
	indexMagic = "gatewright docs 2\n"
	// maxContentBytes bounds what an index may unpack to.
	maxContentBytes = 16 << 20
)

var errIndex = errors.New("docsearch: this is no index, or one of another version; make it with make docs-index")

// Write gives the index as a file: the digest of the weights, the content as JSON, compressed, behind their length in
// 32 bits, and the vectors: scales in 32 bits, then the bytes. Two writes of one index by one version of Go are equal.
func (x *Index) Write() ([]byte, error) {
	var packed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(json.NewEncoder(compressed).Encode(x.Content), compressed.Close()); err != nil {
		return nil, fmt.Errorf("write the content: %w", err)
	}
	file := append([]byte(indexMagic), x.weights[:]...)
	file = binary.LittleEndian.AppendUint32(file, uint32(packed.Len())) //nolint:gosec // some 100 KB
	file = append(file, packed.Bytes()...)
	for i := range x.vectors {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(x.vectors[i].scale))
	}
	for i := range x.vectors {
		for _, cell := range x.vectors[i].cells {
			file = append(file, byte(cell)) //nolint:gosec // signed numbers are read as such again
		}
	}
	return file, nil
}

// ReadIndex reads what Write wrote.
func ReadIndex(file []byte) (*Index, error) {
	head := len(indexMagic) + 32 + 4
	if len(file) < head || string(file[:len(indexMagic)]) != indexMagic {
		return nil, errIndex
	}
	x := &Index{weights: [32]byte(file[len(indexMagic):])}
	packed, rest := int(binary.LittleEndian.Uint32(file[head-4:])), file[head:]
	if packed > len(rest) {
		return nil, errIndex
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(rest[:packed]))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	if err := json.NewDecoder(io.LimitReader(unpacked, maxContentBytes)).Decode(&x.Content); err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	rest = rest[packed:]
	n := len(x.Passages) + len(x.Questions)
	if len(rest) != n*(4+minilm.Dimensions) {
		return nil, errIndex
	}
	x.vectors = make([]vector, n)
	cells := rest[4*n:]
	for i := range x.vectors {
		x.vectors[i].scale = math.Float32frombits(binary.LittleEndian.Uint32(rest[4*i:]))
		for c := range x.vectors[i].cells {
			x.vectors[i].cells[c] = int8(cells[i*minilm.Dimensions+c]) //nolint:gosec // a byte as the signed number that it was
		}
	}
	return x, nil
}

// ReadQuestions reads expansions.txt: the name of a section behind "# ", and below it lines of questions, each of which ends
// as a sentence does.
func ReadQuestions(text string) []Question {
	var all []Question
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, begins := strings.CutPrefix(line, "# "); begins {
			section = name
			continue
		}
		for _, question := range Sentences(line) {
			all = append(all, Question{Section: section, Text: question})
		}
	}
	return all
}
