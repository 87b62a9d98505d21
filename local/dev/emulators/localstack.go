package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// localStackScript starts LocalStack without Docker, runs a command, and stops LocalStack. The script
// is not part of the project: it exists next to the checkout on the project's development machines.
const localStackScript = "../shared/localstack/run"

// composeFile starts the pinned image of LocalStack on machines with Docker.
const composeFile = "local/dev/compose.yaml"

// localStackPort is the port of LocalStack in the compose file.
const localStackPort = "4566"

var errNoLocalStack = errors.New("LocalStack needs Docker, whose daemon does not answer here, or " + localStackScript +
	", which is not there: start Docker, or run `make test-ministack`, which needs Python alone")

// testLocalStack runs the suite on LocalStack. It uses the pinned
// image if Docker is available, and localStackScript otherwise.
func testLocalStack(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own binary: %w", err)
	}
	if exec.CommandContext(ctx, "docker", "info").Run() == nil {
		return testInDocker(ctx)
	}
	if _, err := os.Stat(localStackScript); err != nil {
		return errNoLocalStack
	}
	log, err := os.CreateTemp("", "gatewright-localstack-*.log")
	if err != nil {
		return fmt.Errorf("make its log: %w", err)
	}
	defer func() { _ = os.Remove(log.Name()) }()
	_ = log.Close()
	install := filepath.Join(filepath.Dir(localStackScript), "install")
	if err := timed(localStack, "install", func() error {
		return runWithOutput(ctx, nil, install, localStack)
	}); err != nil {
		return err
	}
	err = runWithOutput(ctx, append(os.Environ(), "EMULATOR_LOG="+log.Name()), localStackScript, self, "suite", localStack)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "the emulator's log may say more:")
		printLogTail(log.Name())
	}
	return err
}

// testInDocker runs the suite on the image in local/dev/compose.yaml.
func testInDocker(ctx context.Context) (err error) {
	compose := func(ctx context.Context, args ...string) error {
		return runWithOutput(ctx, nil, append([]string{"docker", "compose", "-f", composeFile}, args...)...)
	}
	if err := timed(localStack, "start", func() error { return compose(ctx, "up", "--detach", "--wait") }); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if downErr := compose(ctx, "down", "--volumes"); err == nil {
			err = downErr
		}
	}()
	s := newSuite(localStack, "http://127.0.0.1:"+localStackPort)
	s.isolated = true
	return s.run(ctx)
}

// runWithOutput runs a command and passes its output through.
func runWithOutput(ctx context.Context, env []string, command ...string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // G204: a command of this program
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 15 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(command[0]), err)
	}
	return nil
}
