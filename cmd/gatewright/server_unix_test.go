//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The stand-ins for a server: telling says what it was started with and ends with 7; waiting ends with 9 when it is asked
// to, whether by Ctrl-C or by SIGTERM.
const (
	telling = "#!/bin/sh\nread -r line\necho \"$0: $*, for $GATEWRIGHT_DOMAIN, reads $line\"\nexit 7\n"
	waiting = "#!/bin/sh\ntrap 'echo asked to end; exit 9' TERM INT\necho process $$\nwhile :; do sleep 0.02; done\n"
)

// installed makes a folder with the client in it.
func installed(t *testing.T) (folder, client string) {
	t.Helper()
	raw, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if folder, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	client = filepath.Join(folder, "gatewright")
	program(t, client, string(raw))
	return folder, client
}

// program writes one. Nothing is started meanwhile: a child would have the file open for a moment, and what is open to be written
// does not run (ETXTBSY).
func program(t *testing.T, path, text string) string {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServersWordsAreHandedOver with all that stands behind them, the environment and the input; the exit code is the
// server's.
func TestServersWordsAreHandedOver(t *testing.T) {
	folder, client := installed(t)
	server := program(t, filepath.Join(folder, serverName), telling)
	for typed, want := range map[string]string{
		"serve":                          "serve",
		"serve --help":                   "serve --help",
		"help serve":                     "serve --help",
		"help key create":                "key create --help",
		"key create demo --scopes=all":   "key create demo --scopes=all",
		"backup -- -file":                "backup -- -file",
		"restore --version -h --no-such": "restore --version -h --no-such",
	} {
		t.Run(typed, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(client, strings.Fields(typed)...)
			cmd.Stdin = strings.NewReader("a line\n")
			p := startAs(t, roleCommand, cmd, []string{"GATEWRIGHT_DOMAIN=apis.example.com"})
			p.ends(7)
			if got, want := p.printed(), server+": "+want+", for apis.example.com, reads a line\n"; got != want {
				t.Errorf("got  %swant %s", got, want)
			}
		})
	}
}

// TestServerIsTheProcessThatWasStarted, so that a signal for it ends the server.
func TestServerIsTheProcessThatWasStarted(t *testing.T) {
	folder, client := installed(t)
	program(t, filepath.Join(folder, serverName), waiting)
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := startAs(t, roleCommand, exec.Command(client, "serve"), []string{"PATH=" + os.Getenv("PATH")})
		p.until(fmt.Sprintf("process %d\n", p.cmd.Process.Pid))
		p.signal(s)
		p.ends(9, "asked to end")
	}
}

// TestChildsEndIsPassedOn where a process becomes no other: Ctrl-C, which a terminal sends to both, ends the child, whose
// exit code is the parent's.
func TestChildsEndIsPassedOn(t *testing.T) {
	folder := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "GATEWRIGHT_DOMAIN=apis.example.com"}
	cmd := exec.Command(os.Args[0], program(t, filepath.Join(folder, "telling"), telling), "serve", "x")
	cmd.Stdin = strings.NewReader("a line\n")
	startAs(t, roleParent, cmd, env).ends(7, "telling: serve x, for apis.example.com, reads a line\n")

	cmd = exec.Command(os.Args[0], program(t, filepath.Join(folder, "waiting"), waiting))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := startAs(t, roleParent, cmd, env)
	p.until("process ")
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.ends(9, "asked to end")

	startAs(t, roleParent, exec.Command(os.Args[0], filepath.Join(folder, "none")), env).ends(0, "start "+filepath.Join(folder, "none")+": no such file or directory")
}

// TestServerIsFound beside the client before the PATH, and never in the working directory.
func TestServerIsFound(t *testing.T) {
	const none = "error: this is a command of gatewright-server, which is not installed: "
	for _, c := range []struct {
		name string
		// at are the places of servers, below a folder that holds the client in bin, a path and a working directory.
		at   []string
		want string // the place of the one that runs, or a line of its own
	}{
		{"beside", []string{"bin/" + serverName}, "bin/" + serverName},
		{"beside and on the path", []string{"bin/" + serverName, "path/" + serverName}, "bin/" + serverName},
		{"on the path", []string{"path/" + serverName}, "path/" + serverName},
		{"in the working directory", []string{"work/" + serverName}, none},
		{"under another name", []string{"bin/gatewright-serve", "path/serve"}, none},
		{"nowhere", nil, none},
	} {
		for _, way := range []string{"bin/gatewright", "link/gw"} {
			t.Run(c.name+" by "+way, func(t *testing.T) {
				t.Parallel()
				folder, client := installed(t)
				if err := errors.Join(os.Mkdir(filepath.Join(folder, "link"), 0o700), os.Mkdir(filepath.Join(folder, "work"), 0o700),
					os.Mkdir(filepath.Join(folder, "bin"), 0o700), os.Rename(client, filepath.Join(folder, "bin", "gatewright")),
					os.Symlink("../bin/gatewright", filepath.Join(folder, "link", "gw"))); err != nil {
					t.Fatal(err)
				}
				for _, place := range c.at {
					program(t, filepath.Join(folder, place), telling)
				}
				cmd := exec.Command(filepath.Join(folder, way), "serve", "now")
				cmd.Dir = filepath.Join(folder, "work")
				p := startAs(t, roleCommand, cmd, []string{"PATH=" + filepath.Join(folder, "path") + ":.:"})
				if c.want != none {
					<-p.done
					if want := filepath.Join(folder, c.want) + ": serve now"; !strings.HasPrefix(p.printed(), want) {
						t.Errorf("got %q, want %q", p.printed(), want)
					}
					return
				}
				p.ends(exitOther, none, "`make cli`")
				if strings.Count(p.printed(), "\n") != 1 {
					t.Errorf("it prints more than a line:\n%s", p.printed())
				}
			})
		}
	}
}

// TestWhatIsNoServerIsNotStarted: the client itself under the server's name would start itself for ever, and a file that
// is no program is named.
func TestWhatIsNoServerIsNotStarted(t *testing.T) {
	folder, client := installed(t)
	server := filepath.Join(folder, serverName)
	for _, link := range []func(string, string) error{os.Symlink, os.Link} {
		if err := link(client, server); err != nil {
			t.Fatal(err)
		}
		// A process that starts itself for ever is killed after two seconds on the processor.
		startAs(t, roleCommand, exec.Command("/bin/sh", "-c", `ulimit -t 2 && exec "$0" serve`, client), nil).ends(exitOther, "which is not installed")
		if err := os.Remove(server); err != nil {
			t.Fatal(err)
		}
	}
	program(t, server, "\x00\x01")
	startAs(t, roleCommand, exec.Command(client, "serve"), nil).ends(exitOther, "error: start "+server+": exec format error\n")
	if err := os.Chmod(server, 0o644); err != nil {
		t.Fatal(err)
	}
	startAs(t, roleCommand, exec.Command(client, "serve"), nil).ends(exitOther, "which is not installed")
}
