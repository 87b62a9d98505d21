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

	"github.com/gatewright/gatewright/shared/tunnel"
)

// note remembers what is answered.
func (w *world) note() {
	w.Helper()
	w.noted = w.answers()
}

// same compares what is answered with what was: a version may say more than another, and nothing else.
func (w *world) same() {
	w.Helper()
	now := w.answers()
	for path, before := range w.noted {
		if !within(before, now[path]) {
			w.Errorf("%s was answered otherwise before:\n%s", path, cmp.Diff(before, now[path]))
		}
	}
}

// within tells whether all of one value is in another.
func within(one, another any) bool {
	switch one := one.(type) {
	case map[string]any:
		fields, ok := another.(map[string]any)
		for name, value := range one {
			ok = ok && within(value, fields[name])
		}
		return ok
	case []any:
		entries, ok := another.([]any)
		ok = ok && len(entries) == len(one)
		for i := range one {
			ok = ok && within(one[i], entries[i])
		}
		return ok
	}
	return one == another
}

// answers are those to what reads all that fill has made.
func (w *world) answers() map[string]any {
	w.Helper()
	bucket := w.subscription[:strings.Index(w.subscription, "/subscriptions")]
	out := map[string]any{}
	paths := []string{
		"/v1/who-am-i", "/v1/metering", bucket + "/plans", bucket + "/subscriptions", w.subscription + "/quotas", "/v1/projects",
		account + "/key-buckets", account + "/key-buckets/callers/consumers?include-api-keys=true&key-format=visible",
		account + "/client-mtls-ca-certificates", account + "/custom-domains", account + "/tunnels",
		account + "/projects/shop/mtls-certificates",
	}
	for project := range w.urls {
		paths = append(paths, account+"/projects/"+project+"/branches/main/variables", account+"/projects/"+project+"/deployments")
	}
	for _, path := range paths {
		out[path] = w.ask(http.MethodGet, path, "")
	}
	tunnels, _ := out[account+"/tunnels"].(map[string]any)["data"].([]any)
	for _, entry := range tunnels {
		one, _ := entry.(map[string]any)
		at := account + "/tunnels/" + w.text(one, "id")
		out[at], out[at+"/services-configuration"] = w.ask(http.MethodGet, at, ""), w.ask(http.MethodGet, at+"/services-configuration", "")
	}
	return out
}

// get asks at a gateway for /hello of a deployment, or of a custom domain.
func (w *world) get(host, key string) (status int, body string) {
	w.Helper()
	status, body, err := w.try(w.Context(), host, key, 0)
	if err != nil {
		w.Fatal(err)
	}
	return status, body
}

// try is get, of an upstream that takes its time.
func (w *world) try(ctx context.Context, host, key string, patience time.Duration) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.p.Gateway+"/hello", nil)
	if err != nil {
		return 0, "", err
	}
	r.Host = host
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if patience > 0 {
		r.Header.Set(takes, patience.String())
	}
	out, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = out.Body.Close() }()
	raw, err := io.ReadAll(out.Body)
	return out.StatusCode, string(raw), err
}

// host is a deployment's name.
func (w *world) host(project string) string {
	w.Helper()
	at, err := hostOf(w.urls[project])
	if err != nil {
		w.Fatal(err)
	}
	return at
}

func hostOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// serves checks what lets nobody in without a key: deployments, a custom domain, another account's key, and a tunnel
// with an agent that has the token of its beginning.
func (w *world) serves(projects ...string) {
	w.Helper()
	for _, project := range projects {
		if status, body := w.get(w.host(project), ""); status != http.StatusUnauthorized {
			w.Errorf("%s answers without a key: %d %s", project, status, body)
		}
		if project == "shop" { // each of its calls is paid for
			continue
		}
		if status, body := w.get(w.host(project), w.key); status != http.StatusOK || body != upped {
			w.Errorf("%s answers with a key: %d %s", project, status, body)
		}
	}
	w.until("the custom domain is served", func() bool {
		status, _ := w.get(hostname, "")
		return status == http.StatusUnauthorized
	})
	if status, raw, err := w.p.Ask(w.Context(), w.other, http.MethodGet, "/v1/who-am-i", ""); err != nil || status != http.StatusOK || !strings.Contains(string(raw), `"other"`) {
		w.Errorf("the other account's key is answered with %d %s %v", status, raw, err)
	}
	relay, err := url.Parse(w.p.Relay)
	if err != nil {
		w.Fatal(err)
	}
	ctx, stop := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tunnel.NewAgent(tunnel.AgentOptions{Relay: relay, Token: func() (string, error) { return w.token, nil }, Log: slog.New(slog.DiscardHandler)}).Run(ctx, time.Second)
	}()
	w.until("the service behind the tunnel answers", func() bool {
		status, body := w.get(w.host("behind"), "")
		return status == http.StatusOK && body == upped
	})
	stop()
	<-ended
}

// call asks for what was bought, and counts what is admitted. Everything else is refused as spent.
func (w *world) call(times int) (admitted int) {
	w.Helper()
	for range times {
		switch status, body := w.get(w.host("shop"), w.key); status {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
		default:
			w.Fatalf("a call that was bought is answered with %d %s", status, body)
		}
	}
	return admitted
}

// spend is call, all of which is admitted.
func (w *world) spend(times int) {
	w.Helper()
	before, _ := w.ask(http.MethodGet, w.subscription+"/quotas", "")["requests"].(float64)
	if admitted := w.call(times); admitted != times {
		w.Fatalf("%d of %d calls are admitted", admitted, times)
	}
	if after := w.ask(http.MethodGet, w.subscription+"/quotas", "")["requests"]; after != before-float64(times) {
		w.Errorf("of %v are left %v after %d calls", before, after, times)
	}
}

// killed has consumers made one after the other until the version that runs is killed, and remembers those that were
// answered.
func (w *world) killed(name string) {
	w.Helper()
	const least = 20
	enough, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			one := fmt.Sprintf("%s-%d", name, i)
			if err := w.p.Into(w.Context(), nil, http.MethodPost, account+"/key-buckets/written/consumers", fmt.Sprintf(`{"name":%q}`, one)); err != nil {
				return
			}
			if w.written[name] = append(w.written[name], one); i == least {
				close(enough)
			}
		}
	}()
	select {
	case <-enough:
	case <-ended:
		w.Fatal("consumers can't be made")
	}
	w.p.Kill()
	<-ended
}

// wrote looks for what was answered until a kill.
func (w *world) wrote(name string) {
	w.Helper()
	for _, one := range w.written[name] {
		w.ask(http.MethodGet, account+"/key-buckets/written/consumers/"+one, "")
	}
}

// noteAudit remembers how far the audit log goes.
func (w *world) noteAudit() {
	w.Helper()
	w.until("all that was done is in the audit log's chain", func() bool {
		end, said, err := w.command("audit", "verify", "demo")
		w.auditEnd = end
		return err == nil && strings.Contains(said, " 0 wait to be chained")
	})
}

// verifyAudit proves that the audit log is what it was, and more.
func (w *world) verifyAudit() {
	w.Helper()
	if _, said, err := w.command("audit", "verify", "demo", "--noted", w.auditEnd); err != nil {
		w.Errorf("the audit log is no longer what it was: %v: %s", err, said)
	}
	file := filepath.Join(w.TempDir(), "demo.jsonl")
	if _, said, err := w.command("audit", "export", "demo", file); err != nil {
		w.Fatalf("export the audit log: %v: %s", err, said)
	}
	exported, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(exported, []byte(`"consumer.create`)) {
		w.Errorf("the export has %d bytes, and nothing of the consumers: %v", len(exported), err)
	}
}
