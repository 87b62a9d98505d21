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

// These scripts take the place of the server. printingScript prints its arguments and exits with code 7. waitingScript
// exits with code 9 after Ctrl-C or SIGTERM.
const (
	printingScript = "#!/bin/sh\nread -r line\necho \"$0: $*, for $GATEWRIGHT_DOMAIN, reads $line\"\nexit 7\n"
	waitingScript  = "#!/bin/sh\ntrap 'echo asked to end; exit 9' TERM INT\necho process $$\nwhile :; do sleep " +
		"0.02; done\n"
)

// installClient creates a folder with a copy of the test binary as the client.
func installClient(t *testing.T) (folder, client string) {
	t.Helper()
	raw, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if folder, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	client = filepath.Join(folder, "gatewright")
	writeProgram(t, client, string(raw))
	return folder, client
}

// writeProgram writes an executable file. No process is started at the same time: a child would inherit
// the open file for a moment, and a file that is open for writing cannot be executed (ETXTBSY).
func writeProgram(t *testing.T, path, text string) string {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestArgumentsArePassedToServer checks that the server receives the arguments, the environment and the input, and that
// the exit code is the server's.
func TestArgumentsArePassedToServer(t *testing.T) {
	folder, client := installClient(t)
	server := writeProgram(t, filepath.Join(folder, serverName), printingScript)
	for line, want := range map[string]string{
		"serve":                          "serve",
		"serve --help":                   "serve --help",
		"help serve":                     "serve --help",
		"help key create":                "key create --help",
		"key create demo --scopes=all":   "key create demo --scopes=all",
		"backup -- -file":                "backup -- -file",
		"restore --version -h --no-such": "restore --version -h --no-such",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(client, strings.Fields(line)...)
			cmd.Stdin = strings.NewReader("a line\n")
			p := startAs(t, roleCommand, cmd, []string{"GATEWRIGHT_DOMAIN=apis.example.com"})
			p.expectExit(7)
			if got, want := p.outputText(), server+": "+want+", for apis.example.com, reads a line\n"; got != want {
				t.Errorf("output = %q, want %q", got, want)
			}
		})
	}
}

// TestServerReplacesProcess checks that the server runs in the client's process: a signal to this process must end the
// server.
func TestServerReplacesProcess(t *testing.T) {
	folder, client := installClient(t)
	writeProgram(t, filepath.Join(folder, serverName), waitingScript)
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := startAs(t, roleCommand, exec.Command(client, "serve"), []string{"PATH=" + os.Getenv("PATH")})
		p.waitFor(fmt.Sprintf("process %d\n", p.cmd.Process.Pid))
		p.signal(s)
		p.expectExit(9, "asked to end")
	}
}

// TestChildExitCodeIsReturned tests runChild, which starts the server on systems where a process cannot be replaced. A
// terminal sends Ctrl-C to parent and child. The child must end, and the parent must return the child's exit code.
func TestChildExitCodeIsReturned(t *testing.T) {
	folder := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "GATEWRIGHT_DOMAIN=apis.example.com"}
	cmd := exec.Command(os.Args[0], writeProgram(t, filepath.Join(folder, "printing"), printingScript), "serve", "x")
	cmd.Stdin = strings.NewReader("a line\n")
	startAs(t, roleParent, cmd, env).expectExit(7, "printing: serve x, for apis.example.com, reads a line\n")

	cmd = exec.Command(os.Args[0], writeProgram(t, filepath.Join(folder, "waiting"), waitingScript))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := startAs(t, roleParent, cmd, env)
	p.waitFor("process ")
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.expectExit(9, "asked to end")

	startAs(t, roleParent, exec.Command(os.Args[0], filepath.Join(folder, "none")), env).
		expectExit(0, "start "+filepath.Join(folder, "none")+": no such file or directory")
}

// TestServerIsFound checks that the client's folder has precedence over the PATH, and that the working directory is
// never used.
func TestServerIsFound(t *testing.T) {
	const notInstalled = "error: this is a command of gatewright-server, which is not installed: "
	for _, c := range []struct {
		name string
		// servers are the paths of servers, in a folder with the folders bin (which contains the client), path (which is on
		// the PATH) and work (the working directory).
		servers []string
		want    string // the place of the server that runs, or a line of output
	}{
		{"next to the client", []string{"bin/" + serverName}, "bin/" + serverName},
		{"next to the client and on the PATH", []string{"bin/" + serverName, "path/" + serverName}, "bin/" + serverName},
		{"only on the PATH", []string{"path/" + serverName}, "path/" + serverName},
		{"in the working directory", []string{"work/" + serverName}, notInstalled},
		{"server with another name", []string{"bin/gatewright-serve", "path/serve"}, notInstalled},
		{"no server", nil, notInstalled},
	} {
		for _, clientPath := range []string{"bin/gatewright", "link/gw"} {
			t.Run(c.name+" by "+clientPath, func(t *testing.T) {
				t.Parallel()
				folder, client := installClient(t)
				err := errors.Join(os.Mkdir(filepath.Join(folder, "link"), 0o700),
					os.Mkdir(filepath.Join(folder, "work"), 0o700),
					os.Mkdir(filepath.Join(folder, "bin"), 0o700), os.Rename(client, filepath.Join(folder, "bin", "gatewright")),
					os.Symlink("../bin/gatewright", filepath.Join(folder, "link", "gw")))
				if err != nil {
					t.Fatal(err)
				}
				for _, path := range c.servers {
					writeProgram(t, filepath.Join(folder, path), printingScript)
				}
				cmd := exec.Command(filepath.Join(folder, clientPath), "serve", "now")
				cmd.Dir = filepath.Join(folder, "work")
				p := startAs(t, roleCommand, cmd, []string{"PATH=" + filepath.Join(folder, "path") + ":.:"})
				if c.want != notInstalled {
					<-p.done
					if want := filepath.Join(folder, c.want) + ": serve now"; !strings.HasPrefix(p.outputText(), want) {
						t.Errorf("output = %q, want one that begins with %q", p.outputText(), want)
					}
					return
				}
				p.expectExit(exitFailure, notInstalled, "`make cli`")
				if strings.Count(p.outputText(), "\n") != 1 {
					t.Errorf("output =\n%s\nwant one line", p.outputText())
				}
			})
		}
	}
}

// TestInvalidServerIsNotStarted checks that a copy of the client under the server's name does not start itself forever.
// If the server's file is not a program, the error must name the file.
func TestInvalidServerIsNotStarted(t *testing.T) {
	folder, client := installClient(t)
	server := filepath.Join(folder, serverName)
	for _, link := range []func(string, string) error{os.Symlink, os.Link} {
		if err := link(client, server); err != nil {
			t.Fatal(err)
		}
		// ulimit kills a process that starts itself forever, after two seconds of processor time.
		startAs(t, roleCommand, exec.Command("/bin/sh", "-c", `ulimit -t 2 && exec "$0" serve`, client),
			nil).expectExit(exitFailure, "which is not installed")
		if err := os.Remove(server); err != nil {
			t.Fatal(err)
		}
	}
	writeProgram(t, server, "\x00\x01")
	startAs(t, roleCommand, exec.Command(client, "serve"), nil).expectExit(exitFailure,
		"error: start "+server+": exec format error\n")
	if err := os.Chmod(server, 0o644); err != nil {
		t.Fatal(err)
	}
	startAs(t, roleCommand, exec.Command(client, "serve"), nil).expectExit(exitFailure, "which is not installed")
}
