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

	"github.com/gatewright/gatewright/shared/cloud/signin"
)

// account is what a deployment asks of an AWS account.
type account struct {
	stacks     cloudFormation
	functions  accountSettings
	invoke     invoker
	parameters parameterStore
}

// settle is how long AWS may take to show everywhere what somebody has just made.
const settle = 5 * time.Second

// connect asks AWS in a region as whoever the AWS command line is signed in as.
func connect(ctx context.Context, region string) (account, error) {
	env, err := signin.Environment(ctx, os.Getenv, signin.CommandLine)
	if err != nil {
		return account{}, refused(err)
	}
	// The rest is that of the AWS command line too: AWS_CA_BUNDLE, endpoints, the profile's settings.
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(region),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(env(signin.AccessKeyID), env(signin.SecretKey), env(signin.SessionToken))))
	if err != nil {
		return account{}, fmt.Errorf("read the settings of the AWS command line: %w", err)
	}
	functions := lambda.NewFromConfig(loaded)
	return account{stacks: cloudformation.NewFromConfig(loaded), functions: functions, invoke: functions, parameters: ssm.NewFromConfig(loaded)}, nil
}

// region is that of the environment, or else of the profile.
func region(ctx context.Context) (string, error) {
	named, err := signin.RegionOf(ctx, os.Getenv, signin.CommandLine)
	return named, refused(err)
}

// refused says of who is not signed in that nothing was deployed.
func refused(err error) error {
	if errors.Is(err, signin.ErrNoRegion) || errors.Is(err, signin.ErrNobody) {
		return refuse("%s", err)
	}
	return err
}

// sameProfile refuses a profile that only the CDK reads: the checks would ask one account, and the CDK would deploy into another. getenv and home
// are the environment and the home folder.
func sameProfile(getenv func(string) string, home string) error {
	var settings struct{ Profile string }
	file := filepath.Join(home, ".cdk.json")
	text, err := os.ReadFile(file) //nolint:gosec // G304: of the home folder
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the settings of the CDK: %w", err)
	}
	for _, of := range []struct{ profile, from string }{{getenv("CDK_PROFILE"), "CDK_PROFILE"}, {settings.Profile, file}} {
		if of.profile != "" && (of.profile != getenv("AWS_PROFILE") || getenv(signin.AccessKeyID) != "") {
			return refuse("%s names the profile %s, which only the CDK uses: remove it, and set AWS_PROFILE, which everything uses", of.from, of.profile)
		}
	}
	return nil
}
