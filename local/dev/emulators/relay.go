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
	"github.com/gatewright/gatewright/shared/core/config"
)

// reserveRelayPort reserves a port for the relay, because functions are deployed with the relay's address long before
// the relay can start.
func (s *suite) reserveRelayPort(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("find a port for the relay: %w", err)
	}
	s.relayListener, s.relay = l, "http://"+l.Addr().String()
	return nil
}

// startRelay starts the relay on this machine, because the emulator runs no containers. The relay gets the environment
// of the gateway's function, so that both use the same installation. If no port is reserved, or the gateway does not
// use the relay's address, startRelay prints a message, sets s.relay to "" and returns nil.
func (s *suite) startRelay(ctx context.Context) (*supervise.Child, error) {
	env, err := s.functionVariables(ctx, "gateway")
	if err != nil {
		return nil, err
	}
	if s.relay == "" || env[config.VarRelay] != s.relay {
		fmt.Fprintln(os.Stderr, s.emulator+": its gateway knows no relay on this machine, so that no request goes "+
			"through a tunnel")
		s.relay = ""
		return nil, nil // a missing relay is not an error
	}
	delete(env, config.VarUsesFile) // the relay is not in an emulator's template, so it has no role to compare with
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
	if err := s.relayListener.Close(); err != nil {
		return nil, fmt.Errorf("give the relay its port: %w", err)
	}
	return supervise.Start(ctx, supervise.Spec{
		Name: "the relay", Path: path, Env: environ, Log: os.Stderr, StartTimeout: time.Minute,
		Ready: func(ctx context.Context) error { return checkHealthAt(ctx, s.relay+relay.Service.Health) },
	}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
}

// functionVariables returns the environment variables of a function.
func (s *suite) functionVariables(ctx context.Context, function string) (map[string]string, error) {
	var configuration struct {
		Environment struct{ Variables map[string]string }
	}
	err := s.request(ctx, http.MethodGet, "/2015-03-31/functions/gatewright-"+stage+"-"+function+"/configuration", nil,
		func(resp *http.Response) error { return json.NewDecoder(resp.Body).Decode(&configuration) })
	return configuration.Environment.Variables, err
}
