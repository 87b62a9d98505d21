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
	"github.com/gatewright/gatewright/shared/format/credential"
)

// commandTimeout is the time limit for a command that prints a key. It is long because the command may prompt the user.
const commandTimeout = 2 * time.Minute

// maxKeySize is the maximum length of a key in bytes. Account keys have about 50.
const maxKeySize = 4096

// keyReader reads the text of a key. Its errors never contain the key.
type keyReader func(context.Context) (string, error)

// Key reads the current key. If no key is configured, or its source is invalid, it returns a usage error. No error
// contains any part of the key.
func (a Access) Key(ctx context.Context) (string, error) {
	if a.readKey == nil {
		return "", errNoKey
	}
	text, err := a.readKey(ctx)
	if err != nil {
		return "", exit.WithCode(exit.Usage, err)
	}
	return text, nil
}

// environmentKeyReader returns a reader for the key in the environment, and the name of its variable. The reader is nil
// if the environment has no key.
func environmentKeyReader(getenv func(string) string) (readKey keyReader, name string, err error) {
	text, file := getenv(VarKey), getenv(VarKeyFile)
	switch {
	case text != "" && file != "":
		return nil, "", exit.WithCode(exit.Usage, fmt.Errorf("there are two keys, one in %s and one in %s: leave one out",
			VarKey, VarKeyFile))
	case text != "":
		return func(context.Context) (string, error) { return CheckKey(VarKey, text) }, VarKey, nil
	case file != "":
		return fileKeyReader(file), VarKeyFile, nil
	}
	return nil, "", nil
}

func (p Profile) keyReader() keyReader {
	switch {
	case p.KeyCommand != "":
		return func(ctx context.Context) (string, error) { return runKeyCommand(ctx, p.KeyCommand) }
	case p.KeyFile != "":
		return fileKeyReader(p.KeyFile)
	}
	return func(context.Context) (string, error) { return CheckKey("the profile's key", p.Key) }
}

func fileKeyReader(path string) keyReader {
	return func(context.Context) (string, error) {
		text, err := ReadPrivate(path)
		if err != nil {
			return "", fmt.Errorf("read the key: %w", err)
		}
		return CheckKey(path, string(text))
	}
}

// runKeyCommand runs a command in the shell. It returns the first line of the command's output, which is the key. The
// command uses stdin and stderr of this process, so it can prompt the user.
func runKeyCommand(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	shell := []string{"sh", "-c", command}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/c", command}
	}
	var stdout bytes.Buffer
	cmd := exec.CommandContext(ctx, shell[0], shell[1:]...) //nolint:gosec // G204: the user's own command
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, &stdout, os.Stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("it takes longer than %s", commandTimeout)
		}
		return "", fmt.Errorf("the profile's command prints no key: %w", err)
	}
	line, _, _ := strings.Cut(stdout.String(), "\n")
	return CheckKey("what the profile's command prints", line)
}

// ReadKey reads a key from a stream, such as stdin, to the end of the stream.
func ReadKey(in io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxKeySize+1))
	if err != nil {
		return "", fmt.Errorf("read the key: %w", err)
	}
	return CheckKey("stdin", string(text))
}

// CheckKey trims an account key and checks its prefix and checksum. It returns an error for any other text: the
// variable or file may contain another secret, such as a server's root key, which must never be sent. The error
// contains label, which names the source, and no part of the text.
func CheckKey(label, text string) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", fmt.Errorf("%s is empty: it has to hold an account key", label)
	case credential.WellFormed(credential.AccountKey, text):
		return text, nil
	case credential.WellFormed(credential.ConsumerKey, text):
		return "", fmt.Errorf("%s holds the key of a consumer, which opens routes: the management API wants an account "+
			"key (%s_…)", label, credential.AccountKey)
	case credential.HasPrefix(credential.AccountKey, text):
		return "", fmt.Errorf("%s holds an account key that is mistyped or cut off: its checksum is not right", label)
	}
	return "", fmt.Errorf("%s holds something else than an account key (%s_…), and it is sent nowhere", label,
		credential.AccountKey)
}
