package minilmtest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
)

// Tensors returns random weights with the names and sizes of the published weights, so
// that tests do not need the published weights. It returns the same weights at each call.
func Tensors() map[string][]float32 {
	rng := rand.New(rand.NewPCG(13, 384)) //nolint:gosec // repeatable numbers for tests
	tensors := map[string][]float32{}
	add := func(name string, n int, mean, deviation float64) {
		numbers := make([]float32, n)
		for i := range numbers {
			// The conversion prevents a fused multiply-add, which only
			// some architectures have and which rounds differently.
			numbers[i] = float32(mean + float64(deviation*rng.NormFloat64()))
		}
		tensors[name] = numbers
	}
	const d = minilm.Dimensions
	normal := func(name string) {
		add(name+".weight", d, 1, 0.1)
		add(name+".bias", d, 0, 0.1)
	}
	linear := func(name string, rows, columns int) {
		add(name+".weight", rows*columns, 0, 0.05)
		add(name+".bias", rows, 0, 0.1)
	}
	// The tokens of Vocabulary are in the first 128 rows, which are random. All other rows are zero.
	add("embeddings.word_embeddings.weight", 128*d, 0, 0.5)
	tensors["embeddings.word_embeddings.weight"] = append(tensors["embeddings.word_embeddings.weight"],
		make([]float32, (30_522-128)*d)...)
	add("embeddings.position_embeddings.weight", 512*d, 0, 0.2)
	add("embeddings.token_type_embeddings.weight", 2*d, 0, 0.2)
	normal("embeddings.LayerNorm")
	for i := range 6 {
		layer := fmt.Sprintf("encoder.layer.%d.", i)
		for _, part := range []string{
			"attention.self.query", "attention.self.key", "attention.self.value",
			"attention.output.dense",
		} {
			linear(layer+part, d, d)
		}
		normal(layer + "attention.output.LayerNorm")
		linear(layer+"intermediate.dense", 4*d, d)
		linear(layer+"output.dense", d, 4*d)
		normal(layer + "output.LayerNorm")
	}
	return tensors
}

// Safetensors returns a file in the safetensors format. It has all tensors except those with the names in except.
func Safetensors(tensors map[string][]float32, except ...string) []byte {
	type tensorInfo struct {
		Type    string `json:"dtype"`
		Offsets [2]int `json:"data_offsets"`
	}
	names := make([]string, 0, len(tensors))
	for name := range tensors {
		if !slices.Contains(except, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	header := map[string]tensorInfo{}
	var data []byte
	for _, name := range names {
		from := len(data)
		for _, v := range tensors[name] {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		header[name] = tensorInfo{"F32", [2]int{from, len(data)}}
	}
	encoded, err := json.Marshal(header)
	if err != nil {
		panic("minilmtest: " + err.Error()) // names and numbers can always be encoded
	}
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(encoded)))
	return append(append(file, encoded...), data...)
}

// Vocabulary returns a small vocabulary with tokens for every word of ASCII letters and digits.
func Vocabulary() []byte {
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "?", "key", "bucket", "tunnel"}
	for _, r := range "abcdefghijklmnopqrstuvwxyz0123456789" {
		tokens = append(tokens, string(r), "##"+string(r))
	}
	return []byte(strings.Join(tokens, "\n") + "\n")
}

// random creates the file of Random. That takes a second, so it runs once for all tests.
var random = sync.OnceValues(func() ([]byte, error) { return minilm.Convert(Safetensors(Tensors()), Vocabulary()) })

// Random returns a file of weights with Tensors and Vocabulary. Callers must not change it.
func Random(t testing.TB) []byte {
	t.Helper()
	file, err := random()
	if err != nil {
		t.Fatal(err)
	}
	return file
}
