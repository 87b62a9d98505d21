package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/local/instance"
)

// mostCall is how much more processor time a tool's call may take than the request that it makes, in µs. Most of it is the
// SDK's, which makes a session for each message to a server whose tools may ask a person.
const mostCall = 600

// message is a JSON-RPC message.
func message(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
}

// kind is a kind of request to the management API.
type kind struct {
	name string
	load load.Options
	// most is how much more it may take than the first kind, in µs: 0 for what has no bar.
	most float64
}

// calls measures what /mcp costs beside REST.
func calls(ctx context.Context, product *instance.Instance, o options, table *bars.Table) error {
	request := func(method, path, body string) load.Options {
		address := strings.TrimPrefix(product.API, "http://")
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nUser-Agent: bench\r\nAccept: application/json\r\n", method, path, address, product.Key)
		if body != "" {
			head += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
		}
		return load.Options{Address: address, Request: []byte(head + "\r\n" + body), Connections: 16}
	}
	post := func(method, params string) load.Options {
		return request(http.MethodPost, "/mcp", message(method, params))
	}
	kinds := []kind{
		{name: "the list of projects by REST", load: request(http.MethodGet, "/v1/projects?accountName=demo", "")},
		{name: "the same as a tool of `/mcp`", load: post("tools/call", `{"name":"ProjectsService_list","arguments":{"accountName":"demo"}}`), most: mostCall},
		{name: "a new project, tried by a tool with `dryRun`", load: post("tools/call", `{"name":"ProjectsService_create","arguments":{"accountName":"demo","name":"tried","dryRun":true}}`)},
		{name: "the list of all tools", load: post("tools/list", `{}`)},
	}
	costs, more := make([][]float64, len(kinds)), make([][]float64, len(kinds))
	for i := range kinds {
		if err := kinds[i].load.Learn(ctx); err != nil {
			return fmt.Errorf("%s: %w", kinds[i].name, err)
		}
		kinds[i].load.Requests = o.requests
		kinds[i].load.Varies = true // a dry run says when
	}
	for round := range o.rounds + 1 {
		first := 0.0
		for i, k := range kinds {
			cost, err := load.Cost(ctx, product, k.load)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			if i == 0 {
				first = cost
			}
			if round > 0 { // connections and caches are made in the one before
				costs[i], more[i] = append(costs[i], cost), append(more[i], cost-first)
			}
		}
	}
	for i, k := range kinds {
		bar, figure, keeps := "", fmt.Sprintf("%.0f µs CPU", load.Median(costs[i])), true
		if i > 0 {
			figure += fmt.Sprintf(", %.0f µs more", load.Median(more[i]))
		}
		if k.most > 0 {
			bar, keeps = fmt.Sprintf("%.0f µs more", k.most), load.Median(more[i]) <= k.most
		}
		table.Add(k.name, bar, figure, keeps)
	}
	return nil
}
