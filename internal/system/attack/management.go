package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/gatewright/gatewright/internal/system/instance"
)

// managementAttack is an attack on the management API with a valid account key, or on an upload URL. do makes the
// attack and returns its result, which must equal want.
type managementAttack struct {
	name string
	do   func(ctx context.Context, p *product) (string, error)
	want string
}

// attackManagement makes the attacks on the management API. It makes managementCases and uploadCases in order, because
// some need an object that an earlier one has created.
func (p *product) attackManagement(ctx context.Context) ([]result, error) {
	var results []result
	for _, m := range append(managementCases(), uploadCases()...) {
		got, err := m.do(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		results = append(results, result{class: "management", name: m.name, got: got, want: m.want})
	}
	api := strings.TrimPrefix(p.API, "http://")
	raw, err := try(ctx, target{name: "api", address: func(string) string {
		return api
	}, host: func(string) string { return api }}, rawManagementCases(), &upstream{})
	return append(results, raw...), err
}

// requestAttack returns an attack that consists of one request.
func requestAttack(name, want, method, path, body string) managementAttack {
	return managementAttack{name: name, want: want, do: func(ctx context.Context, p *product) (string, error) {
		status, _, err := p.Request(ctx, p.Key, method, strings.ReplaceAll(path, "{account}", p.account),
			strings.ReplaceAll(body, "{account}", p.account))
		return fmt.Sprint(status), err
	}}
}

func managementCases() []managementAttack {
	const consumers = "/v1/accounts/{account}/key-buckets/attacked-production/consumers"
	return []managementAttack{
		requestAttack("a name in two spellings", "400", http.MethodPost, consumers, `{"name":"bob1","NAME":"bob2"}`),
		requestAttack("a name twice", "400", http.MethodPost, consumers, `{"name":"bob1","name":"bob2"}`),
		requestAttack("`ISSECRET: false` beside `isSecret: true`", "400", http.MethodPost,
			"/v1/accounts/{account}/projects/attacked/branches/main/variables",
			`{"name":"A","value":"secret","isSecret":true,"ISSECRET":false}`),
		requestAttack("a path of 2,100 characters", "400", http.MethodGet, "/v1/accounts/{account}/key-buckets/"+
			strings.Repeat("a", 2100), ""),
		requestAttack("a query of 2,100 characters", "400", http.MethodGet,
			consumers+"?manager-email="+strings.Repeat("a", 2100), ""),
		requestAttack("`limit=` without a number", "400", http.MethodGet, consumers+"?limit=", ""),
		requestAttack("a U+FFFD, which is text", "200", http.MethodPost, consumers,
			"{\"name\":\"replaced\",\"description\":\"\uFFFD\"}"),
		requestAttack("what is no UTF-8", "400", http.MethodPost, consumers,
			"{\"name\":\"broken\",\"description\":\"\xff\"}"),
		{
			name: "a bucket with another project's name, by a key that does not see it",
			want: "refused, and the project's gateway knows no key of it", do: claimBucketName,
		},
		{
			name: "an upper-case status id, which is the same", want: "200",
			do: func(ctx context.Context, p *product) (string, error) {
				b, err := p.Deploy(ctx, p.account, "upper-case", instance.Archive(map[string]string{}))
				if err != nil {
					return "", err
				}
				status, _, err := p.Request(ctx, p.Key, http.MethodGet,
					"/v1/accounts/"+p.account+"/projects/upper-case/deployment-status/"+strings.ToUpper(b.DeploymentID), "")
				return fmt.Sprint(status), err
			},
		},
		{
			name: "300 KB of JSON that is a mistake at each value", want: "ERROR, and the gateway serves",
			do: func(ctx context.Context, p *product) (string, error) {
				return p.deployHostile(ctx,
					map[string]string{
						"config/routes.oas.json": `{"openapi":"3.1.0","info":{"title":"a","version":"1"},"paths":{"/a":` +
							strings.Repeat(`{"get":`, 20_000) + "1" + strings.Repeat("}", 20_000) + `}}`,
					})
			},
		},
		{
			name: "100 MB of zeros in 100 KB", want: "ERROR, and the gateway serves",
			do: func(ctx context.Context, p *product) (string, error) {
				return p.deployHostile(ctx, map[string]string{"config/routes.oas.json": string(make([]byte, 100<<20))})
			},
		},
		{
			name: "a URL pattern of 40 KB", want: "ERROR, and the gateway serves",
			do: func(ctx context.Context, p *product) (string, error) {
				return p.deployHostile(ctx,
					files([]endpoint{{
						"/" + strings.Repeat("(a?)", 10_000), "get", "urlForwardHandler",
						map[string]any{"baseUrl": "http://127.0.0.1"},
						"",
					}},
						map[string]any{"pathMode": "url-pattern"}))
			},
		},
	}
}

// deployHostile deploys a project that must fail to build. It returns the status of the build, and whether the gateway
// still serves another project afterwards.
func (p *product) deployHostile(ctx context.Context, files map[string]string) (string, error) {
	b, err := p.Deploy(ctx, p.account, "hostile", instance.Archive(files))
	if err != nil {
		return "", err
	}
	c, err := converse(ctx, p.gateway().address(""),
		[]string{strings.ReplaceAll(request("GET", "/admin"), "{host}", p.hosts[""])}, []string{http.MethodGet})
	if err != nil {
		return "", err
	}
	if status(c, nil) != "401" {
		return b.Status + ", and the gateway serves no more", nil
	}
	return b.Status + ", and the gateway serves", nil
}

// claimBucketName tries to create the bucket of a project that does not exist yet, with a key that is limited to another project.
func claimBucketName(ctx context.Context, p *product) (string, error) {
	key, err := p.newKey(ctx, "shop")
	if err != nil {
		return "", err
	}
	if err := p.RequestJSON(ctx, nil, http.MethodPost, "/v1/projects?accountName="+p.account,
		`{"name":"shop"}`); err != nil {
		return "", err
	}
	created, raw, err := p.Request(ctx, key, http.MethodPost, "/v1/accounts/"+p.account+"/key-buckets",
		`{"name":"victim-production","tags":{"project":"shop","environmentType":"PRODUCTION"}}`)
	if err != nil {
		return "", err
	}
	if created/100 == 2 {
		return "the bucket is created", nil
	}
	if bytes.Contains(raw, []byte("exists")) {
		return "the response shows whether the project exists: " + string(raw), nil
	}
	return "refused, and the project's gateway knows no key of it", nil
}

// newKey creates an account key that has all scopes, but only in one project.
func (p *product) newKey(ctx context.Context, project string) (string, error) {
	//nolint:gosec // the binary of the product
	command := exec.CommandContext(ctx, p.binary, "key", "create", p.account, "--scopes", "all", "--projects", project)
	command.Env = append(os.Environ(), "GATEWRIGHT_DATA_DIR="+p.Data())
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("create a key: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// rawManagementCases returns the attacks on the management API that write the bytes of requests themselves.
func rawManagementCases() []attempt {
	api := func(name, want string, evaluate func(conversation, []arrival) string, parts ...string) attempt {
		return attempt{class: "management", name: name, want: want, evaluate: evaluate, parts: parts}
	}
	return []attempt{
		api("`Content-Length` with `Transfer-Encoding`", "400, closed", statusAndClose,
			"POST /v1/projects HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		api("`Expect: something`", "417 problem", problem, request("GET", "/openapi", "Expect: something")),
		api("201 fields", "431 problem", problem,
			request("GET", "/openapi", strings.Split(strings.Repeat("X: 1\n", 199), "\n")[:199]...)),
		api("a path with a control character, without a key", "401 problem", problem,
			request("GET", "/v1/accounts/a%01b/key-buckets")),
		api("`If-None-Match` with half an ETag", "400 problem", problem, request("GET", "/openapi", `If-None-Match: "a`)),
		api("`Host` with more behind its port", "400", status, "GET /openapi HTTP/1.1\r\nHost: {host}x\r\n\r\n"),
		api("a body of 1 GB that is announced and not sent", "413, closed", statusAndClose,
			request("POST", "/v1/projects", "Content-Length: 1000000000")),
		api("a body that is announced and not sent, without a key", "401, no 100", statusAndContinue,
			request("POST", "/v1/projects?accountName=demo", "Content-Length: 10")),
		api("a body that is asked for, without a key", "401, no 100", statusAndContinue,
			request("POST", "/v1/projects?accountName=demo", "Content-Length: 10", "Expect: 100-continue")),
		api("the same with a key that does not exist", "401, no 100", statusAndContinue,
			request("POST", "/v1/projects?accountName=demo", "Transfer-Encoding: chunked", "Expect: 100-continue",
				"Authorization: Bearer "+unknownAccountKey)),
		api("a body that is announced and not sent, to nothing", "404, no 100", statusAndContinue,
			request("POST", "/v1/nothing", "Content-Length: 10", "Expect: 100-continue")),
	}
}
