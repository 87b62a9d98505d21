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

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/management/endpoint"
	"github.com/gatewright/gatewright/shared/management/servercards"
)

// callsPerSecond is the maximum number of messages per second from one IP address. For comparison: a core computes the
// vectors of about 30 questions per second (docs/decisions/0046-a-small-sentence-transformer-in-plain-go.md).
const callsPerSecond = 10

// instructions describes the server to a model.
const instructions = "The documentation of Gatewright, an API management platform. Search it for passages, or ask a " +
	"question that is answered with their sentences and where they stand. " +
	"What the documentation does not say is answered as not covered: do not make it up."

// server handles messages to the MCP server.
type server struct {
	parts     installation.Parts
	addresses *api.AddressLimiter
	// loadLibrary returns the library. Its first call, for the first search or question, reads the index, the weights
	// and the vectors.
	loadLibrary func() (*library, error)
	mcpServer   func() *sharedmcp.Server
}

// library has the searcher for the search tool, and the answerer for the question tool. The answerer uses the searcher.
type library struct {
	searcher *docsearch.Searcher
	answerer docsearch.Answerer
}

// Bind returns the group's routes. They use no models over a network.
func Bind(p installation.Parts) []api.Route { return BindWith(p, docsearch.Models{}) }

// BindWith works like Bind, but searches and questions use the models. If a model fails, they continue without it. If
// models.Vectors is nil, the vectors are read from the file VectorsFile near the binary.
func BindWith(p installation.Parts, models docsearch.Models) []api.Route {
	p = Group.Restrict(p)
	if models.Vectors == nil {
		models.Vectors = fileNearBinary(VectorsFile, vectorsFolders)
	}
	s := &server{parts: p, addresses: api.NewAddressLimiter(callsPerSecond, p.Now)}
	s.loadLibrary = sync.OnceValues(func() (*library, error) {
		index, err := docsearch.DocumentationIndex()
		if err != nil {
			return nil, err // cannot happen: a test reads it
		}
		searcher := docsearch.New(index, weightsLoader(p.Config.DocsWeights)).UseModels(models, p.Now)
		if err := searcher.LoadWeights(); err != nil {
			p.Log.Error("the documentation is searched by words: its weights cannot be used",
				"file", minilm.FileName, "setting", config.VarDocsWeights, "error", err)
		}
		if err := searcher.LoadVectors(); err != nil {
			p.Log.Error("the documentation is searched without Bedrock: its vectors cannot be used", "error", err)
		}
		if models.Writer != nil {
			return &library{searcher, docsearch.NewGenerative(searcher, models.Writer, p.Config.DocsAnswersADay, p.Now)}, nil
		}
		return &library{searcher, docsearch.NewExtractive(searcher)}, nil
	})
	s.mcpServer = sync.OnceValue(s.newMCPServer)
	return []api.Route{
		postMessage.HandledBy(s.handle),
		noStream.HandledBy(endpoint.Refuse),
		noSession.HandledBy(endpoint.Refuse),
		preflight.HandledBy(endpoint.HandlePreflight),
	}
}

func (s *server) newMCPServer() *sharedmcp.Server {
	card := servercards.Docs()
	mcpServer := sharedmcp.New(sharedmcp.Setup{
		Name: card.Name, Version: card.Version, Instructions: instructions,
		ReportFailure: endpoint.LogFailure(s.parts.Log),
		// Each message of a batch counts for the rate limit.
		HandleBatched: func(ctx context.Context, message []byte) *http.Response {
			r, _ := ctx.Value(requestKey{}).(*http.Request) // from handle
			repeated, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL.String(), bytes.NewReader(message))
			if err != nil {
				panic(fmt.Sprintf("mcpdocs: ask again: %v", err)) // cannot happen: the address is that of a received request
			}
			repeated.Header = r.Header.Clone()
			return s.serveLimited(repeated)
		},
	})
	s.addTools(mcpServer)
	return mcpServer
}

// requestKey is the key under which a context contains the *http.Request of a message.
type requestKey struct{}

// serveLimited handles a message, or returns a response with status 429 if the client's address has sent too many
// messages in this second.
func (s *server) serveLimited(r *http.Request) *http.Response {
	wait := s.addresses.Reserve(r)
	if wait == 0 {
		return s.mcpServer().Handle(r)
	}
	text := fmt.Sprintf(
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,`+
			`"message":"An address may send %d calls a second here, and this one has. Repeat it after the time in `+
			`Retry-After."}}`, callsPerSecond)
	return &http.Response{
		StatusCode: http.StatusTooManyRequests,
		Header: http.Header{
			"Content-Type": {"application/json"},
			"Retry-After":  {strconv.Itoa(int(math.Ceil(float64(wait) / float64(time.Second))))},
		},
		Body: io.NopCloser(bytes.NewReader([]byte(text))), ContentLength: int64(len(text)),
	}
}

// handle handles one message.
func (s *server) handle(ctx context.Context, in *endpoint.Message) (*endpoint.Response, error) {
	r := in.Request(ctx)
	return endpoint.ReadResponse(s.serveLimited(r.WithContext(context.WithValue(ctx, requestKey{}, r)))) //nolint:bodyclose // ReadResponse closes it
}
