package product

import (
	"bytes"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/config"
)

// TestOperatorsOfARunAreNoUpstream, at the port that they were given too.
func TestOperatorsOfARunAreNoUpstream(t *testing.T) {
	w, err := listenAdmin(t.Context(), settings{adminAddr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	o := &opened{database: &database{}}
	w.opened(o)
	if at := w.listener.Addr().String(); !slices.Contains(o.parts.Unasked, at) {
		t.Errorf("projects may call operators at %s", at)
	}
	if o.unasked(nil, w.listener.Addr()); len(o.parts.Unasked) != 2 {
		t.Errorf("no listener has an address: %q", o.parts.Unasked)
	}
	if o.parts.Telemetry.Meter == nil || o.parts.Telemetry.Management == nil {
		t.Error("nobody is told of requests")
	}
}

// TestAddressesThatOthersReachAreTold: the operators' asks for no credential, and the API's own is read on its way.
func TestAddressesThatOthersReachAreTold(t *testing.T) {
	for address, alone := range map[string]bool{"127.0.0.1:0": true, "[::1]:0": true, ":0": false, "0.0.0.0:0": false} {
		w, err := listenAdmin(t.Context(), settings{adminAddr: address})
		if err != nil {
			t.Fatal(err)
		}
		at, note := w.shown()
		if !strings.HasPrefix(at, "http://") || !strings.HasSuffix(at, "/metrics") || strings.Contains(at, "0.0.0.0") || (note == "") != alone {
			t.Errorf("%s: operators are shown %s, %q", address, at, note)
		}
		w.close()
		for domain, told := range map[string]bool{"": false, "example.com": !alone} {
			var log bytes.Buffer
			tellPlainAPI(t.Context(), settings{domain: domain, apiAddr: address}, slog.New(slog.NewTextHandler(&log, nil)))
			if got := strings.Contains(log.String(), config.VarAPIAddr); got != told {
				t.Errorf("the API at %s of %q: %s", address, domain, log.String())
			}
		}
	}
	if at, note := (*watched)(nil).shown(); at != "" || note != "" {
		t.Errorf("operators who have no address are shown %q, %q", at, note)
	}
}

// TestOperatorsAskNowhereUnlessItIsSet, nor where others would not be counted.
func TestOperatorsAskNowhereUnlessItIsSet(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		want string // of the error, "" for none
	}{
		"nothing":   {nil, ""},
		"none":      {map[string]string{config.VarAdminAddr: "none"}, ""},
		"functions": {map[string]string{config.VarAdminAddr: "127.0.0.1:9004", config.VarFunctions: "dist/amd64"}, config.VarAdminAddr},
		"a port":    {map[string]string{config.VarAdminAddr: "9004"}, "host:port"},
	} {
		env := maps.Clone(tt.env)
		s, err := Server.settings(func(name string) string { return env[name] })
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: error %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if w, err := listenAdmin(t.Context(), s); w != nil || err != nil {
			t.Errorf("%s: it listens, or fails with %v", name, err)
		}
		var none *watched
		none.close()
		none.dropped(1)
		none.opened(nil)
		none.serve(t.Context(), nil)()
	}
}
