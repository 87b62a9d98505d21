package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
)

// The throughput of a tunnel, times that of two proxies: what it was to have, and what it has to.
// docs/decisions/0042-what-a-tunnel-costs.md says why they differ.
const (
	wantedThroughput = 0.8
	leastThroughput  = 0.4
)

// throughput compares the way through the gateway, the relay and the agent, two processes of
// ours, with that through two reverse proxies, two processes as well. Rounds of both alternate;
// the median of their ratios counts.
func (w *world) throughput(ctx context.Context, rounds int, table *bars.Table) error {
	second, err := load.Start(ctx, "the second proxy", "-proxy", strings.TrimPrefix(w.service.URL, "http://"))
	if err != nil {
		return err
	}
	defer second.Stop()
	first, err := load.Start(ctx, "the first proxy", "-proxy", second.Address)
	if err != nil {
		return err
	}
	defer first.Stop()
	for _, c := range []struct {
		name                  string
		head                  string
		body                  int
		answer                int64
		connections, requests int
		unit                  float64 // of a request, for people
		of                    string
	}{
		{"requests without a body, answers of 1 KB, 16 at once", "GET /small", 0, small, 16, 10_000, 1, "requests a second"},
		{"requests without a body, answers of 1 KB, 64 at once", "GET /small", 0, small, 64, 10_000, 1, "requests a second"},
		{"answers of 10 MB, 8 at once", "GET /large", 0, large, 8, 100, 10, "MB a second"},
		{"requests of 10 MB, 8 at once", "POST /take", large, small, 8, 100, 10, "MB a second"},
	} {
		var ratios []float64
		var rates [2][]float64
		for round := range rounds + 1 {
			var took [2]time.Duration
			for i, address := range []string{first.Address, w.gateway()} {
				began := time.Now()
				if err := load.Run(ctx, load.Options{
					Address: address, Request: request(c.head, w.site, c.body), Answer: c.answer, Connections: c.connections, Requests: c.requests,
				}); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				took[i] = time.Since(began)
			}
			if round == 0 {
				continue // connections are made in it
			}
			ratios = append(ratios, took[0].Seconds()/took[1].Seconds())
			for i := range took {
				rates[i] = append(rates[i], float64(c.requests)*c.unit/took[i].Seconds())
			}
		}
		ratio := load.Median(ratios)
		table.Add(c.name, fmt.Sprintf("%.1f times two proxies in a row, %.1f wanted", leastThroughput, wantedThroughput),
			fmt.Sprintf("%.2f times: %.0f %s, and %.0f", ratio, load.Median(rates[1]), c.of, load.Median(rates[0])), ratio >= leastThroughput)
	}
	return nil
}

// request is one as it goes over the wire.
func request(head, host string, body int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\n", head, host)
	if body > 0 {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", body)
	}
	b.WriteString("\r\n")
	b.Write(bytes.Repeat([]byte("x"), body))
	return b.Bytes()
}

// discard reads a request's body.
func discard(r *http.Request) (int64, error) { return io.Copy(io.Discard, r.Body) }
