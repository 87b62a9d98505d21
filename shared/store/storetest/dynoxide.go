package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

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
		endpoint = startDynoxide(t)
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

// startDynoxide runs an emulator in memory until the test ends, and gives its
// address.
func startDynoxide(t testing.TB) string {
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
		port, err := freePort(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err = run(t, binary, port); err == nil {
			return "http://127.0.0.1:" + port
		}
		if try == tries {
			t.Fatalf("start dynoxide: %v", err)
		}
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

// run starts the emulator and returns when it says that it listens. Its
// process ends with the test and, by the kernel's hand, with this process: the
// goroutine that started it keeps its thread, whose end is the signal's cause.
func run(t testing.TB, binary, port string) error {
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, "serve", "--port", port) //nolint:gosec // G204: the developer names the binary
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
	end := func() { close(stop); <-gone }
	if err := <-started; err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(out)
		var said []string
		for lines.Scan() {
			said = append(said, lines.Text())
			if strings.Contains(lines.Text(), "listening") {
				ready <- nil
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
	t.Cleanup(end)
	return nil
}

func freePort(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}
