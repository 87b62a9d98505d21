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

	"github.com/gatewright/gatewright/local/instance"
)

// The variables by which local/emulators names an installation of the last release, and itself, which updates it.
const (
	varUpdate = "GATEWRIGHT_TEST_UPDATE"
	varFolder = "GATEWRIGHT_TEST_UPDATE_FOLDER"
)

// sold is how many units the customer has bought of an installation that is updated. It spends them while the functions of
// one version after the other are ended, which tells none of them. Of so few none is leased ahead (decision 0039), so that exactly
// these are admitted; of more, what such a function holds comes back within four minutes.
const sold = 450

// settled is how long traffic goes on before the first update, and after each.
const settled = 6 * time.Second

// How long an upstream takes for the requests that are to be on their way when an alias leads elsewhere, and when the version
// before is removed.
const (
	slow   = 4 * time.Second
	slower = 9 * time.Second
)

// TestUpdateUnderTraffic updates an installation of the last release to this version, and back, while clients ask it all the time.
// Before, an update fails when all functions have been released, and is taken back by CloudFormation.
func TestUpdateUnderTraffic(t *testing.T) {
	binary := os.Getenv(varUpdate)
	if binary == "" {
		t.Skip("it needs an emulator with an installation: make test-update")
	}
	w := newWorld(t)
	w.p = &instance.Instance{API: os.Getenv("GATEWRIGHT_SCENARIO_API"), Gateway: os.Getenv("GATEWRIGHT_SCENARIO_GATEWAY"), Key: os.Getenv("GATEWRIGHT_SCENARIO_KEY")}
	w.sell(sold)
	w.dig() // no relay is beside it: what is configured has to stay
	w.ask(http.MethodPost, account+"/custom-domains", fmt.Sprintf(`{"hostname":%q}`, hostname))
	w.work("open")
	w.project("moving", w.metering())
	w.ask(http.MethodPost, account+"/key-buckets/written/consumers", `{"name":"changed"}`)
	w.note()
	delete(w.noted, w.subscription+"/quotas") // spent all the time

	c := w.askedAllTheTime("before")
	time.Sleep(settled)
	for _, to := range []struct{ version, is string }{
		{"failing", "an update that fails"}, {"next", "the update to this version"}, {"repeated", "the same once more"}, {"released", "the way back"},
	} {
		c.during(to.is)
		began := time.Now()
		w.deployed(binary, to.version)
		t.Logf("%s took %.1f s", to.is, time.Since(began).Seconds())
		c.during("after " + to.is)
		time.Sleep(settled)
	}
	told, err := c.end()
	t.Logf("what clients saw:\n%s", told)
	if n := c.failedIn("before"); n > 0 {
		t.Errorf("%d requests fail before anything is updated: it is the emulator that loses them, or an installation that does not work", n)
	}
	if err != nil {
		t.Error(err)
	}
	w.same()
	w.wrote("traffic")
	if got := w.ask(http.MethodGet, account+"/key-buckets/written/consumers/changed", "")["description"]; got != c.changed {
		t.Errorf("the description is %v, and was changed to %s at last", got, c.changed)
	}
	if status, body := w.get(c.newest, w.key); status != http.StatusOK {
		t.Errorf("the newest deployment answers with %d %s", status, body)
	}
	w.spentExactly(&c.admitted)
}

// deployed has the installation updated to a version.
func (w *world) deployed(binary, version string) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), binary, "deploy", "ministack", os.Getenv(varFolder), version)
	cmd.Dir = repository
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Errorf("the update to %s: %v\n%s", version, err, out)
	}
	w.Logf("%s: %s", version, strings.TrimSpace(string(out)))
}

// upped is what the upstream answers to calls.
const upped = "answer to /up/hello"

// asked are the clients of an installation that is updated, and what they were answered.
type asked struct {
	*traffic
	changed  string // what a description was changed to at last
	newest   string // the host of the deployment that was built at last
	admitted atomic.Int64
}

// askedAllTheTime has clients ask for everything that an update could interrupt.
func (w *world) askedAllTheTime(phase string) *asked {
	c := &asked{traffic: newTraffic(w.Context(), phase)}
	const pause = 40 * time.Millisecond
	begin := func(name string, ask func(ctx context.Context, n int) error) {
		c.begin(client{name: name, pause: pause, ask: ask})
	}
	begin("reads", func(ctx context.Context, n int) error {
		paths := []string{"/v1/who-am-i", account + "/key-buckets", account + "/projects/shop/deployments", account + "/tunnels", "/v1/metering"}
		return w.p.Into(ctx, nil, http.MethodGet, paths[n%len(paths)], "")
	})
	begin("writes", func(ctx context.Context, n int) error {
		one := fmt.Sprintf("traffic-%d", n)
		err := w.p.Into(ctx, nil, http.MethodPost, account+"/key-buckets/written/consumers", fmt.Sprintf(`{"name":%q}`, one))
		if err == nil {
			w.written["traffic"] = append(w.written["traffic"], one)
		}
		return err
	})
	begin("changes", func(ctx context.Context, n int) error {
		text := fmt.Sprintf("change %d", n)
		err := w.p.Into(ctx, nil, http.MethodPatch, account+"/key-buckets/written/consumers/changed", fmt.Sprintf(`{"description":%q}`, text))
		if err == nil {
			c.changed = text
		}
		return err
	})
	open, shop := w.host("open"), w.host("shop")
	begin("calls", func(ctx context.Context, n int) error {
		if n%4 == 3 { // a stranger is refused all the time, too
			status, body, err := w.try(ctx, open, "", 0)
			return answered(status, http.StatusUnauthorized, body, "", err)
		}
		status, body, err := w.try(ctx, open, w.key, 0)
		return answered(status, http.StatusOK, body, upped, err)
	})
	for _, takes := range []time.Duration{slow, slower} {
		c.begin(client{name: "calls of " + takes.String(), pause: pause, slow: true, ask: func(ctx context.Context, _ int) error {
			status, body, err := w.try(ctx, open, w.key, takes)
			return answered(status, http.StatusOK, body, upped, err)
		}})
	}
	for _, name := range []string{"bought calls", "as many again"} {
		c.begin(client{name: name, pause: 5 * pause, ask: func(ctx context.Context, _ int) error {
			status, body, err := w.try(ctx, shop, w.key, 0)
			if err == nil && status == http.StatusTooManyRequests && c.admitted.Load() >= sold-1 { // the other one's last is on its way
				return nil
			}
			if err = answered(status, http.StatusOK, body, upped, err); err == nil {
				c.admitted.Add(1)
			}
			return err
		}})
	}
	c.begin(client{name: "builds", pause: pause, slow: true, ask: func(ctx context.Context, _ int) error {
		b, err := w.p.Deploy(ctx, "demo", "moving", archived("${env.UPSTREAM}/up${pathname}", "key"))
		if err != nil {
			return err
		}
		if b.Status != "SUCCESS" {
			return fmt.Errorf("the build ends with %s: %s", b.Status, b.BuildResult)
		}
		at, err := hostOf(b.URL)
		if err != nil {
			return err
		}
		status, body, err := w.try(ctx, at, w.key, 0)
		if err = answered(status, http.StatusOK, body, upped, err); err == nil {
			c.newest = at
		}
		return err
	}})
	return c
}

// spentExactly spends what is left of what was sold: all of it is admitted, and nothing beyond.
func (w *world) spentExactly(admitted *atomic.Int64) {
	w.Helper()
	within := admitted.Load()
	for refused := 0; refused < 5; {
		switch status, body := w.get(w.host("shop"), w.key); status {
		case http.StatusOK:
			admitted.Add(1)
		case http.StatusTooManyRequests:
			refused++
		default:
			w.Fatalf("a call that was bought is answered with %d %s", status, body)
		}
	}
	w.Logf("of %d units %d were admitted during the updates, and %d in all", sold, within, admitted.Load())
	if admitted.Load() != sold {
		raw, _ := json.Marshal(w.ask(http.MethodGet, w.subscription+"/quotas", ""))
		w.Errorf("of %d units that were sold %d are admitted; left are %s", sold, admitted.Load(), raw)
	}
}
