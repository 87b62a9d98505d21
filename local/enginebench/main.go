// Command enginebench measures the engine that a local installation has in its own
// process beside dynoxide, the DynamoDB emulator that it had before: commits a
// second and the check of a key that a gateway has not seen, over the same package
// store, in turns; and the product over the engine: how long a start takes, and
// what it uses while nobody asks for anything.
//
// What it is not: a load test. Buckets of 100,000 and of a million consumers are
// local/largebucket's, kills local/crash's. It fails when a figure is beyond its bar.
//
// Read main.go, then compare.go and product.go. `make bench` runs it.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
)

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the product's binary, as `go build ./local` makes it")
	flag.DurationVar(&o.turn, "turn", 2*time.Second, "how long each turn of commits takes")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long an idle product is watched")
	flag.IntVar(&o.starts, "starts", 11, "how often it is started")
	flag.Parse()
	bars.Main(context.Background(), "enginebench", func(ctx context.Context, dir string, table *bars.Table) error {
		if err := compare(ctx, o, dir, table); err != nil {
			return err
		}
		return measure(ctx, o, dir, table)
	})
}

type options struct {
	binary     string
	turn, idle time.Duration
	starts     int
}
