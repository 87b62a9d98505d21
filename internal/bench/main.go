// Command bench compares what a request costs the gateway with what it costs a
// bare httputil.ReverseProxy: the same upstream, the same client, the same run.
//
// It is a program and no benchmark of package testing, because that counts the
// client's and the upstream's work too: here each proxy is a process of its own
// and says how much CPU it has used (getrusage). Rounds of both alternate, so
// that a busy machine slows both; the median of the rounds' ratios counts.
//
// Read this file first; proxies.go has the two proxies, crowd.go
// what 11,000 connections cost that wait, quota.go what counting costs. With -protocols it compares both by TLS, by HTTP/1.1
// and HTTP/2, which is in protocols.go. With -binary it compares the
// product as its users start it instead, which is in everything.go, with the programs of others in others.go and
// what each part costs in ladder.go; with -shares it says where the time goes, which is in shares.go.
// `make bench` runs it; it fails when the gateway costs more than -limit times
// the ReverseProxy (issue 3, "Figures"), or more than -quota times itself where it counts
// what callers have bought.
package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/internal/program"
)

func main() { program.Main(context.Background(), "bench", run) }

func run(ctx context.Context) error {
	limit := flag.Float64("limit", 1.25, "the most that the gateway may cost, times the ReverseProxy")
	quotaLimit := flag.Float64("quota", 1.1, "the most that a gateway with a quota may cost, times one with a key check alone")
	memory := flag.Int("memory", 150, "the most MB that the gateway may have with 10,000 idle and 1,000 stalled connections")
	rounds := flag.Int("rounds", 7, "how often both are measured")
	requests := flag.Int("requests", 20_000, "requests in a round")
	connections := flag.String("connections", "16,64", "connections of the client at once")
	binary := flag.String("binary", "", "the product's binary, as `go build ./local` makes it: measure it with everything on, or several, with commas between them")
	byProtocol := flag.Bool("protocols", false, "compare both by TLS, by HTTP/1.1 and by HTTP/2")
	seconds := flag.Int("seconds", 1, "how long each is asked in a round, with -binary")
	only := flag.String("only", "", "of what is asked with -binary, those alone beside the ReverseProxy whose names have this")
	divided := flag.Bool("shares", false, "say where a request's processor time goes, by a profile of ten times -requests: instead, or behind what -binary measures")
	role := flag.String("role", "", "upstream, reverse, gateway, quota or a rung of the ladder: what a child process does")
	profile := flag.String("cpuprofile", "", "where the gateway's process writes a CPU profile")
	flag.Parse()
	if *role != "" {
		return serve(ctx, *role, flag.Arg(0), *profile)
	}
	if *byProtocol {
		return protocols(ctx, *requests, *rounds, *limit, *profile)
	}
	if *binary != "" {
		err := program.InFolder("bench", func(dir string) error {
			return everything(ctx, dir, *binary, *only, strings.Split(*connections, ","), *rounds, *seconds)
		})
		if err != nil || !*divided {
			return err
		}
	}
	if *divided {
		return shares(ctx, 16, 10**requests)
	}

	upstream, err := start(ctx, "upstream", "", "")
	if err != nil {
		return err
	}
	defer upstream.Stop()
	proxies := map[string]*load.Child{}
	for _, name := range []string{"reverse", "gateway", "quota"} {
		path := ""
		if name == "gateway" {
			path = *profile
		}
		if proxies[name], err = start(ctx, name, upstream.Address, path); err != nil {
			return err
		}
		defer proxies[name].Stop()
	}

	fmt.Println("| connections | ReverseProxy, µs CPU | gateway, µs CPU | ratio |")
	fmt.Println("|---|---|---|---|")
	worst := 0.0
	var all []int
	for text := range strings.SplitSeq(*connections, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("read -connections: %w", err)
		}
		costs, ratio, err := compare(ctx, proxies["reverse"], proxies["gateway"], n, *requests, *rounds)
		if err != nil {
			return err
		}
		fmt.Printf("| %d | %.1f | %.1f | %.2f |\n", n, costs[0], costs[1], ratio)
		all = append(all, n)
		worst = max(worst, ratio)
	}
	counting, err := count(ctx, proxies["gateway"], proxies["quota"], all, *requests, *rounds)
	if err != nil {
		return err
	}
	var beyond bars.Beyond
	if err := crowd(ctx, proxies["gateway"], *memory, &beyond); err != nil {
		return err
	}
	if worst > *limit {
		beyond.Add("the gateway costs %.2f times the ReverseProxy, the limit is %.2f", worst, *limit)
	}
	if counting > *quotaLimit {
		beyond.Add("a quota costs %.2f times a key check alone, the limit is %.2f", counting, *quotaLimit)
	}
	return beyond.Err()
}

// compare measures both in turn, and gives the median cost of a request of each and that of
// the rounds' ratios.
func compare(ctx context.Context, one, other *load.Child, connections, requests, rounds int) (medians [2]float64, ratio float64, err error) {
	var costs [2][]float64
	var ratios []float64
	for round := range rounds + 1 {
		var cost [2]float64
		for i, proxy := range []*load.Child{one, other} {
			before, err := proxy.Usage()
			if err != nil {
				return medians, 0, err
			}
			if err := load.Run(ctx, get(proxy.Address, connections, requests)); err != nil {
				return medians, 0, fmt.Errorf("load %s: %w", proxy.Role(), err)
			}
			after, err := proxy.Usage()
			if err != nil {
				return medians, 0, err
			}
			cost[i] = (after - before).Seconds() * 1e6 / float64(requests)
		}
		if round == 0 {
			continue // connections and caches are made in it
		}
		for i := range cost {
			costs[i] = append(costs[i], cost[i])
		}
		ratios = append(ratios, cost[1]/cost[0])
	}
	return [2]float64{load.Median(costs[0]), load.Median(costs[1])}, load.Median(ratios), nil
}

// start starts a child in a role.
func start(ctx context.Context, role, upstream, profile string) (*load.Child, error) {
	return load.Start(ctx, role, "-role", role, "-cpuprofile", profile, upstream)
}

// get is the request that every round sends, so often.
func get(address string, connections, requests int) load.Options {
	return load.Options{
		Address: address, Connections: connections, Requests: requests, Answer: answerBytes,
		Request: []byte("GET " + target + " HTTP/1.1\r\nHost: bench.test\r\nAuthorization: Bearer " + key + "\r\n" +
			"User-Agent: bench\r\nAccept: application/json\r\nAccept-Language: en\r\nX-Client: 1\r\n\r\n"),
	}
}
