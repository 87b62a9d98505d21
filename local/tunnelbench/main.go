// Command tunnelbench measures requests that go through a tunnel: the product and
// `gatewright tunnel connect`, as their users start them, against two reverse proxies in a row;
// what both hold while large bodies wait; and what a relay holds for agents that have
// nothing to do.
//
// `make bench` runs it. It fails when a figure is beyond its bar (issue 11, "Figures").
//
// Read main.go, then throughput.go, bodies.go and crowd.go; world.go starts what they measure.
package main

import (
	"context"
	"flag"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/internal/program"
)

// options are what is measured and how often.
type options struct {
	binary, agent string
	rounds        int
	agents        uint
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the product's binary, as `go build ./local` makes it")
	flag.StringVar(&o.agent, "agent", "", "the client's binary, as `go build ./cmd/gatewright` makes it")
	flag.IntVar(&o.rounds, "rounds", 7, "how often each way is measured")
	flag.UintVar(&o.agents, "agents", 10_000, "how many agents wait; 0 for not to look")
	proxied := flag.String("proxy", "", "an address, host:port: be a proxy of it, as a child process is, and measure nothing")
	flag.Parse()
	if *proxied != "" {
		program.Main(context.Background(), "tunnelbench: the proxy", func(ctx context.Context) error {
			return load.Serve(ctx, &http.Server{Handler: load.ReverseProxy(*proxied), ReadHeaderTimeout: time.Minute}, nil)
		})
		return
	}
	bars.Main(context.Background(), "tunnelbench", func(ctx context.Context, dir string, table *bars.Table) error {
		if err := traffic(ctx, dir, o, table); err != nil || o.agents == 0 {
			return err
		}
		return crowd(ctx, dir, o, table)
	})
}

// traffic measures one tunnel that is used. Memory comes first: throughput leaves some behind.
func traffic(ctx context.Context, dir string, o options, table *bars.Table) error {
	w, err := newWorld(ctx, dir, o)
	if err != nil {
		return err
	}
	defer w.stop()
	if err := w.bodies(ctx, table); err != nil {
		return err
	}
	return w.throughput(ctx, o.rounds, table)
}
