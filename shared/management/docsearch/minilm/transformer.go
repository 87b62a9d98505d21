package minilm

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// panelRows is the number of rows of a matrix that are multiplied at once.
const panelRows = 192

// Model is the model with its weights. The weights never change, so a Model is safe for concurrent use.
type Model struct {
	tokenizer          *Tokenizer
	tokenEmbeddings    matrix    // a row for each token of the vocabulary
	positionEmbeddings matrix    // a row for each position in a text
	embeddingNorm      layerNorm // applied to the sum of both
	layer              [layers]layer
	digest             [32]byte
}

// layer has the weights of a layer: attention, and a feed-forward network with one hidden layer.
type layer struct {
	query, key, value, output     matrix
	attentionNorm                 layerNorm
	feedForwardIn, feedForwardOut matrix
	outputNorm                    layerNorm
}

// groupSize is the number of weights in a row that share a scale.
const groupSize = 64

// matrix is a matrix of quantized weights. A weight is its quantized value times the scale of its group. multiply
// adds bias to the product with a vector. Matrices of embeddings, whose rows are only looked up, have no bias.
type matrix struct {
	rows, columns int
	quantized     []int8
	scale, bias   []float32
}

// layerNorm normalizes vectors to mean 0 and variance 1, and then applies the learned gain and bias.
type layerNorm struct{ gain, bias []float32 }

// Digest returns the SHA-256 of the file of weights. Vectors that
// were computed with different weights must not be compared.
func (m *Model) Digest() [32]byte { return m.digest }

// vector returns the embedding of tokens. It applies all layers, each with attention and a feed-forward network,
// and returns the normalized mean of the tokens' vectors.
func (m *Model) vector(tokens []int32) Vector {
	n := len(tokens)
	x := make([]float32, n*Dimensions)
	panel := make([]float32, panelRows*intermediateSize)
	for i, token := range tokens {
		row, position := x[i*Dimensions:][:Dimensions], panel[:Dimensions]
		m.tokenEmbeddings.dequantizeRow(row, int(token))
		m.positionEmbeddings.dequantizeRow(position, i)
		accumulate(row, position)
	}
	m.embeddingNorm.apply(x)
	var (
		q, k, v  = make([]float32, len(x)), make([]float32, len(x)), make([]float32, len(x))
		attended = make([]float32, len(x))
		hidden   = make([]float32, n*intermediateSize)
		weights  = make([]float32, n)
	)
	for i := range m.layer {
		l := &m.layer[i]
		l.query.multiply(q, x, panel)
		l.key.multiply(k, x, panel)
		l.value.multiply(v, x, panel)
		attend(attended, q, k, v, weights)
		l.output.multiply(q, attended, panel)
		accumulate(x, q)
		l.attentionNorm.apply(x)
		l.feedForwardIn.multiply(hidden, x, panel)
		for j, w := range hidden {
			hidden[j] = float32(0.5 * float64(w) * (1 + math.Erf(float64(w)/math.Sqrt2)))
		}
		l.feedForwardOut.multiply(q, hidden, panel)
		accumulate(x, q)
		l.outputNorm.apply(x)
	}
	var sum Vector
	for i := range n {
		accumulate(sum[:], x[i*Dimensions:][:Dimensions])
	}
	length := float32(math.Sqrt(float64(sum.Dot(&sum))))
	for i := range sum {
		sum[i] /= length
	}
	return sum
}

// attend computes scaled dot-product attention for each head. For each token, it writes the sum of all tokens' values
// to attended, weighted by the softmax of the token's query times their keys. weights is a buffer with one number per
// token.
func attend(attended, q, k, v, weights []float32) {
	n := len(weights)
	scale := float32(1 / math.Sqrt(headSize))
	clear(attended)
	for from := 0; from < Dimensions; from += headSize {
		for i := range n {
			query := q[i*Dimensions+from:][:headSize]
			highest := float32(math.Inf(-1))
			for j := range n {
				key := k[j*Dimensions+from:][:headSize]
				var score float32
				for c := range query {
					score += query[c] * key[c]
				}
				weights[j] = score * scale
				highest = max(highest, weights[j])
			}
			var total float32
			for j, score := range weights {
				weights[j] = float32(math.Exp(float64(score - highest)))
				total += weights[j]
			}
			out := attended[i*Dimensions+from:][:headSize]
			for j, s := range weights {
				s /= total
				for c, value := range v[j*Dimensions+from:][:headSize] {
					out[c] += s * value
				}
			}
		}
	}
}

// multiply multiplies the matrix by each of the n vectors in x, adds bias, and writes the results to y. panel is a
// buffer for panelRows rows.
//
// It dequantizes panelRows rows at once, and gonum multiplies them, in assembly on platforms that gonum supports.
// For questions of up to 64 tokens, gonum starts no goroutines for panelRows rows, so a question uses one core.
//
// It calls gonum's method directly, and not through package blas32, which calls it through an interface. The linker
// would then keep the other 140 methods of the interface: 0.5 MB of every program that searches the documentation.
func (m *matrix) multiply(y, x, panel []float32) {
	n := len(x) / m.columns
	for from := 0; from < m.rows; from += panelRows {
		for r := range panelRows {
			m.dequantizeRow(panel[r*m.columns:][:m.columns], from+r)
		}
		gonum.Implementation{}.Sgemm(blas.NoTrans, blas.Trans, n, panelRows, m.columns, 1, x, m.columns, panel, m.columns, 0,
			y[from:], m.rows)
	}
	for i := range n {
		accumulate(y[i*m.rows:][:m.rows], m.bias)
	}
}

// dequantizeRow dequantizes a row of the matrix into out.
func (m *matrix) dequantizeRow(out []float32, row int) {
	for at := 0; at < m.columns; at += groupSize {
		cells := m.quantized[row*m.columns+at:][:groupSize]
		scale, dst := m.scale[(row*m.columns+at)/groupSize], out[at:][:groupSize]
		for i, cell := range cells {
			dst[i] = scale * float32(cell)
		}
	}
}

// apply normalizes each of the vectors in x, in place.
func (l *layerNorm) apply(x []float32) {
	for ; len(x) > 0; x = x[Dimensions:] {
		row := x[:Dimensions]
		var sum, squares float64
		for _, v := range row {
			sum += float64(v)
		}
		mean := float32(sum / Dimensions)
		for _, v := range row {
			squares += float64(v-mean) * float64(v-mean)
		}
		invStdDev := float32(1 / math.Sqrt(squares/Dimensions+epsilon))
		for i, v := range row {
			row[i] = (v-mean)*invStdDev*l.gain[i] + l.bias[i]
		}
	}
}

// accumulate adds src to dst.
func accumulate(dst, src []float32) {
	for i, v := range src {
		dst[i] += v
	}
}
