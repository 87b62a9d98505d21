package minilm_test

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/docsearch/minilm/minilmtest"
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

// TestVectorsAreThoseOfTheNaiveReading compares the model with the formulas written out, in 64 bits and with weights that were
// not made 8 bits. It needs no published weights.
func TestVectorsAreThoseOfTheNaiveReading(t *testing.T) {
	simulations.Sequential(t)
	tensors := minilmtest.Tensors()
	file, err := minilm.Convert(minilmtest.Safetensors(tensors), minilmtest.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	model, err := minilm.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	tokenizer, err := minilm.NewTokenizer(minilmtest.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "key", "A tunnel, a bucket and a key.", strings.Repeat("a tunnel ", 9)} {
		got, want := model.Embed(text), naive(tensors, tokenizer.Tokens(text, minilm.MaxTokens))
		if cosine := got.Dot(&want); cosine < 0.995 {
			t.Errorf("the cosine between the vector of %.20q and the naive one is %.4f, want 0.995", text, cosine)
		}
		if length := got.Dot(&got); math.Abs(float64(length)-1) > 1e-5 {
			t.Errorf("the vector of %.20q has the length %.6f squared, want 1", text, length)
		}
	}
}

// naive is the forward pass as the model's papers have it.
func naive(w map[string][]float32, tokens []int32) minilm.Vector {
	const d = minilm.Dimensions
	n := len(tokens)
	linear := func(x [][]float64, name string) [][]float64 {
		weight, bias := w[name+".weight"], w[name+".bias"]
		y := make([][]float64, n)
		for i := range x {
			y[i] = make([]float64, len(bias))
			for r := range bias {
				y[i][r] = float64(bias[r])
				for c, v := range x[i] {
					y[i][r] += v * float64(weight[r*len(x[i])+c])
				}
			}
		}
		return y
	}
	normal := func(x [][]float64, name string) {
		for i := range x {
			var mean, variance float64
			for _, v := range x[i] {
				mean += v / d
			}
			for _, v := range x[i] {
				variance += (v - mean) * (v - mean) / d
			}
			for c, v := range x[i] {
				x[i][c] = (v-mean)/math.Sqrt(variance+1e-12)*float64(w[name+".weight"][c]) + float64(w[name+".bias"][c])
			}
		}
	}
	add := func(x, y [][]float64) {
		for i := range x {
			for c := range x[i] {
				x[i][c] += y[i][c]
			}
		}
	}
	x := make([][]float64, n)
	for i, token := range tokens {
		x[i] = make([]float64, d)
		for c := range d {
			x[i][c] = float64(w["embeddings.word_embeddings.weight"][int(token)*d+c]) + float64(w["embeddings.position_embeddings.weight"][i*d+c]) +
				float64(w["embeddings.token_type_embeddings.weight"][c])
		}
	}
	normal(x, "embeddings.LayerNorm")
	for layer := range 6 {
		name := fmt.Sprintf("encoder.layer.%d.", layer)
		q, k, v := linear(x, name+"attention.self.query"), linear(x, name+"attention.self.key"), linear(x, name+"attention.self.value")
		mixed := make([][]float64, n)
		for i := range n {
			mixed[i] = make([]float64, d)
			for head := range 12 {
				share, total := make([]float64, n), 0.0
				for j := range n {
					var fit float64
					for c := 32 * head; c < 32*head+32; c++ {
						fit += q[i][c] * k[j][c]
					}
					share[j] = math.Exp(fit / math.Sqrt(32))
					total += share[j]
				}
				for j := range n {
					for c := 32 * head; c < 32*head+32; c++ {
						mixed[i][c] += share[j] / total * v[j][c]
					}
				}
			}
		}
		add(x, linear(mixed, name+"attention.output.dense"))
		normal(x, name+"attention.output.LayerNorm")
		wide := linear(x, name+"intermediate.dense")
		for i := range wide {
			for c, u := range wide[i] {
				wide[i][c] = u / 2 * (1 + math.Erf(u/math.Sqrt2))
			}
		}
		add(x, linear(wide, name+"output.dense"))
		normal(x, name+"output.LayerNorm")
	}
	var sum [d]float64
	var length float64
	for c := range d {
		for i := range n {
			sum[c] += x[i][c]
		}
		length += sum[c] * sum[c]
	}
	var vector minilm.Vector
	for c := range vector {
		vector[c] = float32(sum[c] / math.Sqrt(length))
	}
	return vector
}

// TestConvertMakesTheSameBytes everywhere. If it fails, run make docs-weights and make docs-index, and commit both files with the new digest.
func TestConvertMakesTheSameBytes(t *testing.T) {
	simulations.Sequential(t)
	const want = "9ef18c56350551df07696649b7fc08696c5f5e9a9c6c8d4904620cdbdc8979fd"
	if got := fmt.Sprintf("%x", sha256.Sum256(minilmtest.Random(t))); got != want {
		t.Errorf("the SHA-256 of Convert(random weights) = %s, want %s", got, want)
	}
}

// TestFileOfWeightsIsReadWholeOrNotAtAll: what was cut off, or is something else, is refused.
func TestFileOfWeightsIsReadWholeOrNotAtAll(t *testing.T) {
	file := minilmtest.Random(t)
	if len(file) > 16_500_000 {
		t.Errorf("the file has %d bytes, want at most 16.5 MB", len(file))
	}
	tests := []struct {
		name string
		file []byte
	}{
		{"nothing", nil},
		{"something else", []byte("PK\x03\x04 an archive of some kind")},
		{"its name alone", file[:20]},
		{"a part", file[:len(file)-1]},
		{"the vocabulary alone", file[:1000]},
		{"more", append(file[:len(file):len(file)], 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := minilm.Read(tt.file); err == nil {
				t.Error("it is taken for weights")
			}
		})
	}
}

func TestWeightsThatLackATensorAreRefused(t *testing.T) {
	simulations.Sequential(t)
	tensors := minilmtest.Tensors()
	whole := minilmtest.Safetensors(tensors)
	tests := []struct {
		name string
		file []byte
		want string
	}{
		{"a matrix is missing", minilmtest.Safetensors(tensors, "encoder.layer.3.output.dense.weight"), "encoder.layer.3.output.dense.weight"},
		{"a bias is missing", minilmtest.Safetensors(tensors, "embeddings.LayerNorm.bias"), "embeddings.LayerNorm.bias"},
		{"the data is cut off", whole[:len(whole)-4], "outside"},
		{"the header is cut off", whole[:100], "header"},
		{"nothing", nil, "0 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := minilm.Convert(tt.file, minilmtest.Vocabulary()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the fault is %v, want one that tells of %q", err, tt.want)
			}
		})
	}
}
