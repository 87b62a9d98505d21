package minilm

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

// Convert returns the file of weights that Read reads. Its arguments are the published
// files: the weights as a safetensors file with 32-bit numbers, and the vocabulary.
//
// Convert quantizes the weights of matrices: each group of weights has a scale, and each
// weight becomes an integer multiple of the scale. The same input results in the same
// bytes. TestVectorsMatchPublishedModel bounds how much this changes the vectors of texts.
func Convert(safetensors, vocabulary []byte) (file []byte, err error) {
	if _, err = NewTokenizer(vocabulary); err != nil {
		return nil, err
	}
	tensors, err := read(safetensors)
	if err != nil {
		return nil, err
	}
	file = append(file, magic...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(vocabulary))) //nolint:gosec // the vocabulary has 230 KB
	file = append(file, vocabulary...)
	get := func(name string, n int) []float32 {
		numbers := tensors[name]
		if len(numbers) < n && err == nil {
			err = fmt.Errorf("minilm: the weights have %d numbers of %s, want %d", len(numbers), name, n)
		}
		return append(numbers, make([]float32, max(0, n-len(numbers)))...)[:n]
	}
	appendFloats := func(numbers []float32) {
		for _, v := range numbers {
			file = binary.LittleEndian.AppendUint32(file, math.Float32bits(v))
		}
	}
	var m Model
	m.walk(func(name string, _ *matrix, s shape) {
		weights := get(name+".weight", s.rows*s.columns)
		if name == "embeddings.position_embeddings" {
			// The model adds the vector of a token type to each token. Searches only use the
			// first of the two types, so add its vector to the vectors of positions here, once.
			for i, v := range get("embeddings.token_type_embeddings.weight", s.columns) {
				for r := range s.rows {
					weights[r*s.columns+i] += v
				}
			}
		}
		scales, cells := quantize(weights, s.bits)
		for _, scale := range scales {
			file = binary.LittleEndian.AppendUint16(file, scale)
		}
		if s.hasBias {
			appendFloats(get(name+".bias", s.rows))
		}
		file = append(file, pack(cells, s.bits)...)
	}, func(name string, _ *layerNorm) {
		appendFloats(get(name+".weight", Dimensions))
		appendFloats(get(name+".bias", Dimensions))
	})
	return file, err
}

// quantize returns a scale for each group, as the upper 16 bits of a 32-bit number, and
// a quantized integer (a cell) for each weight. bits is the number of bits of a cell.
func quantize(weights []float32, bits int) (scales []uint16, cells []int8) {
	cells = make([]int8, len(weights))
	for at := 0; at < len(weights); at += groupSize {
		scales = append(scales, quantizeGroup(cells[at:][:groupSize], weights[at:][:groupSize], bits))
	}
	return scales, cells
}

// quantizeGroup writes the cells of a group and returns its scale. It tries several scales,
// and chooses the scale with the least square error: a scale that is too small for the
// largest weight can be better for all other weights. In a group of zeros, each cell is 0.
func quantizeGroup(cells []int8, weights []float32, bits int) (best uint16) {
	maxCell := float64(int(1)<<(bits-1) - 1)
	var largest float64
	for _, v := range weights {
		largest = max(largest, math.Abs(float64(v)))
	}
	if largest == 0 {
		clear(cells)
		return 0
	}
	leastError, candidate := math.Inf(1), make([]int8, len(cells))
	for _, factor := range [...]float64{1, 0.95, 0.9, 0.85, 0.8, 0.75} {
		scaleBits := uint16((math.Float32bits(float32(largest*factor/maxCell)) + 1<<15) >> 16)
		scale := float64(math.Float32frombits(uint32(scaleBits) << 16))
		var sum float64
		for i, v := range weights {
			cell := math.RoundToEven(float64(v) / scale)
			cell = max(-maxCell-1, min(maxCell, cell))
			candidate[i] = int8(cell)
			// The conversions keep compilers from fusing operations, which would round differently on other architectures.
			diff := float64(v) - float64(cell*scale)
			sum += float64(diff * diff)
		}
		if sum < leastError {
			best, leastError = scaleBits, sum
			copy(cells, candidate)
		}
	}
	return best
}

// read returns the 32-bit tensors of a safetensors file. The file has the length of
// a JSON object as 64 bits, the object, and the numbers. For each tensor the object
// has its type and the position of its numbers. The file contains nothing else.
func read(file []byte) (map[string][]float32, error) {
	if len(file) < 8 {
		return nil, fmt.Errorf("minilm: a safetensors file of %d bytes", len(file))
	}
	length, data := binary.LittleEndian.Uint64(file), file[8:]
	if length > uint64(len(data)) {
		return nil, fmt.Errorf("minilm: a safetensors file of %d bytes with a header of %d", len(file), length)
	}
	var header map[string]struct {
		Type    string    `json:"dtype"`
		Offsets [2]uint64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(data[:length], &header); err != nil {
		return nil, fmt.Errorf("minilm: read the header of a safetensors file: %w", err)
	}
	data = data[length:]
	tensors := make(map[string][]float32, len(header))
	for name, tensor := range header {
		if tensor.Type != "F32" {
			continue // a tensor of position numbers, or the file's metadata
		}
		from, end := tensor.Offsets[0], tensor.Offsets[1]
		if from > end || end > uint64(len(data)) {
			return nil, fmt.Errorf("minilm: %s lies outside of its safetensors file", name)
		}
		numbers := make([]float32, (end-from)/4)
		for i := range numbers {
			numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[from+4*uint64(i):]))
		}
		tensors[name] = numbers
	}
	return tensors, nil
}
