package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/testing/freeport"
)

// NewDynamoDB returns an empty table in a DynamoDB emulator: the emulator at GATEWRIGHT_DYNAMODB_ENDPOINT if
// that is set, otherwise a dynoxide that runs for this test. If there is no emulator, it skips the test, or
// fails it if CI is set. It also returns the client and the table's name, for tests that bypass the Table.
func NewDynamoDB(t testing.TB, options ...Option) (table *store.Table, client *dynamodb.Client, name string) {
	t.Helper()
	endpoint := os.Getenv("GATEWRIGHT_DYNAMODB_ENDPOINT")
	if endpoint == "" {
		endpoint = StartDynoxide(t, "").Endpoint
	}
	client = store.Connect(Config(), endpoint)
	name = fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano())
	if err := store.CreateTable(t.Context(), client, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by then.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		_, _ = client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name})
	})
	return NewWithBackend(t, store.NewDynamoDB(client, name), options...), client, name
}

// Config returns an AWS configuration that emulators accept.
func Config() aws.Config {
	return aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("local", "local", "")}
}

// Dynoxide is a running emulator for one test.
type Dynoxide struct {
	// Endpoint is the base address of the emulator.
	Endpoint string

	t            testing.TB
	binary, port string
	database     string // a file, or "" for memory
	stop         func()
}

// StartDynoxide runs an emulator until the test ends. database is the file with the emulator's
// data, "" for memory. If there is no dynoxide binary, it skips the test, or fails it if CI is set.
func StartDynoxide(t testing.TB, database string) *Dynoxide {
	t.Helper()
	binary, err := findDynoxide()
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	const maxAttempts = 3 // another process may have taken the free port
	for attempt := 1; ; attempt++ {
		address := freeport.Address(t)
		d := &Dynoxide{
			Endpoint: "http://" + address.String(), t: t, binary: binary, port: strconv.Itoa(int(address.Port())),
			database: database,
		}
		err := d.start()
		if err == nil {
			t.Cleanup(func() { d.stop() })
			return d
		}
		if attempt == maxAttempts {
			t.Fatalf("start of dynoxide = %v after %d attempts, want success", err, attempt)
		}
	}
}

// Restart kills the emulator, as a crash would, and starts it again with the same data and address. An emulator without
// a database file loses its data.
func (d *Dynoxide) Restart() {
	d.t.Helper()
	d.stop()
	d.stop = func() {}
	if err := d.start(); err != nil {
		d.t.Fatalf("restart of dynoxide = %v, want success", err)
	}
}

// findDynoxide returns the path of the emulator's binary: the path in GATEWRIGHT_DYNOXIDE if that is set, otherwise
// dynoxide in PATH, otherwise the binary in local/dev/node_modules of the working directory or of one of its parents.
func findDynoxide() (string, error) {
	if path := os.Getenv("GATEWRIGHT_DYNOXIDE"); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath("dynoxide"); err == nil {
		return path, nil
	}
	arch := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "local", "dev", "node_modules", "@dynoxide", runtime.GOOS+"-"+arch, "dynoxide")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no DynamoDB emulator: run `npm ci --prefix local/dev`, or name one in GATEWRIGHT_DYNOXIDE or " +
		"GATEWRIGHT_DYNAMODB_ENDPOINT")
}

// start runs the emulator and waits until it reports that it listens. d.stop then ends the emulator's
// process. On Linux the kernel also ends it when the thread that started it ends. So the goroutine
// that started the emulator keeps its thread, and the emulator ends when this process ends.
func (d *Dynoxide) start() error {
	args := []string{"serve", "--port", d.port}
	if d.database != "" {
		args = append(args, "--db-path", d.database)
	}
	cmd := exec.CommandContext(context.WithoutCancel(d.t.Context()), d.binary, args...) //nolint:gosec // G204: the developer names the binary
	cmd.SysProcAttr = killWithParent()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	started, stop, exited := make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(exited)
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		<-stop
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := <-started; err != nil {
		return err
	}
	kill := func() { close(stop); <-exited }
	ready := make(chan error, 1)
	go func() {
		var output []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			output = append(output, lines.Text())
			if strings.Contains(lines.Text(), "listening") {
				ready <- nil
				_, _ = io.Copy(io.Discard, out) // otherwise the emulator would block on a full pipe
				return
			}
		}
		ready <- fmt.Errorf("the emulator ended with the output %q", output)
	}()
	const startTimeout = 20 * time.Second
	select {
	case err = <-ready:
	case <-time.After(startTimeout):
		err = fmt.Errorf("the emulator did not listen within %v", startTimeout)
	}
	if err != nil {
		kill()
		return err
	}
	d.stop = kill
	return nil
}
