package product

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/gatewright/gatewright/local/backup"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/preflight"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// database is the installation's table: one of our engine, or of a DynamoDB.
type database struct {
	table *store.Table
	ids   *ids.Source

	// engine and key are nil where a DynamoDB has the table.
	engine *embedded.Backend
	key    seal.KeySource
	// dir and objects are what a backup holds beside the engine; objects is nil where
	// an S3 has them.
	dir     *datadir.Dir
	objects backup.Objects
	// limits are what bounds each account that has no limit of its own.
	limits limits.Values
	// folder is where a command was typed that another process asked for.
	folder string

	endpoint string // of DynamoDB
	sdk      aws.Config
	emulator *emulator.Emulator // the DynamoDB that was started here, if one was
}

func (d *database) stop() error {
	if d.emulator != nil {
		d.emulator.Stop()
	}
	if d.engine != nil {
		return d.engine.Close()
	}
	return nil
}

// openDatabase opens the table, which is made when it is absent: in the data
// directory, whose lock the caller has, or at the endpoint of the settings.
// fatal is embedded.Options.Fatal.
func openDatabase(ctx context.Context, s settings, dir *datadir.Dir, t *terminal.Terminal, log *slog.Logger, fatal func(error)) (*database, error) {
	switch {
	case s.dynamoDB != "":
		d, err := connect(ctx, s, s.dynamoDB)
		return d, elsewhere(err, config.VarDynamoDBEndpoint)
	case s.functions != "":
		return emulate(ctx, s, dir, t, log)
	}
	engine, err := openEngine(ctx, dir, preflight.Options{Table: true, Objects: s.s3 == ""}, log, fatal)
	if err != nil {
		return nil, err
	}
	table := store.New(engine, store.Options{Random: rand.Reader, Now: time.Now})
	return &database{
		table:  table,
		ids:    ids.NewSource(rand.Reader, time.Now),
		engine: engine,
		limits: s.limits,
		key:    rootkey.Source(dir.Path(rootkey.Name), engine, table, time.Now),
	}, nil
}

// openEngine checks that the data directory has lost nothing. Then it opens the engine's
// files and their root key, always together: if a command stored data before there is a
// key, no start could make one.
func openEngine(ctx context.Context, dir *datadir.Dir, holds preflight.Options, log *slog.Logger, fatal func(error)) (*embedded.Backend, error) {
	if err := preflight.Check(ctx, dir, holds); err != nil {
		return nil, err
	}
	engine, err := embedded.Open(ctx, embedded.Options{Dir: dir.Path(datadir.Engine), Log: log.With("part", "engine"), Fatal: fatal})
	if err != nil {
		return nil, err
	}
	if _, err := rootkey.Open(ctx, dir.Path(rootkey.Name), engine); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return engine, nil
}

// emulate starts a DynamoDB, which functions in processes of their own can reach.
func emulate(ctx context.Context, s settings, dir *datadir.Dir, t *terminal.Terminal, log *slog.Logger) (*database, error) {
	program, err := s.emulators()
	if err != nil {
		return nil, err
	}
	binary, err := findDynoxide(ctx, s, t)
	if err != nil {
		return nil, err
	}
	e, err := emulator.StartDynamoDB(ctx, emulator.DynamoDBOptions{Dir: dir, Binary: binary, Program: program, Log: log})
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

// emulators returns the path of the emulators' program, which is in the folder of the
// bootstraps.
func (s settings) emulators() (string, error) {
	path, err := filepath.Abs(filepath.Join(s.functions, emulator.Program))
	if err != nil {
		return "", fmt.Errorf("find the emulators: %w", err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s has no program %s, which functions in processes of their own need: `make run-lambda` builds it, or leave %s empty", s.functions, emulator.Program, config.VarFunctions)
	}
	return path, nil
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
		limits:   s.limits,
		sdk:      sdk,
		table:    store.New(store.NewDynamoDB(client, tableName), store.Options{Random: rand.Reader, Now: time.Now, KeepTokens: true}),
		ids:      ids.NewSource(rand.Reader, time.Now),
	}, nil
}

// elsewhere explains why a DynamoDB or S3 that runs elsewhere cannot be used.
func elsewhere(err error, variable string) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Errorf("the server that %s names does not answer (%w): start it, or leave the variable empty to do without one", variable, err)
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
// are any, for servers that run elsewhere, and those given otherwise.
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

// findDynoxide finds the emulator's binary, and has npm install it in a
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
	t.Step("Installing the DynamoDB emulator (npm ci --prefix local)")
	cmd := exec.CommandContext(ctx, npm, "ci", "--prefix", "local", "--no-audit", "--no-fund") //nolint:gosec // G204: npm of the PATH
	if output, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("npm ci --prefix local: %w: %s", err, lastLine(output))
	}
	return emulator.FindDynoxide(s.getenv)
}

func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}
