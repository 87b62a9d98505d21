// Command processbench measures the product as processes that live long: what is lost when they are told to end, how
// soon one answers after its start, what clients cost that have nothing to ask; and one server, how much it holds, how
// fast it is, and whether a day of work leaves anything behind.
//
// The processes are the server's binary as its users start it, by TLS, with everything on: keys, a strict limit, lines of
// access, counts of analytics, metrics. `gatewright-server gateway` runs over emulators of DynamoDB and S3, with a management
// API of its own beside it; `gatewright-server serve` runs over its folder.
//
// `make bench` runs it. It fails when a figure is beyond its bar.
//
// Read main.go, then world.go for what is started; drain.go with balancer.go and clients.go, start.go and idle.go are
// the gateway's figures, server.go and day.go one server's. Linux alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/local/emulator/process"
)

// options are what is measured and how often.
type options struct {
	binary, agent, only string
	drains, long        int
	requests            int64
	starts              int
	idle                int
	keys                int
	dayKeys             int
	hours               int
}

// part is a kind of figure.
type part struct {
	name    string
	measure func(ctx context.Context, dir string, o options, table *bars.Table) error
}

func parts() []part {
	return []part{{"drain", drains}, {"start", starts}, {"idle", crowds}, {"server", capacity}, {"day", day}}
}

func main() {
	if process.Is(os.Args[1:]) {
		os.Exit(process.Main(context.Background(), os.Args[1:]))
	}
	var o options
	flag.StringVar(&o.binary, "binary", "", "the server's binary, as `go build ./cmd/gatewright-server` makes it")
	flag.StringVar(&o.agent, "agent", "", "the client's binary, as `go build ./cmd/gatewright` makes it, which connects the day's tunnel")
	flag.StringVar(&o.only, "only", "drain,start,idle,server,day", "what is measured, with commas between")
	flag.IntVar(&o.drains, "drains", 20, "how many SIGTERMs, and how many rolling replacements")
	flag.IntVar(&o.long, "long", 3, "how many SIGTERMs that are announced for as long as by default")
	flag.Int64Var(&o.requests, "requests", 10_000, "how many requests are asked at least while processes end")
	flag.IntVar(&o.starts, "starts", 25, "how many starts")
	flag.IntVar(&o.idle, "idle", 8_000, "how many clients have nothing to ask")
	flag.IntVar(&o.keys, "keys", 100_000, "how many consumers with a key one server is tried with")
	flag.IntVar(&o.dayKeys, "day-keys", 10_000, "how many consumers with a key there are in the day")
	flag.IntVar(&o.hours, "hours", 24, "how many hours the day has")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, parts()); err != nil {
		fmt.Fprintln(os.Stderr, "processbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, all []part) (err error) {
	dir, err := os.MkdirTemp("", "gatewright-processbench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var table bars.Table
	for name := range strings.SplitSeq(o.only, ",") {
		known := false
		for _, p := range all {
			if p.name != name {
				continue
			}
			known = true
			if err := p.measure(ctx, dir, o, &table); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if !known {
			return fmt.Errorf("%q is nothing that is measured", name)
		}
	}
	fmt.Print(&table)
	return table.Err()
}
