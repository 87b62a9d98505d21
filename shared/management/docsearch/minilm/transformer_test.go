package minilm_test

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm/minilmtest"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// TestVectorsMatchNaiveImplementation compares the model with a plain implementation of its formulas,
// in 64 bits and with weights that were not quantized. It does not need the published weights.
func TestVectorsMatchNaiveImplementation(t *testing.T) {
	simulations.SkipUnderRace(t)
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
			t.Errorf("cosine of Embed(%.20q) and the naive vector = %.4f, want at least 0.995", text, cosine)
		}
		if length := got.Dot(&got); math.Abs(float64(length)-1) > 1e-5 {
			t.Errorf("squared length of Embed(%.20q) = %.6f, want 1", text, length)
		}
	}
}

// naive computes the vector of tokens literally by the formulas in the model's papers.
func naive(w weights, tokens []int32) minilm.Vector {
	x := w.embeddings(tokens)
	for layer := range 6 {
		name := fmt.Sprintf("encoder.layer.%d.", layer)
		add(x, w.linear(w.attention(x, name), name+"attention.output.dense"))
		w.normalize(x, name+"attention.output.LayerNorm")
		wide := w.linear(x, name+"intermediate.dense")
		for i := range wide {
			for c, u := range wide[i] {
				wide[i][c] = u / 2 * (1 + math.Erf(u/math.Sqrt2))
			}
		}
		add(x, w.linear(wide, name+"output.dense"))
		w.normalize(x, name+"output.LayerNorm")
	}
	return mean(x)
}

// weights are the model's weights by name.
type weights map[string][]float32

// linear returns the output of the linear layer with a name.
func (w weights) linear(x [][]float64, name string) [][]float64 {
	weight, bias := w[name+".weight"], w[name+".bias"]
	y := make([][]float64, len(x))
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

// normalize scales each vector to mean 0 and variance 1, and then
// applies the weights and biases of the normalization with a name.
func (w weights) normalize(x [][]float64, name string) {
	const d = minilm.Dimensions
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

// embeddings returns the normalized sums of the embeddings of each token, its position and the first token type.
func (w weights) embeddings(tokens []int32) [][]float64 {
	const d = minilm.Dimensions
	x := make([][]float64, len(tokens))
	for i, token := range tokens {
		x[i] = make([]float64, d)
		for c := range d {
			x[i][c] = float64(w["embeddings.word_embeddings.weight"][int(token)*d+c]) + float64(
				w["embeddings.position_embeddings.weight"][i*d+c]) +
				float64(w["embeddings.token_type_embeddings.weight"][c])
		}
	}
	w.normalize(x, "embeddings.LayerNorm")
	return x
}

// attention returns the output of attention with 12 heads, before the linear layer output.dense.
func (w weights) attention(x [][]float64, name string) [][]float64 {
	n := len(x)
	q, k, v := w.linear(x, name+"attention.self.query"), w.linear(x, name+"attention.self.key"),
		w.linear(x, name+"attention.self.value")
	mixed := make([][]float64, n)
	for i := range n {
		mixed[i] = make([]float64, minilm.Dimensions)
		for head := range 12 {
			scores, total := make([]float64, n), 0.0
			for j := range n {
				var score float64
				for c := 32 * head; c < 32*head+32; c++ {
					score += q[i][c] * k[j][c]
				}
				scores[j] = math.Exp(score / math.Sqrt(32))
				total += scores[j]
			}
			for j := range n {
				for c := 32 * head; c < 32*head+32; c++ {
					mixed[i][c] += scores[j] / total * v[j][c]
				}
			}
		}
	}
	return mixed
}

// add adds the vectors in y to those in x.
func add(x, y [][]float64) {
	for i := range x {
		for c := range x[i] {
			x[i][c] += y[i][c]
		}
	}
}

// mean returns the mean of all vectors, scaled to length 1.
func mean(x [][]float64) minilm.Vector {
	const d = minilm.Dimensions
	var sum [d]float64
	var length float64
	for c := range d {
		for i := range x {
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

// TestConvertMakesTheSameBytes checks that Convert has the same result on every machine. If it
// fails, run make docs-weights and make docs-index, and commit both files with the new digest.
func TestConvertMakesTheSameBytes(t *testing.T) {
	simulations.SkipUnderRace(t)
	const want = "9ef18c56350551df07696649b7fc08696c5f5e9a9c6c8d4904620cdbdc8979fd"
	if got := fmt.Sprintf("%x", sha256.Sum256(minilmtest.Random(t))); got != want {
		t.Errorf("the SHA-256 of Convert(random weights) = %s, want %s", got, want)
	}
}

// TestInvalidWeightsAreRefused checks that truncated and longer files and files of
// another format are refused. It also checks the size of a valid file.
func TestInvalidWeightsAreRefused(t *testing.T) {
	file := minilmtest.Random(t)
	if len(file) > 16_500_000 {
		t.Errorf("length of the file of weights = %d bytes, want at most 16.5 MB", len(file))
	}
	tests := []struct {
		name string
		file []byte
	}{
		{"an empty file", nil},
		{"another format", []byte("PK\x03\x04 an archive of some kind")},
		{"only the format's name", file[:20]},
		{"one byte less", file[:len(file)-1]},
		{"only a part of the vocabulary", file[:1000]},
		{"one byte more", append(file[:len(file):len(file)], 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := minilm.Read(tt.file); err == nil {
				t.Error("Read(invalid weights) = no error, want one")
			}
		})
	}
}

// TestMissingTensorIsRefused checks that Convert refuses files without a tensor, and truncated files.
func TestMissingTensorIsRefused(t *testing.T) {
	simulations.SkipUnderRace(t)
	tensors := minilmtest.Tensors()
	complete := minilmtest.Safetensors(tensors)
	tests := []struct {
		name string
		file []byte
		want string
	}{
		{
			"a missing matrix", minilmtest.Safetensors(tensors, "encoder.layer.3.output.dense.weight"),
			"encoder.layer.3.output.dense.weight",
		},
		{"a missing bias", minilmtest.Safetensors(tensors, "embeddings.LayerNorm.bias"), "embeddings.LayerNorm.bias"},
		{"truncated data", complete[:len(complete)-4], "outside"},
		{"a truncated header", complete[:100], "header"},
		{"an empty file", nil, "0 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := minilm.Convert(tt.file, minilmtest.Vocabulary()); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("Convert() error = %v, want one with %q", err, tt.want)
			}
		})
	}
}
