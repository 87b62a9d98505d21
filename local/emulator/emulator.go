// Package emulator starts a DynamoDB (dynoxide) and an S3 (versitygw) as
// supervised children and returns their addresses: for functions in processes of
// their own, and for tests. The product by itself needs neither.
//
// What it is not: it links neither versitygw nor SQLite, since the product imports it.
// The program of package process links them; this package starts that program by its
// path. It knows neither tables nor keys of objects either; package store
// and package blob speak to what it starts as they speak to AWS.
//
// Read emulator.go first, then dynamodb.go and s3.go. The choice of emulators is that
// of design, section 9.
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

// Program is the file name of the program that package process is the main part of.
// `make run-lambda` builds it into the folder of the bootstraps.
const Program = "emulators"

// The commands of the program.
const (
	// S3ServerCommand serves S3. Its configuration, an S3Config, is the first line of
	// its standard input; its file descriptor 3 takes the events.
	S3ServerCommand = "s3-server"
	// IndexStreamCommand indexes the streams in dynoxide's database, whose path is the
	// only argument.
	IndexStreamCommand = "index-stream"
)

// Emulator is a running emulator.
type Emulator struct {
	// Endpoint is its address as a URL.
	Endpoint string

	child *supervise.Child
	log   *supervise.Log
}

// Stop ends the emulator and waits until it is gone.
func (e *Emulator) Stop() {
	e.child.Stop()
	_ = e.log.Close()
}

// PID gives its process id, 0 while it is being started again.
func (e *Emulator) PID() int { return e.child.PID() }

// maxLogBytes bounds each emulator's log, twice over.
const maxLogBytes = 4 << 20

// tries is how often a start is repeated with another port: the port that was
// free a moment ago may be taken.
const tries = 3

// start runs a child that listens on a port of this machine which nobody uses:
// the one of the last start where possible, so that upload addresses which were
// given out before a restart still lead here.
func start(ctx context.Context, dir *datadir.Dir, name string, log *slog.Logger, spec func(port string) (supervise.Spec, error)) (*Emulator, error) {
	if !supported {
		return nil, errors.New("the emulators of DynamoDB and S3 run on Linux and macOS alone: leave GATEWRIGHT_FUNCTIONS empty, " +
			"or name running ones in GATEWRIGHT_DYNAMODB_ENDPOINT and GATEWRIGHT_S3_ENDPOINT")
	}
	logs, err := dir.Sub("logs")
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
		if ctx.Err() != nil || attempt == tries || !inUse(err) {
			return nil, err
		}
	}
}

// inUse recognises the words of a child that found its port taken.
func inUse(err error) bool {
	return strings.Contains(strings.ToLower(err.Error()), "address already in use")
}

func portFile(name string) string { return name + ".port" }

// choosePort returns the port of the last start if it is wanted and free, else
// any free one.
func choosePort(ctx context.Context, dir *datadir.Dir, name string, former bool) (string, error) {
	if content, err := dir.Read(portFile(name)); err == nil && former {
		port := strings.TrimSpace(string(content))
		if _, err := strconv.ParseUint(port, 10, 16); err == nil && port != "0" {
			if port, err := freePort(ctx, port); err == nil {
				return port, nil
			}
		}
	}
	return freePort(ctx, "0")
}

// freePort asks the kernel for a port that nobody listens on; "0" is any.
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

// environment is what a child gets of ours: nothing that names a secret.
func environment() []string {
	var out []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}
