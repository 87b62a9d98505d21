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
	"github.com/gatewright/gatewright/local/dev/emulator"
	"github.com/gatewright/gatewright/local/preflight"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// database is the installation's table, in the embedded engine or in DynamoDB.
type database struct {
	table *store.Table
	ids   *ids.Source

	// engine and key are nil if the table is in DynamoDB.
	engine *embedded.Backend
	key    seal.KeySource
	// dir and objects are set only for commands: the data directory, and the objects for a backup. objects is nil if the
	// objects are in S3.
	dir     *datadir.Dir
	objects backup.Objects
	// limits are the limits of accounts that have no limits of their own.
	limits limits.Values
	// workDir is the working directory of the process for which this process runs a command. It is "" for commands of this
	// process itself.
	workDir string

	endpoint string // of DynamoDB
	sdk      aws.Config
	emulator *emulator.Emulator // the DynamoDB emulator that this process has started, or nil
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

// openDatabase opens the table, and creates it if it does not exist. The table is at the DynamoDB endpoint of the
// settings or in the data directory, whose lock the caller must hold. fatal is embedded.Options.Fatal.
func openDatabase(
	ctx context.Context, s settings, dir *datadir.Dir, t *terminal.Terminal, log *slog.Logger, fatal func(error),
) (*database, error) {
	switch {
	case s.dynamoDB != "":
		d, err := connect(ctx, s, s.dynamoDB)
		return d, endpointError(err, config.VarDynamoDBEndpoint)
	case s.functions != "":
		return startDynamoDB(ctx, s, dir, t, log)
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

// openEngine checks that no file of the data directory is missing, and opens the engine. It also opens or
// creates the root key: if data were stored before the root key exists, a start could no longer create the key.
func openEngine(
	ctx context.Context, dir *datadir.Dir, expected preflight.Options, log *slog.Logger, fatal func(error),
) (*embedded.Backend, error) {
	if err := preflight.Check(ctx, dir, expected); err != nil {
		return nil, err
	}
	engine, err := embedded.Open(ctx, embedded.Options{
		Dir: dir.Path(datadir.Engine), Log: log.With("part", "engine"),
		Fatal: fatal,
	})
	if err != nil {
		return nil, err
	}
	if _, err := rootkey.Open(ctx, dir.Path(rootkey.Name), engine); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return engine, nil
}

// startDynamoDB starts a DynamoDB emulator that functions in separate processes can reach, and opens the table in it.
func startDynamoDB(
	ctx context.Context, s settings, dir *datadir.Dir, t *terminal.Terminal, log *slog.Logger,
) (*database, error) {
	program, err := s.emulatorPath()
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

// emulatorPath returns the path of the emulators' program, which is in the folder of the bootstraps.
func (s settings) emulatorPath() (string, error) {
	path, err := filepath.Abs(filepath.Join(s.functions, emulator.ProgramName))
	if err != nil {
		return "", fmt.Errorf("find the emulators: %w", err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s has no program %s, which functions in processes of their own need: `make run-lambda` "+
			"builds it, or leave %s empty", s.functions, emulator.ProgramName, config.VarFunctions)
	}
	return path, nil
}

// emulatorCredentials returns credentials for endpoints of the settings if the environment has none, and for the
// DynamoDB emulator, which accepts any credentials.
func emulatorCredentials() emulator.Credentials {
	return emulator.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}
}

// connect opens the table at a DynamoDB endpoint, and creates it if it does not exist.
func connect(ctx context.Context, s settings, endpoint string) (*database, error) {
	sdk := s.awsConfig(emulatorCredentials())
	client := store.Connect(sdk, endpoint)
	if err := store.CreateTable(ctx, client, tableName); err != nil {
		return nil, fmt.Errorf("open the table at %s: %w", endpoint, err)
	}
	return &database{
		endpoint: endpoint,
		limits:   s.limits,
		sdk:      sdk,
		table: store.New(store.NewDynamoDB(client, tableName),
			store.Options{Random: rand.Reader, Now: time.Now, KeepTokens: true}),
		ids: ids.NewSource(rand.Reader, time.Now),
	}, nil
}

// endpointError converts an error of the DynamoDB or S3 endpoint in the variable to an error that names the variable
// and says what to do. It returns nil and context.Canceled unchanged.
func endpointError(err error, variable string) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Errorf("the server that %s names does not answer (%w): start it, or leave the variable empty to "+
		"do without one", variable, err)
}

// checkReachable returns an error if no server listens at an address.
// It fails faster than the SDK, which would retry for seconds.
func checkReachable(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("read the address: %w", err)
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), u.Scheme) // net resolves "http" and "https" to their ports
	}
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	return c.Close()
}

// awsConfig returns the SDK's configuration. If the settings name an endpoint of DynamoDB or
// S3, it uses the credentials of the environment, if there are any. Otherwise it uses c.
func (s settings) awsConfig(c emulator.Credentials) aws.Config {
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

// findDynoxide finds dynoxide, the binary of the DynamoDB emulator. In a checkout without the binary, it runs npm, if
// there is one, to install it.
func findDynoxide(ctx context.Context, s settings, t *terminal.Terminal) (string, error) {
	path, err := emulator.FindDynoxide(s.getenv)
	if !errors.Is(err, emulator.ErrNoDynoxide) {
		return path, err
	}
	npm, lookErr := exec.LookPath("npm")
	if _, statErr := os.Stat(filepath.Join("local", "dev", "package-lock.json")); lookErr != nil || statErr != nil {
		return "", err
	}
	t.Step("Installing the DynamoDB emulator (npm ci --prefix local/dev)")
	//nolint:gosec // G204: npm of the PATH
	cmd := exec.CommandContext(ctx, npm, "ci", "--prefix", "local/dev", "--no-audit", "--no-fund")
	if output, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("npm ci --prefix local/dev: %w: %s", err, lastLine(output))
	}
	return emulator.FindDynoxide(s.getenv)
}

func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}
