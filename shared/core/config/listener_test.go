package config_test

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gatewright/gatewright/shared/core/config"
)

func TestListenerFromEnvironment(t *testing.T) {
	got, err := config.ListenerFromEnvironment(func(string) string { return "" })
	if diff := cmp.Diff(config.DefaultListener(), got); err != nil || diff != "" {
		t.Errorf("ListenerFromEnvironment() without variables: %v, want the defaults; diff:\n%s", err, diff)
	}
	env := map[string]string{
		config.VarHeaderBytes: "2048", config.VarHeaderFields: "20",
		config.VarHeaderTimeout: "1s", config.VarBodyTimeout: "1500ms", config.VarSendTimeout: "3m",
		config.VarIdleTimeout: "1h",
		config.VarConnections: "100", config.VarConnectionsPerAddress: "0", config.VarBufferedBodyBytes: "16777216",
		config.VarTrustedProxies: " 10.1.2.3/8  192.0.2.7 2001:db8::/32 ", config.VarProxyProtocol: "true",
		config.VarStandardHTTP: "true",
	}
	got, err = config.ListenerFromEnvironment(func(name string) string { return env[name] })
	want := config.Listener{
		HeaderBytes: 2048, HeaderFields: 20,
		HeaderTimeout: time.Second, BodyTimeout: 1500 * time.Millisecond, SendTimeout: 3 * time.Minute,
		IdleTimeout: time.Hour,
		Connections: 100, BufferedBodyBytes: 16 << 20,
		TrustedProxies: []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32"),
			netip.MustParsePrefix("2001:db8::/32"),
		},
		ProxyProtocol: true,
		StandardHTTP:  true,
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{})); err != nil || diff != "" {
		t.Errorf("ListenerFromEnvironment(): %v, want the configured values; diff:\n%s", err, diff)
	}
}

func TestErrorNamesInvalidListenerVariable(t *testing.T) {
	for variable, values := range map[string][]string{
		config.VarHeaderBytes:           {"secret", "1023", "-1", "1048577", "64k"},
		config.VarHeaderFields:          {"9", "10001"},
		config.VarConnections:           {"-1", "1.5"},
		config.VarConnectionsPerAddress: {"-1"},
		config.VarBufferedBodyBytes:     {"0", "16777215", "64M"},
		config.VarHeaderTimeout:         {"20", "secret", "0", "-1s", "25h"},
		config.VarBodyTimeout:           {"1ms"},
		config.VarSendTimeout:           {"1ms"},
		config.VarIdleTimeout:           {"1ms"},
		config.VarTrustedProxies: {
			"secret", "10.0.0.0/33", "0.0.0.0/0", "::/0", "10.0.0.1,10.0.0.2",
			"::ffff:10.0.0.0/104", "fe80::1%eth0", "10.0.0.0/8 secret",
		},
		config.VarStandardHTTP:  {"secret", "1", "yes"},
		config.VarProxyProtocol: {"secret", "true", "1"}, // true needs a trusted proxy
	} {
		for _, value := range values {
			_, err := config.ListenerFromEnvironment(func(name string) string {
				if name == variable {
					return value
				}
				return ""
			})
			if err == nil || !strings.Contains(err.Error(), variable) || strings.Contains(err.Error(), "secret") {
				t.Errorf("ListenerFromEnvironment() with %s=%s = %v, want an error that names the variable without the value",
					variable, value, err)
			}
		}
	}
}

func TestCheckAddress(t *testing.T) {
	for text, want := range map[string]bool{
		"127.0.0.1:0": true, ":8081": true, "[::1]:65535": true, "localhost:80": true, "[fe80::1%eth0]:80": true,
		"": false, "127.0.0.1": false, "127.0.0.1:http80": false, "127.0.0.1:http": false, "127.0.0.1:65536": false,
		"127.0.0.1:-1": false, "127.0.0.1:+1": false, ":": false,
		"::1:80": false, " 127.0.0.1:80": false, "secret\n:80": false, "secret secret:80": false, "secret": false,
	} {
		err := config.CheckAddress("THE_NAME", text)
		if (err == nil) != want || err != nil && (!strings.Contains(err.Error(), "THE_NAME") ||
			strings.Contains(err.Error(), "secret")) {
			t.Errorf("CheckAddress(THE_NAME, %q) = %v, want success %t, and an error that names THE_NAME without the value",
				text, err, want)
		}
	}
}

// TestStandardHTTPIsLogged checks that the setting is logged once if it is set, and not otherwise.
func TestStandardHTTPIsLogged(t *testing.T) {
	for standard, want := range map[bool]int{true: 1, false: 0} {
		var lines strings.Builder
		config.LogStandardHTTP(standard, slog.New(slog.NewTextHandler(&lines, nil)))
		if got := strings.Count(lines.String(), config.VarStandardHTTP); got != want {
			t.Errorf("LogStandardHTTP(%v) logs %q, want %d lines with %s", standard, lines.String(), want,
				config.VarStandardHTTP)
		}
	}
}
