package product

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/config"
)

// TestAdminAddressIsNoUpstream checks that the operators' address is
// blocked as an upstream, with the actual port if the setting has port 0.
func TestAdminAddressIsNoUpstream(t *testing.T) {
	server, err := listenAdmin(t.Context(), settings{adminAddr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.close()
	res := &resources{database: &database{}}
	server.attach(res)
	if addr := server.listener.Addr().String(); !slices.Contains(res.parts.BlockedAddresses, addr) {
		t.Errorf("blocked addresses = %q, want the admin address %s in them", res.parts.BlockedAddresses, addr)
	}
	if res.blockAddresses(nil, server.listener.Addr()); len(res.parts.BlockedAddresses) != 2 {
		t.Errorf("blockAddresses(nil, an address): blocked addresses = %q, want 2", res.parts.BlockedAddresses)
	}
	if res.parts.Telemetry.Meter == nil || res.parts.Telemetry.Management == nil {
		t.Errorf("telemetry = %+v, want a meter and one for the management API", res.parts.Telemetry)
	}
}

// TestNonLoopbackAddressIsLogged checks the warnings about addresses that other machines can reach: the
// operators' address, which requires no credentials, and the address of the management API by plain HTTP.
func TestNonLoopbackAddressIsLogged(t *testing.T) {
	for address, loopback := range map[string]bool{"127.0.0.1:0": true, "[::1]:0": true, ":0": false, "0.0.0.0:0": false} {
		server, err := listenAdmin(t.Context(), settings{adminAddr: address})
		if err != nil {
			t.Fatal(err)
		}
		addr, note := server.metricsAddress()
		if !strings.HasPrefix(addr, "http://") || !strings.HasSuffix(addr, "/metrics") || strings.Contains(addr, "0.0.0.0") {
			t.Errorf("metricsAddress(%s) = %s, want a URL that ends with /metrics and can be opened", address, addr)
		}
		if (note == "") != loopback {
			t.Errorf("metricsAddress(%s): note = %q, want a note: %v", address, note, !loopback)
		}
		server.close()
		for domain, warned := range map[string]bool{"": false, "example.com": !loopback} {
			var log bytes.Buffer
			warnPlainAPI(t.Context(), settings{domain: domain, apiAddr: address}, slog.New(slog.NewTextHandler(&log, nil)))
			if got := strings.Contains(log.String(), config.VarAPIAddr); got != warned {
				t.Errorf("warnPlainAPI(%s, domain %q) logs %s, want a warning: %v", address, domain, log.String(), warned)
			}
		}
	}
	if addr, note := (*adminServer)(nil).metricsAddress(); addr != "" || note != "" {
		t.Errorf("metricsAddress(no server) = %q, %q, want neither", addr, note)
	}
}

// TestAdminAddressIsOptional checks that there is no address for operators by default. If functions
// are processes, the address is not allowed, because their requests would not be counted.
func TestAdminAddressIsOptional(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		want string // a part of the error, "" for no error
	}{
		"no setting": {nil, ""},
		"none":       {map[string]string{config.VarAdminAddr: "none"}, ""},
		"functions": {
			map[string]string{config.VarAdminAddr: "127.0.0.1:9004", config.VarFunctions: "dist/amd64"},
			config.VarAdminAddr,
		},
		"a port without a host": {map[string]string{config.VarAdminAddr: "9004"}, "host:port"},
	} {
		env := maps.Clone(tt.env)
		s, err := Server.settings(func(name string) string { return env[name] })
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: settings() = %v, want %q", name, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if server, err := listenAdmin(t.Context(), s); server != nil || err != nil {
			t.Errorf("%s: listenAdmin() = %v, %v, want no server and no error", name, server, err)
		}
		// The methods of a nil adminServer do nothing.
		var disabled *adminServer
		disabled.close()
		disabled.countDropped(1)
		disabled.attach(nil)
		disabled.serve(t.Context(), nil)()
	}
}
