package emulator

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

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

// StartDynamoDB starts the DynamoDB whose data is in dir, and returns when it
// answers. binary is dynoxide's path.
func StartDynamoDB(ctx context.Context, dir *datadir.Dir, binary string, log *slog.Logger) (*Emulator, error) {
	data, err := dir.Sub("dynamodb")
	if err != nil {
		return nil, err
	}
	return start(ctx, dir, "dynamodb", log, func(port string) (supervise.Spec, error) {
		client := DynamoDBClient("http://127.0.0.1:" + port)
		path := filepath.Join(data, "table.db")
		return supervise.Spec{
			Name: "DynamoDB",
			Path: binary,
			Args: []string{"serve", "--host", "127.0.0.1", "--port", port, "--db-path", path},
			Env:  environment(),
			Ready: func(ctx context.Context) error {
				if _, err := client.ListTables(ctx, &dynamodb.ListTablesInput{Limit: aws.Int32(1)}); err != nil {
					return err
				}
				return tuneStream(ctx, path, time.Now())
			},
		}, nil
	})
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
