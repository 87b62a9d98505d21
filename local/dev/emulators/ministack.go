package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/gatewright/gatewright/local/supervise"
	"github.com/gatewright/gatewright/shared/testing/freeport"
)

// miniStackPackages are MiniStack and its dependencies, in pip's format.
//
//go:embed ministack.txt
var miniStackPackages []byte

// account and region are the AWS account and the region that both emulators use by default.
const (
	account = "000000000000"
	region  = "us-east-1"
)

// onMiniStack installs MiniStack if necessary, starts it, and calls do with a suite that uses it.
func onMiniStack(ctx context.Context, do func(*suite, context.Context) error) error {
	var python string
	err := timed(miniStack, "install", func() (err error) {
		python, err = installMiniStack(ctx)
		return err
	})
	if err != nil {
		return err
	}
	data, err := os.MkdirTemp("", "gatewright-ministack-")
	if err != nil {
		return fmt.Errorf("make a folder for its data: %w", err)
	}
	defer func() { _ = os.RemoveAll(data) }()
	emulator, endpoint, err := startMiniStack(ctx, python, data)
	if err != nil {
		return err
	}
	defer emulator.Stop()
	s := newSuite(miniStack, endpoint)
	s.toolsDir = filepath.Dir(python)
	err = do(s, ctx)
	if err != nil && !errors.Is(err, errGrants) {
		printLogTail(filepath.Join(data, "log"))
	}
	return err
}

// printLogTail prints the end of an emulator's log.
func printLogTail(path string) {
	const maxBytes = 8 << 10
	text, err := os.ReadFile(path) //nolint:gosec // G304: a file that this program created
	if err == nil {
		fmt.Fprintf(os.Stderr, "the end of the emulator's log:\n%s\n", text[max(0, len(text)-maxBytes):])
	}
}

// installMiniStack creates a virtual environment in the user's cache with the packages of ministack.txt, unless a
// working one exists. It returns the path of the environment's Python.
func installMiniStack(ctx context.Context) (python string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	sum := sha256.Sum256(miniStackPackages)
	home := filepath.Join(cache, "gatewright", "ministack-"+hex.EncodeToString(sum[:6]))
	python = filepath.Join(home, "bin", "python")
	marker := filepath.Join(home, "installed")
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil { //nolint:gosec // G301: the user's cache folder
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	// If two suites start at the same time, the second one waits, and uses what the first one has installed.
	lock := flock.New(home + ".lock")
	if _, err := lock.TryLockContext(ctx, time.Second); err != nil {
		return "", fmt.Errorf("wait for another installation: %w", err)
	}
	defer func() { _ = lock.Unlock() }()
	if _, err := os.Stat(marker); err == nil && exec.CommandContext(ctx, python, "-c", "import ministack").Run() == nil {
		return python, nil
	}
	base, err := findPython(ctx)
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(home); err != nil {
		return "", fmt.Errorf("remove a half-made installation: %w", err)
	}
	packages := home + ".txt"
	if err := os.WriteFile(packages, miniStackPackages, 0o600); err != nil {
		return "", fmt.Errorf("write the list of packages: %w", err)
	}
	for _, command := range [][]string{
		{base, "-m", "venv", home},
		{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "-r", packages},
	} {
		if err := runQuietly(ctx, ".", nil, command...); err != nil {
			return "", err
		}
	}
	return python, os.WriteFile(marker, nil, 0o600)
}

// findPython finds a Python from 3.10 to 3.13 with the module venv. It looks
// on the PATH, and for versions that pyenv has installed but not activated.
func findPython(ctx context.Context) (string, error) {
	root := os.Getenv("PYENV_ROOT")
	if home, err := os.UserHomeDir(); root == "" && err == nil {
		root = filepath.Join(home, ".pyenv")
	}
	for minor := 13; minor >= 10; minor-- {
		version := "3." + strconv.Itoa(minor)
		candidates := []string{"python" + version, "python3"}
		installed, _ := filepath.Glob(filepath.Join(root, "versions", version+"[.-]*", "bin", "python3"))
		for _, c := range append(candidates, installed...) {
			// The command can be a pyenv shim of a version that is not activated, which fails. So run it.
			out, err := exec.CommandContext(ctx, c, "-c", //nolint:gosec // G204: one of a fixed list
				fmt.Sprintf("import sys, venv, ensurepip; print(sys.executable); sys.exit(sys.version_info[:2] != (3, %d))",
					minor)).Output()
			if err == nil {
				return string(out[:len(out)-1]), nil
			}
		}
	}
	return "", errors.New("MiniStack needs a Python from 3.10 to 3.13 with venv, and none is on PATH or under pyenv: " +
		"install one (on Debian: apt-get install python3-venv)")
}

// startMiniStack starts MiniStack on a free port. data is the path of the folder for its data.
func startMiniStack(ctx context.Context, python, data string) (_ *supervise.Child, endpoint string, err error) {
	for _, dir := range []string{"tmp", "state", "s3"} {
		if err := os.Mkdir(filepath.Join(data, dir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, "", fmt.Errorf("make a folder for its data: %w", err)
		}
	}
	addr, err := freeport.Find(ctx)
	if err != nil {
		return nil, "", err
	}
	endpoint = "http://" + addr.String()
	log, err := os.Create(filepath.Join(data, "log")) //nolint:gosec // G304: in the folder made for it
	if err != nil {
		return nil, "", fmt.Errorf("open its log: %w", err)
	}
	child, err := supervise.Start(ctx, supervise.Spec{
		Name: "MiniStack", Path: python, Args: []string{"-m", "ministack"},
		// Functions inherit their endpoint and credentials from this process.
		Env: append(emulatorEnv(endpoint, region),
			"TMPDIR="+filepath.Join(data, "tmp"), "STATE_DIR="+filepath.Join(data, "state"),
			"S3_DATA_DIR="+filepath.Join(data, "s3"),
			"GATEWAY_PORT="+strconv.Itoa(int(addr.Port())), "BIND_HOST=127.0.0.1", "MINISTACK_HOST=localhost"),
		Log:          log,
		Ready:        func(ctx context.Context) error { return checkHealth(ctx, endpoint) },
		StartTimeout: 90 * time.Second,
	}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		printLogTail(log.Name())
		return nil, "", fmt.Errorf("start MiniStack: %w", err)
	}
	return child, endpoint, nil
}

// checkHealth requests the health address, which is the same for both emulators.
func checkHealth(ctx context.Context, endpoint string) error {
	return checkHealthAt(ctx, endpoint+"/_localstack/health")
}

// checkHealthAt returns an error unless a GET request to address gets the status 200.
func checkHealthAt(ctx context.Context, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health is %s", resp.Status)
	}
	return nil
}

// emulatorEnv returns the environment for a command that uses the emulator at endpoint instead of AWS.
func emulatorEnv(endpoint, region string) []string {
	return append(os.Environ(),
		"AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_SESSION_TOKEN=",
		"AWS_PROFILE=", "AWS_REGION="+region, "AWS_DEFAULT_REGION="+region, "AWS_EC2_METADATA_DISABLED=true",
		"CDK_DEFAULT_ACCOUNT="+account, "CDK_DEFAULT_REGION="+region,
		// Silence the CDK's warnings about the age of Node.
		"JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION=1", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1",
		"NODE_NO_WARNINGS=1",
		"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost")
}

// runQuietly runs a command in a folder. If the command fails, the error contains its output.
func runQuietly(ctx context.Context, dir string, env []string, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // G204: a command of this program
	cmd.Dir, cmd.Env = dir, env
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(command[0]), err, out)
	}
	return nil
}
