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

	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// connectTime bounds how long an agent needs to connect, and then how long the API needs to report the connection.
const connectTime = time.Minute

// createTunnel creates a tunnel to a service on this machine, which a project's production environment can call. It returns the tunnel's
// path and its token.
func (ta *target) createTunnel(t *testing.T, name, service, endpoint, project string) (tunnelPath, token string) {
	t.Helper()
	created := ta.ask(t, http.StatusCreated, http.MethodPost, ta.path("/tunnels"), fmt.Sprintf(`{"name":%q}`, name))
	tunnelPath = ta.path("/tunnels/%s", created.text("tunnelId"))
	operation := ta.ask(t, http.StatusOK, http.MethodPut, tunnelPath+"/services-configuration",
		servicesConfiguration(service, endpoint, project))
	eventually(t, "the service is provisioned", connectTime, func() bool {
		o := ta.ask(t, http.StatusOK, http.MethodGet, tunnelPath+"/provisioning-operations/"+operation.text("id"), "")
		if o.text("status") == "failed" {
			t.Fatalf("the provisioning has ended with %v, want success", o)
		}
		return o.text("status") == "success"
	})
	return tunnelPath, created.text("token")
}

// servicesConfiguration returns the configuration of a tunnel with a service that the production of a project can call.
func servicesConfiguration(service, endpoint, project string) string {
	return fmt.Sprintf(`{"version":1,"services":[{"name":%q,"endpoint":%q,`+
		`"configurations":[{"project":%q,"accessibleBy":["production"]}]}]}`,
		service, endpoint, project)
}

// connect runs an agent until stop is called, or until the test ends.
func (ta *target) connect(t *testing.T, token string) (stop func()) {
	t.Helper()
	relay, err := url.Parse(ta.relay)
	if err != nil {
		t.Fatal(err)
	}
	agent := tunnel.NewAgent(tunnel.AgentOptions{
		Relay: relay, Token: func() (string, error) { return token, nil }, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = agent.Run(ctx, time.Second)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// TestRequestsGoThroughATunnel sends requests from a deployment to a service that only its agent can reach. They must
// succeed while an agent is connected, and fail for a preview environment that has no access.
func TestRequestsGoThroughATunnel(t *testing.T) {
	t.Parallel()
	inst := installation
	if inst.relay == "" {
		t.Skipf("this test needs a relay: set %s to the relay of the installation under test", varRelay)
	}
	name := unique(t, "inner")
	service := "Stock-" + strings.TrimPrefix(name, "inner-")
	p := project(t, []route{
		{
			path: "/things/{id}", method: "post", handler: "urlForwardHandler",
			options: map[string]any{"baseUrl": "service://" + service + "/v1"},
		},
	}, "")
	deployed := inst.deploy(t, name, "main", p)
	preview := inst.deploy(t, name, "side", p)
	call := func(address string, body io.Reader) (int, string) {
		resp := inst.call(t, http.MethodPost, address+"/things/7?x=1", body,
			http.Header{"X-Own": {"a"}, "Content-Type": {"application/octet-stream"}})
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(raw)
	}
	tunnelPath, token := inst.createTunnel(t, "t-"+service, service, newUpstream(t)+"/base", name)
	eventually(t, "requests fail with 503 without an agent", connectTime, func() bool {
		status, _ := call(deployed, nil)
		return status == http.StatusServiceUnavailable
	})

	stop := inst.connect(t, token)
	eventually(t, "the service responds", connectTime, func() bool {
		status, _ := call(deployed, nil)
		return status == http.StatusOK
	})
	status, body := call(deployed, strings.NewReader("seven"))
	e := echoOf(t, body)
	if status != http.StatusOK || e.Method != http.MethodPost {
		t.Errorf("call(seven): status = %d, method %s, want 200 and POST", status, e.Method)
	}
	if e.Path != "/base/v1/things/7" || e.Query != "x=1" || e.Body != "seven" {
		t.Errorf("call(seven): the service received %s?%s with %q, want /base/v1/things/7?x=1 with \"seven\"", e.Path,
			e.Query, e.Body)
	}
	if e.Header.Get("X-Own") != "a" || strings.Contains(fmt.Sprint(e.Header), token) {
		t.Errorf("call(seven): the service received the header %v, want X-Own: a and no token", e.Header)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 3<<20/16)
	if status, body := call(deployed, bytes.NewReader(large)); status != http.StatusOK ||
		echoOf(t, body).Body != string(large) {
		t.Errorf("call(3 MB) = status %d with %d bytes, want 200 with the echo: %.500s", status, len(body), body)
	}
	if status, body := call(preview, nil); status < 400 || strings.Contains(body, "/base/v1") {
		t.Errorf("call of a preview that has no access to the service: status = %d, want 400 or more: %s", status, body)
	}

	rotated := inst.ask(t, http.StatusOK, http.MethodPost, tunnelPath+"/$rotate-token", "")
	if status, _ := call(deployed, nil); status != http.StatusOK {
		t.Errorf("call after the token was rotated: status = %d, want 200 over the existing connection", status)
	}
	stop()
	eventually(t, "requests fail with 503 after the agent has stopped", connectTime, func() bool {
		status, _ := call(deployed, nil)
		return status == http.StatusServiceUnavailable
	})
	inst.connect(t, rotated.text("token"))
	eventually(t, "the service responds again", connectTime, func() bool {
		status, _ := call(deployed, nil)
		return status == http.StatusOK
	})

	inst.ask(t, http.StatusBadRequest, http.MethodPut, tunnelPath+"/services-configuration",
		servicesConfiguration(service, inst.relay+"/ask", name))
	inst.ask(t, http.StatusOK, http.MethodDelete, tunnelPath, "")
	eventually(t, "requests fail after the tunnel was deleted", connectTime+tunnels.Staleness, func() bool {
		status, _ := call(deployed, nil)
		return status >= http.StatusInternalServerError
	})
}
