// Package cloud opens an installation in AWS for its Lambda functions. Apart from packages for a single service of AWS,
// it is the only package that configures the AWS SDK. The main of a Lambda function calls Serve with the routes of its
// group of operations, or Start with a function that creates the handler from the installation's parts.
//
// The package is not for the local process, which opens the same parts with emulators. Open is not for processes whose
// credentials change while they run: package container uses OpenAs. The AWS settings come only from the variables that
// Lambda sets for each function, and not from profiles, files or the metadata service. Reading those would make every
// binary larger and every start slower (docs/decisions/0016-one-package-opens-aws.md).
//
// Read Open and Start in cloud.go first. trace.go sends spans before an invocation ends,
// dryrun.go refuses changes in dry runs, and uses.go is for tests of the permissions of roles.
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

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/base/telemetry/otlp"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/sessions"
	"github.com/gatewright/gatewright/shared/runtime/localdns"
)

// Lambda sets these variables, except varEndpoint, which is only set for emulators of AWS.
const (
	varRegion       = "AWS_REGION"
	varAccessKeyID  = "AWS_ACCESS_KEY_ID"
	varSecretKey    = "AWS_SECRET_ACCESS_KEY" //nolint:gosec // G101: the variable's name
	varSessionToken = "AWS_SESSION_TOKEN"     //nolint:gosec // G101: the variable's name
	varEndpoint     = "AWS_ENDPOINT_URL"
	varFunctionName = "AWS_LAMBDA_FUNCTION_NAME"
)

// Open returns the parts of the installation that the environment names. getenv is os.Getenv outside tests. Open sends
// no request. Its error names the variable that is wrong. Log lines are written to log, as one JSON object per line.
func Open(getenv func(string) string, log io.Writer) (installation.Parts, error) {
	return OpenAs(getenv(varFunctionName), nil, getenv, slog.NewJSONHandler(log, nil))
}

// OpenAs works like Open. name is the name of the process, which its spans contain. provider provides the process's
// credentials. If provider is nil, the credentials come from the environment, and do not change during the life of the
// process.
func OpenAs(
	name string, provider aws.CredentialsProvider, getenv func(string) string, log slog.Handler,
) (installation.Parts, error) {
	c, err := config.FromEnvironment(getenv)
	if err != nil {
		return installation.Parts{}, fmt.Errorf("read the environment: %w", err)
	}
	sdk, err := sdkConfig(provider, getenv)
	if err != nil {
		return installation.Parts{}, err
	}
	if path := getenv(config.VarUsesFile); path != "" {
		r := &recorder{path: path, function: name, recorded: make(map[Use]bool)}
		r.record(&sdk)
	}
	if sdk.BaseEndpoint != nil { // emulators of AWS serve all services at one address
		endpoint := *sdk.BaseEndpoint
		c.DynamoDBEndpoint, c.S3Endpoint = firstNonEmpty(c.DynamoDBEndpoint, endpoint), firstNonEmpty(c.S3Endpoint, endpoint)
	}
	// A key file means a local installation. Its DynamoDB emulator does not keep the tokens of commits.
	table := store.New(store.NewDynamoDB(store.Connect(sdk, c.DynamoDBEndpoint), c.Table),
		store.Options{Random: rand.Reader, Now: time.Now, KeepTokens: c.KeyFile != ""})
	logger := slog.New(log)
	var key seal.KeySource = rootkey.New(countedKMS{kms.NewFromConfig(sdk), c.Table, time.Now, logger}, c.KMSKey, table,
		time.Now)
	if c.KeyFile != "" {
		key = rootkey.NewFile(c.KeyFile, table, time.Now, nil)
	}
	tracer, err := otlp.Open(getenv, firstNonEmpty(name, "gatewright"), logger)
	if err != nil {
		return installation.Parts{}, err
	}
	isLocal := c.KeyFile != ""
	telemetryOptions := telemetry.Options{Tracer: tracer, Metrics: !isLocal, LogPaths: isLocal}
	if telemetryOptions.Metrics {
		telemetryOptions.FaultsTable = c.Table
	}
	return installation.Parts{
		Config:    c,
		Table:     table,
		Bucket:    blob.New(sdk, blob.Options{Name: c.Bucket, Endpoint: c.S3Endpoint, PublicEndpoint: c.S3PublicEndpoint}),
		Key:       key,
		DNS:       localdns.ResolverFor(c),
		Random:    rand.Reader,
		Now:       time.Now,
		IDs:       ids.NewSource(rand.Reader, time.Now),
		Log:       logger,
		Rates:     allowance.NewRates(table, time.Now),
		Telemetry: telemetryOptions,
	}, nil
}

func firstNonEmpty(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// SDK returns the SDK's configuration in a Lambda function. It is for packages that call a service
// that most functions do not use, such as bedrock. Open does not create clients of these services.
func SDK(getenv func(string) string) (aws.Config, error) { return sdkConfig(nil, getenv) }

// sdkConfig returns the SDK's configuration of a process with the credentials of provider. If provider is nil, the
// credentials are those of a Lambda function's role, which are in its environment.
func sdkConfig(provider aws.CredentialsProvider, getenv func(string) string) (aws.Config, error) {
	required := []string{varRegion}
	if provider == nil {
		provider = credentials.NewStaticCredentialsProvider(getenv(varAccessKeyID), getenv(varSecretKey),
			getenv(varSessionToken))
		required = append(required, varAccessKeyID, varSecretKey)
	}
	for _, name := range required {
		if getenv(name) == "" {
			return aws.Config{},
				fmt.Errorf("read the environment: %s is not set: functions and tasks in AWS have it, elsewhere set it", name)
		}
	}
	c := aws.Config{Region: getenv(varRegion), Credentials: provider}
	refuseInDryRun(&c)
	if endpoint := getenv(varEndpoint); endpoint != "" {
		if u, err := url.Parse(endpoint); err != nil || u.Host == "" {
			return aws.Config{}, fmt.Errorf("read the environment: %s is no address such as http://127.0.0.1:4566", varEndpoint)
		}
		c.BaseEndpoint = &endpoint
	}
	return c, nil
}

// Serve is Start for a group of operations. bind returns the routes of the group.
func Serve(bind func(installation.Parts) []api.Route) {
	Start(func(p installation.Parts) (any, error) {
		return api.Open(p, sessions.Open(p, accounts.Open(p)), bind(p)).Edge(), nil
	})
}

// Start runs a Lambda function until the platform ends it. wire returns the handler for lambda.Start. Start
// calls it with the installation's parts. An error before the first event is logged, and ends the process.
func Start(wire func(installation.Parts) (handler any, err error)) {
	start(func(p installation.Parts) (any, []lambda.Option, error) {
		handler, err := wire(p)
		return handler, nil, err
	})
}

// shutdownTimeout is the time for shutdown: Lambda kills a process half a second after SIGTERM.
const shutdownTimeout = 400 * time.Millisecond

// StartWithShutdown is Start for a function that needs a shutdown. It calls shutdown before the platform ends the
// process. The context of shutdown expires after shutdownTimeout. Lambda sends SIGTERM only to processes with an
// extension, so StartWithShutdown registers one that receives no events. A platform without extensions ends the process
// without notice.
func StartWithShutdown(
	ctx context.Context, wire func(installation.Parts) (handler any, shutdown func(context.Context), err error),
) {
	start(func(p installation.Parts) (any, []lambda.Option, error) {
		handler, shutdown, err := wire(p)
		return handler, []lambda.Option{lambda.WithEnableSIGTERM(func() {
			shutdownCtx, cancel := context.WithTimeout(ctx, shutdownTimeout)
			shutdown(shutdownCtx)
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
		// An unknown variable is not fatal: the infrastructure sets all required variables.
		parts.Log.Warn("a setting is not read", "error", err)
	}
	handler = logScheduled(handler, parts.Log, parts.Now, os.Getenv(varFunctionName))
	lambda.StartWithOptions(withTracing(handler, parts.Telemetry.Tracer, os.Getenv(varFunctionName)), options...)
}
