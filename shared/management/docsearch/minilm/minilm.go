// Package minilm computes the vector of a text, so that texts with similar meanings have similar vectors. It runs the
// sentence transformer all-MiniLM-L6-v2 (6 layers, 384 dimensions) on one core, in plain Go, with weights of 4 to 8
// bits.
//
// The package implements only this model. It does not train models, and does not search texts: package docsearch
// does. The weights are the file minilm-l6-v2.weights in this folder (weights.go), which every release contains.
// `make docs-weights` creates the file from the published weights (safetensors.go). NOTICE has their license.
// docs/decisions/0046-a-small-sentence-transformer-in-plain-go.md explains why we have our own code, and
// docs/decisions/0075-weights-in-the-repository.md why the weights are in the repository and how many bits they have.
//
// Read this file first, then transformer.go, which is the model, and wordpiece.go, which divides texts into tokens.
package minilm

// The shape of the model.
const (
	// Dimensions is the length of a vector.
	Dimensions = 384
	// MaxTokens is the maximum number of tokens that the model reads, including the tokens
	// for the beginning and the end of the text. The model ignores the rest of a longer text.
	MaxTokens = 256

	layers           = 6
	heads            = 12
	headSize         = Dimensions / heads
	intermediateSize = 4 * Dimensions
	vocabularySize   = 30_522
	epsilon          = 1e-12
)

// Vector is the vector of a text. Its length is 1, so the dot product of two vectors (Dot) is their cosine.
type Vector [Dimensions]float32

// Dot returns the dot product of two vectors.
func (v *Vector) Dot(w *Vector) float32 {
	var sum float32
	for i := range v {
		sum += v[i] * w[i]
	}
	return sum
}

// Embed returns the vector of a text. It is safe for concurrent use; each call needs at most 6 MB of memory.
func (m *Model) Embed(text string) Vector { return m.EmbedFirst(text, MaxTokens) }

// EmbedFirst returns the vector of the first tokens of a text. tokens is the maximum
// number, 2 to MaxTokens, including the tokens for the beginning and the end of the
// text. Its running time grows slightly faster than the number of tokens.
func (m *Model) EmbedFirst(text string, tokens int) Vector {
	return m.vector(m.tokenizer.Tokens(text, min(max(tokens, 2), MaxTokens)))
}

// Count returns the number of tokens of a text, including the
// tokens for its beginning and end. It returns at most limit.
func (m *Model) Count(text string, limit int) int { return len(m.tokenizer.Tokens(text, limit)) }
