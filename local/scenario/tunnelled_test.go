package scenario_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/tunnel"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// connectTime bounds how long an agent, and then the word of it, may take.
const connectTime = time.Minute

// tunnelled makes a tunnel to a service of this machine, which a project's production may
// call, and gives the tunnel's path and its token.
func (in *target) tunnelled(t *testing.T, name, service, endpoint, project string) (at, token string) {
	t.Helper()
	made := in.ask(t, http.StatusCreated, http.MethodPost, in.path("/tunnels"), fmt.Sprintf(`{"name":%q}`, name))
	at = in.path("/tunnels/%s", made.text("tunnelId"))
	begun := in.ask(t, http.StatusOK, http.MethodPut, at+"/services-configuration", configured(service, endpoint, project))
	eventually(t, "the service is provisioned", connectTime, func() bool {
		o := in.ask(t, http.StatusOK, http.MethodGet, at+"/provisioning-operations/"+begun.text("id"), "")
		if o.text("status") == "failed" {
			t.Fatalf("provisioned: %v", o)
		}
		return o.text("status") == "success"
	})
	return at, made.text("token")
}

func configured(service, endpoint, project string) string {
	return fmt.Sprintf(`{"version":1,"services":[{"name":%q,"endpoint":%q,"configurations":[{"project":%q,"accessibleBy":["production"]}]}]}`,
		service, endpoint, project)
}

// connect runs an agent until stop is called.
func (in *target) connect(t *testing.T, token string) (stop func()) {
	t.Helper()
	relay, err := url.Parse(in.relay)
	if err != nil {
		t.Fatal(err)
	}
	agent := tunnel.NewAgent(tunnel.AgentOptions{
		Relay: relay, Token: func() (string, error) { return token, nil }, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = agent.Run(ctx, time.Second)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// TestRequestsGoThroughATunnel: from a deployment to a service that nobody but its agent
// reaches, for as long as there is an agent, and for whom it is.
func TestRequestsGoThroughATunnel(t *testing.T) {
	t.Parallel()
	in := installation
	if in.relay == "" {
		t.Skipf("the installation under test has no relay that it tells of: %s names it", varRelay)
	}
	name := unique(t, "inner")
	service := "Stock-" + strings.TrimPrefix(name, "inner-")
	p := project(t, []route{
		{path: "/things/{id}", method: "post", handler: "urlForwardHandler", options: map[string]any{"baseUrl": "service://" + service + "/v1"}},
	}, "")
	deployed := in.deploy(t, name, "main", p)
	preview := in.deploy(t, name, "side", p)
	call := func(address string, body io.Reader) (int, string) {
		out := in.call(t, http.MethodPost, address+"/things/7?x=1", body, http.Header{"X-Own": {"a"}, "Content-Type": {"application/octet-stream"}})
		raw, err := io.ReadAll(out.Body)
		if err != nil {
			t.Fatal(err)
		}
		return out.StatusCode, string(raw)
	}
	at, token := in.tunnelled(t, "t-"+service, service, newUpstream(t)+"/base", name)
	eventually(t, "an agent is missed", connectTime, func() bool {
		status, _ := call(deployed, nil)
		return status == http.StatusServiceUnavailable
	})

	stop := in.connect(t, token)
	eventually(t, "the service answers", connectTime, func() bool {
		status, _ := call(deployed, nil)
		return status == http.StatusOK
	})
	status, body := call(deployed, strings.NewReader("seven"))
	if e := echoOf(t, body); status != http.StatusOK || e.Method != http.MethodPost || e.Path != "/base/v1/things/7" || e.Query != "x=1" ||
		e.Body != "seven" || e.Header.Get("X-Own") != "a" || strings.Contains(fmt.Sprint(e.Header), token) {
		t.Errorf("the service was asked %d %+v", status, e)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16)
	if status, body := call(deployed, bytes.NewReader(large)); status != http.StatusOK || echoOf(t, body).Body != string(large) {
		t.Errorf("call(3 MB) = status %d with %d bytes, want 200 with the echo: %.500s", status, len(body), body)
	}
	if status, body := call(preview, nil); status < 400 || strings.Contains(body, "/base/v1") {
		t.Errorf("a preview, which it is not for, is answered %d %s", status, body)
	}

	rotated := in.ask(t, http.StatusOK, http.MethodPost, at+"/$rotate-token", "")
	if status, _ := call(deployed, nil); status != http.StatusOK {
		t.Errorf("a rotated token has ended what was connected: %d", status)
	}
	stop()
	eventually(t, "the agent is gone", connectTime, func() bool {
		status, _ := call(deployed, nil)
		return status == http.StatusServiceUnavailable
	})
	in.connect(t, rotated.text("token"))
	eventually(t, "the service answers again", connectTime, func() bool {
		status, _ := call(deployed, nil)
		return status == http.StatusOK
	})

	in.ask(t, http.StatusBadRequest, http.MethodPut, at+"/services-configuration", configured(service, in.relay+"/ask", name))
	in.ask(t, http.StatusOK, http.MethodDelete, at, "")
	eventually(t, "the service is gone with its tunnel", connectTime+tunnels.Staleness, func() bool {
		status, _ := call(deployed, nil)
		return status >= http.StatusInternalServerError
	})
}
