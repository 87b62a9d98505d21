// Command attack attacks a running product: it writes bytes that no HTTP client would send, responds as no upstream should, and sends
// requests to the management API that a key does not permit. It prints a table of the attacks and their results, and fails if any attack
// succeeded.
//
// A test of the package sends the same requests to nginx and to Go's httputil.ReverseProxy too. They are in front of
// the same upstream, with the same routes, as their users configure them. The test writes the table of docs/security.md
// from the results.
//
// It does not test a rule completely: the package with the rule does that, with thousands of generated inputs. This
// command makes one attack of each kind on the complete product, as a user starts it.
//
// Read cases.go for the attacks on the gateway, management.go and uploads.go for those on the API, and memory.go for those that fill the
// process's memory; then wire.go (the client), upstream.go, peers.go and product.go.
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

	"github.com/gatewright/gatewright/internal/devmain"
)

func main() {
	binary := flag.String("binary", "", "the product's binary, as `go build ./local` creates it")
	flag.Parse()
	devmain.Main(context.Background(), "attack", func(ctx context.Context) error {
		results, err := attack(ctx, *binary, flood{
			connections: 900, http2: 6, streams: 100, fast: 64,
			duration: 45 * time.Second,
		})
		if err != nil {
			return err
		}
		if succeeded := report(os.Stdout, results); succeeded > 0 {
			return fmt.Errorf("%d attacks succeeded", succeeded)
		}
		return nil
	})
}

// result is the result of one attack. If got equals want, the product has blocked the attack. For the few requests that
// are no attack and must succeed, want describes the success.
type result struct {
	class, name string
	got, want   string
}

func (r result) blocked() bool { return r.got == r.want }

// report prints the table, and returns the number of attacks that succeeded.
func report(to io.Writer, results []result) int {
	succeeded := 0
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\tclass\tattack\tresult")
	for _, r := range results {
		mark := "held"
		if !r.blocked() {
			mark, succeeded = "THROUGH", succeeded+1
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", mark, r.class, r.name, r.got)
		if !r.blocked() {
			_, _ = fmt.Fprintf(table, "\t\t\twanted: %s\n", r.want)
		}
	}
	_ = table.Flush()
	_, _ = fmt.Fprintf(to, "%d attempts, %d got through\n", len(results), succeeded)
	return succeeded
}

// attack starts the product and makes all attacks. The attacks on memory are made only on Linux.
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
	managementResults, err := p.attackManagement(ctx)
	if err != nil {
		return nil, err
	}
	results = append(results, managementResults...)
	if runtime.GOOS != "linux" {
		return results, nil // other systems have no /proc to measure a process, and only one loopback address
	}
	memoryResults, err := p.attackMemory(ctx, f)
	return append(results, memoryResults...), err
}
