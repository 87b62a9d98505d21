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

	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/local/supervise"
)

// miniStackPackages are MiniStack and all it needs, as pip reads them.
//
//go:embed ministack.txt
var miniStackPackages []byte

// account and region are those that both emulators pretend to, where nothing else is asked for.
const (
	account = "000000000000"
	region  = "us-east-1"
)

// onMiniStack installs MiniStack, unless that was done before, and does
// something on one of its own.
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
	installation := newSuite(miniStack, endpoint)
	installation.programs = filepath.Dir(python)
	err = do(installation, ctx)
	if err != nil && !errors.Is(err, errGrants) {
		tail(filepath.Join(data, "log"))
	}
	return err
}

// tail shows the end of an emulator's log.
func tail(path string) {
	const most = 8 << 10
	text, err := os.ReadFile(path) //nolint:gosec // G304: a file that this program made
	if err == nil {
		fmt.Fprintf(os.Stderr, "the end of the emulator's log:\n%s\n", text[max(0, len(text)-most):])
	}
}

// installMiniStack makes a virtual environment with exactly what
// ministack.txt lists, in the user's cache, and gives its Python.
func installMiniStack(ctx context.Context) (python string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	sum := sha256.Sum256(miniStackPackages)
	home := filepath.Join(cache, "gatewright", "ministack-"+hex.EncodeToString(sum[:6]))
	python = filepath.Join(home, "bin", "python")
	done := filepath.Join(home, "installed")
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil { //nolint:gosec // G301: a cache for all
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	// Of two suites that begin at once the second waits, and finds what the first has installed.
	installing := flock.New(home + ".lock")
	if _, err := installing.TryLockContext(ctx, time.Second); err != nil {
		return "", fmt.Errorf("wait for another installation: %w", err)
	}
	defer func() { _ = installing.Unlock() }()
	if _, err := os.Stat(done); err == nil && exec.CommandContext(ctx, python, "-c", "import ministack").Run() == nil {
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
	return python, os.WriteFile(done, nil, 0o600)
}

// findPython finds a Python from 3.10 to 3.13 with venv: on the PATH, or one
// that pyenv has but does not activate.
func findPython(ctx context.Context) (string, error) {
	root := os.Getenv("PYENV_ROOT")
	if home, err := os.UserHomeDir(); root == "" && err == nil {
		root = filepath.Join(home, ".pyenv")
	}
	for minor := 13; minor >= 10; minor-- {
		version := "3." + strconv.Itoa(minor)
		candidates := []string{"python" + version, "python3"}
		more, _ := filepath.Glob(filepath.Join(root, "versions", version+"[.-]*", "bin", "python3"))
		for _, c := range append(candidates, more...) {
			// A shim of pyenv is there for versions that are not active, too.
			out, err := exec.CommandContext(ctx, c, "-c", //nolint:gosec // G204: one of a fixed list
				fmt.Sprintf("import sys, venv, ensurepip; print(sys.executable); sys.exit(sys.version_info[:2] != (3, %d))", minor)).Output()
			if err == nil {
				return string(out[:len(out)-1]), nil
			}
		}
	}
	return "", errors.New("MiniStack needs a Python from 3.10 to 3.13 with venv, and none is on PATH or under pyenv: install one (on Debian: apt-get install python3-venv)")
}

// startMiniStack starts an emulator on a free port, with data of its own.
func startMiniStack(ctx context.Context, python, data string) (_ *supervise.Child, endpoint string, err error) {
	for _, dir := range []string{"tmp", "state", "s3"} {
		if err := os.Mkdir(filepath.Join(data, dir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, "", fmt.Errorf("make a folder for its data: %w", err)
		}
	}
	at, err := free.Find(ctx)
	if err != nil {
		return nil, "", err
	}
	endpoint = "http://" + at.String()
	log, err := os.Create(filepath.Join(data, "log")) //nolint:gosec // G304: in the folder made for it
	if err != nil {
		return nil, "", fmt.Errorf("open its log: %w", err)
	}
	child, err := supervise.Start(ctx, supervise.Spec{
		Name: "MiniStack", Path: python, Args: []string{"-m", "ministack"},
		// Functions get their endpoint and credentials from this process.
		Env: append(emulated(endpoint, region),
			"TMPDIR="+filepath.Join(data, "tmp"), "STATE_DIR="+filepath.Join(data, "state"), "S3_DATA_DIR="+filepath.Join(data, "s3"),
			"GATEWAY_PORT="+strconv.Itoa(int(at.Port())), "BIND_HOST=127.0.0.1", "MINISTACK_HOST=localhost"),
		Log:          log,
		Ready:        func(ctx context.Context) error { return healthy(ctx, endpoint) },
		StartTimeout: 90 * time.Second,
	}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		tail(log.Name())
		return nil, "", fmt.Errorf("start MiniStack: %w", err)
	}
	return child, endpoint, nil
}

// healthy asks the address that both emulators have for it.
func healthy(ctx context.Context, endpoint string) error {
	return healthyAt(ctx, endpoint+"/_localstack/health")
}

func healthyAt(ctx context.Context, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	out, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = out.Body.Close() }()
	_, _ = io.Copy(io.Discard, out.Body)
	if out.StatusCode != http.StatusOK {
		return fmt.Errorf("health is %s", out.Status)
	}
	return nil
}

// emulated is the environment of a command that takes an emulator for AWS, in a region of it.
func emulated(endpoint, region string) []string {
	return append(os.Environ(),
		"AWS_ENDPOINT_URL="+endpoint, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_SESSION_TOKEN=",
		"AWS_PROFILE=", "AWS_REGION="+region, "AWS_DEFAULT_REGION="+region, "AWS_EC2_METADATA_DISABLED=true",
		"CDK_DEFAULT_ACCOUNT="+account, "CDK_DEFAULT_REGION="+region,
		// The CDK's words about the age of Node are not about us.
		"JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION=1", "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1", "NODE_NO_WARNINGS=1",
		"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost")
}

// runQuietly runs a command in a folder; its output is shown when it fails.
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
