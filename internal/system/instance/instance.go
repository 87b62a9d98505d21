// Package instance runs the product as a separate process, for programs and tests that use the product from outside.
// The process listens on free ports and keeps its data in a directory of the caller, until the caller stops or kills
// it.
//
// It does not implement the local run, which is package product; it starts the binary of the local run.
//
// Read instance.go first. request.go sends requests to the management API, keyrotation.go creates account keys for load tests, and usage.go
// measures the processor time and the memory of the process.
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
	"github.com/gatewright/gatewright/shared/base/processes"
)

// startTimeout is the maximum duration of a start. A start takes a fraction of a second, but `make run` can compile the
// product first.
const startTimeout = 3 * time.Minute

// Instance is a running product.
type Instance struct {
	// API, Gateway, TLS and Relay are the URLs where the process listens. TLS is the HTTPS URL of the gateway.
	API, Gateway, TLS, Relay string
	// Key is the account key that the first start created.
	Key string
	// Dir is the directory that contains the data directory, Data.
	Dir string
	// Client sends the requests to the management API and the uploads. Nil means http.DefaultClient.
	Client *http.Client

	cmd  *exec.Cmd
	log  bytes.Buffer
	done chan struct{}
}

// Data returns the path of the data directory.
func (i *Instance) Data() string { return filepath.Join(i.Dir, "data") }

// Start runs command (the product's binary, or `make run`) in the folder workdir, with the data directory below dir. It
// returns when the product is ready: after that, the end of ctx does not stop the product. A second Start with the same
// dir continues with the same data.
func Start(ctx context.Context, dir, workdir string, command ...string) (*Instance, error) {
	i := &Instance{Dir: dir, done: make(chan struct{})}
	ready := filepath.Join(dir, "ready")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the ready file: %w", err)
	}
	i.cmd = exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // the caller chooses and stops it
	i.cmd.Dir = workdir
	i.cmd.Env = append(os.Environ(),
		"GATEWRIGHT_API_ADDR=127.0.0.1:0", "GATEWRIGHT_GATEWAY_ADDR=127.0.0.1:0", "GATEWRIGHT_TLS_ADDR=127.0.0.1:0",
		"GATEWRIGHT_RELAY_ADDR=127.0.0.1:0",
		"GATEWRIGHT_DATA_DIR="+i.Data(), "GATEWRIGHT_READY_FILE="+ready)
	i.cmd.Stdout, i.cmd.Stderr = &i.log, &i.log
	i.cmd.SysProcAttr = processes.Group() // so that a signal also reaches the processes that make has started
	if err := i.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the product: %w", err)
	}
	go func() {
		defer close(i.done)
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
		case <-i.done:
			return nil, fmt.Errorf("the product ended before it was ready: %s", i.log.Bytes())
		case <-ctx.Done():
			i.Kill()
			return nil, fmt.Errorf("the product was not ready in time: %w: %s", ctx.Err(), i.log.Bytes())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// read reads the URLs from the text of the ready file, and the key from the data directory.
func (i *Instance) read(ready string) error {
	lines := strings.Fields(ready)
	if len(lines) != 4 { // the URLs of the API, the gateway, the gateway over TLS, and the relay
		return errors.New("the ready file does not contain four URLs")
	}
	i.API, i.Gateway, i.TLS, i.Relay = lines[0], lines[1], lines[2], lines[3]
	key, err := os.ReadFile(filepath.Join(i.Data(), datadir.AccountKey))
	if err != nil {
		return fmt.Errorf("read the account key: %w", err)
	}
	i.Key = strings.TrimSpace(string(key))
	return nil
}

// PID returns the process's id.
func (i *Instance) PID() int { return i.cmd.Process.Pid }

// Output waits until the process has ended, and returns what it printed.
func (i *Instance) Output() string {
	<-i.done
	return i.log.String()
}

// stopTimeout is how long Stop waits before it kills the process.
const stopTimeout = 15 * time.Second

// Stop interrupts the product as Ctrl-C does, and waits until it has ended. It kills the product after stopTimeout.
func (i *Instance) Stop() {
	_ = processes.Interrupt(i.PID())
	select {
	case <-i.done:
	case <-time.After(stopTimeout):
		_ = processes.Kill(i.PID())
		<-i.done
	}
}

// Kill kills the process, but not the processes that it has started, and waits until it has ended. Callers can call
// Kill more than once.
func (i *Instance) Kill() {
	_ = i.cmd.Process.Kill()
	<-i.done
}
