package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/shared/base/asynclog"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	sharedgateway "github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/project"
)

// The rungs of the ladder are gateways. Each rung has everything that the previous rungs have, and one thing more. The
// product costs more than the last rung, because it also has a store on disk, does other work, and writes to the
// terminal.
const (
	rungBare    = "a route alone"
	rungKey     = "and a key"
	rungLimit   = "and a strict limit"
	rungLines   = "and access lines"
	rungMetrics = "and the counts of analytics"
)

func rungs() []string { return []string{rungBare, rungKey, rungLimit, rungLines, rungMetrics} }

// rung returns the gateway of the rung with this name. address is the address of the upstream. Call end after the last
// request.
func rung(ctx context.Context, name, address string) (_ http.Handler, end func(), err error) {
	a, config := artifact(address), gatewayConfig()
	end = func() {}
	a.Policies["limit"] = project.Policy{
		Name: "limit", Type: "rate-limit-inbound", Handler: component("rateLimitInbound", fixture.LimitOptions()),
	}
	for i := range a.Routes {
		switch name {
		case rungBare:
			a.Routes[i].Inbound = nil
		case rungKey:
		default:
			a.Routes[i].Inbound = append(a.Routes[i].Inbound, "limit")
		}
	}
	config.Deployments = singleDeployment{&sharedgateway.Deployment{Digest: "d", Artifact: a}}
	pool := allowance.New(allowance.Options{Table: store.New(memory.New(),
		store.Options{Random: rand.Reader, Now: time.Now}), Now: time.Now, Random: rand.Reader, Log: slog.Default()})
	go pool.Run(ctx, time.Second)
	config.Allowances = gateway.NewLimiter(pool, time.Now)
	if name == rungLines || name == rungMetrics {
		dir, err := os.MkdirTemp("", "gatewright-bench-*")
		if err != nil {
			return nil, nil, fmt.Errorf("create a folder for the log: %w", err)
		}
		file, err := os.Create(filepath.Join(dir, "log")) //nolint:gosec // G304: a new file
		if err != nil {
			return nil, nil, fmt.Errorf("create the log: %w", err)
		}
		lines := asynclog.New(file, nil)
		end = func() {
			lines.Close()
			_ = file.Close()
			_ = os.RemoveAll(dir)
		}
		config.Access = slog.New(asynclog.JSON(lines, slog.LevelInfo))
		config.Telemetry = telemetry.Options{LogPaths: true}
	}
	if name == rungMetrics {
		config.Calls = newCalls(ctx)
	}
	return sharedgateway.New(config), end, nil
}
