package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/credential"
)

func serveHello(w http.ResponseWriter, r *http.Request) {
	_, _ = fmt.Fprint(w, "hello from ", r.URL.Path)
}

func TestConnectServesUntilStopped(t *testing.T) {
	for name, c := range map[string]struct {
		tls         bool
		args        []string
		connections int
		signal      os.Signal
	}{
		"plain HTTP to localhost": {false, nil, 2, os.Interrupt},
		"TLS":                     {true, nil, 2, syscall.SIGTERM},
		"WebSocket":               {true, []string{"--websocket", "--connections=3"}, 3, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fx := newFixture(t, serveHello)
			args := append([]string{"tunnel", "connect"}, c.args...)
			if c.tls {
				fx.server.StartTLS()
				ca := filepath.Join(t.TempDir(), "ca.pem")
				if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: fx.server.Certificate().Raw}),
					0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--ca-file", ca)
			} else {
				fx.server.Start()
			}
			p := start(t, []string{"TUNNEL_TOKEN=" + token}, append(args, "--relay", fx.server.URL)...)
			p.waitFor(fmt.Sprintf("connected: %d of %d connections to %s", c.connections, c.connections,
				fx.server.Listener.Addr()))
			if text, err := fx.request(http.MethodPost); err != nil || text != "hello from /shelf" {
				t.Errorf("request through the tunnel = %q, %v, want \"hello from /shelf\"", text, err)
			}
			p.signal(c.signal)
			p.expectExit(0, "stopping", "stopped", "connecting to "+fx.server.URL+" with the token in TUNNEL_TOKEN")
			if strings.Contains(p.outputText(), "\x1b") {
				t.Errorf("output without a terminal = %q, want no colors", p.outputText())
			}
		})
	}
}

// TestStopDrainsRequests stops the agent while a request is in flight. The request must be completed, unless the
// upstream does not respond in time or a second signal follows.
func TestStopDrainsRequests(t *testing.T) {
	for _, c := range []struct {
		name         string
		args         []string
		secondSignal bool // a second signal follows the first one
		release      bool // the service responds
		code         int
		want         string
	}{
		{"upstream that responds", nil, false, true, 0, "stopped"},
		{
			"upstream that never responds",
			[]string{"--drain-timeout=1ms"},
			false, false, 1,
			"error: requests under way did not end in time, and were cut",
		},
		{"second signal", nil, true, false, 1, "error: stopped at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			started, release := make(chan struct{}), make(chan struct{})
			fx := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				close(started)
				select {
				case <-release:
					_, _ = io.WriteString(w, "done")
				case <-r.Context().Done():
				}
			})
			fx.server.Start()
			p := start(t, []string{"TUNNEL_TOKEN=" + token, "TUNNEL_RELAY=" + fx.server.URL},
				append([]string{"tunnel", "connect"}, c.args...)...)
			p.waitFor("connected: 2 of 2")
			type result struct {
				text string
				err  error
			}
			results := make(chan result, 1)
			go func() {
				text, err := fx.request(http.MethodPost)
				results <- result{text, err}
			}()
			<-started
			p.signal(syscall.SIGTERM)
			p.waitFor("stopping")
			if c.secondSignal {
				time.Sleep(400 * time.Millisecond) // a second signal that follows sooner counts as a repetition of the first one
				p.signal(syscall.SIGTERM)
			}
			if c.release {
				close(release)
			}
			got := <-results
			if (got.err == nil && got.text == "done") != c.release {
				t.Errorf("request during the stop = %q, %v, want done: %t", got.text, got.err, c.release)
			}
			p.expectExit(c.code, c.want)
		})
	}
}

// TestTokenIsRereadForEachConnection rotates the token together with its file. The agent must connect with the new
// token. Then the token is rotated without its file. The agent must end with the exit code for a refused token.
func TestTokenIsRereadForEachConnection(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, serveHello)
	fx.server.Start()
	file := writeTokenFile(t, token)
	p := start(t, nil, "tunnel", "connect", "--relay", fx.server.URL, "--token-file", file)
	p.waitFor("connected: 2 of 2")
	fx.rotate(token + "2")
	if err := os.WriteFile(file, []byte(token+"2"), 0o600); err != nil {
		t.Fatal(err)
	}
	fx.closeLinks()
	p.waitFor("0 of 2 to")
	if text, err := fx.request(http.MethodGet); err != nil || text != "hello from /shelf" {
		t.Errorf("request through the new connections = %q, %v, want \"hello from /shelf\"", text, err)
	}
	p.waitFor("connected: 2 of 2")
	fx.rotate("another")
	fx.closeLinks()
	p.expectExit(3, "lost a connection: 1 of 2",
		"error: the relay refuses the token: it is no tunnel's, or it was rotated")
	if strings.Contains(p.outputText(), "other users") {
		t.Errorf("output with a private token file =\n%s\nwant no warning about other users", p.outputText())
	}
}

// TestEmptyTokenFileIsReported checks that the message names the token file if it is empty, while the agent retries.
func TestEmptyTokenFileIsReported(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, serveHello)
	fx.server.Start()
	file := writeTokenFile(t, token)
	p := start(t, nil, "tunnel", "connect", "--relay", fx.server.URL, "--token-file", file)
	p.waitFor("connected: 2 of 2")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fx.closeLinks()
	p.waitFor("warning: " + file + " is empty: it has to hold the tunnel's token; trying again in ")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
}

func TestExposedTokenFileIsReportedOnce(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, serveHello)
	fx.server.Start()
	file := writeTokenFile(t, token)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, "tunnel", "connect", "--relay", fx.server.URL, "--token-file", file)
	p.waitFor("connected: 2 of 2")
	if strings.Count(p.outputText(), "warning: other users of this machine may read the token in "+file) != 1 {
		t.Errorf("output with an exposed token file =\n%s\nwant one warning", p.outputText())
	}
}

// TestJSONLogLines checks the output with --log-format=json.
func TestJSONLogLines(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, serveHello)
	fx.server.Start()
	p := start(t, []string{"TUNNEL_TOKEN=" + token}, "tunnel", "connect", "--relay", fx.server.URL, "--log-format=json")
	p.waitFor(`"open":2`)
	fx.closeLinks()
	p.waitFor(`"disconnected"`)
	p.signal(syscall.SIGTERM)
	p.expectExit(0)
	var messages []string
	for line := range strings.Lines(p.outputText()) {
		var entry struct {
			Time, Level, Msg, Relay string
			Open, Of                int
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Level == "" {
			t.Errorf("log line = %s, %v, want JSON with a time and a level", line, err)
		}
		messages = append(messages, entry.Msg)
	}
	all := strings.Join(messages, " ")
	for _, want := range []string{"connecting connected connected", "disconnected", "stopping", "stopped"} {
		if !strings.Contains(all, want) {
			t.Errorf("messages = %q, want %q", all, want)
		}
	}
}

// usageCase is an invalid command line of tunnel connect, and a text of the error.
type usageCase struct {
	name string
	env  []string
	args []string
	want string
}

// checkUsageErrors checks that each command line is refused with a usage error, before the command sends anything.
func checkUsageErrors(t *testing.T, cases []usageCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, c.env, append([]string{"tunnel", "connect"}, c.args...)...)
			p.expectExit(2, "error: ", c.want)
		})
	}
}

const relayFlag = "--relay=https://relay.example.com"

// writeTemp writes a file into a new folder and returns its path.
func writeTemp(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInvalidFlagIsUsageError checks that each invalid argument is a usage error that says what is wrong.
func TestInvalidFlagIsUsageError(t *testing.T) {
	good, tokenEnv := writeTemp(t, "good", token), []string{"TUNNEL_TOKEN=" + token}
	checkUsageErrors(t, []usageCase{
		{"no relay", tokenEnv, nil, "there is no relay: name its address with --relay"},
		{"no token", nil, []string{relayFlag}, "there is no token: set TUNNEL_TOKEN"},
		{"two tokens", tokenEnv, []string{relayFlag, "--token-file", good}, "there are two tokens"},
		{"token as an argument", nil, []string{relayFlag, token}, "it takes nothing but flags"},
		{"token as a flag", nil, []string{relayFlag, "--token=" + token}, "unknown flag: --token"},
		{"token as a short flag", nil, []string{relayFlag, "-t" + token}, "there is no such flag"},
		{"token as a number", nil, []string{relayFlag, "--connections=" + token}, "--connections takes a whole number"},
		{"token as a duration", nil, []string{relayFlag, "--drain-timeout", token}, "--drain-timeout takes a time"},
		{"token as a boolean", nil, []string{relayFlag, "--websocket=" + token}, "--websocket takes true or false"},
		{"duration without a unit", tokenEnv, []string{relayFlag, "--drain-timeout=25"}, "such as 25s"},
		{"invalid port", tokenEnv, []string{relayFlag + ":99999"}, "--relay is no relay's address"},
		{
			"plain HTTP to another machine", tokenEnv,
			[]string{"--relay=http://192.0.2.1"},
			"is an http address of another machine",
		},
		{
			"plain HTTP to a private address", tokenEnv,
			[]string{"--relay=http://10.0.0.1:9003"},
			"is an http address of another machine",
		},
		{
			"plain HTTP to a host that ends with localhost", tokenEnv,
			[]string{"--relay=http://not-localhost:9003"},
			"is an http address of another machine",
		},
		{
			"plain HTTP in the environment", append(tokenEnv, "TUNNEL_RELAY=http://relay.example.com"), nil,
			"TUNNEL_RELAY is an http address",
		},
		{
			"relay without a scheme", tokenEnv,
			[]string{"--relay=relay.example.com"},
			"--relay has no https:// in front of the host",
		},
		{
			"address and port without a scheme", tokenEnv,
			[]string{"--relay=127.0.0.1:9003"},
			"--relay has no https:// in front of the host",
		},
		{"token as the relay", nil, []string{"--relay=" + token}, "--relay has no https:// in front of the host"},
		{"another scheme", tokenEnv, []string{"--relay=wss://relay.example.com"}, "--relay is no relay's address"},
		{
			"token as the user of the relay", nil,
			[]string{"--relay=https://" + token + "@relay.example.com"},
			"--relay is no relay's address",
		},
		{"token in an invalid relay", nil, []string{"--relay=https://" + token + "\x7f"}, "--relay is no relay's address"},
		{"one connection", tokenEnv, []string{relayFlag, "--connections=1"}, "--connections is no number from 2 to 4"},
		{"five connections", tokenEnv, []string{relayFlag, "--connections=5"}, "--connections is no number from 2 to 4"},
		{"drain timeout of two hours", tokenEnv, []string{relayFlag, "--drain-timeout=2h"}, "--drain-timeout is no time"},
		{"unknown log format", tokenEnv, []string{relayFlag, "--log-format=xml"}, "--log-format is neither text nor json"},
		{"file without a CA", tokenEnv, []string{relayFlag, "--ca-file", good}, "good has no certificate in PEM"},
		{"several errors", nil, []string{"--connections=9"}, "--connections is no number from 2 to 4"},
	})
	start(t, nil, "tunnel").expectExit(2, "name one of its commands")
	for _, args := range [][]string{{"tunnel", token}, {token}} {
		start(t, nil, args...).expectExit(2, "it has no such command: `gatewright")
	}
	start(t, nil, "tunnel", "connect", "--help").expectExit(0, "Exit codes:")
}

func TestInvalidTokenIsUsageError(t *testing.T) {
	dir := t.TempDir()
	accountKey := credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), nil))
	checkUsageErrors(t, []usageCase{
		{
			"missing file", nil,
			[]string{relayFlag, "--token-file", dir + "/none"},
			"none can't be read: no such file",
		},
		{
			"file name with an escape sequence", nil,
			[]string{relayFlag, "--token-file", dir + "/a\x1b[2J"},
			`a\x1b[2J can't be read`,
		},
		{"folder", nil, []string{relayFlag, "--token-file", dir}, "can't be read: is a directory"},
		{
			"empty file", nil,
			[]string{relayFlag, "--token-file", writeTemp(t, "empty", " \n")},
			"empty is empty: it has to hold the tunnel's token",
		},
		{
			"file with two tokens", nil,
			[]string{relayFlag, "--token-file", writeTemp(t, "two", token+"\n"+token)},
			"two holds something else than a token",
		},
		{
			"file with an account key", nil,
			[]string{relayFlag, "--token-file", writeTemp(t, "key", accountKey)},
			"key holds a key of an account",
		},
		{"account key in the environment", []string{"TUNNEL_TOKEN=" + accountKey}, []string{relayFlag}, "it is sent nowhere"},
		{
			"large file", nil,
			[]string{relayFlag, "--token-file", writeTemp(t, "large", strings.Repeat(token, 1000))},
			"large holds something else than a token",
		},
	})
}

// TestUnknownCommandIsUsageError checks that a wrong command has another exit code than a failure, so that scripts can
// distinguish them. The server's commands are missing here, because the client passes their arguments to the server.
func TestUnknownCommandIsUsageError(t *testing.T) {
	for line, want := range map[string]string{
		"serv":           "it has no such command: did you mean serve?",
		"tunnel conect":  "it has no such command: did you mean connect?",
		"help tunel":     "it has no such command: did you mean tunnel?",
		"help nothing y": "it has no such command: `gatewright --help` lists them",
	} {
		start(t, nil, strings.Fields(line)...).expectExit(exitUsage, "error: "+want)
	}
}
