package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/local/instance"
)

// The modules that handlers and policies come from.
const (
	Runtime = "$import(@gatewright/runtime)"
	GraphQL = "$import(@gatewright/graphql)"
)

// Options are the options of a handler or policy, or other fields of an operation.
type Options = map[string]any

// Route is a route of a project.
type Route struct {
	Method, Path, Handler string // the method in lower case, as OpenAPI has it
	Options               Options
	Inbound, Outbound     []string // names of policies
	Operation             Options  // further fields of the operation
}

// Policy is a policy of a project.
type Policy struct {
	Name, Type, Module string // "" for Runtime
	Options            Options
}

// Project is what is deployed.
type Project struct {
	Routes   []Route
	Policies []Policy
}

// Key is the policy that asks for a key of the project's own bucket.
func Key() Policy { return Policy{Name: "key", Type: "api-key-inbound"} }

// StrictLimit is the policy that counts requests in a strict limit which none of them reaches.
func StrictLimit() Policy {
	return Policy{Name: "limit", Type: "rate-limit-inbound", Options: LimitOptions()}
}

// LimitOptions are the options of StrictLimit.
func LimitOptions() Options {
	const more = 1_000_000_000 // than are sent in a minute
	return Options{"rateLimitBy": "user", "requestsAllowed": more, "timeWindowMinutes": 1}
}

// Parameters declares parameters of a path.
func Parameters(names ...string) Options {
	all := []Options{}
	for _, name := range names {
		all = append(all, Options{"name": name, "in": "path", "required": true, "schema": Options{"type": "string", "maxLength": 20}})
	}
	return Options{"parameters": all}
}

// Files are the files of the project, by path.
func (p Project) Files() (map[string]string, error) {
	paths, policies := Options{}, []Options{}
	for i, r := range p.Routes {
		operation := Options{
			"operationId": fmt.Sprintf("%s-%d", r.Method, i), "responses": Options{"200": Options{"description": "ok"}},
			"x-gateway-route": Options{
				"corsPolicy": "none", "handler": Options{"export": r.Handler, "module": Runtime, "options": r.Options},
				"policies": Options{"inbound": append([]string{}, r.Inbound...), "outbound": append([]string{}, r.Outbound...)},
			},
		}
		for name, value := range r.Operation {
			operation[name] = value
		}
		item, ok := paths[r.Path].(Options)
		if !ok {
			item = Options{}
			paths[r.Path] = item
		}
		item[r.Method] = operation
	}
	for _, one := range p.Policies {
		module, options := one.Module, one.Options
		if module == "" {
			module = Runtime
		}
		if options == nil {
			options = Options{}
		}
		policies = append(policies, Options{"name": one.Name, "policyType": one.Type, "handler": Options{"export": "Policy", "module": module, "options": options}})
	}
	files := map[string]string{"gatewright.jsonc": `{"version":1,"compatibilityDate":"2026-11-01","projectType":"self-hosted"}`}
	for name, content := range map[string]Options{
		"config/routes.oas.json": {"openapi": "3.1.0", "info": Options{"title": "bench", "version": "1"}, "paths": paths},
		"config/policies.json":   {"policies": policies},
	} {
		text, err := json.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("write a project: %w", err)
		}
		files[name] = string(text)
	}
	return files, nil
}

// Consumers is the path of the consumers of the project's own key bucket.
const Consumers = "/v1/accounts/demo/key-buckets/bench-production/consumers"

// Site is a deployment and a key that opens it.
type Site struct {
	Address string // of the gateway, host:port
	Host    string // of the deployment
	Key     string
}

// NewProject creates the project, without a deployment.
func (p *Product) NewProject(ctx context.Context) error {
	return p.Into(ctx, nil, http.MethodPost, "/v1/projects?accountName=demo", `{"name":"bench"}`)
}

// Upload deploys the project and waits until it is served.
func (p *Product) Upload(ctx context.Context, project Project) (*Site, error) {
	files, err := project.Files()
	if err != nil {
		return nil, err
	}
	b, err := p.Deploy(ctx, "demo", "bench", instance.Archive(files))
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(b.URL)
	if err != nil || b.Status != "SUCCESS" {
		return nil, errors.Join(fmt.Errorf("the project is not built: %s %s", b.Status, b.BuildResult), err)
	}
	return &Site{Address: host(p.Gateway), Host: at.Host}, nil
}

// Site creates and deploys the project, and creates a consumer with a key.
func (p *Product) Site(ctx context.Context, project Project) (*Site, error) {
	if err := p.NewProject(ctx); err != nil {
		return nil, err
	}
	s, err := p.Upload(ctx, project)
	if err != nil {
		return nil, err
	}
	s.Key, err = p.NewConsumer(ctx, p.Key, "bench")
	return s, err
}

// NewConsumer creates a consumer with an account key, and returns the consumer's key.
func (p *Product) NewConsumer(ctx context.Context, accountKey, name string) (string, error) {
	status, raw, err := p.Ask(ctx, accountKey, http.MethodPost, Consumers+"?with-api-key=true", fmt.Sprintf(`{"name":%q}`, name))
	if err != nil {
		return "", err
	}
	var made struct{ APIKeys []struct{ Key string } }
	if err := json.Unmarshal(raw, &made); err != nil || status/100 != 2 || len(made.APIKeys) == 0 {
		return "", errors.Join(fmt.Errorf("create a consumer: status %d: %s", status, raw), err)
	}
	return made.APIKeys[0].Key, nil
}

// Load is a request to the site with its key, which the upstream answers.
func (s *Site) Load(method, path, body string) load.Load {
	return load.Load{Address: s.Address, Request: load.Request(method, path, s.Host, s.Key, body), Length: Small}
}

// Management is a request to the management API with the first account's key.
func (p *Product) Management(method, path, body string) load.Load {
	at := host(p.API)
	return load.Load{Address: at, Request: load.Request(method, path, at, p.Key, body), Length: load.AnyLength}
}
