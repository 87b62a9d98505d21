package emulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/supervise"
	"github.com/gatewright/gatewright/shared/core/config"
)

// Region is the AWS region that both emulators use.
const Region = "us-east-1"

// ErrNoDynoxide reports that FindDynoxide found no binary. Its text is a full sentence for the terminal.
var ErrNoDynoxide = errors.New("dynoxide, the DynamoDB emulator, is missing: run `npm ci --prefix local/dev` in " +
	"the checkout, " +
	"name its binary in GATEWRIGHT_DYNOXIDE, or name a running DynamoDB in GATEWRIGHT_DYNAMODB_ENDPOINT")

// FindDynoxide returns the path of the dynoxide binary. It checks the variable GATEWRIGHT_DYNOXIDE first, then the
// PATH, and then the folder local/dev of the working directory and its parents, where npm installs the binary.
func FindDynoxide(getenv func(string) string) (string, error) {
	if path := getenv(config.VarDynoxide); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", errors.New("GATEWRIGHT_DYNOXIDE names a file that cannot be read: correct it or leave it empty")
		}
		return filepath.Abs(path)
	}
	if path, err := exec.LookPath("dynoxide"); err == nil {
		return filepath.Abs(path)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", ErrNoDynoxide
	}
	for {
		path := filepath.Join(dir, "local", "dev", "node_modules", "@dynoxide", platform(), "dynoxide")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNoDynoxide
		}
		dir = parent
	}
}

// platform returns npm's name for the operating system and architecture of this machine.
func platform() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return runtime.GOOS + "-" + arch
}

// DynamoDBOptions are the options of StartDynamoDB.
type DynamoDBOptions struct {
	Dir *datadir.Dir
	// Binary is the path of dynoxide.
	Binary string
	// Program is the path of the emulators' program, which indexes the streams. Without the indexes, each
	// write gets 0.09 ms slower per thousand earlier records. ProgramName may be "" for a table with few writes.
	Program string
	Log     *slog.Logger
}

// StartDynamoDB starts a DynamoDB emulator with its data in o.Dir, and waits until it responds.
func StartDynamoDB(ctx context.Context, o DynamoDBOptions) (*Emulator, error) {
	data, err := o.Dir.CreateFolder(datadir.EmulatedTable)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(data, "table.db")
	e, err := start(ctx, o.Dir, "dynamodb", o.Log, func(port string) (supervise.Spec, error) {
		client := DynamoDBClient("http://127.0.0.1:" + port)
		return supervise.Spec{
			Name: "DynamoDB",
			Path: o.Binary,
			Args: []string{"serve", "--host", "127.0.0.1", "--port", port, "--db-path", path},
			Env:  environment(),
			Ready: func(ctx context.Context) error {
				_, err := client.ListTables(ctx, &dynamodb.ListTablesInput{Limit: aws.Int32(1)})
				return err
			},
		}, nil
	})
	if err != nil || o.Program == "" {
		return e, err
	}
	if err := indexStream(ctx, o.Program, path); err != nil {
		e.Stop()
		return nil, err
	}
	return e, nil
}

// indexStream runs IndexStreamCommand on the database of a running dynoxide.
func indexStream(ctx context.Context, program, database string) error {
	//nolint:gosec // G204: the emulators' program, by the caller's path
	cmd := exec.CommandContext(ctx, program, IndexStreamCommand, database)
	cmd.Env = environment()
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("index the streams of DynamoDB: %w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}

// DynamoDBClient returns a client of the emulator at endpoint. The client does not retry. The emulator accepts any credentials.
func DynamoDBClient(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       Region,
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
		Retryer:      aws.NopRetryer{},
	})
}
