package scenario_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/terminal/terminaltest"
)

// TestCtrlCEndsMakeRunWithZero types Ctrl-C in the terminal of a `make run`. Make
// itself dies of the signal wherever it gets it, and a shell would show a failure.
//
// It is not parallel: two of `make run` would write the same binary.
func TestCtrlCEndsMakeRunWithZero(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	for _, c := range []struct {
		name, api string
		code      int
		printed   string
	}{
		{"a run that Ctrl-C ends", "127.0.0.1:0", 0, "Stopped. The next start goes on from here."},
		{"a start that fails", "nonsense", 2, "GATEWRIGHT_API_ADDR is no address to listen on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			keyboard, tty := terminaltest.Open(t)
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), "make", "run")
			cmd.Dir = repository
			cmd.Env = append(withoutMake(os.Environ()), "GATEWRIGHT_API_ADDR="+c.api, "GATEWRIGHT_GATEWAY_ADDR=127.0.0.1:0", "GATEWRIGHT_TLS_ADDR=127.0.0.1:0", "GATEWRIGHT_RELAY_ADDR=127.0.0.1:0",
				"GATEWRIGHT_DATA_DIR="+filepath.Join(dir, "data"))
			cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = tty.Close()
			var screen screen
			read := make(chan struct{})
			go func() {
				defer close(read)
				screen.read(keyboard)
			}()
			eventually(t, "it runs or has ended", time.Minute, func() bool {
				return strings.Contains(screen.String(), "Ctrl-C stops everything") || closed(read)
			})
			_, _ = keyboard.WriteString("\x03")
			err := cmd.Wait()
			<-read
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("it ended with %d (%v), want %d:\n%s", code, err, c.code, &screen)
			}
			if !strings.Contains(screen.String(), c.printed) || c.code == 0 && strings.Contains(screen.String(), "***") {
				t.Errorf("it printed:\n%s", &screen)
			}
		})
	}
}

// TestCommandsForAWSSayWhatToDoWithoutCredentials has an aws that knows none.
func TestCommandsForAWSSayWhatToDoWithoutCredentials(t *testing.T) {
	bin := t.TempDir()
	const aws = "#!/bin/sh\necho Unable to locate credentials >&2\nexit 253\n"
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte(aws), 0o700); err != nil {
		t.Fatal(err)
	}
	for target, here := range map[string]string{
		"operations": "go run ./local operation list", "account NAME=acme": "go run ./local account create NAME",
		"invoke FUNCTION=platform EVENT=events/platform/openApi.json": "make run",
		"bootstrap": "make run", "deploy": "make run", "diff": "make run", "destroy": "make run", "images": "make run",
		"service-certificate SERVICE=relay DOMAIN=relay.example.com CHAIN=go.mod KEY=go.sum": "make run",
	} {
		cmd := exec.CommandContext(t.Context(), "make", strings.Fields(target)...)
		cmd.Dir = repository
		cmd.Env = append(withoutMake(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "finds no AWS account: sign in") || !strings.Contains(string(out), here) || strings.Contains(string(out), "locate") || strings.Contains(string(out), "go build") {
			t.Errorf("make %s: %v\n%s", target, err, out)
		}
	}
}

// TestWrongStageIsToldBeforeAnythingIsBuilt, with an aws that knows an account: in one line, which says what to do.
func TestWrongStageIsToldBeforeAnythingIsBuilt(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte("#!/bin/sh\necho 123456789012\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, target := range []string{"deploy", "diff", "destroy"} {
		words := []string{target, "STAGE=nosuch"}
		if i > 0 {
			words = append(words, "-o", "dist/stacks") // which the first of them has built
		}
		cmd := exec.CommandContext(t.Context(), "make", words...)
		cmd.Dir = repository
		cmd.Env = append(withoutMake(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "infra: there is no infra/stages/nosuch.json: write it, beginning from ") || strings.Contains(string(out), "bootstrap") {
			t.Errorf("make %s: %v\n%s", target, err, out)
		}
	}
}

// TestBootstrapAsksForNoContext has an aws and a cdk that tell what they are asked: where cdk.json is,
// the CDK would run the app, which wants to know of an installation what nobody can say yet.
func TestBootstrapAsksForNoContext(t *testing.T) {
	bin := t.TempDir()
	for name, does := range map[string]string{"aws": "echo 123456789012", "cdk": "test ! -e cdk.json && echo asked: $*"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+does+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "make", "bootstrap", "CDK="+filepath.Join(bin, "cdk"))
	cmd.Dir = repository
	cmd.Env = append(withoutMake(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"), "AWS_REGION=eu-central-1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "asked: bootstrap aws://123456789012/eu-central-1\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// screen is what a terminal has shown.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// read reads until nobody has the terminal any more.
func (s *screen) read(keyboard *os.File) {
	part := make([]byte, 4096)
	for {
		n, err := keyboard.Read(part)
		s.mu.Lock()
		s.text.Write(part[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
