package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
)

// maxValidated is the maximum ratio of the CPU time of a validated request to that of the same request without validation.
const maxValidated = 1.5

func validations() []scenario {
	return []scenario{{
		title: "A validated request",
		text: "CPU of the product, as its users start it, for a POST of 1 KB of JSON with a key, 20 properties, a path " +
			"parameter and a query parameter. In alternating rounds, a route with `request-validation-inbound`\n" +
			"is compared with the same route without it. The median of the ratios counts.",
		options: "rounds=9 requests=4000",
		run:     validatedRequests,
	}}
}

func validatedRequests(ctx context.Context, m *measurement) error {
	upstream := m.Serve()
	product, err := m.Run(ctx, "product")
	if err != nil {
		return err
	}
	site, err := product.Site(ctx, validatedProject(upstream.URL))
	if err != nil {
		return err
	}
	names := []string{
		"the route without validation", "the route with `request-validation-inbound`",
		"and with `response-validation-outbound`",
	}
	var subjects []load.Subject
	for i, path := range []string{"/plain/7?fields=a,b", "/validated/7?fields=a,b", "/both/7?fields=a,b"} {
		l := site.Load(http.MethodPost, path, orderBody())
		l.Length, l.Connections, l.Requests = load.AnyLength, 16, m.Number("requests")
		subjects = append(subjects, load.Subject{Name: names[i], Process: product, Load: l})
	}
	got, err := load.Compare(ctx, m.Number("rounds"), subjects...)
	if err != nil {
		return err
	}
	m.Row(names[0], "", fmt.Sprintf("%.0f µs CPU", got[0].Median(load.CPU)), true)
	for i := 1; i < len(names); i++ {
		ratio, limit := got[i].Ratio(got[0], load.CPU), ""
		if i == 1 {
			limit = fmt.Sprintf("%.1f times", maxValidated)
		}
		m.Row(names[i], limit, fmt.Sprintf("%.0f µs CPU, %.2f times", got[i].Median(load.CPU), ratio),
			i > 1 || ratio <= maxValidated)
	}
	return nil
}

// orderProperties is the number of properties of orderBody.
const orderProperties = 20

// orderBody returns a JSON object of 1 KB with texts, numbers and lists.
func orderBody() string {
	var members []string
	for i := range orderProperties {
		switch i % 4 {
		case 0:
			members = append(members, fmt.Sprintf(`"text%d":%q`, i, strings.Repeat("x", 125)))
		case 1:
			members = append(members, fmt.Sprintf(`"count%d":%d`, i, i))
		case 2:
			members = append(members, fmt.Sprintf(`"day%d":"2026-12-01"`, i))
		default:
			members = append(members, fmt.Sprintf(`"tags%d":["red","green","blue"]`, i))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// validatedProject returns a project with the same operation three times: without validation, with validated requests,
// and with validated requests and responses.
func validatedProject(upstream string) fixture.Project {
	properties, required := fixture.Options{}, []string{}
	for i := range orderProperties {
		var name string
		var schema fixture.Options
		switch i % 4 {
		case 0:
			name, schema = "text", fixture.Options{"type": "string", "minLength": 1, "maxLength": 200}
		case 1:
			name, schema = "count", fixture.Options{"type": "integer", "minimum": 0, "maximum": 1000}
		case 2:
			name, schema = "day", fixture.Options{"type": "string", "format": "date"}
		default:
			name, schema = "tags", fixture.Options{
				"type": "array", "maxItems": 10, "items": fixture.Options{"enum": []string{"red", "green", "blue"}},
			}
		}
		name = fmt.Sprintf("%s%d", name, i)
		properties[name], required = schema, append(required, name)
	}
	body := fixture.Options{"required": true, "content": fixture.Options{"application/json": fixture.Options{
		"schema": fixture.Options{
			"type": "object", "properties": properties, "required": required, "additionalProperties": false,
		},
	}}}
	project := fixture.Project{Policies: []fixture.Policy{
		fixture.Key(),
		{Name: "validate", Type: "request-validation-inbound"},
		{Name: "validate-responses", Type: "response-validation-outbound"},
	}}
	for path, policies := range map[string][2][]string{
		"/plain/{id}":     {{"key"}, {}},
		"/validated/{id}": {{"key", "validate"}, {}},
		"/both/{id}":      {{"key", "validate"}, {"validate-responses"}},
	} {
		operation := fixture.Options{"requestBody": body, "parameters": []fixture.Options{
			{"name": "id", "in": "path", "required": true, "schema": fixture.Options{"type": "string", "maxLength": 20}},
			{
				"name": "fields", "in": "query", "explode": false,
				"schema": fixture.Options{"type": "array", "items": fixture.Options{"enum": []string{"a", "b"}}},
			},
		}}
		project.Routes = append(project.Routes, fixture.Route{
			Method: "post", Path: path, Handler: "urlForwardHandler", Options: fixture.Options{"baseUrl": upstream},
			Inbound: policies[0], Outbound: policies[1], Operation: operation,
		})
	}
	return project
}
