package minilm

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
)

// Convert makes the file of weights that Read reads of the published ones: the bytes of a safetensors file
// with numbers of 32 bits, and of its vocabulary.
//
// Each group of a matrix has a scale, and each weight becomes a whole number of scales. The same input makes the same bytes.
// TestVectorsAreThePublishedModels bounds how far this moves the vectors of texts.
func Convert(safetensors, vocabulary []byte) (file []byte, err error) {
	if _, err = NewTokenizer(vocabulary); err != nil {
		return nil, err
	}
	tensors, err := read(safetensors)
	if err != nil {
		return nil, err
	}
	file = append(file, magic...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(vocabulary))) //nolint:gosec // of a file of 230 KB
	file = append(file, vocabulary...)
	get := func(name string, n int) []float32 {
		numbers := tensors[name]
		if len(numbers) < n && err == nil {
			err = fmt.Errorf("minilm: the weights have %d numbers of %s, want %d", len(numbers), name, n)
		}
		return append(numbers, make([]float32, max(0, n-len(numbers)))...)[:n]
	}
	floats := func(numbers []float32) {
		for _, v := range numbers {
			file = binary.LittleEndian.AppendUint32(file, math.Float32bits(v))
		}
	}
	var m Model
	m.walk(func(name string, _ *matrix, s shape) {
		weights := get(name+".weight", s.rows*s.columns)
		if name == "embeddings.position_embeddings" {
			// Every text is of the first of two types, whose vector is added to each token's: in the place's it costs nothing.
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
		if s.biased {
			floats(get(name+".bias", s.rows))
		}
		file = append(file, pack(cells, s.bits)...)
	}, func(name string, _ *normal) {
		floats(get(name+".weight", Dimensions))
		floats(get(name+".bias", Dimensions))
	})
	return file, err
}

// quantize returns a scale for each group, the upper 16 bits of a number of 32 bits, and a cell of this many bits for each weight.
func quantize(weights []float32, bits int) (scales []uint16, cells []int8) {
	cells = make([]int8, len(weights))
	for at := 0; at < len(weights); at += group {
		scales = append(scales, quantizeGroup(cells[at:][:group], weights[at:][:group], bits))
	}
	return scales, cells
}

// quantizeGroup writes the cells of a group and returns its scale: of several, the one with the least square error. A scale that is too small for the
// largest weight can be better for all others. In a group of zeros each cell is 0.
func quantizeGroup(cells []int8, weights []float32, bits int) (best uint16) {
	most := float64(int(1)<<(bits-1) - 1)
	var largest float64
	for _, v := range weights {
		largest = max(largest, math.Abs(float64(v)))
	}
	if largest == 0 {
		clear(cells)
		return 0
	}
	least, tried := math.Inf(1), make([]int8, len(cells))
	for _, part := range [...]float64{1, 0.95, 0.9, 0.85, 0.8, 0.75} {
		short := uint16((math.Float32bits(float32(largest*part/most)) + 1<<15) >> 16)
		scale := float64(math.Float32frombits(uint32(short) << 16))
		var sum float64
		for i, v := range weights {
			cell := math.RoundToEven(float64(v) / scale)
			cell = max(-most-1, min(most, cell))
			tried[i] = int8(cell)
			// The conversions keep compilers from fusing operations, which would round differently on other architectures.
			off := float64(v) - float64(cell*scale)
			sum += float64(off * off)
		}
		if sum < least {
			best, least = short, sum
			copy(cells, tried)
		}
	}
	return best
}

// read reads the tensors of 32 bits out of a safetensors file: the length of a JSON object as 64 bits, the object, which
// says of each tensor its type and where its numbers are in what follows, and the numbers. The format has no more to it.
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
			continue // the numbers of places, and what the file says about itself
		}
		from, to := tensor.Offsets[0], tensor.Offsets[1]
		if from > to || to > uint64(len(data)) {
			return nil, fmt.Errorf("minilm: %s lies outside of its safetensors file", name)
		}
		numbers := make([]float32, (to-from)/4)
		for i := range numbers {
			numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[from+4*uint64(i):]))
		}
		tensors[name] = numbers
	}
	return tensors, nil
}
