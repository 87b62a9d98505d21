package minilm

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// FileName is the name of the file of weights, in this folder of a checkout and in a release.
const FileName = "minilm-l6-v2.weights"

// magic is the beginning of a file of weights. It contains the version of the format.
const magic = "gatewright minilm 3\n"

// errWeights is the error of Read for a file that is not in this format.
var errWeights = errors.New("minilm: this is no file of weights, or one of another version; make it with make " +
	"docs-weights")

// Read reads a model from a file of weights. It copies what it needs, so the caller may release the file's bytes.
//
// After magic and the length of the vocabulary, the file has the vocabulary, and then the parts of the model in
// the order of walk. Numbers have 32 bits and are little-endian. A matrix is written as its scales (only the upper
// 16 bits of each), its bias if it has one, and its cells with a few bits each (pack).
func Read(file []byte) (*Model, error) {
	rest := file
	next := func(n int) []byte {
		if n < 0 || n > len(rest) {
			rest = nil
			return nil
		}
		chunk := rest[:n:n]
		rest = rest[n:]
		return chunk
	}
	if string(next(len(magic))) != magic {
		return nil, errWeights
	}
	length := next(4)
	if length == nil {
		return nil, errWeights
	}
	m := &Model{digest: sha256.Sum256(file)}
	var err error
	if m.tokenizer, err = NewTokenizer(next(int(binary.LittleEndian.Uint32(length)))); err != nil {
		return nil, fmt.Errorf("%w: %w", errWeights, err)
	}
	complete := true
	floats := func(n int) []float32 {
		raw := next(4 * n)
		complete = complete && raw != nil
		numbers := make([]float32, len(raw)/4)
		for i := range numbers {
			numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		return numbers
	}
	scales := func(n int) []float32 {
		raw := next(2 * n)
		complete = complete && raw != nil
		numbers := make([]float32, len(raw)/2)
		for i := range numbers {
			numbers[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
		}
		return numbers
	}
	m.walk(func(_ string, part *matrix, s shape) {
		*part = matrix{rows: s.rows, columns: s.columns, scale: scales(s.rows * s.columns / groupSize)}
		if s.hasBias {
			part.bias = floats(s.rows)
		}
		packed := next(s.rows * s.columns * s.bits / 8)
		complete = complete && packed != nil
		part.quantized = unpack(packed, s.bits)
	}, func(_ string, part *layerNorm) {
		*part = layerNorm{gain: floats(Dimensions), bias: floats(Dimensions)}
	})
	if !complete || len(rest) != 0 {
		return nil, errWeights
	}
	return m, nil
}

// shape is the size of a matrix, and its format in the file.
type shape struct {
	rows, columns int
	// bits is the number of bits of each cell in the file, 2 to 8.
	bits    int
	hasBias bool
}

// The bits of a cell in the file. Fewer bits make the file smaller and change the vectors of texts:
// docs/decisions/0075-weights-in-the-repository.md has the figures.
const (
	wordBits     = 4 // for half of all weights
	positionBits = 8 // for a few weights, which every text uses
	layerBits    = 7
)

// walk calls visitMatrix and visitNorm with the parts of a model in the
// order of the file. name is the part's name in the published weights.
func (m *Model) walk(
	visitMatrix func(name string, part *matrix, s shape), visitNorm func(name string, part *layerNorm),
) {
	visitMatrix("embeddings.word_embeddings", &m.tokenEmbeddings, shape{vocabularySize, Dimensions, wordBits, false})
	visitMatrix("embeddings.position_embeddings", &m.positionEmbeddings, shape{MaxTokens, Dimensions, positionBits, false})
	visitNorm("embeddings.LayerNorm", &m.embeddingNorm)
	square := shape{Dimensions, Dimensions, layerBits, true}
	for i := range m.layer {
		l, name := &m.layer[i], fmt.Sprintf("encoder.layer.%d.", i)
		visitMatrix(name+"attention.self.query", &l.query, square)
		visitMatrix(name+"attention.self.key", &l.key, square)
		visitMatrix(name+"attention.self.value", &l.value, square)
		visitMatrix(name+"attention.output.dense", &l.output, square)
		visitNorm(name+"attention.output.LayerNorm", &l.attentionNorm)
		visitMatrix(name+"intermediate.dense", &l.feedForwardIn, shape{intermediateSize, Dimensions, layerBits, true})
		visitMatrix(name+"output.dense", &l.feedForwardOut, shape{Dimensions, intermediateSize, layerBits, true})
		visitNorm(name+"output.LayerNorm", &l.outputNorm)
	}
}

// pack returns the lowest bits of the cells without gaps: 8 cells need as
// many bytes as a cell has bits. The number of cells must be a multiple of 8.
func pack(cells []int8, bits int) []byte {
	packed := make([]byte, 0, len(cells)*bits/8)
	for ; len(cells) > 0; cells = cells[8:] {
		var word uint64
		for i, cell := range cells[:8] {
			word |= uint64(byte(cell)&(1<<bits-1)) << (i * bits) //nolint:gosec // the sign is in the highest bit that is kept
		}
		packed = append(packed, binary.LittleEndian.AppendUint64(nil, word)[:bits]...)
	}
	return packed
}

// unpack returns the cells that pack has packed.
func unpack(packed []byte, bits int) []int8 {
	cells := make([]int8, 0, len(packed)/bits*8)
	for ; len(packed) >= bits; packed = packed[bits:] {
		var bytes [8]byte
		copy(bytes[:], packed[:bits])
		word := binary.LittleEndian.Uint64(bytes[:])
		for range 8 {
			cells = append(cells, int8(byte(word)<<(8-bits))>>(8-bits)) //nolint:gosec // the shifts extend the sign
			word >>= bits
		}
	}
	return cells
}
