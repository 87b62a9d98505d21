// Package emulator starts emulators of DynamoDB (dynoxide) and S3 (versitygw) as supervised child processes, and
// returns their addresses. The emulators are for functions that run in separate processes, and for tests. The product
// in one process does not need them.
//
// The package does not link versitygw or SQLite, because the product imports it. Package process links them, and this
// package starts the program of package process by its path. It does not know tables or keys of objects: packages store
// and blob use the emulators in the same way as AWS.
//
// Read emulator.go first, then dynamodb.go and s3.go. Section 9 of the design explains the choice of the emulators.
package emulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/supervise"
)

// ProgramName is the file name of the emulators' program. Package process implements its commands. `make run-lambda`
// builds the program into the folder of the bootstraps.
const ProgramName = "emulators"

// The commands of the program.
const (
	// S3ServerCommand serves S3. The first line of its standard input is its
	// configuration, an S3Config. The server writes its events to file descriptor 3.
	S3ServerCommand = "s3-server"
	// IndexStreamCommand adds indexes for streams to dynoxide's database, and deletes expired stream records. Its only
	// argument is the path of the database.
	IndexStreamCommand = "index-stream"
)

// Emulator is a running emulator.
type Emulator struct {
	// Endpoint is the URL of the emulator.
	Endpoint string

	child *supervise.Child
	log   *supervise.Log
}

// Stop ends the emulator and waits until its process has ended.
func (e *Emulator) Stop() {
	e.child.Stop()
	_ = e.log.Close()
}

// PID returns the emulator's process ID, or 0 while the emulator restarts.
func (e *Emulator) PID() int { return e.child.PID() }

// maxLogBytes is the maximum size of a log file of an emulator. supervise.Log keeps up to two such files.
const maxLogBytes = 4 << 20

// maxAttempts is the maximum number of starts, each with another port. A start can
// fail because another process has taken the port since it was found to be free.
const maxAttempts = 3

// start runs a child that listens on a free port of this machine. It uses the port of
// the last start if possible, so that upload addresses from before a restart stay valid.
func start(
	ctx context.Context, dir *datadir.Dir, name string, log *slog.Logger, spec func(port string) (supervise.Spec, error),
) (*Emulator, error) {
	if !supported {
		return nil, errors.New("the emulators of DynamoDB and S3 run on Linux and macOS alone: leave " +
			"GATEWRIGHT_FUNCTIONS empty, " +
			"or name running ones in GATEWRIGHT_DYNAMODB_ENDPOINT and GATEWRIGHT_S3_ENDPOINT")
	}
	logs, err := dir.CreateFolder("logs")
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		port, err := choosePort(ctx, dir, name, attempt == 1)
		if err != nil {
			return nil, err
		}
		s, err := spec(port)
		if err != nil {
			return nil, err
		}
		file, err := supervise.OpenLog(filepath.Join(logs, name+".log"), maxLogBytes)
		if err != nil {
			return nil, err
		}
		s.Log, s.Tail = file, file.Last
		child, err := supervise.Start(ctx, s, log)
		if err == nil {
			if err := dir.Write(portFile(name), []byte(port+"\n")); err != nil {
				log.Warn("the port cannot be remembered", "emulator", name, "error", err)
			}
			return &Emulator{Endpoint: "http://127.0.0.1:" + port, child: child, log: file}, nil
		}
		_ = file.Close()
		if ctx.Err() != nil || attempt == maxAttempts || !inUse(err) {
			return nil, err
		}
	}
}

// inUse reports whether the error of a start says that the port is in use.
func inUse(err error) bool {
	return strings.Contains(strings.ToLower(err.Error()), "address already in use")
}

func portFile(name string) string { return name + ".port" }

// choosePort returns the port of the last start if preferLast is set and the port is free. Otherwise it returns any free port.
func choosePort(ctx context.Context, dir *datadir.Dir, name string, preferLast bool) (string, error) {
	if content, err := dir.Read(portFile(name)); err == nil && preferLast {
		port := strings.TrimSpace(string(content))
		if _, err := strconv.ParseUint(port, 10, 16); err == nil && port != "0" {
			if port, err := freePort(ctx, port); err == nil {
				return port, nil
			}
		}
	}
	return freePort(ctx, "0")
}

// freePort returns port, or any free port if port is "0". It returns an error if port is in use.
func freePort(ctx context.Context, port string) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return port, nil
}

// environment returns the environment variables that a child
// inherits. Only variables that contain no secrets are inherited.
func environment() []string {
	var out []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}
