// Command attack does to a started product what those do who mean it no good:
// it writes bytes that no HTTP client would send, answers as no upstream
// should, and asks the management API for what a key does not allow. It prints
// a table of what was tried and what came of it, and fails if anything got through.
//
// The same requests go to nginx and to Go's httputil.ReverseProxy in front of
// the same upstream, set up as their users do for the same routes: the
// table of docs/security.md is made of that, by this package's test.
//
// It is not where a rule is tested to its end: that is in the package that holds the
// rule, over thousands of generated inputs. Here is one of each kind, against
// what a user starts, with everything that stands between two packages.
//
// Read cases.go for what is tried at the gateway, management.go and uploads.go for the
// API, memory.go for what fills the process's memory; then wire.go (the client), upstream.go, peers.go and product.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/gatewright/gatewright/internal/program"
)

func main() {
	binary := flag.String("binary", "", "the product's binary, as `go build ./local` makes it")
	flag.Parse()
	program.Main(context.Background(), "attack", func(ctx context.Context) error {
		results, err := attack(ctx, *binary, flood{connections: 900, http2: 6, streams: 100, fast: 64, hold: 45 * time.Second})
		if err != nil {
			return err
		}
		if through := report(os.Stdout, results); through > 0 {
			return fmt.Errorf("%d got through", through)
		}
		return nil
	})
}

// result is what came of one attack.
type result struct {
	class, name string
	got, want   string
}

func (r result) held() bool { return r.got == r.want }

// report prints the table and returns how many attacks got through.
func report(to io.Writer, results []result) int {
	through := 0
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\tclass\twhat is tried\twhat comes of it")
	for _, r := range results {
		mark := "held"
		if !r.held() {
			mark, through = "THROUGH", through+1
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", mark, r.class, r.name, r.got)
		if !r.held() {
			_, _ = fmt.Fprintf(table, "\t\t\twanted: %s\n", r.want)
		}
	}
	_ = table.Flush()
	_, _ = fmt.Fprintf(to, "%d attempts, %d got through\n", len(results), through)
	return through
}

// attack starts the product and tries everything.
func attack(ctx context.Context, binary string, f flood) ([]result, error) {
	u, err := listenUpstream(ctx)
	if err != nil {
		return nil, err
	}
	defer u.close()
	p, err := startProduct(ctx, binary, u)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	results, err := try(ctx, p.gateway(), cases(), u)
	if err != nil {
		return nil, err
	}
	managed, err := p.attackManagement(ctx)
	if err != nil {
		return nil, err
	}
	results = append(results, managed...)
	if runtime.GOOS != "linux" {
		return results, nil // elsewhere no process is measured, and this machine has one loopback address
	}
	held, err := p.attackMemory(ctx, f)
	return append(results, held...), err
}
