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

	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/shared/store"
)

// NewDynamoDB makes an empty table in a DynamoDB emulator: the one at
// GATEWRIGHT_DYNAMODB_ENDPOINT, else a dynoxide of this test's own. Without
// either the test is skipped, or fails where CI is set. It gives the client
// and the table's name too, for who goes round the Table.
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
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		_, _ = client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name})
	})
	return Over(t, store.NewDynamoDB(client, name), options...), client, name
}

// Config is an AWS configuration that emulators accept.
func Config() aws.Config {
	return aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("local", "local", "")}
}

// Dynoxide is a running emulator of a test's own.
type Dynoxide struct {
	// Endpoint is its base address.
	Endpoint string

	t            testing.TB
	binary, port string
	database     string // a file, or "" for memory
	end          func()
}

// StartDynoxide runs an emulator until the test ends. database is the file
// with its data, "" for memory. Without a binary the test is skipped, or fails
// where CI is set.
func StartDynoxide(t testing.TB, database string) *Dynoxide {
	t.Helper()
	binary, err := findDynoxide()
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	const tries = 3 // a port that was free a moment ago may be taken
	for try := 1; ; try++ {
		at := free.Address(t)
		d := &Dynoxide{Endpoint: "http://" + at.String(), t: t, binary: binary, port: strconv.Itoa(int(at.Port())), database: database}
		err := d.start()
		if err == nil {
			t.Cleanup(func() { d.end() })
			return d
		}
		if try == tries {
			t.Fatalf("start dynoxide: %v", err)
		}
	}
}

// Restart kills the emulator, as a power cut would, and starts it again over
// the same data at the same address.
func (d *Dynoxide) Restart() {
	d.t.Helper()
	d.end()
	d.end = func() {}
	if err := d.start(); err != nil {
		d.t.Fatalf("restart dynoxide: %v", err)
	}
}

// findDynoxide follows the rule of the local run (design, section 9).
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
		path := filepath.Join(dir, "local", "node_modules", "@dynoxide", runtime.GOOS+"-"+arch, "dynoxide")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no DynamoDB emulator: run `npm ci --prefix local`, or name one in GATEWRIGHT_DYNOXIDE or GATEWRIGHT_DYNAMODB_ENDPOINT")
}

// start runs the emulator and returns when it says that it listens. Its
// process ends by end and, by the kernel's hand, with this process: the
// goroutine that started it keeps its thread, whose end is the signal's cause.
func (d *Dynoxide) start() error {
	args := []string{"serve", "--port", d.port}
	if d.database != "" {
		args = append(args, "--db-path", d.database)
	}
	cmd := exec.CommandContext(context.WithoutCancel(d.t.Context()), d.binary, args...) //nolint:gosec // G204: the developer names the binary
	cmd.SysProcAttr = diesWithParent()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	started, stop, gone := make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(gone)
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
	end := func() { close(stop); <-gone }
	ready := make(chan error, 1)
	go func() {
		var said []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said = append(said, lines.Text())
			if strings.Contains(lines.Text(), "listening") {
				ready <- nil
				_, _ = io.Copy(io.Discard, out) // or it would block on a full pipe
				return
			}
		}
		ready <- fmt.Errorf("it ended and said %q", said)
	}()
	const patience = 20 * time.Second
	select {
	case err = <-ready:
	case <-time.After(patience):
		err = fmt.Errorf("it did not listen within %v", patience)
	}
	if err != nil {
		end()
		return err
	}
	d.end = end
	return nil
}
