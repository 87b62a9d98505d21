package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/store"
)

// database is the installation's table, and the emulator if it is ours.
type database struct {
	endpoint string
	sdk      aws.Config
	table    *store.Table
	ids      *ids.Source
	emulator *emulator.Emulator // nil for one that runs elsewhere
}

func (d *database) stop() {
	if d.emulator != nil {
		d.emulator.Stop()
	}
}

// openDatabase opens the table, which is made when it is absent, at the
// endpoint of the settings or in the data directory, whose lock the caller has.
func openDatabase(ctx context.Context, s settings, dir *datadir.Dir, t *terminal.Terminal, log *slog.Logger) (*database, error) {
	if s.dynamoDB != "" {
		d, err := connect(ctx, s, s.dynamoDB)
		return d, elsewhere(err, config.VarDynamoDBEndpoint)
	}
	binary, err := findDynoxide(ctx, s, t)
	if err != nil {
		return nil, err
	}
	e, err := emulator.StartDynamoDB(ctx, dir, binary, log)
	if err != nil {
		return nil, fmt.Errorf("%w (its log is %s)", err, dir.Path("logs", "dynamodb.log"))
	}
	d, err := connect(ctx, s, e.Endpoint)
	if err != nil {
		e.Stop()
		return nil, err
	}
	d.emulator = e
	return d, nil
}

// anyCredentials are good for emulators that take any.
func anyCredentials() emulator.Credentials {
	return emulator.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}
}

// connect opens the table of a DynamoDB that runs.
func connect(ctx context.Context, s settings, endpoint string) (*database, error) {
	sdk := s.aws(anyCredentials())
	client := store.Connect(sdk, endpoint)
	if err := store.CreateTable(ctx, client, tableName); err != nil {
		return nil, fmt.Errorf("open the table at %s: %w", endpoint, err)
	}
	return &database{
		endpoint: endpoint,
		sdk:      sdk,
		table:    store.New(store.NewDynamoDB(client, tableName), store.Options{Random: rand.Reader, Now: time.Now, KeepTokens: true}),
		ids:      ids.NewSource(rand.Reader, time.Now),
	}, nil
}

// elsewhere explains why an emulator that runs elsewhere cannot be used.
func elsewhere(err error, variable string) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Errorf("the emulator that %s names does not answer (%w): start it, or leave the variable empty to have one started", variable, err)
}

// reach reports whether anybody listens at an address: the SDK would try for
// seconds.
func reach(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("read the address: %w", err)
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), u.Scheme)
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	return c.Close()
}

// aws is the SDK's configuration: the credentials of the environment if there
// are any, for emulators that run elsewhere, and those given otherwise.
func (s settings) aws(c emulator.Credentials) aws.Config {
	region := s.getenv("AWS_REGION")
	if region == "" {
		region = emulator.Region
	}
	if id := s.getenv("AWS_ACCESS_KEY_ID"); id != "" && (s.dynamoDB != "" || s.s3 != "") {
		c = emulator.Credentials{AccessKeyID: id, SecretAccessKey: s.getenv("AWS_SECRET_ACCESS_KEY")}
	}
	return aws.Config{
		Region:      region,
		Credentials: credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.SecretAccessKey, ""),
	}
}

// findDynoxide finds the database's binary, and has npm install it in a
// checkout that lacks it.
func findDynoxide(ctx context.Context, s settings, t *terminal.Terminal) (string, error) {
	path, err := emulator.FindDynoxide(s.getenv)
	if !errors.Is(err, emulator.ErrNoDynoxide) {
		return path, err
	}
	npm, lookErr := exec.LookPath("npm")
	if _, statErr := os.Stat(filepath.Join("local", "package-lock.json")); lookErr != nil || statErr != nil {
		return "", err
	}
	t.Step("Installing the embedded DynamoDB (npm ci --prefix local)")
	cmd := exec.CommandContext(ctx, npm, "ci", "--prefix", "local", "--no-audit", "--no-fund") //nolint:gosec // G204: npm of the PATH
	if output, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("npm ci --prefix local: %w: %s", err, lastLine(output))
	}
	return emulator.FindDynoxide(s.getenv)
}

// lockWait is how long a short command may hold the data directory before
// another one gives up.
const lockWait = 15 * time.Second

// holder answers what to do while another process has the lock: an error, or
// nil to try again.
type holder func(datadir.State) error

// lock takes the data directory's lock. As long as another process has it, it
// asks what to do.
func lock(ctx context.Context, dir *datadir.Dir, command string, held holder) (*datadir.Lock, error) {
	deadline := time.Now().Add(lockWait)
	for {
		l, err := dir.Lock()
		if err == nil {
			state := datadir.State{PID: os.Getpid(), Command: command, StartedOn: time.Now().UTC()}
			if err := dir.SaveState(state); err != nil {
				l.Release()
				return nil, err
			}
			return l, nil
		}
		if !errors.Is(err, datadir.ErrInUse) {
			return nil, err
		}
		state, err := dir.LoadState()
		if err != nil {
			return nil, err
		}
		// What a killed process left behind says nothing about the holder.
		if syscall.Kill(state.PID, 0) == nil {
			if err := held(state); err != nil {
				return nil, err
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the data directory %s is in use by process %d (%s): wait for it, or name another directory in %s",
				dir.Path(), state.PID, state.Command, config.VarDataDir)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// withDatabase calls do with the database of the installation: that of the
// process that runs it, or one that is started for the moment. name is the
// command's, for others that wait for it.
func withDatabase(ctx context.Context, name string, do func(context.Context, *database) error) error {
	s, err := settingsFrom(os.Getenv)
	if err != nil {
		return err
	}
	if s.dynamoDB != "" {
		d, err := connect(ctx, s, s.dynamoDB)
		if err != nil {
			return elsewhere(err, config.VarDynamoDBEndpoint)
		}
		return do(ctx, d)
	}
	dir, err := datadir.Open(s.dataDir)
	if err != nil {
		return err
	}
	var running *database
	var unreachable error
	l, err := lock(ctx, dir, name, func(state datadir.State) error {
		if state.Command != runCommand || state.DynamoDB == "" {
			return nil // another short command, or a start: it will not be long
		}
		running, unreachable = connect(ctx, s, state.DynamoDB)
		if unreachable == nil {
			return errRunning
		}
		return nil // it is being started again, or the product is about to end: try once more
	})
	if errors.Is(err, errRunning) {
		return do(ctx, running)
	}
	if err != nil {
		return errors.Join(err, unreachable)
	}
	defer l.Release()
	defer dir.ClearState()
	remarks := terminal.New(os.Stderr, terminal.Colours(os.Stderr, os.Getenv))
	d, err := openDatabase(ctx, s, dir, remarks, slog.New(remarks.Lines(slog.LevelWarn)))
	if err != nil {
		return err
	}
	defer d.stop()
	return do(ctx, d)
}

// errRunning says that the product runs and its database can be used.
var errRunning = errors.New("the product runs")
