package mcpdocs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/cards"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/docsearch"
	"github.com/gatewright/gatewright/shared/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/installation"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
	"github.com/gatewright/gatewright/shared/mcp/endpoint"
)

// callsASecond is how many calls an address may send in a second. A core makes some thirty questions a second vectors
// (docs/decisions/0046-a-small-sentence-transformer-in-plain-go.md).
const callsASecond = 10

// instructions are what a model is told of the server as a whole.
const instructions = "The documentation of Gatewright, an API management platform. Search it for passages, or ask a question that is answered with their sentences and where they stand. " +
	"What the documentation does not say is answered as not covered: do not make it up."

// server answers messages.
type server struct {
	parts     installation.Parts
	addresses *api.Addresses
	// found searches the documentation: its index is read for the first message that asks, and the weights for the first search.
	found func() (*library, error)
	front func() *sharedmcp.Server
}

// library is the documentation with who answers from it.
type library struct {
	searcher *docsearch.Searcher
	answerer docsearch.Answerer
}

// Bind returns the group's routes, with nothing that is asked over a network.
func Bind(p installation.Parts) []api.Route { return BindWith(p, docsearch.Models{}) }

// BindWith is Bind with models that are asked first. Their vectors are those beside the binary unless it has others.
func BindWith(p installation.Parts, models docsearch.Models) []api.Route {
	p = Group.Held(p)
	if models.Vectors == nil {
		models.Vectors = nearBinary(VectorsFile, vectorsFolders)
	}
	s := &server{parts: p, addresses: api.NewAddresses(callsASecond, p.Now)}
	s.found = sync.OnceValues(func() (*library, error) {
		index, err := docsearch.Documentation()
		if err != nil {
			return nil, err // a test has read it
		}
		searcher := docsearch.New(index, weights(p.Config.DocsWeights)).With(models, p.Now)
		if err := searcher.Semantic(); err != nil {
			p.Log.Error("the documentation is searched by words: its weights cannot be used",
				"file", minilm.FileName, "setting", config.VarDocsWeights, "error", err)
		}
		if err := searcher.Vectors(); err != nil {
			p.Log.Error("the documentation is searched without Bedrock: its vectors cannot be used", "error", err)
		}
		if models.Writer != nil {
			return &library{searcher, docsearch.NewWritten(searcher, models.Writer, p.Config.DocsAnswersADay, p.Now)}, nil
		}
		return &library{searcher, docsearch.NewExtractive(searcher)}, nil
	})
	s.front = sync.OnceValue(s.newFront)
	return []api.Route{
		ask.To(s.answer),
		noStream.To(endpoint.Refuse),
		noSession.To(endpoint.Refuse),
		preflight.To(endpoint.Preflighted),
	}
}

func (s *server) newFront() *sharedmcp.Server {
	about := cards.Docs()
	front := sharedmcp.New(sharedmcp.Setup{
		Name: about.Name, Version: about.Version, Instructions: instructions,
		Failed: endpoint.Failed(s.parts.Log),
		// Each call of a batch counts as one.
		Again: func(ctx context.Context, message []byte) *http.Response {
			r, _ := ctx.Value(requestKey{}).(*http.Request) // answer has put it there
			again, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL.String(), bytes.NewReader(message))
			if err != nil {
				panic(fmt.Sprintf("mcpdocs: ask again: %v", err)) // of an address that was asked before
			}
			again.Header = r.Header.Clone()
			return s.pass(again)
		},
	})
	s.addTools(front)
	return front
}

// requestKey is where the context of a message has its request, an *http.Request.
type requestKey struct{}

// pass lets a call in, or refuses it for its address.
func (s *server) pass(r *http.Request) *http.Response {
	wait := s.addresses.Take(r)
	if wait == 0 {
		return s.front().Answer(r)
	}
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"An address may send %d calls a second here, and this one has. Repeat it after the time in Retry-After."}}`, callsASecond)
	return &http.Response{
		StatusCode: http.StatusTooManyRequests,
		Header:     http.Header{"Content-Type": {"application/json"}, "Retry-After": {strconv.Itoa(int(math.Ceil(float64(wait) / float64(time.Second))))}},
		Body:       io.NopCloser(bytes.NewReader([]byte(text))), ContentLength: int64(len(text)),
	}
}

// answer answers one message.
func (s *server) answer(ctx context.Context, in *endpoint.Message) (*endpoint.Answer, error) {
	r := in.Request(ctx)
	return endpoint.AnswerOf(s.pass(r.WithContext(context.WithValue(ctx, requestKey{}, r)))) //nolint:bodyclose // AnswerOf closes it
}
