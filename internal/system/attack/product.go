package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/gatewright/gatewright/internal/system/instance"
)

// product is the product under attack, with both sites deployed.
type product struct {
	*instance.Instance
	binary  string
	account string
	hosts   map[string]string // by site
}

// startProduct starts the product in a new data directory and deploys the sites.
func startProduct(ctx context.Context, binary string, u *upstream) (_ *product, err error) {
	dir, err := os.MkdirTemp("", "gatewright-attack-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	i, err := instance.Start(ctx, dir, "", binary)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &product{Instance: i, binary: binary, hosts: map[string]string{}}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	var caller struct{ Account string }
	if err := p.RequestJSON(ctx, &caller, http.MethodGet, "/v1/who-am-i", ""); err != nil {
		return nil, err
	}
	p.account = caller.Account
	for site, files := range map[string]map[string]string{"": pathSite(u.address()), patterns: patternSite(u.address())} {
		name := "attacked"
		if site == patterns {
			name = "attacked-patterns"
		}
		status, err := p.Deploy(ctx, p.account, name, instance.Archive(files))
		if err != nil {
			return nil, err
		}
		if status.Status != "SUCCESS" {
			return nil, fmt.Errorf("build of the project %s: %+v, want the status SUCCESS", name, status)
		}
		deploymentURL, err := url.Parse(status.URL)
		if err != nil {
			return nil, fmt.Errorf("read a deployment's address: %w", err)
		}
		p.hosts[site] = deploymentURL.Host
	}
	return p, nil
}

func (p *product) stop() {
	p.Stop()
	_ = os.RemoveAll(p.Dir)
}

// gateway returns the product's gateway as a target.
func (p *product) gateway() target {
	address := strings.TrimPrefix(p.Gateway, "http://")
	return target{
		name:    "gatewright",
		address: func(string) string { return address },
		host:    func(site string) string { return p.hosts[site] },
	}
}

// endpoint is a path of a site with its operations. methods are separated by spaces.
type endpoint struct {
	path, methods string
	handler       string
	options       map[string]any
	keyPolicy     string // "key" requires a key, "any" also allows requests without one, "" does not check keys
}

// mcpPath is the path of an MCP server that requires no key.
const mcpPath = "/mcp"

// pathSite returns the files of the project with OpenAPI paths. upstream is the address of the upstream.
func pathSite(upstream string) map[string]string {
	to := "http://" + upstream
	forward := func(base string) map[string]any { return map[string]any{"baseUrl": base} }
	site := []endpoint{
		{"/admin", "get post", "urlForwardHandler", forward(to), "key"},
		{"/sometimes", "get", "urlForwardHandler", forward(to), "any"},
		{"/v1/{name}", "get", "urlForwardHandler", forward(to), ""},
		{"/files/{name}", "get", "urlRewriteHandler", map[string]any{"rewritePattern": to + "/files/${params.name}"}, ""},
		{"/by-id", "get", "urlRewriteHandler", map[string]any{"rewritePattern": to + "/users/${query.id}"}, ""},
		{"/{any}", "get delete", "urlForwardHandler", forward(to), ""},
		{
			mcpPath, "post", "mcpServerHandler",
			map[string]any{"operations": []any{map[string]any{"file": "./config/routes.oas.json", "id": "get3"}}},
			"",
		},
		{"/echo", "get head post", "urlForwardHandler", forward(to), ""},
		{"/followed", "get", "urlForwardHandler", map[string]any{"baseUrl": to, "followRedirects": true}, ""},
	}
	for i, address := range []string{"169.254.169.254", "[fd00:ec2::254]", "100.100.100.200"} {
		site = append(site, endpoint{
			fmt.Sprintf("/metadata/%d", i), "get", "urlForwardHandler", forward("http://" + address),
			"",
		})
	}
	return files(site, nil)
}

// patternSite returns the files of the project with URL patterns. upstream is the address of the upstream.
func patternSite(upstream string) map[string]string {
	forward := map[string]any{"baseUrl": "http://" + upstream}
	return files([]endpoint{
		{"/admin/*", "get", "urlForwardHandler", forward, "key"},
		{"/*", "get", "urlForwardHandler", forward, ""},
	}, map[string]any{"pathMode": "url-pattern"})
}

// files returns the files of a project. pathOptions is the value of x-gateway-path for each path, or nil for none.
func files(site []endpoint, pathOptions map[string]any) map[string]string {
	// The gateway tries URL patterns in the order of the document, so the paths must be in order. A map has no order.
	var paths []string
	for i, e := range site {
		item := map[string]any{}
		if pathOptions != nil {
			item["x-gateway-path"] = pathOptions
		}
		inbound := []string{}
		if e.keyPolicy != "" {
			inbound = append(inbound, e.keyPolicy)
		}
		for method := range strings.FieldsSeq(e.methods) {
			item[method] = map[string]any{
				"operationId": fmt.Sprintf("%s%d", method, i),
				"responses":   map[string]any{"200": map[string]any{"description": "ok"}},
				"x-gateway-route": map[string]any{
					"corsPolicy": "none",
					"handler":    map[string]any{"export": e.handler, "module": "$import(@gatewright/runtime)", "options": e.options},
					"policies":   map[string]any{"inbound": inbound},
				},
			}
		}
		for name := range strings.SplitSeq(e.path, "/") {
			if parameter, ok := strings.CutPrefix(name, "{"); ok {
				item["parameters"] = []any{map[string]any{
					"name": strings.TrimSuffix(parameter, "}"), "in": "path", "required": true,
					"schema": map[string]any{"type": "string"},
				}}
			}
		}
		paths = append(paths, encode(e.path)+":"+encode(item))
	}
	return map[string]string{
		"config/routes.oas.json": encode(map[string]any{
			"openapi": "3.1.0", "info": map[string]any{"title": "attacked", "version": "1"},
			"paths": json.RawMessage("{" + strings.Join(paths, ",") + "}"),
		}),
		"config/policies.json": encode(map[string]any{"policies": []any{
			policy("key", map[string]any{}), policy("any", map[string]any{"allowUnauthenticatedRequests": true}),
		}, "corsPolicies": []any{}}),
	}
}

// policy returns the declaration of a policy that checks API keys.
func policy(name string, options map[string]any) map[string]any {
	return map[string]any{
		"name": name, "policyType": "api-key-inbound",
		"handler": map[string]any{
			"export": "ApiKeyInboundPolicy", "module": "$import(@gatewright/runtime)",
			"options": options,
		},
	}
}

// encode returns v as JSON.
func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings always encode
	}
	return string(raw)
}
