// Command mcpbench measures what the platform's own MCP servers cost the product, as its users start it: a tool's call against
// the same request by REST, and the search of the documentation, alone and behind sixteen clients.
//
// Processor time and memory are the product's alone. Rounds of what is compared alternate, so that a busy machine slows both;
// the median of the rounds' differences counts. Questions are those that the quality of the search is measured with, each a new one for the
// product by a number in it.
//
// `make bench` runs it. It fails when a figure is beyond its bar (issue 13, parts 9 and 11).
//
// Read main.go, then calls.go for /mcp and search.go for /mcp/docs.
package main

import (
	"context"
	"flag"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/local/instance"
)

// options are what is measured and how often.
type options struct {
	binary, questions                    string
	rounds, requests, searches, visitors int
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the product's binary, as `go build ./local` makes it")
	flag.StringVar(&o.questions, "questions", "shared/docsearch/testdata/answerable.txt", "the file of questions")
	flag.IntVar(&o.rounds, "rounds", 9, "how often calls are measured")
	flag.IntVar(&o.requests, "requests", 1_000, "calls in a round")
	flag.IntVar(&o.searches, "searches", 320, "searches of one client, and of sixteen at once")
	flag.IntVar(&o.visitors, "visitors", 20_000, "clients that come once")
	flag.Parse()
	bars.Main(context.Background(), "mcpbench", func(ctx context.Context, dir string, table *bars.Table) error { return run(ctx, o, dir, table) })
}

func run(ctx context.Context, o options, dir string, table *bars.Table) error {
	questions, err := readQuestions(o.questions)
	if err != nil {
		return err
	}
	product, err := instance.Start(ctx, dir, "", o.binary)
	if err != nil {
		return err
	}
	defer product.Stop()
	s := &searches{product: product, questions: questions}
	if err := s.measure(ctx, o, table); err != nil {
		return err
	}
	return calls(ctx, product, o, table)
}
