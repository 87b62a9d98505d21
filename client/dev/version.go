package dev

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/problem"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/project"
)

// version is a compiled project. Each version has its own gateway, so that the caches of an old version are released
// after the version's last request. All versions share keys, limits and connections to upstreams.
type version struct {
	gateway *gateway.Gateway
	builtAt time.Time
	routes  int
}

// newVersion returns a version for an artifact.
func (s *server) newVersion(a *project.Artifact) *version {
	config := s.config
	config.Deployments = deployments{hosts: s.hosts, deployment: &gateway.Deployment{
		Digest:   a.Identity.BuildID,
		Artifact: a,
	}}
	return &version{gateway: gateway.New(config), builtAt: time.Now(), routes: len(a.Routes)}
}

// identity returns the identity of the project: a developer's working copy.
func (s *server) identity() project.Identity {
	return project.Identity{
		AccountID: "dev", Account: "dev", Project: "dev", Branch: "dev", Environment: "development", Deployment: "dev",
		BuildID: s.ids.UUID(),
	}
}

// deployments implements gateway.Deployments with one deployment, which is served for all allowed hosts.
type deployments struct {
	hosts      hosts
	deployment *gateway.Deployment
}

var _ gateway.Deployments = deployments{}

// Resolve implements gateway.Deployments.
func (d deployments) Resolve(_ context.Context, host string) (*gateway.Deployment, error) {
	if !d.hosts.allows(host) {
		return nil, fault.Missing("deployment")
	}
	return d.deployment, nil
}

// inFlightVersions counts the requests in flight of each version. An open WebSocket can belong to an old version.
type inFlightVersions struct {
	mu     sync.Mutex
	counts map[*version]int
}

func (iv *inFlightVersions) acquire(v *version) {
	iv.mu.Lock()
	defer iv.mu.Unlock()
	if iv.counts == nil {
		iv.counts = map[*version]int{}
	}
	iv.counts[v]++
}

func (iv *inFlightVersions) release(v *version) {
	iv.mu.Lock()
	defer iv.mu.Unlock()
	if iv.counts[v]--; iv.counts[v] == 0 {
		delete(iv.counts, v)
	}
}

// endUpgrades ends upgraded connections, which http.Server no longer tracks.
func (iv *inFlightVersions) endUpgrades(ctx context.Context) {
	iv.mu.Lock()
	var wg sync.WaitGroup
	for v := range iv.counts {
		wg.Go(func() { v.gateway.EndUpgrades(ctx) })
	}
	iv.mu.Unlock()
	wg.Wait()
}

// ServeHTTP serves a request with the version that is current when the request begins.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := s.current.Load()
	if v == nil {
		s.serveUnavailable(w, r)
		return
	}
	s.inFlight.acquire(v)
	defer s.inFlight.release(v)
	v.gateway.ServeHTTP(w, r)
}

// serveUnavailable responds to a request while no version without errors exists.
func (s *server) serveUnavailable(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	id := s.ids.UUID()
	document := problem.New(http.StatusServiceUnavailable, "The project is being read. Repeat the request in a moment.")
	// The reason contains parts of the project's files. It is written only for allowed hosts, because a page of another
	// site must not read it.
	if reason := s.unavailableReason.Load(); reason != nil {
		document.Detail = *reason
	}
	if !framing.ValidHost(r.Host) || !s.hosts.allows(framing.HostName(r.Host)) {
		document = problem.New(http.StatusNotFound, "Nothing is served for this host.")
	}
	document.Trace = problem.Trace{Timestamp: problem.Timestamp(start), RequestID: id}
	response := document.Response()
	defer response.Body.Close()
	header := w.Header()
	for name, values := range response.Header {
		header[name] = values
	}
	header.Set("X-Request-Id", id)
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(document.Status)
	_, _ = io.Copy(w, response.Body)
	s.accessLog.LogAttrs(r.Context(), slog.LevelInfo, "request",
		slog.String("requestId", id), slog.String("host", credential.Redact(r.Host)),
		slog.String("path", credential.Redact(r.URL.EscapedPath())),
		slog.String("method", r.Method), slog.Int("status", document.Status),
		slog.Float64("latency", telemetry.Milliseconds(time.Since(start))))
}
