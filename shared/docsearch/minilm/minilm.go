// Package minilm turns a text into a vector by which texts of one meaning are near each other: the
// sentence transformer all-MiniLM-L6-v2 (6 layers, 384 dimensions) on one core, in plain Go, with
// weights of 4 to 8 bits.
//
// It is this one model and no framework: it trains nothing, and knows nothing of what is searched
// (package docsearch). The weights are the file minilm-l6-v2.weights in this folder (weights.go), which every release contains.
// `make docs-weights` makes it from the published ones (safetensors.go). NOTICE has their license.
// Why the code is ours is in docs/decisions/0046-a-small-sentence-transformer-in-plain-go.md, and why the weights are
// in the repository, and how many bits they have, in docs/decisions/0075-weights-in-the-repository.md.
//
// Read this file first, then transformer.go, which is the model, and wordpiece.go, which cuts texts into
// its tokens.
package minilm

// The shape of the model.
const (
	// Dimensions is how long a vector is.
	Dimensions = 384
	// MaxTokens is how much of a text the model reads, with the two tokens around it. Of a longer
	// text the rest does not count.
	MaxTokens = 256

	layers  = 6
	heads   = 12
	perHead = Dimensions / heads
	inner   = 4 * Dimensions
	words   = 30_522
	epsilon = 1e-12
)

// Vector is a text's: of length 1, so that the product of two (Dot) is the cosine between them.
type Vector [Dimensions]float32

// Dot is the sum of the products.
func (v *Vector) Dot(w *Vector) float32 {
	var sum float32
	for i := range v {
		sum += v[i] * w[i]
	}
	return sum
}

// Embed gives the vector of a text. It may be called by many at once; each call takes 6 MB at most.
func (m *Model) Embed(text string) Vector { return m.EmbedFirst(text, MaxTokens) }

// EmbedFirst gives the vector of as much of a text as its first tokens say, 2 to MaxTokens of them with the two around it.
// The time that it takes grows a little faster than they do.
func (m *Model) EmbedFirst(text string, tokens int) Vector {
	return m.vector(m.tokenizer.Tokens(text, min(max(tokens, 2), MaxTokens)))
}

// Count is how many tokens a text has, with the two around it, and at most limit.
func (m *Model) Count(text string, limit int) int { return len(m.tokenizer.Tokens(text, limit)) }
