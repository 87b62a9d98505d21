package blob_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

const (
	endpointVar = "GATEWRIGHT_S3_ENDPOINT"
	// serverVar is the variable that makes this test binary run the S3 server. The server needs a separate
	// process, because versitygw changes the working directory and keeps its settings in package variables.
	serverVar = "GATEWRIGHT_BLOB_TEST_SERVER"
)

// TestMain runs the tests over the S3 at GATEWRIGHT_S3_ENDPOINT. If that is not set, it starts a versitygw.
func TestMain(m *testing.M) {
	if address := os.Getenv(serverVar); address != "" {
		exit(serve(address))
	}
	if os.Getenv(endpointVar) != "" {
		os.Exit(m.Run())
	}
	stop, err := startServer()
	if err != nil {
		exit(err)
	}
	code := m.Run()
	if err := stop(); err != nil {
		exit(err)
	}
	os.Exit(code)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// startServer starts a child process that serves an empty directory, waits until it listens, and sets endpointVar.
func startServer() (stop func() error, err error) {
	dir, err := os.MkdirTemp("", "blob-test-*")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"objects", "attributes"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.CommandContext(context.WithoutCancel(ctx), self)
	child.Dir, child.Env, child.Stderr = dir, append(os.Environ(), serverVar+"="+address), os.Stderr
	input, err := child.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		return errors.Join(input.Close(), child.Wait(), os.RemoveAll(dir))
	}
	var dialer net.Dialer
	for {
		c, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return stop, errors.Join(c.Close(), os.Setenv(endpointVar, "http://"+address))
		}
		if ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("the S3 server does not listen at %s after 10 s", address), stop())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// serve runs the server at address over the working directory until
// standard input ends, which happens when the test process ends.
func serve(address string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	options := posix.PosixOpts{ValidateBucketNames: true, SideCarDir: filepath.Join(dir, "attributes")}
	attributes, err := meta.NewSideCar(options.SideCarDir)
	if err != nil {
		return err
	}
	files, err := posix.New(filepath.Join(dir, "objects"), attributes, options)
	if err != nil {
		return err
	}
	return embedgw.RunVersityGW(ctx, files, &embedgw.Config{
		RootUserAccess: "local", RootUserSecret: "local-secret", Region: "us-east-1", Ports: []string{address},
		MaxConnections: 100, MaxRequests: 100, MultipartMaxParts: 100, DisableACLs: true, KeepAlive: true, Quiet: true,
	})
}
