package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gatewright/gatewright/functions/relay"
	"github.com/gatewright/gatewright/local/supervise"
	"github.com/gatewright/gatewright/shared/config"
)

// reserve finds an address for the relay: functions are deployed with it, long before the
// relay can start.
func (s *suite) reserve(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a port for the relay: %w", err)
	}
	s.reserved, s.relay = l, "http://"+l.Addr().String()
	return nil
}

// startRelay starts the relay beside the emulator, which runs no containers: with the
// environment of the gateway's function, so that both know one installation. It gives a nil
// child, and says why, where gateways could not ask it.
func (s *suite) startRelay(ctx context.Context) (*supervise.Child, error) {
	env, err := s.variables(ctx, "gateway")
	if err != nil {
		return nil, err
	}
	if s.relay == "" || env[config.VarRelay] != s.relay {
		fmt.Fprintln(os.Stderr, s.emulator+": its gateway knows no relay on this machine, so that no request goes through a tunnel")
		s.relay = ""
		return nil, nil // none is the answer
	}
	delete(env, config.VarUsesFile) // the relay is in no template of an emulator, and so has no role there
	env[config.VarRelayAddr] = strings.TrimPrefix(s.relay, "http://")
	maps.Copy(env, map[string]string{
		"AWS_ENDPOINT_URL": s.endpoint, "AWS_REGION": s.region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
	})
	var environ []string
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	path, err := filepath.Abs(filepath.Join("dist", runtime.GOARCH, relay.Service.Name, "container"))
	if err != nil {
		return nil, fmt.Errorf("find the relay: %w", err)
	}
	if err := s.reserved.Close(); err != nil {
		return nil, fmt.Errorf("give the relay its port: %w", err)
	}
	return supervise.Start(ctx, supervise.Spec{
		Name: "the relay", Path: path, Env: environ, Log: os.Stderr, StartTimeout: time.Minute,
		Ready: func(ctx context.Context) error { return healthyAt(ctx, s.relay+relay.Service.Health) },
	}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

// variables are those of a function's environment.
func (s *suite) variables(ctx context.Context, function string) (map[string]string, error) {
	var of struct {
		Environment struct{ Variables map[string]string }
	}
	err := s.request(ctx, http.MethodGet, "/2015-03-31/functions/gatewright-"+stage+"-"+function+"/configuration", nil,
		func(answer *http.Response) error { return json.NewDecoder(answer.Body).Decode(&of) })
	return of.Environment.Variables, err
}
