package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/local/instance"
)

// limit is how many requests the strict limit of the routes lets through in a minute: more than are asked.
const limit = 1_000_000_000

// asked is what is measured: a process, where it is, and as whom it is asked for what host.
type asked struct {
	name               string
	process            load.Process
	address, host, key string

	spent      []float64 // processor time of a request in each round, in µs
	ratio      []float64 // that, times the ReverseProxy's of the same round
	half, tail []time.Duration
}

// processor is a child of this program.
type processor struct{ *load.Child }

// Processor implements load.Process.
func (p processor) Processor() (time.Duration, error) { return p.Usage() }

// everything compares the product as its users start it, with a key, a strict limit, access lines and counts, with a bare
// ReverseProxy and nginx; and gateways with a part of that each. All are asked in turn by wrk, round after round. binary may be several with commas between them: then each is measured.
func everything(ctx context.Context, dir, binary, only string, connections []string, rounds, seconds int) error {
	upstream, err := start(ctx, "upstream", "", "")
	if err != nil {
		return err
	}
	defer upstream.Stop()
	var all []*asked
	var children []*load.Child
	add := func(name, role string) error {
		c, err := start(ctx, role, upstream.Address, "")
		if err == nil {
			children = append(children, c)
			all = append(all, &asked{name: name, process: processor{c}, address: c.Address, host: "bench.test", key: key})
		}
		return err
	}
	defer func() {
		for _, c := range children {
			c.Stop()
		}
	}()
	if err := add("ReverseProxy, tuned", "reverse"); err != nil {
		return err
	}
	n, err := startNginx(ctx, dir, upstream.Address)
	if err != nil {
		return err
	}
	defer n.stop()
	all = append(all, &asked{name: "nginx, without a log", process: n, address: n.address, host: "bench.test", key: key})
	for _, rung := range rungs {
		name := rung
		if rung == rungBare {
			name = "the gateway: " + rung
		}
		if err := add(name, rung); err != nil {
			return err
		}
	}
	for _, b := range strings.Split(binary, ",") {
		product, i, err := deployed(ctx, filepath.Join(dir, strconv.Itoa(len(all))), b, upstream.Address)
		if err != nil {
			return err
		}
		defer i.Stop()
		if b != binary {
			product.name += ": " + filepath.Base(b)
		}
		all = append(all, product)
	}
	all = slices.DeleteFunc(all, func(a *asked) bool { return a != all[0] && !strings.Contains(a.name, only) })
	fmt.Println("| connections | what | µs CPU | times ReverseProxy | p50, ms | p99, ms |\n|---|---|---|---|---|---|")
	for _, c := range connections {
		if err := askAll(ctx, all, c, rounds, seconds); err != nil {
			return err
		}
		for _, a := range all {
			fmt.Printf("| %s | %s | %.1f | %.2f | %.2f | %.2f |\n", c, a.name, load.Median(a.spent), load.Median(a.ratio),
				load.Median(a.half).Seconds()*1e3, load.Median(a.tail).Seconds()*1e3)
		}
	}
	return nil
}

// askAll measures all in turn, the first of which the others are compared with.
func askAll(ctx context.Context, all []*asked, connections string, rounds, seconds int) error {
	for _, a := range all {
		a.spent, a.ratio, a.half, a.tail = nil, nil, nil, nil
	}
	for round := range rounds + 1 {
		for _, a := range all {
			before, err := a.process.Processor()
			if err != nil {
				return err
			}
			w, err := wrk(ctx, a.address, a.host, a.key, connections, seconds)
			if err != nil {
				return fmt.Errorf("ask %s: %w", a.name, err)
			}
			after, err := a.process.Processor()
			if err != nil {
				return err
			}
			if round == 0 {
				continue // connections and caches are made in it
			}
			a.spent = append(a.spent, (after-before).Seconds()*1e6/float64(w.requests))
			a.ratio = append(a.ratio, a.spent[round-1]/all[0].spent[round-1])
			a.half, a.tail = append(a.half, w.p50), append(a.tail, w.p99)
		}
	}
	return nil
}

// deployed starts the product with a project that asks for a key and counts against a strict limit, and a consumer of it.
func deployed(ctx context.Context, dir, binary, upstream string) (_ *asked, _ *instance.Instance, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make a folder: %w", err)
	}
	i, err := instance.Start(ctx, dir, "", binary)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			i.Stop()
		}
	}()
	if err := i.Into(ctx, nil, http.MethodPost, "/v1/projects?accountName=demo", `{"name":"bench"}`); err != nil {
		return nil, nil, err
	}
	b, err := i.Deploy(ctx, "demo", "bench", instance.Archive(files(upstream)))
	if err != nil {
		return nil, nil, err
	}
	at, err := url.Parse(b.URL)
	if err != nil || b.Status != "SUCCESS" {
		return nil, nil, fmt.Errorf("the project is not built: %s %s, %w", b.Status, b.BuildResult, err)
	}
	var made struct{ APIKeys []struct{ Key string } }
	err = i.Into(ctx, &made, http.MethodPost, "/v1/accounts/demo/key-buckets/bench-production/consumers?with-api-key=true", `{"name":"bench"}`)
	if err != nil {
		return nil, nil, err
	}
	if len(made.APIKeys) == 0 {
		return nil, nil, errors.New("the consumer has no key")
	}
	return &asked{
		name: "the product, everything on", process: i, address: strings.TrimPrefix(i.Gateway, "http://"), host: at.Host, key: made.APIKeys[0].Key,
	}, i, nil
}

// files are the project.
func files(upstream string) map[string]string {
	type object = map[string]any
	const module = "$import(@gatewright/runtime)"
	policy := func(name, kind string, options object) object {
		return object{"name": name, "policyType": kind, "handler": object{"export": "Policy", "module": module, "options": options}}
	}
	text := func(o object) string {
		raw, err := json.Marshal(o)
		if err != nil {
			panic(err) // maps of strings always encode
		}
		return string(raw)
	}
	parameter := func(name string) object {
		return object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}}
	}
	return map[string]string{
		"gatewright.jsonc": `{"version":1,"compatibilityDate":"2026-11-01","projectType":"self-hosted"}`,
		"config/routes.oas.json": text(object{
			"openapi": "3.1.0", "info": object{"title": "bench", "version": "1"},
			"paths": object{"/repos/{owner}/{repo}/issues/{number}": object{"get": object{
				"operationId": "readIssue", "responses": object{"200": object{"description": "ok"}},
				"parameters": []object{parameter("owner"), parameter("repo"), parameter("number")},
				"x-gateway-route": object{
					"corsPolicy": "none", "handler": object{"export": "urlForwardHandler", "module": module, "options": object{"baseUrl": "http://" + upstream}},
					"policies": object{"inbound": []string{"key", "limit"}},
				},
			}}},
		}),
		"config/policies.json": text(object{"policies": []object{
			policy("key", "api-key-inbound", object{}),
			policy("limit", "rate-limit-inbound", object{"rateLimitBy": "user", "requestsAllowed": limit, "timeWindowMinutes": 1}),
		}}),
	}
}
