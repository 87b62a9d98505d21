package mcpdocs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/docsearch"
)

// The names of the tools.
const (
	searchTool = "search-gatewright-docs"
	askTool    = "ask-question-about-gatewright"
)

// repository is the base URL of the files that this installation does not serve as pages.
const repository = "https://github.com/gatewright/gatewright/blob/main/"

// defaultLimit is the maximum number of passages of a search if the caller sets no limit.
const defaultLimit = 5

// The schemas of arguments and results. A test compares the result types below with their schemas.
const (
	searchIn = `{"type":"object","properties":{` +
		`"query":{"type":"string","minLength":1,"maxLength":2048,` +
		`"description":"What is searched for: a question or some words, of at most 2 KB. About the first fifty words ` +
		`count."},` +
		`"limit":{"type":"integer","minimum":1,"maximum":20,"default":5,"description":"How many passages at most."}},` +
		`"required":["query"],"additionalProperties":false}`
	askIn = `{"type":"object","properties":{` +
		`"question":{"type":"string","minLength":1,"maxLength":2048,` +
		`"description":"A question about Gatewright, of at most 2 KB."}},"required":["question"],` +
		`"additionalProperties":false}`

	modeSchema = `"mode":{"type":"string","enum":["bedrock","semantic","lexical"],` +
		`"description":"How passages are ranked: bedrock by meaning, by a model of Amazon Bedrock; semantic by meaning, by ` +
		`a small model in this process; lexical by words in common."},` +
		`"note":{"type":"string",` +
		`"description":"What a better way was not used for, and what was left out of an answer, where there is something."}`
	locationSchema = `"title":{"type":"string"},"path":{"type":"string","description":"The file in the repository."},` +
		`"anchor":{"type":"string",` +
		`"description":"The section in it, or the id of an operation; empty at the top of a page."},"url":{"type":"string",` +
		`"description":"Where to read it."}`
	searchOut = `{"type":"object","properties":{` +
		modeSchema +
		`,"covered":{"type":"boolean",` +
		`"description":"false where all passages are so far from the query that the documentation probably says nothing ` +
		`about it."},` +
		`"passages":{"type":"array","items":{"type":"object","properties":{` +
		locationSchema +
		`,"score":{"type":"number","description":"How well it fits, comparable within one mode."},` +
		`"text":{"type":"string"}},` +
		`"required":["title","path","anchor","url","score","text"]}}},"required":["mode","covered","passages"]}`
	askOut = `{"type":"object","properties":{` +
		modeSchema +
		`,"answered":{"type":"boolean","description":"false where the documentation does not cover the question."},` +
		`"answer":{"type":"string"},"by":{"type":"string",` +
		`"description":"Who answers: extractive quotes the documentation word for word; bedrock is a model of Amazon ` +
		`Bedrock in its own words, each sentence with the numbers of its citations, which were checked to stand in the ` +
		`documentation."},` +
		`"citations":{"type":"array","description":"The first has the number 1.","items":{"type":"object","properties":{` +
		locationSchema + `,"text":{"type":"string","description":"What stands there, word for word."}},` +
		`"required":["title","path","anchor","url","text"]}}},"required":["mode","answered","answer","by","citations"]}`
)

// location is the place of a passage in the documentation.
type location struct {
	Title  string `json:"title"`
	Path   string `json:"path"`
	Anchor string `json:"anchor"`
	URL    string `json:"url"`
}

// searchResult is the result of a search, and questionResult the result of a question.
type (
	searchResult struct {
		Mode     docsearch.Mode `json:"mode"`
		Note     string         `json:"note,omitempty"`
		Covered  bool           `json:"covered"`
		Passages []passage      `json:"passages"`
	}
	passage struct {
		location
		Score float64 `json:"score"`
		Text  string  `json:"text"`
	}
	questionResult struct {
		Mode      docsearch.Mode `json:"mode"`
		Note      string         `json:"note,omitempty"`
		Answered  bool           `json:"answered"`
		Answer    string         `json:"answer"`
		By        string         `json:"by"`
		Citations []citation     `json:"citations"`
	}
	citation struct {
		location
		Text string `json:"text"`
	}
)

func (s *server) addTools(mcpServer *sharedmcp.Server) {
	no := false
	hints := func(title string) *mcp.ToolAnnotations {
		return &mcp.ToolAnnotations{
			Title: title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no,
			OpenWorldHint: &no,
		}
	}
	mcpServer.AddTool(&mcp.Tool{
		Name: searchTool, Title: "Search the documentation", Annotations: hints("Search the documentation"),
		Description: "Finds the passages of Gatewright's documentation that fit a query best: guides, the reference of the " +
			"API's operations, and what each problem means.",
		InputSchema: json.RawMessage(searchIn), OutputSchema: json.RawMessage(searchOut),
	}, handler(searchIn, func(ctx context.Context, in struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	},
	) (any, error) {
		if in.Limit == 0 {
			in.Limit = defaultLimit
		}
		return s.search(ctx, in.Query, in.Limit)
	}))
	mcpServer.AddTool(&mcp.Tool{
		Name: askTool, Title: "Ask a question about Gatewright", Annotations: hints("Ask a question about Gatewright"),
		Description: "Answers a question about Gatewright by its documentation, with citations. It says so where the " +
			"documentation does not cover the question.",
		InputSchema: json.RawMessage(askIn), OutputSchema: json.RawMessage(askOut),
	}, handler(askIn, func(ctx context.Context, in struct {
		Question string `json:"question"`
	},
	) (any, error) {
		return s.answerQuestion(ctx, in.Question)
	}))
}

// handler returns the handler of a tool. The handler checks the arguments against inputSchema, calls f with them, and
// returns the result of f as the result of the call.
func handler[In any](inputSchema string, f func(context.Context, In) (any, error)) mcp.ToolHandler {
	schema := sync.OnceValues(func() (*sharedmcp.Schema, error) {
		return sharedmcp.CompileSchema(json.RawMessage(inputSchema))
	})
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		compiled, err := schema()
		if err != nil {
			return nil, err // cannot happen: a test compiles it
		}
		var arguments In
		if err := compiled.Read(ctx, req.Params.Arguments, &arguments); err != nil {
			return sharedmcp.RefuseInvalid(err)
		}
		result, err := f(ctx, arguments)
		switch {
		case errors.Is(err, docsearch.ErrQuery):
			return sharedmcp.Refusal("A question has 1 to 2,048 bytes, of which one at least is no space. Ask in fewer words."),
				nil
		case err != nil:
			return nil, err
		}
		text, err := json.Marshal(result)
		if err != nil {
			return nil, fmt.Errorf("write a result: %w", err)
		}
		return &mcp.CallToolResult{
			Content:           []mcp.Content{&mcp.TextContent{Text: string(text)}},
			StructuredContent: json.RawMessage(text),
		}, nil
	}
}

// search returns the best passages for a query. For an invalid query, it returns docsearch.ErrQuery.
func (s *server) search(ctx context.Context, query string, limit int) (*searchResult, error) {
	l, err := s.loadLibrary()
	if err != nil {
		return nil, err
	}
	results, err := l.searcher.Search(ctx, query, limit)
	if err != nil {
		return nil, err
	}
	s.logModelFailure(ctx, "embeddings", results.RemoteError)
	out := &searchResult{
		Mode: results.Mode, Note: searchNote(results.Mode, results.Busy, results.RemoteError),
		Covered: results.Covered, Passages: []passage{},
	}
	for _, r := range results.Results {
		out.Passages = append(out.Passages, passage{s.locate(ctx, r.Title, r.Path, r.Anchor), r.Score, r.Text})
	}
	return out, nil
}

// notCovered is the answer to a question that the documentation does not cover.
const notCovered = "The documentation does not cover this question. The citations are the sections that are " +
	"nearest to it."

// maxNearest is the maximum number of sections that an answer cites if the documentation does not cover the question.
const maxNearest = 3

// answerQuestion returns the result of a question. For an invalid question, it returns docsearch.ErrQuery.
func (s *server) answerQuestion(ctx context.Context, question string) (*questionResult, error) {
	l, err := s.loadLibrary()
	if err != nil {
		return nil, err
	}
	answer, err := l.answerer.Answer(ctx, question)
	if err != nil {
		return nil, err
	}
	s.logAnswer(ctx, answer)
	out := &questionResult{
		Mode: answer.Mode, Note: answerNote(answer), Answered: answer.Covered, By: answer.Kind,
		Citations: []citation{},
	}
	if !answer.Covered {
		out.Answer = notCovered
		for _, r := range answer.Nearest[:min(maxNearest, len(answer.Nearest))] {
			text, _, _ := strings.Cut(r.Text, "\n")
			out.Citations = append(out.Citations, citation{s.locate(ctx, r.Title, r.Path, r.Anchor), text})
		}
		return out, nil
	}
	var quotes []string
	for _, q := range answer.Quotes {
		quotes = append(quotes, q.Text)
		out.Citations = append(out.Citations, citation{s.locate(ctx, q.Title, q.Path, q.Anchor), q.Text})
	}
	if out.Answer = strings.Join(quotes, "\n"); len(answer.Sentences) > 0 {
		out.Answer = withCitationNumbers(answer.Sentences)
	}
	return out, nil
}

// locate returns the location of a passage. Its URL is that of a page of this installation if there is one, and
// otherwise that of the file in the repository.
func (s *server) locate(ctx context.Context, title, file, anchor string) location {
	p := location{Title: title, Path: file, Anchor: anchor, URL: repository + file}
	base := s.parts.Config.APIURL
	if base == "" {
		base = strings.TrimSuffix(strings.TrimSuffix(api.RequestURL(sharedmcp.RequestContext(ctx)), "/"), Path)
	}
	switch name, isPage := strings.CutSuffix(file, ".md"); {
	case isPage && path.Dir(name) == "docs" && path.Base(name) == "README":
		p.URL = base + "/docs"
	case isPage && path.Dir(name) == "docs":
		p.URL = base + "/docs/" + path.Base(name)
	case strings.HasSuffix(file, "openapi.json"):
		p.URL = base + "/docs/reference"
	}
	if anchor != "" {
		p.URL += "#" + anchor
	}
	return p
}
