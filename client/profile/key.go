package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/credential"
)

// commandTime is how long a command may take that prints a key: it may ask somebody.
const commandTime = 2 * time.Minute

// mostKey bounds a key, in bytes: ours have some 50.
const mostKey = 4096

// source reads a key's text. Its errors never hold it.
type source func(context.Context) (string, error)

// Key reads the key, as it is now. A usage error says that there is none, or what is wrong with where it comes from; no error
// holds any of it.
func (a Access) Key(ctx context.Context) (string, error) {
	if a.key == nil {
		return "", errNoKey
	}
	text, err := a.key(ctx)
	if err != nil {
		return "", exit.With(exit.Usage, err)
	}
	return text, nil
}

// environmentSource reads the key that the environment has, and says by which variable.
func environmentSource(getenv func(string) string) (key source, from string, err error) {
	text, file := getenv(VarKey), getenv(VarKeyFile)
	switch {
	case text != "" && file != "":
		return nil, "", exit.With(exit.Usage, fmt.Errorf("there are two keys, one in %s and one in %s: leave one out", VarKey, VarKeyFile))
	case text != "":
		return func(context.Context) (string, error) { return CheckKey(VarKey, text) }, VarKey, nil
	case file != "":
		return fileSource(file), VarKeyFile, nil
	}
	return nil, "", nil
}

func (p Profile) source() source {
	switch {
	case p.KeyCommand != "":
		return func(ctx context.Context) (string, error) { return ofCommand(ctx, p.KeyCommand) }
	case p.KeyFile != "":
		return fileSource(p.KeyFile)
	}
	return func(context.Context) (string, error) { return CheckKey("the profile's key", p.Key) }
}

func fileSource(path string) source {
	return func(context.Context) (string, error) {
		text, err := Private(path)
		if err != nil {
			return "", fmt.Errorf("read the key: %w", err)
		}
		return CheckKey(path, string(text))
	}
}

// ofCommand runs a command by the shell, with the terminal, and takes the first line that it prints for the key. What else it says goes
// to stderr by itself.
func ofCommand(ctx context.Context, command string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, commandTime)
	defer stop()
	shell := []string{"sh", "-c", command}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/c", command}
	}
	var printed bytes.Buffer
	cmd := exec.CommandContext(ctx, shell[0], shell[1:]...) //nolint:gosec // G204: the user's own command
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, &printed, os.Stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("it takes longer than %s", commandTime)
		}
		return "", fmt.Errorf("the profile's command prints no key: %w", err)
	}
	line, _, _ := strings.Cut(printed.String(), "\n")
	return CheckKey("what the profile's command prints", line)
}

// ReadKey reads a key from a stream, such as stdin, up to its end.
func ReadKey(in io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(in, mostKey+1))
	if err != nil {
		return "", fmt.Errorf("read the key: %w", err)
	}
	return CheckKey("stdin", string(text))
}

// CheckKey takes the space around an account key's text off, and refuses what is none, by its prefix and checksum: what else such a
// variable or file may hold, such as a server's root key, is sent nowhere. The error names where it comes from, and holds
// nothing of it.
func CheckKey(where, text string) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", fmt.Errorf("%s is empty: it has to hold an account key", where)
	case credential.WellFormed(credential.AccountKey, text):
		return text, nil
	case credential.WellFormed(credential.ConsumerKey, text):
		return "", fmt.Errorf("%s holds the key of a consumer, which opens routes: the management API wants an account key (%s_…)", where, credential.AccountKey)
	case credential.HasPrefix(credential.AccountKey, text):
		return "", fmt.Errorf("%s holds an account key that is mistyped or cut off: its checksum is not right", where)
	}
	return "", fmt.Errorf("%s holds something else than an account key (%s_…), and it is sent nowhere", where, credential.AccountKey)
}
