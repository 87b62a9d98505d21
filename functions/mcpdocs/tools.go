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

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/docsearch"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
)

// The tools.
const (
	searchTool = "search-gatewright-docs"
	askTool    = "ask-question-about-gatewright"
)

// Where what the pages of this installation do not have is read.
const repository = "https://github.com/gatewright/gatewright/blob/main/"

// defaultLimit is how many passages a search gives unless it is told.
const defaultLimit = 5

// Schemas of what comes in and goes out. A test holds the types below against those of results.
const (
	searchIn = `{"type":"object","properties":{` +
		`"query":{"type":"string","minLength":1,"maxLength":2048,"description":"What is searched for: a question or some words, of at most 2 KB. About the first fifty words count."},` +
		`"limit":{"type":"integer","minimum":1,"maximum":20,"default":5,"description":"How many passages at most."}},"required":["query"],"additionalProperties":false}`
	askIn = `{"type":"object","properties":{` +
		`"question":{"type":"string","minLength":1,"maxLength":2048,"description":"A question about Gatewright, of at most 2 KB."}},"required":["question"],"additionalProperties":false}`

	modeSchema = `"mode":{"type":"string","enum":["bedrock","semantic","lexical"],"description":"How passages are ranked: bedrock by meaning, by a model of Amazon Bedrock; semantic by meaning, by a small model in this process; lexical by words in common."},` +
		`"note":{"type":"string","description":"What a better way was not used for, and what was left out of an answer, where there is something."}`
	placeSchema = `"title":{"type":"string"},"path":{"type":"string","description":"The file in the repository."},` +
		`"anchor":{"type":"string","description":"The section in it, or the id of an operation; empty at the top of a page."},"url":{"type":"string","description":"Where to read it."}`
	searchOut = `{"type":"object","properties":{` + modeSchema + `,"covered":{"type":"boolean","description":"false where all passages are so far from the query that the documentation probably says nothing about it."},` +
		`"passages":{"type":"array","items":{"type":"object","properties":{` + placeSchema + `,"score":{"type":"number","description":"How well it fits, comparable within one mode."},"text":{"type":"string"}},` +
		`"required":["title","path","anchor","url","score","text"]}}},"required":["mode","covered","passages"]}`
	askOut = `{"type":"object","properties":{` + modeSchema + `,"answered":{"type":"boolean","description":"false where the documentation does not cover the question."},` +
		`"answer":{"type":"string"},"by":{"type":"string","description":"Who answers: extractive quotes the documentation word for word; bedrock is a model of Amazon Bedrock in its own words, each sentence with the numbers of its citations, which were checked to stand in the documentation."},` +
		`"citations":{"type":"array","description":"The first has the number 1.","items":{"type":"object","properties":{` + placeSchema + `,"text":{"type":"string","description":"What stands there, word for word."}},` +
		`"required":["title","path","anchor","url","text"]}}},"required":["mode","answered","answer","by","citations"]}`
)

// place is where something stands.
type place struct {
	Title  string `json:"title"`
	Path   string `json:"path"`
	Anchor string `json:"anchor"`
	URL    string `json:"url"`
}

// searched is the result of a search, and replied that of a question.
type (
	searched struct {
		Mode     docsearch.Mode `json:"mode"`
		Note     string         `json:"note,omitempty"`
		Covered  bool           `json:"covered"`
		Passages []passage      `json:"passages"`
	}
	passage struct {
		place
		Score float64 `json:"score"`
		Text  string  `json:"text"`
	}
	replied struct {
		Mode      docsearch.Mode `json:"mode"`
		Note      string         `json:"note,omitempty"`
		Answered  bool           `json:"answered"`
		Answer    string         `json:"answer"`
		By        string         `json:"by"`
		Citations []citation     `json:"citations"`
	}
	citation struct {
		place
		Text string `json:"text"`
	}
)

func (s *server) addTools(front *sharedmcp.Server) {
	no := false
	hints := func(title string) *mcp.ToolAnnotations {
		return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no}
	}
	front.AddTool(&mcp.Tool{
		Name: searchTool, Title: "Search the documentation", Annotations: hints("Search the documentation"),
		Description: "Finds the passages of Gatewright's documentation that fit a query best: guides, the reference of the API's operations, and what each problem means.",
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
	front.AddTool(&mcp.Tool{
		Name: askTool, Title: "Ask a question about Gatewright", Annotations: hints("Ask a question about Gatewright"),
		Description: "Answers a question about Gatewright by its documentation, with citations. It says so where the documentation does not cover the question.",
		InputSchema: json.RawMessage(askIn), OutputSchema: json.RawMessage(askOut),
	}, handler(askIn, func(ctx context.Context, in struct {
		Question string `json:"question"`
	},
	) (any, error) {
		return s.reply(ctx, in.Question)
	}))
}

// handler checks arguments by their schema, and makes a result of what f gives.
func handler[In any](in string, f func(context.Context, In) (any, error)) mcp.ToolHandler {
	schema := sync.OnceValues(func() (*sharedmcp.Schema, error) { return sharedmcp.CompileSchema(json.RawMessage(in)) })
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		compiled, err := schema()
		if err != nil {
			return nil, err // a test has compiled it
		}
		var arguments In
		if err := compiled.Read(ctx, req.Params.Arguments, &arguments); err != nil {
			return sharedmcp.RefuseInvalid(err)
		}
		result, err := f(ctx, arguments)
		switch {
		case errors.Is(err, docsearch.ErrQuery):
			return sharedmcp.Refusal("A question has 1 to 2,048 bytes, of which one at least is no space. Ask in fewer words."), nil
		case err != nil:
			return nil, err
		}
		text, err := json.Marshal(result)
		if err != nil {
			return nil, fmt.Errorf("write a result: %w", err)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}, StructuredContent: json.RawMessage(text)}, nil
	}
}

// search gives the passages that fit a query best. Fault: docsearch.ErrQuery.
func (s *server) search(ctx context.Context, query string, limit int) (*searched, error) {
	l, err := s.found()
	if err != nil {
		return nil, err
	}
	found, err := l.searcher.Search(ctx, query, limit)
	if err != nil {
		return nil, err
	}
	s.tellFailure(ctx, "embeddings", found.Failed)
	out := &searched{Mode: found.Mode, Note: note(found.Mode, found.Busy, found.Failed), Covered: found.Covered, Passages: []passage{}}
	for _, r := range found.Results {
		out.Passages = append(out.Passages, passage{s.place(ctx, r.Title, r.Path, r.Anchor), r.Score, r.Text})
	}
	return out, nil
}

// notCovered is the answer to what the documentation does not cover.
const notCovered = "The documentation does not cover this question. The citations are the sections that are nearest to it."

// nearest is how many sections are named where a question is not covered.
const nearest = 3

// reply answers a question. Fault: docsearch.ErrQuery.
func (s *server) reply(ctx context.Context, question string) (*replied, error) {
	l, err := s.found()
	if err != nil {
		return nil, err
	}
	answer, err := l.answerer.Answer(ctx, question)
	if err != nil {
		return nil, err
	}
	s.tell(ctx, answer)
	out := &replied{Mode: answer.Mode, Note: noteOf(answer), Answered: answer.Covered, By: answer.By, Citations: []citation{}}
	if !answer.Covered {
		out.Answer = notCovered
		for _, r := range answer.Near[:min(nearest, len(answer.Near))] {
			text, _, _ := strings.Cut(r.Text, "\n")
			out.Citations = append(out.Citations, citation{s.place(ctx, r.Title, r.Path, r.Anchor), text})
		}
		return out, nil
	}
	var quotes []string
	for _, q := range answer.Quotes {
		quotes = append(quotes, q.Text)
		out.Citations = append(out.Citations, citation{s.place(ctx, q.Title, q.Path, q.Anchor), q.Text})
	}
	if out.Answer = strings.Join(quotes, "\n"); len(answer.Sentences) > 0 {
		out.Answer = numbered(answer.Sentences)
	}
	return out, nil
}

// place says where a passage is read: in the pages of this installation, where it has them.
func (s *server) place(ctx context.Context, title, file, anchor string) place {
	p := place{Title: title, Path: file, Anchor: anchor, URL: repository + file}
	base := s.parts.Config.APIURL
	if base == "" {
		base = strings.TrimSuffix(strings.TrimSuffix(api.Address(sharedmcp.RequestContext(ctx)), "/"), Path)
	}
	switch name, page := strings.CutSuffix(file, ".md"); {
	case page && path.Dir(name) == "docs" && path.Base(name) == "README":
		p.URL = base + "/docs"
	case page && path.Dir(name) == "docs":
		p.URL = base + "/docs/" + path.Base(name)
	case strings.HasSuffix(file, "openapi.json"):
		p.URL = base + "/docs/reference"
	}
	if anchor != "" {
		p.URL += "#" + anchor
	}
	return p
}
