package bedrock

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/management/docsearch"
)

var _ docsearch.Embedder = (*Client)(nil)

// maxConcurrent is the maximum number of concurrent requests of a command.
const maxConcurrent = 8

// family is the request and response format of a family of embedding models.
type family struct {
	// maxTexts is the maximum number of texts in a request.
	maxTexts int
	// request returns the body of a request for the vectors of texts. areQuestions says that the texts are questions,
	// rather than texts to search.
	request func(texts []string, areQuestions bool) any
	// vectors decodes the response.
	vectors func(body []byte) ([][]float32, error)
}

// familyOf returns the family of a model. The formats are those of "Amazon Titan Embeddings Text" and "Cohere
// Embed v3" in the user guide.
func familyOf(model string) family {
	if strings.HasPrefix(model, "cohere.") {
		return family{
			maxTexts: 96,
			request: func(texts []string, areQuestions bool) any {
				kind := "search_document"
				if areQuestions {
					kind = "search_query"
				}
				return map[string]any{"texts": texts, "input_type": kind, "truncate": "END"}
			},
			vectors: func(body []byte) ([][]float32, error) {
				var out struct{ Embeddings [][]float32 }
				err := json.Unmarshal(body, &out)
				return out.Embeddings, err
			},
		}
	}
	return family{
		maxTexts: 1,
		request:  func(texts []string, _ bool) any { return map[string]any{"inputText": texts[0]} },
		vectors: func(body []byte) ([][]float32, error) {
			var out struct{ Embedding []float32 }
			err := json.Unmarshal(body, &out)
			return [][]float32{out.Embedding}, err
		},
	}
}

// EmbedQuestion implements docsearch.Embedder.
func (c *Client) EmbedQuestion(ctx context.Context, question string) ([]float32, error) {
	vectors, err := c.embed(ctx, []string{question}, true)
	if err != nil {
		return nil, err
	}
	return vectors[0], nil
}

// EmbedTexts returns the vectors of searchable texts, in the order of the texts.
func (c *Client) EmbedTexts(ctx context.Context, texts []string) ([][]float32, error) {
	all := make([][]float32, len(texts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrent)
	offset := 0
	for chunk := range slices.Chunk(texts, familyOf(c.model).maxTexts) {
		dst := all[offset : offset+len(chunk)]
		offset += len(chunk)
		group.Go(func() error {
			vectors, err := c.embed(ctx, chunk, false)
			copy(dst, vectors)
			return err
		})
	}
	return all, group.Wait()
}

// embed returns one vector for each text. It sends one request, so there must be at most family.maxTexts texts.
func (c *Client) embed(ctx context.Context, texts []string, areQuestions bool) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	format := familyOf(c.model)
	body, err := json.Marshal(format.request(texts, areQuestions))
	if err != nil {
		return nil, fmt.Errorf("write a request: %w", err)
	}
	resp, err := c.client().InvokeModel(ctx, &bedrockruntime.InvokeModelInput{
		ModelId: &c.model, ContentType: aws.String("application/json"), Accept: aws.String("application/json"), Body: body,
	})
	if err != nil {
		return nil, modelError(err)
	}
	vectors, err := format.vectors(resp.Body)
	if err != nil || len(vectors) != len(texts) {
		return nil, &docsearch.ModelError{Reason: docsearch.Unreadable}
	}
	return vectors, nil
}
