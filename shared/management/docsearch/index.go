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

	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
)

// Passage is a piece of the documentation.
type Passage struct {
	// Title is the page's title and the headings above the passage.
	Title string `json:"title"`
	// Path is the path of the file from the root of the repository. Anchor is the anchor of the section
	// in the file, or the operation's id. It is "" for the text directly below the title of a page.
	Path   string `json:"path"`
	Anchor string `json:"anchor"`
	// Text is the plain text: each paragraph, entry of a list and row of a table is
	// a line. Code blocks are omitted, because the text around them describes them.
	Text string `json:"text"`
}

// Section returns the name of the passage's section.
func (p Passage) Section() string { return p.Path + "#" + p.Anchor }

// EmbeddingText returns the text from which the passage's vector is computed: its title and its text.
func (p Passage) EmbeddingText() string { return p.Title + ". " + p.Text }

// Question is a known question whose answer is in a section. It uses other words than the
// section. People have written and reviewed the questions (expansions.txt).
type Question struct {
	// Section is the name of the section: Passage.Section.
	Section string `json:"section"`
	Text    string `json:"text"`
}

// Content is the source of an index.
type Content struct {
	Passages  []Passage  `json:"passages"`
	Questions []Question `json:"questions"`
}

// Texts returns the texts that have a vector, in the order of the vectors: those of the passages, then the questions.
func (c Content) Texts() []string {
	texts := make([]string, 0, len(c.Passages)+len(c.Questions))
	for _, p := range c.Passages {
		texts = append(texts, p.EmbeddingText())
	}
	for _, q := range c.Questions {
		texts = append(texts, q.Text)
	}
	return texts
}

// Digest returns a hash of the content.
func (c Content) Digest() [32]byte {
	encoded, err := json.Marshal(c)
	if err != nil {
		panic("docsearch: " + err.Error()) // never happens: the content is only text
	}
	return sha256.Sum256(encoded)
}

// Index has the passages, the known questions for them, and a vector for each passage and question. It never changes.
type Index struct {
	Content
	// weightsDigest is the digest of the weights with which the vectors were computed.
	weightsDigest [32]byte
	vectors       []vector
	// once guards cachedLexicon, which the first search creates.
	once          sync.Once
	cachedLexicon *lexicon
}

// vector is the vector of a text, with 8 bits per number: the number at i is scale times quantized[i].
type vector struct {
	scale     float32
	quantized [minilm.Dimensions]int8
}

//go:embed index.bin
var indexFile []byte

// DocumentationIndex returns the index of this build's documentation. All callers share one index and only read it.
func DocumentationIndex() (*Index, error) { return documentation() }

var documentation = sync.OnceValues(func() (*Index, error) { return ReadIndex(indexFile) })

// NewIndex returns an index of a content. vectors has a vector for each of content.Texts.
// weightsDigest is the digest of the weights with which the vectors were computed.
func NewIndex(weightsDigest [32]byte, content Content, vectors []minilm.Vector) *Index {
	x := &Index{Content: content, weightsDigest: weightsDigest, vectors: make([]vector, len(vectors))}
	for i := range vectors {
		dst := &x.vectors[i]
		dst.scale = quantize(vectors[i][:], dst.quantized[:])
	}
	return x
}

// WeightsDigest returns the digest of the weights with which the vectors were computed.
func (in *Index) WeightsDigest() [32]byte { return in.weightsDigest }

// Vectors returns the vectors of Texts, in the precision of the index.
func (in *Index) Vectors() []minilm.Vector {
	all := make([]minilm.Vector, len(in.vectors))
	for i := range in.vectors {
		for c, cell := range in.vectors[i].quantized {
			all[i][c] = in.vectors[i].scale * float32(cell)
		}
	}
	return all
}

// dot returns the cosine of v and the vector of a question.
func (v *vector) dot(question *minilm.Vector) float64 {
	return dotProduct(v.scale, v.quantized[:], question[:])
}

// quantize writes a vector to quantized, as 8-bit numbers, and returns their scale.
func quantize(src []float32, quantized []int8) (scale float32) {
	var largest float32
	for _, v := range src {
		largest = max(largest, v, -v)
	}
	if largest == 0 {
		return 0
	}
	scale = largest / math.MaxInt8
	for c, v := range src {
		quantized[c] = int8(math.RoundToEven(float64(v / scale)))
	}
	return scale
}

// dotProduct returns the dot product of a quantized vector (quantize) and the vector of a question.
func dotProduct(scale float32, quantized []int8, question []float32) float64 {
	var sum float32
	for i, cell := range quantized {
		sum += float32(cell) * question[i]
	}
	return float64(sum * scale)
}

const (
	indexMagic = "gatewright docs 2\n"
	// maxContentBytes bounds the decompressed size of an index.
	maxContentBytes = 16 << 20
)

var errIndex = errors.New("docsearch: this is no index, or one of another version; make it with make docs-index")

// Encode returns the index as a file. After indexMagic, the file has the digest of the weights, the length of the
// compressed content in 32 bits, the content as compressed JSON, the scales of the vectors in 32 bits each, and
// the vectors in 8 bits per number. The same version of Go always encodes an index as the same bytes.
func (in *Index) Encode() ([]byte, error) {
	var packed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(json.NewEncoder(compressed).Encode(in.Content), compressed.Close()); err != nil {
		return nil, fmt.Errorf("write the content: %w", err)
	}
	file := append([]byte(indexMagic), in.weightsDigest[:]...)
	file = binary.LittleEndian.AppendUint32(file, uint32(packed.Len())) //nolint:gosec // some 100 KB
	file = append(file, packed.Bytes()...)
	for i := range in.vectors {
		file = binary.LittleEndian.AppendUint32(file, math.Float32bits(in.vectors[i].scale))
	}
	for i := range in.vectors {
		for _, cell := range in.vectors[i].quantized {
			file = append(file, byte(cell)) //nolint:gosec // ReadIndex converts the byte back to int8
		}
	}
	return file, nil
}

// ReadIndex decodes an index that Encode has encoded.
func ReadIndex(file []byte) (*Index, error) {
	headLen := len(indexMagic) + 32 + 4
	if len(file) < headLen || string(file[:len(indexMagic)]) != indexMagic {
		return nil, errIndex
	}
	x := &Index{weightsDigest: [32]byte(file[len(indexMagic):])}
	packedLen, rest := int(binary.LittleEndian.Uint32(file[headLen-4:])), file[headLen:]
	if packedLen > len(rest) {
		return nil, errIndex
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(rest[:packedLen]))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	if err := json.NewDecoder(io.LimitReader(unpacked, maxContentBytes)).Decode(&x.Content); err != nil {
		return nil, fmt.Errorf("%w: %w", errIndex, err)
	}
	rest = rest[packedLen:]
	n := len(x.Passages) + len(x.Questions)
	if len(rest) != n*(4+minilm.Dimensions) {
		return nil, errIndex
	}
	x.vectors = make([]vector, n)
	quantized := rest[4*n:]
	for i := range x.vectors {
		x.vectors[i].scale = math.Float32frombits(binary.LittleEndian.Uint32(rest[4*i:]))
		for c := range x.vectors[i].quantized {
			//nolint:gosec // Encode converted an int8 to this byte
			x.vectors[i].quantized[c] = int8(quantized[i*minilm.Dimensions+c])
		}
	}
	return x, nil
}

// ReadQuestions reads the text of expansions.txt: lines with the name of a section after
// "# ", and below each of them lines with questions. Each question ends like a sentence.
func ReadQuestions(text string) []Question {
	var all []Question
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, isSection := strings.CutPrefix(line, "# "); isSection {
			section = name
			continue
		}
		for _, question := range Sentences(line) {
			all = append(all, Question{Section: section, Text: question})
		}
	}
	return all
}
