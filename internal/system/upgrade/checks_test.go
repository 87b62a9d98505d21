package upgrade_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// recordResponses stores the current responses for a comparison.
func (fx *fixture) recordResponses() {
	fx.Helper()
	fx.recorded = fx.responses()
}

// compareResponses compares the current responses with the stored ones. A version can return additional fields, but no other difference is allowed.
func (fx *fixture) compareResponses() {
	fx.Helper()
	current := fx.responses()
	for path, before := range fx.recorded {
		if !containsAll(before, current[path]) {
			fx.Errorf("the response to GET %s differs, want the earlier response:\n%s", path, cmp.Diff(before, current[path]))
		}
	}
}

// containsAll reports whether the JSON value whole contains all of the JSON value part.
func containsAll(part, whole any) bool {
	switch part := part.(type) {
	case map[string]any:
		fields, ok := whole.(map[string]any)
		for name, value := range part {
			ok = ok && containsAll(value, fields[name])
		}
		return ok
	case []any:
		entries, ok := whole.([]any)
		ok = ok && len(entries) == len(part)
		for i := range part {
			ok = ok && containsAll(part[i], entries[i])
		}
		return ok
	}
	return part == whole
}

// responses returns the responses of the requests that read everything that fill has created.
func (fx *fixture) responses() map[string]any {
	fx.Helper()
	bucket := fx.subscription[:strings.Index(fx.subscription, "/subscriptions")]
	out := map[string]any{}
	paths := []string{
		"/v1/who-am-i", "/v1/metering", bucket + "/plans", bucket + "/subscriptions", fx.subscription + "/quotas",
		"/v1/projects",
		account + "/key-buckets", account + "/key-buckets/callers/consumers?include-api-keys=true&key-format=visible",
		account + "/client-mtls-ca-certificates", account + "/custom-domains", account + "/tunnels",
		account + "/projects/shop/mtls-certificates",
	}
	for project := range fx.urls {
		paths = append(paths, account+"/projects/"+project+"/branches/main/variables",
			account+"/projects/"+project+"/deployments")
	}
	for _, path := range paths {
		out[path] = fx.ask(http.MethodGet, path, "")
	}
	tunnels, _ := out[account+"/tunnels"].(map[string]any)["data"].([]any)
	for _, entry := range tunnels {
		tunnel, _ := entry.(map[string]any)
		tunnelPath := account + "/tunnels/" + fx.text(tunnel, "id")
		out[tunnelPath], out[tunnelPath+"/services-configuration"] = fx.ask(http.MethodGet, tunnelPath, ""),
			fx.ask(http.MethodGet, tunnelPath+"/services-configuration", "")
	}
	return out
}

// get sends a request for /hello to the gateway, for the host name of a deployment or a custom domain.
func (fx *fixture) get(host, key string) (status int, body string) {
	fx.Helper()
	status, body, err := fx.request(fx.Context(), host, key, 0)
	if err != nil {
		fx.Fatal(err)
	}
	return status, body
}

// request sends the same request as get. The upstream waits for delay before it responds.
func (fx *fixture) request(
	ctx context.Context, host, key string, delay time.Duration,
) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fx.p.Gateway+"/hello", nil)
	if err != nil {
		return 0, "", err
	}
	r.Host = host
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if delay > 0 {
		r.Header.Set(delayHeader, delay.String())
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

// host returns the host name of a project's deployment.
func (fx *fixture) host(project string) string {
	fx.Helper()
	host, err := hostOf(fx.urls[project])
	if err != nil {
		fx.Fatal(err)
	}
	return host
}

// hostOf returns the host of a URL.
func hostOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// checkServes checks everything that requires a key or a token: deployments, a custom domain, another account's key, and a tunnel with an
// agent that has its original token.
func (fx *fixture) checkServes(projects ...string) {
	fx.Helper()
	for _, project := range projects {
		if status, body := fx.get(fx.host(project), ""); status != http.StatusUnauthorized {
			fx.Errorf("GET /hello of %s without a key: status = %d, want 401: %s", project, status, body)
		}
		if project == "shop" { // each call to this project costs a unit
			continue
		}
		if status, body := fx.get(fx.host(project), fx.key); status != http.StatusOK || body != upResponse {
			fx.Errorf("GET /hello of %s with a key: status = %d, body %s, want 200 %q", project, status, body, upResponse)
		}
	}
	fx.until("the custom domain is served", func() bool {
		status, _ := fx.get(hostname, "")
		return status == http.StatusUnauthorized
	})
	if status, raw, err := fx.p.Request(fx.Context(), fx.other, http.MethodGet, "/v1/who-am-i", ""); err != nil ||
		status != http.StatusOK || !strings.Contains(string(raw), `"other"`) {
		fx.Errorf("GET /v1/who-am-i with the other account's key: status = %d, body %s, error %v, want 200", status, raw, err)
	}
	relay, err := url.Parse(fx.p.Relay)
	if err != nil {
		fx.Fatal(err)
	}
	ctx, stop := context.WithCancel(fx.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tunnel.NewAgent(tunnel.AgentOptions{Relay: relay, Token: func() (string, error) {
			return fx.token, nil
		}, Log: slog.New(slog.DiscardHandler)}).Run(ctx, time.Second)
	}()
	fx.until("the service behind the tunnel responds", func() bool {
		status, body := fx.get(fx.host("behind"), "")
		return status == http.StatusOK && body == upResponse
	})
	stop()
	<-done
}

// callTimes sends requests that cost units, and returns how many were admitted. All other requests must be refused
// because the quota is spent.
func (fx *fixture) callTimes(times int) (admitted int) {
	fx.Helper()
	for range times {
		switch status, body := fx.get(fx.host("shop"), fx.key); status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
		default:
			fx.Fatalf("GET /hello of shop: status = %d, want 200 or 429: %s", status, body)
		}
	}
	return admitted
}

// checkSpend sends requests that must all be admitted, and checks that each costs one unit of the quota.
func (fx *fixture) checkSpend(times int) {
	fx.Helper()
	before, _ := fx.ask(http.MethodGet, fx.subscription+"/quotas", "")["requests"].(float64)
	if admitted := fx.callTimes(times); admitted != times {
		fx.Fatalf("%d of %d calls were admitted, want all", admitted, times)
	}
	if after := fx.ask(http.MethodGet, fx.subscription+"/quotas", "")["requests"]; after != before-float64(times) {
		fx.Errorf("the remaining quota after %d calls is %v, want %v", times, after, before-float64(times))
	}
}

// killDuringWrites creates consumers one after another until the running version is killed, and remembers the consumers whose creation got a
// response.
func (fx *fixture) killDuringWrites(name string) {
	fx.Helper()
	const minWrites = 20
	enough, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			consumer := fmt.Sprintf("%s-%d", name, i)
			if err := fx.p.RequestJSON(fx.Context(), nil, http.MethodPost, account+"/key-buckets/written/consumers",
				fmt.Sprintf(`{"name":%q}`, consumer)); err != nil {
				return
			}
			if fx.written[name] = append(fx.written[name], consumer); i == minWrites {
				close(enough)
			}
		}
	}()
	select {
	case <-enough:
	case <-done:
		fx.Fatal("the product has stopped creating consumers before it was killed, want it to continue")
	}
	fx.p.Kill()
	<-done
}

// checkWrites checks that the consumers whose creation got a response before a kill exist.
func (fx *fixture) checkWrites(name string) {
	fx.Helper()
	for _, consumer := range fx.written[name] {
		fx.ask(http.MethodGet, account+"/key-buckets/written/consumers/"+consumer, "")
	}
}

// recordAudit remembers the end of the audit log.
func (fx *fixture) recordAudit() {
	fx.Helper()
	fx.until("all changes are in the chain of the audit log", func() bool {
		end, output, err := fx.command("audit", "verify", "demo")
		fx.auditEnd = end
		return err == nil && strings.Contains(output, " 0 wait to be chained")
	})
}

// verifyAudit checks that the audit log still contains everything up to the end that recordAudit remembered, and that
// an export has the changes of consumers.
func (fx *fixture) verifyAudit() {
	fx.Helper()
	if _, output, err := fx.command("audit", "verify", "demo", "--noted", fx.auditEnd); err != nil {
		fx.Errorf("audit verify with the noted end of the audit log: error = %v, want none: %s", err, output)
	}
	file := filepath.Join(fx.TempDir(), "demo.jsonl")
	if _, output, err := fx.command("audit", "export", "demo", file); err != nil {
		fx.Fatalf("export the audit log: %v: %s", err, output)
	}
	exported, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(exported, []byte(`"consumer.create`)) {
		fx.Errorf("the export has %d bytes, error %v, want the changes of consumers", len(exported), err)
	}
}
