package container

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/metrics"
	"github.com/gatewright/gatewright/shared/service"
	"github.com/gatewright/gatewright/shared/service/admin"
)

// listeners are those of a service; plain and admin are nil where it has none.
type listeners struct{ tls, plain, admin net.Listener }

func (l listeners) close() {
	for _, one := range []net.Listener{l.tls, l.plain, l.admin} {
		if one != nil {
			_ = one.Close()
		}
	}
}

func listenersOf(ctx context.Context, s service.Service, getenv func(string) string) (l listeners, err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.tls, err = listen.On(ctx, cmp.Or(getenv(s.Listen), ":"+strconv.Itoa(s.Port.Listens)), "the service "+s.Name, s.Listen); err != nil {
		return l, err
	}
	if at := getenv(s.Plain); s.Plain != "" && at != "" {
		if l.plain, err = listen.On(ctx, at, "the service "+s.Name+" by plain HTTP", s.Plain); err != nil {
			return l, err
		}
	}
	if s.Admin.Listen != "" {
		l.admin, err = listen.On(ctx, cmp.Or(getenv(s.Admin.Listen), s.Admin.Default), "operators", s.Admin.Listen)
	}
	return l, err
}

// watch is what operators ask about. For a service without an admin address it is nothing.
type watch struct {
	metrics *metrics.Metrics

	mu      sync.Mutex // guards servers, of which there is one for each listener of clients
	servers []*listen.Server
}

// newWatch has the parts tell what they measure.
func newWatch(s service.Service, parts *installation.Parts) *watch {
	w := &watch{}
	if s.Admin.Listen != "" {
		w.metrics = metrics.New(w.connections)
		parts.Telemetry.Meter = w.metrics
	}
	return w
}

func (w *watch) count(s *listen.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers = append(w.servers, s)
}

func (w *watch) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, s := range w.servers {
		n += s.Connections()
	}
	return n
}

// adminTimeout bounds what an operator's request may take, and adminHead its head.
const (
	adminTimeout = 10 * time.Second
	adminHead    = 16 << 10
)

// serve answers operators until the end that it gives is called: after all else has ended, so
// that what waits for the process sees it drain. It is ready until ctx ends.
func (w *watch) serve(ctx context.Context, l net.Listener, log *slog.Logger) (end func()) {
	server := &http.Server{
		Handler:           admin.New(func() bool { return ctx.Err() == nil }, w.metrics.Handler()),
		ReadHeaderTimeout: adminTimeout, ReadTimeout: adminTimeout, WriteTimeout: 2 * adminTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: adminHead, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	return func() {
		_ = server.Close()
		<-ended
	}
}
