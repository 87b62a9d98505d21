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
// Each group of a matrix is divided by its largest number, and each quotient kept as one of 255 steps. That moves the
// cosine between two texts by less than 1 %; TestVectorsAreThePublishedModels has the figure.
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
	m.walk(func(name string, _ *matrix, rows, columns int, biased bool) {
		weights := get(name+".weight", rows*columns)
		if name == "embeddings.position_embeddings" {
			// Every text is of the first of two types, whose vector is added to each token's: in the place's it costs nothing.
			for i, v := range get("embeddings.token_type_embeddings.weight", columns) {
				for r := range rows {
					weights[r*columns+i] += v
				}
			}
		}
		scales, cells := quantize(weights)
		floats(scales)
		if biased {
			floats(get(name+".bias", rows))
		}
		file = append(file, cells...)
	}, func(name string, _ *normal) {
		floats(get(name+".weight", Dimensions))
		floats(get(name+".bias", Dimensions))
	})
	return file, err
}

// quantize gives the scale of each group, and a signed byte for each of its numbers.
func quantize(weights []float32) (scales []float32, cells []byte) {
	cells = make([]byte, 0, len(weights))
	for ; len(weights) > 0; weights = weights[group:] {
		var largest float32
		for _, v := range weights[:group] {
			largest = max(largest, v, -v)
		}
		scale := largest / math.MaxInt8
		if scale == 0 {
			scale = 1
		}
		scales = append(scales, scale)
		for _, v := range weights[:group] {
			cells = append(cells, byte(int8(math.RoundToEven(float64(v/scale))))) //nolint:gosec // signed numbers are read as such again
		}
	}
	return scales, cells
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
