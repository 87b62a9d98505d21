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

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func hello(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, "hello from ", r.URL.Path) }

func TestServiceIsReachedUntilItIsStopped(t *testing.T) {
	for name, c := range map[string]struct {
		tls    bool
		args   []string
		signal os.Signal
	}{
		"plain on this machine": {false, nil, os.Interrupt},
		"by TLS":                {true, nil, syscall.SIGTERM},
		"by WebSocket":          {true, []string{"--websocket", "--connections=3"}, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, hello)
			args := append([]string{"tunnel", "connect"}, c.args...)
			if c.tls {
				w.at.StartTLS()
				ca := filepath.Join(t.TempDir(), "ca.pem")
				if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.at.Certificate().Raw}), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--ca-file", ca)
			} else {
				w.at.Start()
			}
			p := start(t, []string{"TUNNEL_TOKEN=" + token}, append(args, "--relay", w.at.URL)...)
			n := 2 + len(c.args)/2
			p.until(fmt.Sprintf("connected: %d of %d connections to %s", n, n, w.at.Listener.Addr()))
			if text, err := w.ask(http.MethodPost); err != nil || text != "hello from /shelf" {
				t.Errorf("it answers %q, %v", text, err)
			}
			p.signal(c.signal)
			p.ends(0, "stopping", "stopped", "connecting to "+w.at.URL+" with the token in TUNNEL_TOKEN")
			if strings.Contains(p.printed(), "\x1b") {
				t.Errorf("it prints colours, and not on a terminal: %q", p.printed())
			}
		})
	}
}

// TestStopFinishesWhatIsUnderWay has a request under way when it is stopped.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    []string
		again   bool // a second signal
		release bool // the service answers
		code    int
		want    string
	}{
		{"an answer comes", nil, false, true, 0, "stopped"},
		{"no answer comes", []string{"--drain-timeout=1ms"}, false, false, 1, "error: requests under way did not end in time, and were cut"},
		{"a second signal", nil, true, false, 1, "error: stopped at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			began, release := make(chan struct{}), make(chan struct{})
			w := newWorld(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				close(began)
				select {
				case <-release:
					_, _ = io.WriteString(w, "done")
				case <-r.Context().Done():
				}
			})
			w.at.Start()
			p := start(t, []string{"TUNNEL_TOKEN=" + token, "TUNNEL_RELAY=" + w.at.URL}, append([]string{"tunnel", "connect"}, c.args...)...)
			p.until("connected: 2 of 2")
			type answer struct {
				text string
				err  error
			}
			answers := make(chan answer, 1)
			go func() {
				text, err := w.ask(http.MethodPost)
				answers <- answer{text, err}
			}()
			<-began
			p.signal(syscall.SIGTERM)
			p.until("stopping")
			if c.again {
				time.Sleep(400 * time.Millisecond) // what comes sooner is the same signal, twice
				p.signal(syscall.SIGTERM)
			}
			if c.release {
				close(release)
			}
			a := <-answers
			if (a.err == nil && a.text == "done") != c.release {
				t.Errorf("the request ends with %q, %v", a.text, a.err)
			}
			p.ends(c.code, c.want)
		})
	}
}

// TestTokenIsReadAnew rotates the token in its file, and then without it.
func TestTokenIsReadAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello)
	w.at.Start()
	file := tokenFile(t, token)
	p := start(t, nil, "tunnel", "connect", "--relay", w.at.URL, "--token-file", file)
	p.until("connected: 2 of 2")
	w.rotate(token + "2")
	if err := os.WriteFile(file, []byte(token+"2"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.cut()
	p.until("0 of 2 to")
	if text, err := w.ask(http.MethodGet); err != nil || text != "hello from /shelf" {
		t.Errorf("it answers %q, %v", text, err)
	}
	p.until("connected: 2 of 2")
	w.rotate("another")
	w.cut()
	p.ends(3, "lost a connection: 1 of 2", "error: the relay refuses the token: it is no tunnel's, or it was rotated")
	if strings.Contains(p.printed(), "other users") {
		t.Errorf("its owner alone may read the file:\n%s", p.printed())
	}
}

// TestTokenThatIsGoneIsNotTheRelaysFault: what is told is the file, while it is tried again.
func TestTokenThatIsGoneIsNotTheRelaysFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello)
	w.at.Start()
	file := tokenFile(t, token)
	p := start(t, nil, "tunnel", "connect", "--relay", w.at.URL, "--token-file", file)
	p.until("connected: 2 of 2")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.cut()
	p.until("warning: " + file + " is empty: it has to hold the tunnel's token; trying again in ")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

func TestExposedTokenFileIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello)
	w.at.Start()
	file := tokenFile(t, token)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, "tunnel", "connect", "--relay", w.at.URL, "--token-file", file)
	p.until("connected: 2 of 2")
	if strings.Count(p.printed(), "warning: other users of this machine may read the token in "+file) != 1 {
		t.Errorf("it prints:\n%s", p.printed())
	}
}

// TestEachLineIsJSON reads what is written for machines.
func TestEachLineIsJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello)
	w.at.Start()
	p := start(t, []string{"TUNNEL_TOKEN=" + token}, "tunnel", "connect", "--relay", w.at.URL, "--log-format=json")
	p.until(`"open":2`)
	w.cut()
	p.until(`"disconnected"`)
	p.signal(syscall.SIGTERM)
	p.ends(0)
	var said []string
	for line := range strings.Lines(p.printed()) {
		var entry struct {
			Time, Level, Msg, Relay string
			Open, Of                int
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Level == "" {
			t.Errorf("%v: %s", err, line)
		}
		said = append(said, entry.Msg)
	}
	all := strings.Join(said, " ")
	for _, want := range []string{"connecting connected connected", "disconnected", "stopping", "stopped"} {
		if !strings.Contains(all, want) {
			t.Errorf("it says %q, and not %q", all, want)
		}
	}
}

// TestWhatCannotBeFollowedIsUsage types what is wrong.
func TestWhatCannotBeFollowedIsUsage(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, inEnv := file("good", token), []string{"TUNNEL_TOKEN=" + token}
	const relay = "--relay=https://relay.example.com"
	accountKey := credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), nil))
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"no relay", inEnv, nil, "there is no relay: name its address with --relay"},
		{"no token", nil, []string{relay}, "there is no token: set TUNNEL_TOKEN"},
		{"two tokens", inEnv, []string{relay, "--token-file", good}, "there are two tokens"},
		{"the token as a word", nil, []string{relay, token}, "it takes nothing but flags"},
		{"the token as a flag", nil, []string{relay, "--token=" + token}, "unknown flag: --token"},
		{"the token as a short flag", nil, []string{relay, "-t" + token}, "there is no such flag"},
		{"the token as a number", nil, []string{relay, "--connections=" + token}, "--connections takes a whole number"},
		{"the token as a time", nil, []string{relay, "--drain-timeout", token}, "--drain-timeout takes a time"},
		{"the token as a switch", nil, []string{relay, "--websocket=" + token}, "--websocket takes true or false"},
		{"a time without a unit", inEnv, []string{relay, "--drain-timeout=25"}, "such as 25s"},
		{"a port that is none", inEnv, []string{relay + ":99999"}, "--relay is no relay's address"},
		{"a token file that is not there", nil, []string{relay, "--token-file", dir + "/none"}, "none can't be read: no such file"},
		{"a token file whose name a terminal acts on", nil, []string{relay, "--token-file", dir + "/a\x1b[2J"}, `a\x1b[2J can't be read`},
		{"a token file that is a folder", nil, []string{relay, "--token-file", dir}, "can't be read: is a directory"},
		{"an empty token file", nil, []string{relay, "--token-file", file("empty", " \n")}, "empty is empty: it has to hold the tunnel's token"},
		{"a file of something else", nil, []string{relay, "--token-file", file("two", token+"\n"+token)}, "two holds something else than a token"},
		{"a file with an account key", nil, []string{relay, "--token-file", file("key", accountKey)}, "key holds a key of an account"},
		{"an account key in the environment", []string{"TUNNEL_TOKEN=" + accountKey}, []string{relay}, "it is sent nowhere"},
		{"a large file", nil, []string{relay, "--token-file", file("large", strings.Repeat(token, 1000))}, "large holds something else than a token"},
		{"plain http elsewhere", inEnv, []string{"--relay=http://192.0.2.1"}, "is an http address of another machine"},
		{"plain http in a network of one's own", inEnv, []string{"--relay=http://10.0.0.1:9003"}, "is an http address of another machine"},
		{"plain http at a name that ends like this machine's", inEnv, []string{"--relay=http://not-localhost:9003"}, "is an http address of another machine"},
		{"plain http in the environment", append(inEnv, "TUNNEL_RELAY=http://relay.example.com"), nil, "TUNNEL_RELAY is an http address"},
		{"no address", inEnv, []string{"--relay=relay.example.com"}, "--relay has no https:// in front of the host"},
		{"an address as a port is typed", inEnv, []string{"--relay=127.0.0.1:9003"}, "--relay has no https:// in front of the host"},
		{"the token in its place", nil, []string{"--relay=" + token}, "--relay has no https:// in front of the host"},
		{"another scheme", inEnv, []string{"--relay=wss://relay.example.com"}, "--relay is no relay's address"},
		{"the token as a user", nil, []string{"--relay=https://" + token + "@relay.example.com"}, "--relay is no relay's address"},
		{"the token in an address that is none", nil, []string{"--relay=https://" + token + "\x7f"}, "--relay is no relay's address"},
		{"one connection", inEnv, []string{relay, "--connections=1"}, "--connections is no number from 2 to 4"},
		{"five connections", inEnv, []string{relay, "--connections=5"}, "--connections is no number from 2 to 4"},
		{"an endless drain", inEnv, []string{relay, "--drain-timeout=2h"}, "--drain-timeout is no time"},
		{"an odd format", inEnv, []string{relay, "--log-format=xml"}, "--log-format is neither text nor json"},
		{"no CA", inEnv, []string{relay, "--ca-file", good}, "good has no certificate in PEM"},
		{"several at once", nil, []string{"--connections=9"}, "--connections is no number from 2 to 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, c.env, append([]string{"tunnel", "connect"}, c.args...)...)
			p.ends(2, "error: ", c.want)
		})
	}
	start(t, nil, "tunnel").ends(2, "name one of its commands")
	for _, args := range [][]string{{"tunnel", token}, {token}} {
		start(t, nil, args...).ends(2, "it has no such command: `gatewright")
	}
	start(t, nil, "tunnel", "connect", "--help").ends(0, "Exit codes:")
}

// TestWordThatIsNoCommandIsUsage: a script tells a line that it typed wrongly from what went wrong. Of the server's words
// the client knows the first ones.
func TestWordThatIsNoCommandIsUsage(t *testing.T) {
	for typed, want := range map[string]string{
		"serv":           "it has no such command: did you mean serve?",
		"tunnel conect":  "it has no such command: did you mean connect?",
		"help tunel":     "it has no such command: did you mean tunnel?",
		"help nothing y": "it has no such command: `gatewright --help` lists them",
	} {
		start(t, nil, strings.Fields(typed)...).ends(exitUsage, "error: "+want)
	}
}
