// Command surfacebench measures what the gateway's surfaces cost the product, as its users start it: a
// GraphQL route with all four policies against the same route without them, a call of an MCP server's tool against the plain
// request, and GraphQL requests that are made to be expensive and are refused.
//
// It counts the processor time of the product alone: client and upstream are this process. Rounds of what is compared
// alternate, so that a busy machine slows both; the median of the rounds' differences counts.
//
// `make bench` runs it. It fails when a figure is beyond its bar (issue 12, "Figures").
//
// Read main.go, then refused.go; world.go has the project that is deployed.
package main

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
)

// options are what is measured and how often.
type options struct {
	binary           string
	rounds, requests int
}

// How much more CPU a request may take than the one that it is compared with, in µs (issue 12, "Figures").
const (
	mostSeen = 60
	mostNew  = 150
	mostTool = 200
)

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the product's binary, as `go build ./local` makes it")
	flag.IntVar(&o.rounds, "rounds", 9, "how often each is measured")
	flag.IntVar(&o.requests, "requests", 4_000, "requests in a round")
	flag.Parse()
	bars.Main(context.Background(), "surfacebench", func(ctx context.Context, dir string, table *bars.Table) error {
		w, err := newWorld(ctx, dir, o.binary)
		if err != nil {
			return err
		}
		defer w.stop()
		if err := w.surfaces(ctx, o, table); err != nil {
			return err
		}
		return w.refusals(ctx, table)
	})
}

// kind is a kind of request.
type kind struct {
	name string
	load load.Options
	// over is the kind that it is compared with, by its index, and most how much more it may take, in µs: 0 for one
	// that others are compared with.
	over int
	most float64
}

// surfaces measures what is asked for again and again.
func (w *world) surfaces(ctx context.Context, o options, table *bars.Table) error {
	var number atomic.Int64
	numbered := func(l load.Options) load.Options {
		l.Number = &number
		return l
	}
	kinds := []kind{
		{name: "a GraphQL route without policies of its own", load: w.post("/plain", query(1))},
		{name: "with all four, a query of 1 KB seen before", load: w.post("/graphql", query(1)), most: mostSeen},
		{name: "with all four, another query of 1 KB each time", load: numbered(w.post("/graphql", query(1))), most: mostNew},
		{name: "a route", load: w.get("/todos/7")},
		{name: "the same route as a tool of an MCP server", load: w.post("/mcp", toolCall), over: 3, most: mostTool},
	}
	costs := make([][]float64, len(kinds))
	more := make([][]float64, len(kinds))
	for i := range kinds {
		if err := kinds[i].load.Learn(ctx); err != nil {
			return fmt.Errorf("%s: %w", kinds[i].name, err)
		}
		kinds[i].load.Connections, kinds[i].load.Requests = 16, o.requests
	}
	for round := range o.rounds + 1 {
		cost := make([]float64, len(kinds))
		for i, k := range kinds {
			var err error
			if cost[i], err = load.Cost(ctx, w, k.load); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
		}
		if round == 0 {
			continue // connections and caches are made in it
		}
		for i, k := range kinds {
			costs[i] = append(costs[i], cost[i])
			more[i] = append(more[i], cost[i]-cost[k.over])
		}
	}
	for i, k := range kinds {
		bar, figure, keeps := "", fmt.Sprintf("%.0f µs CPU", load.Median(costs[i])), true
		if k.most > 0 {
			bar = fmt.Sprintf("%.0f µs more", k.most)
			difference := load.Median(more[i])
			figure += fmt.Sprintf(", %.0f µs more", difference)
			keeps = difference <= k.most
		}
		table.Add(k.name, bar, figure, keeps)
	}
	return nil
}
