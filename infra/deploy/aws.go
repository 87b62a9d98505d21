package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
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
	config := aws.Config{
		Region:      region,
		Credentials: credentials.NewStaticCredentialsProvider(env(signin.AccessKeyID), env(signin.SecretKey), env(signin.SessionToken)),
	}
	if endpoint := os.Getenv("AWS_ENDPOINT_URL"); endpoint != "" {
		config.BaseEndpoint = &endpoint
	}
	functions := lambda.NewFromConfig(config)
	return account{stacks: cloudformation.NewFromConfig(config), functions: functions, invoke: functions, parameters: ssm.NewFromConfig(config)}, nil
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
