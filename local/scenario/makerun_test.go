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
	const said = "Unable to locate credentials. You can configure credentials by running \"aws configure\"."
	for target, here := range map[string]string{
		"operations": "go run ./local operation list", "account NAME=acme": "go run ./local account create NAME",
		"invoke FUNCTION=platform EVENT=events/platform/openApi.json": "make run",
		"bootstrap": "make run", "deploy": "make run", "diff": "make run", "destroy": "make run", "images": "make run",
		"service-certificate SERVICE=relay DOMAIN=relay.example.com CHAIN=go.mod KEY=go.sum": "make run",
	} {
		out, err := makeWithFailingAWS(t, target, "\n"+said+"\n")
		for _, want := range []string{"finds no AWS account: sign in", here, "\naws: " + said + "\n"} {
			if err == nil || !strings.Contains(out, want) || strings.Contains(out, "go build") {
				t.Errorf("make %s prints (%v)\n%s\nwant %q in it, and nothing built", target, err, out, want)
			}
		}
	}
}

// TestCommandsForAWSSayWhatAWSRefuses: wrong keys, an unknown profile and a missing region are different errors.
func TestCommandsForAWSSayWhatAWSRefuses(t *testing.T) {
	for name, c := range map[string]struct{ said, want, hidden string }{
		"wrong keys": {
			"\nAn error occurred (InvalidClientTokenId) when calling the GetCallerIdentity operation: The security token included in the request is invalid.\n",
			"\naws: An error occurred (InvalidClientTokenId) when calling", "has no region",
		},
		"a wrong secret, explained in many lines": {
			"\nAn error occurred (SignatureDoesNotMatch) when calling the GetCallerIdentity operation: The request signature does not match.\nx-amz-security-token:T0KEN\n\nhash'\n",
			"\naws: An error occurred (SignatureDoesNotMatch) when calling", "T0KEN",
		},
		"an unknown profile": {"\nThe config profile (nosuch) could not be found\n", "\naws: The config profile (nosuch) could not be found\n", "aws: \n"},
		"a warning first":    {"A warning.\nThe SSO session has expired\n\n", "\naws: The SSO session has expired\n", "warning"},
		"no region": {
			"\nYou must specify a region. You can also configure your region by running \"aws configure\".\n",
			"make operations has no region: set AWS_REGION to the installation's region", "finds no AWS account",
		},
		"nothing": {"", "finds no AWS account: sign in", "aws:"},
	} {
		out, err := makeWithFailingAWS(t, "operations", c.said)
		if err == nil || !strings.Contains(out, c.want) || strings.Contains(out, c.hidden) {
			t.Errorf("%s: make operations prints (%v)\n%s\nwant %q in it, and not %q", name, err, out, c.want, c.hidden)
		}
	}
}

// makeWithFailingAWS runs make with an aws that prints said on stderr and fails. It returns what make prints.
func makeWithFailingAWS(t *testing.T, target, said string) (string, error) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "said"), []byte(said), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte("#!/bin/sh\ncat '"+filepath.Join(bin, "said")+"' >&2\nexit 253\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", strings.Fields(target)...)
	cmd.Dir = repository
	cmd.Env = append(withoutMake(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestBootstrapPassesItsOptions to the CDK's command line, each as one argument.
func TestBootstrapPassesItsOptions(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{"aws": "#!/bin/sh\necho 123456789012\n", "cdk": "#!/bin/sh\nprintf '<%s>' \"$@\"\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for options, want := range map[string]string{
		"": "<bootstrap><aws://123456789012/eu-west-1>",
		"--trust 210987654321 --cloudformation-execution-policies arn:aws:iam::123456789012:policy/p": "<bootstrap><aws://123456789012/eu-west-1><--trust><210987654321>" +
			"<--cloudformation-execution-policies><arn:aws:iam::123456789012:policy/p>",
	} {
		cmd := exec.CommandContext(t.Context(), "make", "bootstrap", "AWS_REGION=eu-west-1", "BOOTSTRAP="+options, "CDK="+filepath.Join(bin, "cdk"))
		cmd.Dir = repository
		cmd.Env = append(withoutMake(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), want) {
			t.Errorf("make bootstrap BOOTSTRAP='%s' (%v) runs cdk with\n%s\nwant %s", options, err, out, want)
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
