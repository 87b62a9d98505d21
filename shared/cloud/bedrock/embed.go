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

	"github.com/gatewright/gatewright/shared/docsearch"
)

var _ docsearch.Embedder = (*Client)(nil)

// atOnce is how many requests a command has under way.
const atOnce = 8

// family is how models of one kind are asked for vectors.
type family struct {
	// most is how many texts a request may have.
	most int
	// request is of texts, which are questions or what is searched.
	request func(texts []string, question bool) any
	// vectors reads the answer.
	vectors func(answer []byte) ([][]float32, error)
}

// familyOf gives a model's. The forms are those of "Amazon Titan Embeddings Text" and "Cohere Embed v3" in the user guide.
func familyOf(model string) family {
	if strings.HasPrefix(model, "cohere.") {
		return family{
			most: 96,
			request: func(texts []string, question bool) any {
				kind := "search_document"
				if question {
					kind = "search_query"
				}
				return map[string]any{"texts": texts, "input_type": kind, "truncate": "END"}
			},
			vectors: func(answer []byte) ([][]float32, error) {
				var out struct{ Embeddings [][]float32 }
				err := json.Unmarshal(answer, &out)
				return out.Embeddings, err
			},
		}
	}
	return family{
		most:    1,
		request: func(texts []string, _ bool) any { return map[string]any{"inputText": texts[0]} },
		vectors: func(answer []byte) ([][]float32, error) {
			var out struct{ Embedding []float32 }
			err := json.Unmarshal(answer, &out)
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

// EmbedTexts gives the vectors of what is searched, in the order of the texts.
func (c *Client) EmbedTexts(ctx context.Context, texts []string) ([][]float32, error) {
	all := make([][]float32, len(texts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	at := 0
	for some := range slices.Chunk(texts, familyOf(c.model).most) {
		to := all[at : at+len(some)]
		at += len(some)
		group.Go(func() error {
			vectors, err := c.embed(ctx, some, false)
			copy(to, vectors)
			return err
		})
	}
	return all, group.Wait()
}

// embed gives as many vectors as there are texts, no more of them than a request may have.
func (c *Client) embed(ctx context.Context, texts []string, question bool) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	of := familyOf(c.model)
	body, err := json.Marshal(of.request(texts, question))
	if err != nil {
		return nil, fmt.Errorf("write a request: %w", err)
	}
	answer, err := c.runtime().InvokeModel(ctx, &bedrockruntime.InvokeModelInput{
		ModelId: &c.model, ContentType: aws.String("application/json"), Accept: aws.String("application/json"), Body: body,
	})
	if err != nil {
		return nil, failed(err)
	}
	vectors, err := of.vectors(answer.Body)
	if err != nil || len(vectors) != len(texts) {
		return nil, &docsearch.ModelError{Reason: docsearch.Unreadable}
	}
	return vectors, nil
}
