// Package cloud opens an installation in AWS for its Lambda functions: the one
// place, beside the packages that speak to a service, where the AWS SDK is set
// up. A function's main is Serve with the routes of its group, or Start with what
// it makes of the parts.
//
// What it is not: for the local process, which opens the same parts over its
// emulators, or for anything with credentials that change while it runs, which
// package container opens with OpenAs. It reads what Lambda gives each function in its environment and nothing else: no
// profile, no file, no metadata service, whose readers would make every binary
// larger and every start slower (docs/decisions/0016-one-package-opens-aws.md).
//
// Read cloud.go, Open and then Start; trace.go sends spans in time, tried.go keeps dry runs from
// having effects, uses.go is for tests of what roles allow.
package cloud

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/sessions"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/telemetry/otlp"
	"github.com/gatewright/gatewright/shared/zone"
)

// The variables that Lambda sets. varEndpoint is set by emulators of AWS alone.
const (
	varRegion       = "AWS_REGION"
	varAccessKeyID  = "AWS_ACCESS_KEY_ID"
	varSecretKey    = "AWS_SECRET_ACCESS_KEY" //nolint:gosec // G101: the variable's name
	varSessionToken = "AWS_SESSION_TOKEN"     //nolint:gosec // G101: the variable's name
	varEndpoint     = "AWS_ENDPOINT_URL"
	varFunctionName = "AWS_LAMBDA_FUNCTION_NAME"
)

// Open makes the parts of the installation that the environment names, by
// getenv (os.Getenv outside tests). It makes no request: an error says which
// variable is wrong. log is written as one JSON object a line.
func Open(getenv func(string) string, log io.Writer) (installation.Parts, error) {
	return OpenAs(getenv(varFunctionName), nil, getenv, slog.NewJSONHandler(log, nil))
}

// OpenAs is Open for a process that goes by a name, and whose credentials by gives: nil
// for those of the environment, which stay the same for as long as it lives.
func OpenAs(name string, by aws.CredentialsProvider, getenv func(string) string, log slog.Handler) (installation.Parts, error) {
	c, err := config.FromEnvironment(getenv)
	if err != nil {
		return installation.Parts{}, fmt.Errorf("read the environment: %w", err)
	}
	sdk, err := sdkConfig(by, getenv)
	if err != nil {
		return installation.Parts{}, err
	}
	if path := getenv(config.VarUsesFile); path != "" {
		r := &recorder{path: path, function: name, seen: make(map[Use]bool)}
		r.record(&sdk)
	}
	if sdk.BaseEndpoint != nil { // an emulator, which is all of AWS at one address
		endpoint := *sdk.BaseEndpoint
		c.DynamoDBEndpoint, c.S3Endpoint = or(c.DynamoDBEndpoint, endpoint), or(c.S3Endpoint, endpoint)
	}
	// A key file is the sign of a laptop, whose embedded database keeps no tokens.
	table := store.New(store.NewDynamoDB(store.Connect(sdk, c.DynamoDBEndpoint), c.Table),
		store.Options{Random: rand.Reader, Now: time.Now, KeepTokens: c.KeyFile != ""})
	logger := slog.New(log)
	var key seal.KeySource = rootkey.New(countedKMS{kms.NewFromConfig(sdk), c.Table, time.Now, logger}, c.KMSKey, table, time.Now)
	if c.KeyFile != "" {
		key = rootkey.InFile(c.KeyFile, table, time.Now, nil)
	}
	tracer, err := otlp.Open(getenv, or(name, "gatewright"), logger)
	if err != nil {
		return installation.Parts{}, err
	}
	laptop := c.KeyFile != ""
	watched := telemetry.Options{Tracer: tracer, Metrics: !laptop, Paths: laptop}
	if watched.Metrics {
		watched.Faults = c.Table
	}
	return installation.Parts{
		Config:    c,
		Table:     table,
		Bucket:    blob.New(sdk, blob.Options{Name: c.Bucket, Endpoint: c.S3Endpoint, PublicEndpoint: c.S3PublicEndpoint}),
		Key:       key,
		DNS:       zone.Of(c),
		Random:    rand.Reader,
		Now:       time.Now,
		IDs:       ids.NewSource(rand.Reader, time.Now),
		Log:       logger,
		Rates:     allowance.NewRates(table, time.Now),
		Telemetry: watched,
	}, nil
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// SDK is the SDK's configuration in a Lambda function, for what speaks to a service that most functions have no use for
// (package bedrock), and so is no part of what Open opens.
func SDK(getenv func(string) string) (aws.Config, error) { return sdkConfig(nil, getenv) }

// sdkConfig is the SDK's configuration in a process whose credentials by gives, nil for
// those of a Lambda's role, which are in its environment.
func sdkConfig(by aws.CredentialsProvider, getenv func(string) string) (aws.Config, error) {
	needed := []string{varRegion}
	if by == nil {
		by = credentials.NewStaticCredentialsProvider(getenv(varAccessKeyID), getenv(varSecretKey), getenv(varSessionToken))
		needed = append(needed, varAccessKeyID, varSecretKey)
	}
	for _, name := range needed {
		if getenv(name) == "" {
			return aws.Config{}, fmt.Errorf("read the environment: %s is not set: functions and tasks in AWS have it, elsewhere set it", name)
		}
	}
	c := aws.Config{Region: getenv(varRegion), Credentials: by}
	onlyTried(&c)
	if endpoint := getenv(varEndpoint); endpoint != "" {
		if u, err := url.Parse(endpoint); err != nil || u.Host == "" {
			return aws.Config{}, fmt.Errorf("read the environment: %s is no address such as http://127.0.0.1:4566", varEndpoint)
		}
		c.BaseEndpoint = &endpoint
	}
	return c, nil
}

// Serve is Start for a group of operations: bind gives its routes.
func Serve(bind func(installation.Parts) []api.Route) {
	Start(func(p installation.Parts) (any, error) {
		return api.Open(p, sessions.Open(p, accounts.Open(p)), bind(p)).Edge(), nil
	})
}

// Start runs a Lambda function until the platform ends it: wire gives, of the
// installation's parts, the handler that lambda.Start takes. What goes wrong
// before the first event is logged, and ends the process.
func Start(wire func(installation.Parts) (handler any, err error)) {
	start(func(p installation.Parts) (any, []lambda.Option, error) {
		handler, err := wire(p)
		return handler, nil, err
	})
}

// lastWords is how long a process has for its end: Lambda kills it half a second after SIGTERM.
const lastWords = 400 * time.Millisecond

// StartEnding is Start for a function that has something to do before the platform ends its
// process: end, which is given ctx for as long as there is. Lambda sends SIGTERM to processes
// with an extension alone, so that one is registered which wants nothing else. A platform
// that has none ends the process without a word.
func StartEnding(ctx context.Context, wire func(installation.Parts) (handler any, end func(context.Context), err error)) {
	start(func(p installation.Parts) (any, []lambda.Option, error) {
		handler, end, err := wire(p)
		return handler, []lambda.Option{lambda.WithEnableSIGTERM(func() {
			within, cancel := context.WithTimeout(ctx, lastWords)
			end(within)
			cancel()
			os.Exit(0)
		})}, err
	})
}

func start(wire func(installation.Parts) (handler any, options []lambda.Option, err error)) {
	parts, err := Open(os.Getenv, os.Stdout)
	var handler any
	var options []lambda.Option
	if err == nil {
		handler, options, err = wire(parts)
	}
	if err != nil {
		slog.New(slog.NewJSONHandler(os.Stdout, nil)).Error("the function cannot start", "error", err)
		os.Exit(1)
	}
	if err := config.CheckNames(os.Environ(), false); err != nil {
		// No reason to serve nothing: the infrastructure sets what there has to be.
		parts.Log.Warn("a setting is not read", "error", err)
	}
	handler = scheduled(handler, parts.Log, parts.Now, os.Getenv(varFunctionName))
	lambda.StartWithOptions(traced(handler, parts.Telemetry.Tracer, os.Getenv(varFunctionName)), options...)
}
