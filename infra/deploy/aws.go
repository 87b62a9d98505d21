package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/gatewright/gatewright/shared/runtime/cloud/signin"
)

// account has the clients of an AWS account that a deployment uses.
type account struct {
	stacks     cloudFormation
	functions  accountSettings
	invoke     invoker
	parameters parameterStore
}

// consistencyDelay is the time within which AWS usually shows a new resource to all callers.
const consistencyDelay = 5 * time.Second

// connect returns clients for a region with the credentials of the AWS CLI.
func connect(ctx context.Context, region string) (account, error) {
	env, err := signin.Environment(ctx, os.Getenv, signin.CommandLine)
	if err != nil {
		return account{}, asRefusal(err)
	}
	// The clients also use the other settings of the AWS CLI: AWS_CA_BUNDLE, endpoints and the settings of the profile.
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(env(signin.AccessKeyID),
			env(signin.SecretKey), env(signin.SessionToken))))
	if err != nil {
		return account{}, fmt.Errorf("read the settings of the AWS command line: %w", err)
	}
	functions := lambda.NewFromConfig(cfg)
	return account{
		stacks: cloudformation.NewFromConfig(cfg), functions: functions, invoke: functions,
		parameters: ssm.NewFromConfig(cfg),
	}, nil
}

// region returns the region from the environment, or else from the profile.
func region(ctx context.Context) (string, error) {
	name, err := signin.RegionOf(ctx, os.Getenv, signin.CommandLine)
	return name, asRefusal(err)
}

// account returns the clients for the account in the region of the deployment.
func (d deployment) account(ctx context.Context) (account, error) {
	currentRegion, err := d.region(ctx)
	if err != nil {
		return account{}, err
	}
	return d.connectAWS(ctx, currentRegion)
}

// asRefusal returns a refusal, which says that nothing was deployed, if err reports
// missing credentials or a missing region. It returns any other error unchanged.
func asRefusal(err error) error {
	if errors.Is(err, signin.ErrNoRegion) || errors.Is(err, signin.ErrNoCredentials) {
		return refuse("%s", err)
	}
	return err
}

// checkProfile returns an error if CDK_PROFILE or ~/.cdk.json, which only the CDK reads, name another profile than
// AWS_PROFILE. It also returns an error if they name any profile while the environment has an access key. In both cases
// the checks could read one account, and the CDK could deploy to another. getenv and home are the environment and the
// home folder.
func checkProfile(getenv func(string) string, home string) error {
	var settings struct{ Profile string }
	file := filepath.Join(home, ".cdk.json")
	text, err := os.ReadFile(file) //nolint:gosec // G304: of the home folder
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the settings of the CDK: %w", err)
	}
	for _, source := range []struct{ profile, from string }{
		{getenv("CDK_PROFILE"), "CDK_PROFILE"},
		{settings.Profile, file},
	} {
		if source.profile != "" && (source.profile != getenv("AWS_PROFILE") || getenv(signin.AccessKeyID) != "") {
			return refuse("%s names the profile %s, which only the CDK uses: remove it, and set AWS_PROFILE, which "+
				"everything uses", source.from, source.profile)
		}
	}
	return nil
}
