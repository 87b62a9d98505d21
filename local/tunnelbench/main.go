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
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
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
	flag.StringVar(&o.agent, "agent", "", "the command's binary, as `go build ./cmd/gatewright` makes it")
	flag.IntVar(&o.rounds, "rounds", 7, "how often each way is measured")
	flag.UintVar(&o.agents, "agents", 10_000, "how many agents wait; 0 for not to look")
	role := flag.String("role", "", "proxy: what a child process does")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch *role {
	case "":
		err = run(ctx, o)
	case "proxy":
		err = load.Serve(ctx, &http.Server{Handler: load.ReverseProxy(flag.Arg(0)), ReadHeaderTimeout: time.Minute}, nil)
	default:
		err = fmt.Errorf("%s is no role", *role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tunnelbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "gatewright-tunnelbench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var table bars.Table
	if err := traffic(ctx, dir, o, &table); err != nil {
		return err
	}
	if o.agents > 0 {
		if err := crowd(ctx, dir, o, &table); err != nil {
			return err
		}
	}
	fmt.Print(&table)
	return table.Err()
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
