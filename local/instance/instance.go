// Package instance runs the product as a process of its own, for programs and
// tests that use it from outside: on free ports, in a directory of theirs,
// until they stop or kill it.
//
// It is not the local run, which is package product; it starts that, by its binary.
//
// Read instance.go; ask.go is its management API, turns.go has account keys for loads,
// usage.go what the process takes.
package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/processes"
)

// startTimeout is how long a start may take; it takes a fraction of a second
// once everything is built.
const startTimeout = 3 * time.Minute

// Instance is a running product.
type Instance struct {
	// API, Gateway, TLS, its gateway by TLS, and Relay are its addresses, as URLs.
	API, Gateway, TLS, Relay string
	// Key is the account key of its first start.
	Key string
	// Dir holds its data directory, Data.
	Dir string
	// Client asks the management API and uploads, nil for http.DefaultClient.
	Client *http.Client

	cmd   *exec.Cmd
	log   bytes.Buffer
	ended chan struct{}
}

// Data is the data directory.
func (i *Instance) Data() string { return filepath.Join(i.Dir, "data") }

// Start runs command (the product's binary, or `make run`) in the folder
// workdir, over the data directory below dir, and returns when it answers. A
// second Start over the same dir goes on with the same data.
func Start(ctx context.Context, dir, workdir string, command ...string) (*Instance, error) {
	i := &Instance{Dir: dir, ended: make(chan struct{})}
	ready := filepath.Join(dir, "ready")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the ready file: %w", err)
	}
	i.cmd = exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // the caller's command, which it stops or kills
	i.cmd.Dir = workdir
	i.cmd.Env = append(os.Environ(),
		"GATEWRIGHT_API_ADDR=127.0.0.1:0", "GATEWRIGHT_GATEWAY_ADDR=127.0.0.1:0", "GATEWRIGHT_TLS_ADDR=127.0.0.1:0", "GATEWRIGHT_RELAY_ADDR=127.0.0.1:0",
		"GATEWRIGHT_DATA_DIR="+i.Data(), "GATEWRIGHT_READY_FILE="+ready)
	i.cmd.Stdout, i.cmd.Stderr = &i.log, &i.log
	i.cmd.SysProcAttr = processes.Group() // so that a signal reaches what make started
	if err := i.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the product: %w", err)
	}
	go func() {
		defer close(i.ended)
		_ = i.cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		content, err := os.ReadFile(ready) //nolint:gosec // G304: the caller's directory
		if err == nil {
			if err := i.read(string(content)); err != nil {
				i.Kill()
				return nil, err
			}
			return i, nil
		}
		select {
		case <-i.ended:
			return nil, fmt.Errorf("the product ended at its start: %s", i.log.Bytes())
		case <-ctx.Done():
			i.Kill()
			return nil, fmt.Errorf("the product did not get ready: %w: %s", ctx.Err(), i.log.Bytes())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// read takes the addresses from the ready file, and the key.
func (i *Instance) read(ready string) error {
	lines := strings.Fields(ready)
	if len(lines) != 4 { // the API's address, the gateway's, that by TLS, and the relay's
		return errors.New("the ready file does not hold four addresses")
	}
	i.API, i.Gateway, i.TLS, i.Relay = lines[0], lines[1], lines[2], lines[3]
	key, err := os.ReadFile(filepath.Join(i.Data(), datadir.AccountKey))
	if err != nil {
		return fmt.Errorf("read the account key: %w", err)
	}
	i.Key = strings.TrimSpace(string(key))
	return nil
}

// PID is the process's id.
func (i *Instance) PID() int { return i.cmd.Process.Pid }

// Output is what it has printed, once it has ended.
func (i *Instance) Output() string {
	<-i.ended
	return i.log.String()
}

// stopTimeout is how long Stop waits before it uses force.
const stopTimeout = 15 * time.Second

// Stop ends the product as Ctrl-C does, and in the end by force.
func (i *Instance) Stop() {
	_ = processes.Interrupt(i.PID())
	select {
	case <-i.ended:
	case <-time.After(stopTimeout):
		_ = processes.Kill(i.PID())
		<-i.ended
	}
}

// Kill ends the process without a word. It may be called more than once.
func (i *Instance) Kill() {
	_ = i.cmd.Process.Kill()
	<-i.ended
}
