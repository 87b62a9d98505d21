package commands_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/client/commands"
	"github.com/gatewright/gatewright/client/exit"
)

// TestClaimedSecretFileIsKept tests a race. A command creates a file. Before it locks the file, another command
// mistakes the file for one that a killed command has left, and writes its secret. The first command must fail, and
// keep the file.
func TestClaimedSecretFileIsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	err := commands.NewSecretFileBeforeLock(path, func() error {
		acquired, err := commands.WriteSecretFile(path, "first", false)
		if !acquired {
			t.Error("WriteSecretFile() acquires no file, want the new one")
		}
		return err
	})
	if code := exit.CodeOf(err); code != exit.Usage {
		t.Errorf("NewSecretFileBeforeLock(claimed file): error = %v with code %d, want code %d", err, code, exit.Usage)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "first\n" {
		t.Errorf("content of the claimed file = %.20q, error = %v, want %q", text, err, "first\n")
	}
}

// TestConcurrentSecretsAreNotLost starts many commands with the same file. Some receive no secret and remove the file.
// After a command has written a secret, the file must contain this secret.
func TestConcurrentSecretsAreNotLost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	var wg sync.WaitGroup
	var written atomic.Int64
	for n := range 8 {
		wg.Go(func() {
			for i := range 60 {
				secret, discard := strconv.Itoa(n)+"-"+strconv.Itoa(i), i%2 == 0
				if acquired, err := commands.WriteSecretFile(path, secret, discard); err != nil {
					t.Errorf("WriteSecretFile(%s) error = %v, want none", secret, err)
				} else if !acquired || discard {
					continue
				}
				written.Add(1)
				if text, err := os.ReadFile(path); err != nil || string(text) != secret+"\n" {
					t.Errorf("the file of the secret %s has %.20q, %v, want the secret", secret, text, err)
				}
				if err := os.Remove(path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if written.Load() == 0 {
		t.Error("no command acquires the file, want at least one")
	}
}
