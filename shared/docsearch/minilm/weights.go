package minilm

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// magic begins a file of weights, with the version of its form.
const magic = "gatewright minilm 2\n"

// errWeights is what Read says of a file that is none of Write's.
var errWeights = errors.New("minilm: this is no file of weights, or one of another version; make it with make docs-index")

// Read takes a model out of a file of weights, which it keeps: a byte of it is a weight. The file is
// the vocabulary, then each part of the model in the order of walk: all numbers of 32 bits little-endian, a
// matrix as its scales, its bias and its bytes.
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
	m.walk(func(_ string, part *matrix, rows, columns int, biased bool) {
		*part = matrix{rows: rows, columns: columns, scale: floats(rows * columns / group)}
		if biased {
			part.bias = floats(rows)
		}
		bytes := take(rows * columns)
		whole = whole && bytes != nil
		part.cells = signed(bytes)
	}, func(_ string, part *normal) {
		*part = normal{gain: floats(Dimensions), bias: floats(Dimensions)}
	})
	if !whole || len(rest) != 0 {
		return nil, errWeights
	}
	return m, nil
}

// walk visits the parts of a model in the order of the file, with the names that the published weights have
// for them.
func (m *Model) walk(matrices func(name string, part *matrix, rows, columns int, biased bool), normals func(name string, part *normal)) {
	matrices("embeddings.word_embeddings", &m.word, words, Dimensions, false)
	matrices("embeddings.position_embeddings", &m.position, MaxTokens, Dimensions, false)
	normals("embeddings.LayerNorm", &m.before)
	for i := range m.layer {
		l, name := &m.layer[i], fmt.Sprintf("encoder.layer.%d.", i)
		matrices(name+"attention.self.query", &l.query, Dimensions, Dimensions, true)
		matrices(name+"attention.self.key", &l.key, Dimensions, Dimensions, true)
		matrices(name+"attention.self.value", &l.value, Dimensions, Dimensions, true)
		matrices(name+"attention.output.dense", &l.output, Dimensions, Dimensions, true)
		normals(name+"attention.output.LayerNorm", &l.afterAttention)
		matrices(name+"intermediate.dense", &l.widen, inner, Dimensions, true)
		matrices(name+"output.dense", &l.narrow, Dimensions, inner, true)
		normals(name+"output.LayerNorm", &l.after)
	}
}

// signed is the same bytes as numbers from -128 on, without a copy of 22 MB.
func signed(bytes []byte) []int8 {
	if len(bytes) == 0 {
		return nil
	}
	return unsafe.Slice((*int8)(unsafe.Pointer(&bytes[0])), len(bytes)) //nolint:gosec // as long, as aligned, and kept alive by what points into it
}
