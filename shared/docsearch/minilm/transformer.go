package minilm

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// panelRows is how many rows of a matrix are multiplied at a time.
const panelRows = 192

// Model is the model with its weights, which nothing changes: it may be used by many at once.
type Model struct {
	tokenizer *Tokenizer
	word      matrix // a row for each token of the vocabulary
	position  matrix // a row for each place in a text
	before    normal // on the sum of both
	layer     [layers]layer
	digest    [32]byte
}

type layer struct {
	query, key, value, output matrix
	afterAttention            normal
	widen, narrow             matrix
	after                     normal
}

// group is how many weights of a row share a scale.
const group = 64

// matrix holds weights: a weight is its cell times the scale of its group. Its product with a vector
// has bias added; what is only looked up has none.
type matrix struct {
	rows, columns int
	cells         []int8
	scale, bias   []float32
}

// normal brings vectors to mean 0 and variance 1, and from there to what was learned.
type normal struct{ gain, bias []float32 }

// Digest is the SHA-256 of the weights' file: vectors of different ones are not compared.
func (m *Model) Digest() [32]byte { return m.digest }

// vector is the forward pass: layers of attention and of a wide layer over the vectors of the tokens, and
// their mean.
func (m *Model) vector(tokens []int32) Vector {
	n := len(tokens)
	x := make([]float32, n*Dimensions)
	panel := make([]float32, panelRows*inner)
	for i, token := range tokens {
		row, place := x[i*Dimensions:][:Dimensions], panel[:Dimensions]
		m.word.row(row, int(token))
		m.position.row(place, i)
		accumulate(row, place)
	}
	m.before.apply(x)
	var (
		q, k, v = make([]float32, len(x)), make([]float32, len(x)), make([]float32, len(x))
		mixed   = make([]float32, len(x))
		wide    = make([]float32, n*inner)
		share   = make([]float32, n)
	)
	for i := range m.layer {
		l := &m.layer[i]
		l.query.multiply(q, x, panel)
		l.key.multiply(k, x, panel)
		l.value.multiply(v, x, panel)
		attend(mixed, q, k, v, share)
		l.output.multiply(q, mixed, panel)
		accumulate(x, q)
		l.afterAttention.apply(x)
		l.widen.multiply(wide, x, panel)
		for j, w := range wide {
			wide[j] = float32(0.5 * float64(w) * (1 + math.Erf(float64(w)/math.Sqrt2)))
		}
		l.narrow.multiply(q, wide, panel)
		accumulate(x, q)
		l.after.apply(x)
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

// attend mixes, head by head, the values of all tokens into each one, by how well its query fits their keys.
// share has a place for each token.
func attend(mixed, q, k, v, share []float32) {
	n := len(share)
	scale := float32(1 / math.Sqrt(perHead))
	clear(mixed)
	for from := 0; from < Dimensions; from += perHead {
		for i := range n {
			mine := q[i*Dimensions+from:][:perHead]
			highest := float32(math.Inf(-1))
			for j := range n {
				its := k[j*Dimensions+from:][:perHead]
				var fit float32
				for c := range mine {
					fit += mine[c] * its[c]
				}
				share[j] = fit * scale
				highest = max(highest, share[j])
			}
			var total float32
			for j, fit := range share {
				share[j] = float32(math.Exp(float64(fit - highest)))
				total += share[j]
			}
			to := mixed[i*Dimensions+from:][:perHead]
			for j, s := range share {
				s /= total
				for c, value := range v[j*Dimensions+from:][:perHead] {
					to[c] += s * value
				}
			}
		}
	}
}

// multiply writes the product with each of the n vectors in x into y. The panel has room for panelRows rows.
//
// Some rows at a time are made numbers of 32 bits, which gonum multiplies, by assembly where it has some. So few rows are
// less than gonum has goroutines for, up to 64 tokens: a question takes one core.
//
// It calls gonum's method and not package blas32, which holds the implementation in an interface: the linker
// would keep the other 140 methods, 0.5 MB of every program that searches the documentation.
func (m *matrix) multiply(y, x, panel []float32) {
	n := len(x) / m.columns
	for from := 0; from < m.rows; from += panelRows {
		for r := range panelRows {
			m.row(panel[r*m.columns:][:m.columns], from+r)
		}
		gonum.Implementation{}.Sgemm(blas.NoTrans, blas.Trans, n, panelRows, m.columns, 1, x, m.columns, panel, m.columns, 0, y[from:], m.rows)
	}
	for i := range n {
		accumulate(y[i*m.rows:][:m.rows], m.bias)
	}
}

// row writes the numbers of a row.
func (m *matrix) row(to []float32, row int) {
	for at := 0; at < m.columns; at += group {
		cells := m.cells[row*m.columns+at:][:group]
		scale, some := m.scale[(row*m.columns+at)/group], to[at:][:group]
		for i, cell := range cells {
			some[i] = scale * float32(cell)
		}
	}
}

func (l *normal) apply(x []float32) {
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
		by := float32(1 / math.Sqrt(squares/Dimensions+epsilon))
		for i, v := range row {
			row[i] = (v-mean)*by*l.gain[i] + l.bias[i]
		}
	}
}

func accumulate(to, from []float32) {
	for i, v := range from {
		to[i] += v
	}
}
