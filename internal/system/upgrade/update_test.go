package upgrade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/system/instance"
)

// local/dev/emulators sets these variables: the installation of the last release, and the program that updates it.
const (
	varUpdate = "GATEWRIGHT_TEST_UPDATE"
	varFolder = "GATEWRIGHT_TEST_UPDATE_FOLDER"
)

// soldUnits is the number of units that the customer has bought. The customer spends them while the functions of each
// version are terminated without notice. Functions do not lease such small quotas in advance (decision 0039), so
// exactly this number of units is admitted. From a larger quota, a terminated function could hold leased units for up
// to four minutes.
const soldUnits = 450

// settleTime is the time of traffic before the first update and after each update.
const settleTime = 6 * time.Second

// The response times of the upstream for requests that have to be in flight when an alias switches to another version, and when the
// earlier version is removed.
const (
	slowDelay   = 4 * time.Second
	slowerDelay = 9 * time.Second
)

// TestUpdateUnderTraffic updates an installation of the last release to this version and back, while clients send requests all the time.
// Before that, an update fails after all functions have been released, and CloudFormation rolls it back.
func TestUpdateUnderTraffic(t *testing.T) {
	binary := os.Getenv(varUpdate)
	if binary == "" {
		t.Skip("this test needs an emulator with an installation: make test-update")
	}
	fx := newFixture(t)
	fx.p = &instance.Instance{
		API: os.Getenv("GATEWRIGHT_SCENARIO_API"), Gateway: os.Getenv("GATEWRIGHT_SCENARIO_GATEWAY"),
		Key: os.Getenv("GATEWRIGHT_SCENARIO_KEY"),
	}
	fx.createSubscription(soldUnits)
	fx.createTunnel() // no relay runs, but the tunnel's configuration has to remain
	fx.ask(http.MethodPost, account+"/custom-domains", fmt.Sprintf(`{"hostname":%q}`, hostname))
	fx.work("open")
	fx.createProject("moving", fx.metering())
	fx.ask(http.MethodPost, account+"/key-buckets/written/consumers", `{"name":"changed"}`)
	fx.recordResponses()
	delete(fx.recorded, fx.subscription+"/quotas") // the quotas change all the time

	c := fx.startClients("before")
	time.Sleep(settleTime)
	for _, update := range []struct{ version, description string }{
		{"failing", "an update that fails"},
		{"next", "the update to this version"},
		{"repeated", "the same once more"},
		{"released", "the way back"},
	} {
		c.setPhase(update.description)
		startedAt := time.Now()
		fx.runUpdate(binary, update.version)
		t.Logf("%s took %.1f s", update.description, time.Since(startedAt).Seconds())
		c.setPhase("after " + update.description)
		time.Sleep(settleTime)
	}
	report, err := c.end()
	t.Logf("what clients saw:\n%s", report)
	if n := c.failedIn("before"); n > 0 {
		t.Errorf("%d requests failed before the update, want 0: the emulator loses them, or the installation does not work",
			n)
	}
	if err != nil {
		t.Errorf("failed requests of clients, want none:\n%v", err)
	}
	fx.compareResponses()
	fx.checkWrites("traffic")
	if got := fx.ask(http.MethodGet, account+"/key-buckets/written/consumers/changed",
		"")["description"]; got != c.changed {
		t.Errorf("the description is %v, want %s, which was written last", got, c.changed)
	}
	if status, body := fx.get(c.newest, fx.key); status != http.StatusOK {
		t.Errorf("GET /hello of the newest deployment: status = %d, want 200: %s", status, body)
	}
	fx.checkSpentExactly(&c.admitted)
}

// runUpdate updates the installation to a version.
func (fx *fixture) runUpdate(binary, version string) {
	fx.Helper()
	cmd := exec.CommandContext(fx.Context(), binary, "deploy", "ministack", os.Getenv(varFolder), version)
	cmd.Dir = repository
	out, err := cmd.CombinedOutput()
	if err != nil {
		fx.Errorf("the update to %s: %v\n%s", version, err, out)
	}
	fx.Logf("%s: %s", version, strings.TrimSpace(string(out)))
}

// upResponse is the upstream's response to calls.
const upResponse = "answer to /up/hello"

// updateClients are the clients of an installation that is updated, and the results that they remember.
type updateClients struct {
	*traffic
	changed  string // the last value that a description was changed to
	newest   string // the host of the deployment that was built last
	admitted atomic.Int64
}

// startClients starts clients for everything that an update could interrupt.
func (fx *fixture) startClients(phase string) *updateClients {
	c := &updateClients{traffic: newTraffic(fx.Context(), phase)}
	const interval = 40 * time.Millisecond
	start := func(name string, request func(ctx context.Context, n int) error) {
		c.start(client{name: name, interval: interval, request: request})
	}
	start("reads", func(ctx context.Context, n int) error {
		paths := []string{
			"/v1/who-am-i", account + "/key-buckets", account + "/projects/shop/deployments",
			account + "/tunnels", "/v1/metering",
		}
		return fx.p.RequestJSON(ctx, nil, http.MethodGet, paths[n%len(paths)], "")
	})
	start("writes", func(ctx context.Context, n int) error {
		name := fmt.Sprintf("traffic-%d", n)
		err := fx.p.RequestJSON(ctx, nil, http.MethodPost, account+"/key-buckets/written/consumers",
			fmt.Sprintf(`{"name":%q}`, name))
		if err == nil {
			fx.written["traffic"] = append(fx.written["traffic"], name)
		}
		return err
	})
	start("changes", func(ctx context.Context, n int) error {
		text := fmt.Sprintf("change %d", n)
		err := fx.p.RequestJSON(ctx, nil, http.MethodPatch, account+"/key-buckets/written/consumers/changed",
			fmt.Sprintf(`{"description":%q}`, text))
		if err == nil {
			c.changed = text
		}
		return err
	})
	open, shop := fx.host("open"), fx.host("shop")
	start("calls", func(ctx context.Context, n int) error {
		if n%4 == 3 { // every fourth request has no key, and must be refused
			status, body, err := fx.request(ctx, open, "", 0)
			return checkResponse(status, http.StatusUnauthorized, body, "", err)
		}
		status, body, err := fx.request(ctx, open, fx.key, 0)
		return checkResponse(status, http.StatusOK, body, upResponse, err)
	})
	for _, delay := range []time.Duration{slowDelay, slowerDelay} {
		c.start(client{
			name: "calls of " + delay.String(), interval: interval, slow: true,
			request: func(ctx context.Context, _ int) error {
				status, body, err := fx.request(ctx, open, fx.key, delay)
				return checkResponse(status, http.StatusOK, body, upResponse, err)
			},
		})
	}
	for _, name := range []string{"bought calls", "as many again"} {
		c.start(client{name: name, interval: 5 * interval, request: func(ctx context.Context, _ int) error {
			status, body, err := fx.request(ctx, shop, fx.key, 0)
			// a request of the other client for the last unit can be in flight
			if err == nil && status == http.StatusTooManyRequests && c.admitted.Load() >= soldUnits-1 {
				return nil
			}
			if err = checkResponse(status, http.StatusOK, body, upResponse, err); err == nil {
				c.admitted.Add(1)
			}
			return err
		}})
	}
	c.start(client{name: "builds", interval: interval, slow: true, request: func(ctx context.Context, _ int) error {
		b, err := fx.p.Deploy(ctx, "demo", "moving", projectArchive("${env.UPSTREAM}/up${pathname}", "key"))
		if err != nil {
			return err
		}
		if b.Status != "SUCCESS" {
			return fmt.Errorf("the build ends with %s: %s", b.Status, b.BuildResult)
		}
		host, err := hostOf(b.URL)
		if err != nil {
			return err
		}
		status, body, err := fx.request(ctx, host, fx.key, 0)
		if err = checkResponse(status, http.StatusOK, body, upResponse, err); err == nil {
			c.newest = host
		}
		return err
	}})
	return c
}

// checkSpentExactly spends the remaining units, and checks that exactly soldUnits are admitted in total.
func (fx *fixture) checkSpentExactly(admitted *atomic.Int64) {
	fx.Helper()
	duringUpdates := admitted.Load()
	for refused := 0; refused < 5; {
		switch status, body := fx.get(fx.host("shop"), fx.key); status {
		case http.StatusOK:
			admitted.Add(1)
		case http.StatusTooManyRequests:
			refused++
		default:
			fx.Fatalf("GET /hello of shop: status = %d, want 200 or 429: %s", status, body)
		}
	}
	fx.Logf("of %d units %d were admitted during the updates, and %d in all", soldUnits, duringUpdates, admitted.Load())
	if admitted.Load() != soldUnits {
		raw, _ := json.Marshal(fx.ask(http.MethodGet, fx.subscription+"/quotas", ""))
		fx.Errorf("%d requests were admitted, want the %d that were sold; remaining: %s", admitted.Load(), soldUnits, raw)
	}
}
