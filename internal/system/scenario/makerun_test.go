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

	"github.com/gatewright/gatewright/shared/base/terminal/terminaltest"
)

// TestCtrlCStopsMakeRunWithExitCodeZero types Ctrl-C in the terminal of a `make run`. If make itself received the
// signal, it would end with the signal, and a shell would report a failure. A start that fails must still end with an
// exit code other than zero.
//
// The test is not parallel, because two runs of `make run` would write the same binary.
func TestCtrlCStopsMakeRunWithExitCodeZero(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip(varAPI + " selects an installation, but this test needs the local run")
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
			cmd.Env = append(withoutMake(os.Environ()), "GATEWRIGHT_API_ADDR="+c.api, "GATEWRIGHT_GATEWAY_ADDR=127.0.0.1:0",
				"GATEWRIGHT_TLS_ADDR=127.0.0.1:0", "GATEWRIGHT_RELAY_ADDR=127.0.0.1:0",
				"GATEWRIGHT_DATA_DIR="+filepath.Join(dir, "data"))
			cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = tty.Close()
			var screen terminalOutput
			read := make(chan struct{})
			go func() {
				defer close(read)
				screen.read(keyboard)
			}()
			eventually(t, "the product runs or has ended", time.Minute, func() bool {
				return strings.Contains(screen.String(), "Ctrl-C stops everything") || isClosed(read)
			})
			_, _ = keyboard.WriteString("\x03")
			err := cmd.Wait()
			<-read
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code of make run = %d (%v), want %d:\n%s", code, err, c.code, &screen)
			}
			if !strings.Contains(screen.String(), c.printed) || c.code == 0 && strings.Contains(screen.String(), "***") {
				t.Errorf("output of make run, want %q in it, and no error with exit code 0:\n%s", c.printed, &screen)
			}
		})
	}
}

// TestAWSCommandsExplainMissingCredentials runs make with an aws that has no credentials.
func TestAWSCommandsExplainMissingCredentials(t *testing.T) {
	const awsError = "Unable to locate credentials. You can configure credentials by running \"aws configure\"."
	for target, advice := range map[string]string{
		"operations": "go run ./local operation list", "account NAME=acme": "go run ./local account create NAME",
		"invoke FUNCTION=platform EVENT=events/platform/openApi.json": "make run",
		"bootstrap": "make run", "deploy": "make run", "diff": "make run", "destroy": "make run", "images": "make run",
		"service-certificate SERVICE=relay DOMAIN=relay.example.com CHAIN=go.mod KEY=go.sum": "make run",
	} {
		out, err := makeWithFailingAWS(t, target, "\n"+awsError+"\n")
		for _, want := range []string{"finds no AWS account: sign in", advice, "\naws: " + awsError + "\n"} {
			if err == nil || !strings.Contains(out, want) || strings.Contains(out, "go build") {
				t.Errorf("make %s prints (%v)\n%s\nwant %q in it, and nothing built", target, err, out, want)
			}
		}
	}
}

// TestAWSCommandsShowAWSErrors checks that make shows the error of the AWS CLI: wrong keys, an unknown profile and a
// missing region are different errors.
func TestAWSCommandsShowAWSErrors(t *testing.T) {
	for name, c := range map[string]struct{ awsError, want, hidden string }{
		"wrong keys": {
			"\nAn error occurred (InvalidClientTokenId) when calling the GetCallerIdentity operation: The security token " +
				"included in the request is invalid.\n",
			"\naws: An error occurred (InvalidClientTokenId) when calling", "has no region",
		},
		"a wrong secret, explained in many lines": {
			"\nAn error occurred (SignatureDoesNotMatch) when calling the GetCallerIdentity operation: The request signature " +
				"does not match.\nx-amz-security-token:T0KEN\n\nhash'\n",
			"\naws: An error occurred (SignatureDoesNotMatch) when calling", "T0KEN",
		},
		"an unknown profile": {
			"\nThe config profile (nosuch) could not be found\n",
			"\naws: The config profile (nosuch) could not be found\n", "aws: \n",
		},
		"a warning first": {
			"A warning.\nThe SSO session has expired\n\n", "\naws: The SSO session has expired\n",
			"warning",
		},
		"no region": {
			"\nYou must specify a region. You can also configure your region by running \"aws configure\".\n",
			"make operations has no region: set AWS_REGION to the installation's region", "finds no AWS account",
		},
		"no error text": {"", "finds no AWS account: sign in", "aws:"},
	} {
		out, err := makeWithFailingAWS(t, "operations", c.awsError)
		if err == nil || !strings.Contains(out, c.want) || strings.Contains(out, c.hidden) {
			t.Errorf("%s: make operations prints (%v)\n%s\nwant %q in it, and not %q", name, err, out, c.want, c.hidden)
		}
	}
}

// makeWithFailingAWS runs make with an aws that prints awsError on stderr and fails. It returns the output of make.
func makeWithFailingAWS(t *testing.T, target, awsError string) (string, error) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "said"), []byte(awsError), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "aws"),
		[]byte("#!/bin/sh\ncat '"+filepath.Join(bin, "said")+"' >&2\nexit 253\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "make", strings.Fields(target)...)
	cmd.Dir = repository
	cmd.Env = append(withoutMake(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestBootstrapPassesItsOptions checks that each option reaches the CDK's command line as one argument.
func TestBootstrapPassesItsOptions(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"aws": "#!/bin/sh\necho 123456789012\n",
		"cdk": "#!/bin/sh\nprintf '<%s>' \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for options, want := range map[string]string{
		"": "<bootstrap><aws://123456789012/eu-west-1>",
		"--trust 210987654321 --cloudformation-execution-policies arn:aws:iam::123456789012:policy/p": "<bootstrap>" +
			"<aws://123456789012/eu-west-1><--trust><210987654321>" +
			"<--cloudformation-execution-policies><arn:aws:iam::123456789012:policy/p>",
	} {
		cmd := exec.CommandContext(t.Context(), "make", "bootstrap", "AWS_REGION=eu-west-1", "BOOTSTRAP="+options,
			"CDK="+filepath.Join(bin, "cdk"))
		cmd.Dir = repository
		cmd.Env = append(withoutMake(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), want) {
			t.Errorf("make bootstrap BOOTSTRAP='%s' (%v) runs cdk with\n%s\nwant %s", options, err, out, want)
		}
	}
}

// TestInvalidStageFailsBeforeTheBuild runs make with an invalid stage and an aws with valid credentials, and checks
// that the output starts with what to do, and does not mention bootstrap.
func TestInvalidStageFailsBeforeTheBuild(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte("#!/bin/sh\necho 123456789012\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, target := range []string{"deploy", "diff", "destroy"} {
		args := []string{target, "STAGE=nosuch"}
		if i > 0 {
			args = append(args, "-o", "dist/stacks") // the first case has built this folder
		}
		cmd := exec.CommandContext(t.Context(), "make", args...)
		cmd.Dir = repository
		cmd.Env = append(withoutMake(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err == nil ||
			!strings.HasPrefix(string(out), "infra: there is no infra/stages/nosuch.json: write it, beginning from ") ||
			strings.Contains(string(out), "bootstrap") {
			t.Errorf("make %s: error %v, want a failure that names the missing file, without bootstrap:\n%s", target, err, out)
		}
	}
}

// TestBootstrapNeedsNoContext runs make with an aws and a cdk that print their arguments. In a folder with cdk.json, the CDK would run
// the app, which needs facts about an installation that does not exist yet.
func TestBootstrapNeedsNoContext(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"aws": "echo 123456789012",
		"cdk": "test ! -e cdk.json && echo asked: $*",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "make", "bootstrap", "CDK="+filepath.Join(bin, "cdk"))
	cmd.Dir = repository
	cmd.Env = append(withoutMake(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"), "AWS_REGION=eu-central-1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "asked: bootstrap aws://123456789012/eu-central-1\n") {
		t.Errorf("make bootstrap: error %v, want success and the account and region as arguments:\n%s", err, out)
	}
}

// isClosed reports whether a channel is closed.
func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// terminalOutput collects the text that a terminal has shown.
type terminalOutput struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// read reads until no process has the terminal open.
func (o *terminalOutput) read(keyboard *os.File) {
	part := make([]byte, 4096)
	for {
		n, err := keyboard.Read(part)
		o.mu.Lock()
		o.text.Write(part[:n])
		o.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (o *terminalOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
