package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/gatewright/gatewright/local/backup"
)

// hasBackup reports whether the product has a command that backs it up.
func hasBackup(ctx context.Context, binary string) bool {
	help, err := exec.CommandContext(ctx, binary, "--help").Output()
	return err == nil && bytes.Contains(help, []byte("\n  backup "))
}

// copying is the command that backs a running product up.
type copying struct {
	file  string
	ended chan error
	begun time.Time
	took  time.Duration // once it has ended
}

func startBackup(ctx context.Context, binary string, p *product) (*copying, error) {
	c := &copying{file: filepath.Join(p.Dir, "product.backup"), ended: make(chan error, 1), begun: time.Now()}
	if err := os.Remove(c.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the last backup: %w", err)
	}
	cmd := exec.CommandContext(ctx, binary, "backup", c.file) //nolint:gosec // G204: the caller's binary
	cmd.Env = append(os.Environ(), "GATEWRIGHT_DATA_DIR="+p.Data())
	var says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &says, &says
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a backup: %w", err)
	}
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, says.Bytes())
		}
		c.took = time.Since(c.begun)
		c.ended <- err
	}()
	return c, nil
}

// restored is the folder of the last backup that was restored.
const restored = "restored"

// end waits for the command's end and reports whether it made a backup. An error
// means that its file says otherwise: one that was cut off must not be there, one
// that is there must be whole.
func (c *copying) end(ctx context.Context) (made bool, err error) {
	failed := <-c.ended
	switch _, err = os.Stat(c.file); {
	case failed != nil && errors.Is(err, fs.ErrNotExist):
		return false, nil
	case failed != nil:
		return false, fmt.Errorf("a backup that failed has left a file of its name: %w", failed)
	case err != nil:
		return false, fmt.Errorf("a backup was told to be whole and is not there: %w", err)
	}
	return true, c.restore(ctx, filepath.Join(filepath.Dir(c.file), restored))
}

// restore makes a data directory of the backup, which reads all of it. It goes
// again when a later one is restored.
func (c *copying) restore(ctx context.Context, dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("make room for what is restored: %w", err)
	}
	if _, err := backup.Restore(ctx, c.file, filepath.Join(dir, "data")); err != nil {
		return fmt.Errorf("restore a backup: %w", err)
	}
	return nil
}
