package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"github.com/gatewright/gatewright/infra/removals"
	"github.com/gatewright/gatewright/shared/cloud/signin"
)

// connect asks AWS by whom the AWS command line is signed in as.
func connect(ctx context.Context) (removals.CloudFormation, error) {
	env, err := signin.Environment(ctx, os.Getenv, signin.CommandLine)
	if err != nil {
		return nil, refused(err)
	}
	config := aws.Config{
		Region:      env(signin.Region),
		Credentials: credentials.NewStaticCredentialsProvider(env(signin.AccessKeyID), env(signin.SecretKey), env(signin.SessionToken)),
	}
	if endpoint := os.Getenv("AWS_ENDPOINT_URL"); endpoint != "" {
		config.BaseEndpoint = &endpoint
	}
	return cloudformation.NewFromConfig(config), nil
}

// region is that of the environment, or else of the profile.
func region(ctx context.Context) (string, error) {
	named, err := signin.RegionOf(ctx, os.Getenv, signin.CommandLine)
	return named, refused(err)
}

// missing asks by the command line which parameters there are not. What they hold is not decrypted, and not shown.
func missing(ctx context.Context, names []string) ([]string, error) {
	text, err := signin.CommandLine(ctx, append([]string{"ssm", "get-parameters", "--query", "InvalidParameters", "--output", "text", "--names"}, names...)...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Fields(text), func(name string) bool { return name == "None" }), nil
}

// refused says of who is not signed in that nothing was deployed.
func refused(err error) error {
	if errors.Is(err, signin.ErrNoRegion) || errors.Is(err, signin.ErrNobody) {
		return refuse("%s", err)
	}
	return err
}
