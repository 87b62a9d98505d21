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

// TestSecretOfAFasterCommandStays: another command finds a file that was just made to be one that was left, and is done before whoever made it holds it.
func TestSecretOfAFasterCommandStays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	err := commands.NewSecretFileBeside(path, func() error {
		took, err := commands.KeepSecret(path, "first", false)
		if !took {
			t.Error("what was made is taken by nobody else")
		}
		return err
	})
	if text, is := os.ReadFile(path); exit.Of(err) != exit.Usage || is != nil || string(text) != "first\n" {
		t.Errorf("it ends with %v, and the file has %.20q, %v", err, text, is)
	}
}

// TestSecretsAtOnceAreEachInAFile has many commands take one file's name at once, of which some make no secret and remove it: a command that has made
// one finds it there, and no other one's.
func TestSecretsAtOnceAreEachInAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	var all sync.WaitGroup
	var kept atomic.Int64
	for n := range 8 {
		all.Go(func() {
			for i := range 60 {
				secret := strconv.Itoa(n) + "-" + strconv.Itoa(i)
				if took, err := commands.KeepSecret(path, secret, i%2 == 0); err != nil {
					t.Error(err)
				} else if !took || i%2 == 0 {
					continue
				}
				kept.Add(1)
				if text, err := os.ReadFile(path); err != nil || string(text) != secret+"\n" {
					t.Errorf("%s is made, and the file has %.20q, %v", secret, text, err)
				}
				if err := os.Remove(path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if kept.Load() == 0 {
		t.Error("no command has had the file")
	}
}
