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
	"github.com/gatewright/gatewright/shared/config"
)

// Region is the region that the emulators are said to be in.
const Region = "us-east-1"

// ErrNoDynoxide is what FindDynoxide answers when there is none. Its text is a
// full sentence for the terminal.
var ErrNoDynoxide = errors.New("dynoxide, the DynamoDB emulator, is missing: run `npm ci --prefix local` in the checkout, " +
	"name its binary in GATEWRIGHT_DYNOXIDE, or name a running DynamoDB in GATEWRIGHT_DYNAMODB_ENDPOINT")

// FindDynoxide returns the path of the dynoxide binary: the one that
// GATEWRIGHT_DYNOXIDE names, else one on the PATH, else the one that npm
// installed below local/ in the working directory or one above it.
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
		path := filepath.Join(dir, "local", "node_modules", "@dynoxide", platform(), "dynoxide")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", ErrNoDynoxide
		}
		dir = up
	}
}

// platform is this machine in npm's words.
func platform() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return runtime.GOOS + "-" + arch
}

// DynamoDBOptions are what StartDynamoDB needs.
type DynamoDBOptions struct {
	Dir *datadir.Dir
	// Binary is the path of dynoxide.
	Binary string
	// Program is the path of the emulators' program, which indexes the streams: a
	// thousand records make each later write 0.09 ms slower without the indexes. Leave
	// it empty for a table that gets few writes.
	Program string
	Log     *slog.Logger
}

// StartDynamoDB starts the DynamoDB whose data is in o.Dir, and returns when it
// answers.
func StartDynamoDB(ctx context.Context, o DynamoDBOptions) (*Emulator, error) {
	data, err := o.Dir.Sub(datadir.EmulatedTable)
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

// indexStream runs the emulators' program over the database of a running dynoxide.
func indexStream(ctx context.Context, program, database string) error {
	cmd := exec.CommandContext(ctx, program, IndexStreamCommand, database) //nolint:gosec // G204: the emulators' program, by the caller's path
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

// DynamoDBClient makes a client of the emulator at endpoint. It repeats
// nothing. The emulator takes any credentials.
func DynamoDBClient(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       Region,
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
		Retryer:      aws.NopRetryer{},
	})
}
