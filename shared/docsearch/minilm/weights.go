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

// magic begins a file of weights, with the version of its form.
const magic = "gatewright minilm 3\n"

// errWeights is what Read says of a file that is none of Write's.
var errWeights = errors.New("minilm: this is no file of weights, or one of another version; make it with make docs-weights")

// Read reads a model from a file of weights. It copies what it needs, so that the file's bytes may be released.
//
// The file has the vocabulary and then the parts of the model in the order of walk. Numbers have 32 bits and are little-endian. A matrix has its
// scales, of which the file has the upper 16 bits, then its bias, then its cells of a few bits each (pack).
func Read(file []byte) (*Model, error) {
	rest := file
	take := func(n int) []byte {
		if n < 0 || n > len(rest) {
			rest = nil
			return nil
		}
		taken := rest[:n:n]
		rest = rest[n:]
		return taken
	}
	if string(take(len(magic))) != magic {
		return nil, errWeights
	}
	length := take(4)
	if length == nil {
		return nil, errWeights
	}
	m := &Model{digest: sha256.Sum256(file)}
	var err error
	if m.tokenizer, err = NewTokenizer(take(int(binary.LittleEndian.Uint32(length)))); err != nil {
		return nil, fmt.Errorf("%w: %w", errWeights, err)
	}
	whole := true
	floats := func(n int) []float32 {
		bytes := take(4 * n)
		whole = whole && bytes != nil
		numbers := make([]float32, len(bytes)/4)
		for i := range numbers {
			numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*i:]))
		}
		return numbers
	}
	scales := func(n int) []float32 {
		bytes := take(2 * n)
		whole = whole && bytes != nil
		numbers := make([]float32, len(bytes)/2)
		for i := range numbers {
			numbers[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(bytes[2*i:])) << 16)
		}
		return numbers
	}
	m.walk(func(_ string, part *matrix, s shape) {
		*part = matrix{rows: s.rows, columns: s.columns, scale: scales(s.rows * s.columns / group)}
		if s.biased {
			part.bias = floats(s.rows)
		}
		packed := take(s.rows * s.columns * s.bits / 8)
		whole = whole && packed != nil
		part.cells = unpack(packed, s.bits)
	}, func(_ string, part *normal) {
		*part = normal{gain: floats(Dimensions), bias: floats(Dimensions)}
	})
	if !whole || len(rest) != 0 {
		return nil, errWeights
	}
	return m, nil
}

// shape is the size of a matrix and its form in the file.
type shape struct {
	rows, columns int
	// bits is the number of bits of each cell in the file, 2 to 8.
	bits   int
	biased bool
}

// The bits of a cell in the file. Fewer of them make the file smaller and move the vectors of texts:
// docs/decisions/0075-weights-in-the-repository.md has the figures.
const (
	wordBits     = 4 // half of all weights
	positionBits = 8 // few weights, which every text uses
	layerBits    = 7
)

// walk visits the parts of a model in the order of the file, with the names that the published weights have
// for them.
func (m *Model) walk(matrices func(name string, part *matrix, s shape), normals func(name string, part *normal)) {
	matrices("embeddings.word_embeddings", &m.word, shape{words, Dimensions, wordBits, false})
	matrices("embeddings.position_embeddings", &m.position, shape{MaxTokens, Dimensions, positionBits, false})
	normals("embeddings.LayerNorm", &m.before)
	square := shape{Dimensions, Dimensions, layerBits, true}
	for i := range m.layer {
		l, name := &m.layer[i], fmt.Sprintf("encoder.layer.%d.", i)
		matrices(name+"attention.self.query", &l.query, square)
		matrices(name+"attention.self.key", &l.key, square)
		matrices(name+"attention.self.value", &l.value, square)
		matrices(name+"attention.output.dense", &l.output, square)
		normals(name+"attention.output.LayerNorm", &l.afterAttention)
		matrices(name+"intermediate.dense", &l.widen, shape{inner, Dimensions, layerBits, true})
		matrices(name+"output.dense", &l.narrow, shape{Dimensions, inner, layerBits, true})
		normals(name+"output.LayerNorm", &l.after)
	}
}

// pack returns cells with only their lowest bits, 8 cells in as many bytes as a cell has bits. The number of cells is a multiple of 8.
func pack(cells []int8, bits int) []byte {
	packed := make([]byte, 0, len(cells)*bits/8)
	for ; len(cells) > 0; cells = cells[8:] {
		var eight uint64
		for i, cell := range cells[:8] {
			eight |= uint64(byte(cell)&(1<<bits-1)) << (i * bits) //nolint:gosec // the sign is in the highest bit that is kept
		}
		packed = append(packed, binary.LittleEndian.AppendUint64(nil, eight)[:bits]...)
	}
	return packed
}

// unpack returns the cells that pack was given.
func unpack(packed []byte, bits int) []int8 {
	cells := make([]int8, 0, len(packed)/bits*8)
	for ; len(packed) >= bits; packed = packed[bits:] {
		var bytes [8]byte
		copy(bytes[:], packed[:bits])
		eight := binary.LittleEndian.Uint64(bytes[:])
		for range 8 {
			cells = append(cells, int8(byte(eight)<<(8-bits))>>(8-bits)) //nolint:gosec // the shifts extend the sign
			eight >>= bits
		}
	}
	return cells
}
