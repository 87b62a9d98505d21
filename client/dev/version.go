package dev

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/problem"
	"github.com/gatewright/gatewright/shared/listen/framing"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// version is a project as it was at a moment, ready to serve. Each has a gateway of its own, so that what an older one has
// made ready is forgotten with the last of its requests; keys, limits and connections to upstreams are those of all.
type version struct {
	gateway *gateway.Gateway
	since   time.Time
	routes  int
}

// newVersion makes a version of an artifact.
func (s *server) newVersion(a *project.Artifact) *version {
	config := s.config
	config.Deployments = deployments{hosts: s.hosts, served: &gateway.Deployment{Digest: a.Identity.BuildID, Artifact: a}}
	return &version{gateway: gateway.New(config), since: time.Now(), routes: len(a.Routes)}
}

// identity is whose project it is: a developer's working copy.
func (s *server) identity() project.Identity {
	return project.Identity{
		AccountID: "dev", Account: "dev", Project: "dev", Branch: "dev", Environment: "development", Deployment: "dev", BuildID: s.ids.UUID(),
	}
}

// deployments serve one deployment at all hosts that a request may be for.
type deployments struct {
	hosts  hosts
	served *gateway.Deployment
}

var _ gateway.Deployments = deployments{}

// Resolve implements gateway.Deployments.
func (d deployments) Resolve(_ context.Context, host string) (*gateway.Deployment, error) {
	if !d.hosts.served(host) {
		return nil, fault.Missing("deployment")
	}
	return d.served, nil
}

// live are the versions that have requests under way: those of a WebSocket may be of an old one.
type live struct {
	mu sync.Mutex
	of map[*version]int
}

func (l *live) enter(v *version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[*version]int{}
	}
	l.of[v]++
}

func (l *live) leave(v *version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[v]--; l.of[v] == 0 {
		delete(l.of, v)
	}
}

// endUpgrades ends the connections of other protocols, of which no server knows any more.
func (l *live) endUpgrades(ctx context.Context) {
	l.mu.Lock()
	var all sync.WaitGroup
	for v := range l.of {
		all.Go(func() { v.gateway.EndUpgrades(ctx) })
	}
	l.mu.Unlock()
	all.Wait()
}

// ServeHTTP has the version answer that is served now, to the request's end.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := s.current.Load()
	if v == nil {
		s.unserved(w, r)
		return
	}
	s.live.enter(v)
	defer s.live.leave(v)
	v.gateway.ServeHTTP(w, r)
}

// unserved answers while there has been no version that can be served.
func (s *server) unserved(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	id := s.ids.UUID()
	document := problem.New(http.StatusServiceUnavailable, "The project is being read. Repeat the request in a moment.")
	// Why a project is broken tells of its files: a page of another site, whose name leads here, reads nothing of it.
	if why := s.refusal.Load(); why != nil {
		document.Detail = *why
	}
	if !framing.ValidHost(r.Host) || !s.hosts.served(framing.HostName(r.Host)) {
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
	s.access.LogAttrs(r.Context(), slog.LevelInfo, "request",
		slog.String("requestId", id), slog.String("host", credential.Redact(r.Host)), slog.String("path", credential.Redact(r.URL.EscapedPath())),
		slog.String("method", r.Method), slog.Int("status", document.Status), slog.Float64("latency", telemetry.Milliseconds(time.Since(start))))
}
