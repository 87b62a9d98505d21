package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
)

// The maximum ratios of the CPU time of a request with a policy to that of the same request without it.
const (
	maxConditional = 1.03
	maxHeaders     = 1.05
)

func policies() []scenario {
	return []scenario{{
		title: "Policies",
		text: "CPU of the product, as its users start it, for a GET with a key. In alternating rounds, routes with further " +
			"policies are compared with the same route without them. The median of the ratios counts.",
		options: "rounds=15 requests=6000",
		run:     comparePolicies,
	}}
}

func comparePolicies(ctx context.Context, m *measurement) error {
	const permission = "user.sub != '' && request.path.startsWith('/a')"
	upstream := m.Serve()
	product, err := m.Run(ctx, "product")
	if err != nil {
		return err
	}
	routes := []struct {
		path, name string
		inbound    []string
		outbound   []string
		limit      float64 // 0 for none
	}{
		{"/plain", "the route with a key", nil, nil, 0},
		{"/when", "and a policy whose `when` is false: `request.method != 'GET'`", []string{"skipped"}, nil, maxConditional},
		{"/authorize", "and `authorize-inbound`: `" + permission + "`", []string{"allowed"}, nil, 0},
		{"/headers", "and two policies that set two headers and remove one", []string{"set"}, []string{"remove"}, maxHeaders},
	}
	project := fixture.Project{Policies: []fixture.Policy{
		fixture.Key(),
		{Name: "skipped", Type: "set-headers-inbound", Options: headerOptions(), When: "request.method != 'GET'"},
		{Name: "allowed", Type: "authorize-inbound", Options: fixture.Options{
			"expression": permission,
		}},
		{Name: "set", Type: "set-headers-inbound", Options: headerOptions()},
		{Name: "remove", Type: "remove-headers-outbound", Options: fixture.Options{"headers": []string{"X-Powered-By"}}},
	}}
	for _, r := range routes {
		project.Routes = append(project.Routes, fixture.Route{
			Method: "get", Path: r.path, Handler: "urlForwardHandler", Options: fixture.Options{"baseUrl": upstream.URL},
			Inbound: append([]string{"key"}, r.inbound...), Outbound: r.outbound,
		})
	}
	site, err := product.Site(ctx, project)
	if err != nil {
		return err
	}
	var subjects []load.Subject
	for _, r := range routes {
		l := site.Load(http.MethodGet, r.path, "")
		l.Length, l.Connections, l.Requests = load.AnyLength, 16, m.Number("requests")
		subjects = append(subjects, load.Subject{Name: r.name, Process: product, Load: l})
	}
	got, err := load.Compare(ctx, m.Number("rounds"), subjects...)
	if err != nil {
		return err
	}
	m.Row(routes[0].name, "", fmt.Sprintf("%.0f µs CPU", got[0].Median(load.CPU)), true)
	for i, r := range routes[1:] {
		ratio, limit := got[i+1].Ratio(got[0], load.CPU), ""
		if r.limit > 0 {
			limit = fmt.Sprintf("%.2f times", r.limit)
		}
		m.Row(r.name, limit, fmt.Sprintf("%.0f µs CPU, %.2f times", got[i+1].Median(load.CPU), ratio),
			r.limit == 0 || ratio <= r.limit)
	}
	return nil
}

// headerOptions returns options that set two headers, one of them with the user's name.
func headerOptions() fixture.Options {
	return fixture.Options{"headers": []fixture.Options{
		{"name": "X-User", "value": "${request.user.sub}"}, {"name": "X-Gateway", "value": "gatewright"},
	}}
}
