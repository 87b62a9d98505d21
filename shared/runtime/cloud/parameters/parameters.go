// Package parameters reads secrets from Parameter Store of AWS Systems Manager, for functions whose role may read them.
//
// The package does not read settings, which are in the environment of functions. It is not for ECS tasks, which receive
// their secrets from ECS. It is not part of package cloud, so that only functions that need it link the SDK's client.
// It has this file only.
package parameters

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

// Store reads the parameters of an account in a region.
type Store struct{ client *ssm.Client }

// Open returns the Store for the region and the role in a function's
// environment. getenv is os.Getenv outside tests. It sends no request.
func Open(getenv func(string) string) (*Store, error) {
	sdk, err := cloud.SDK(getenv)
	if err != nil {
		return nil, err
	}
	return &Store{ssm.NewFromConfig(sdk)}, nil
}

// Read returns the value of a parameter, decrypted. No error contains the value.
func (s *Store) Read(ctx context.Context, name string) (string, error) {
	out, err := s.client.GetParameter(ctx, &ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
	if err != nil {
		return "", fmt.Errorf("read the parameter %s: %w", name, err)
	}
	if out.Parameter == nil || aws.ToString(out.Parameter.Value) == "" {
		return "", fmt.Errorf("read the parameter %s: it is empty", name)
	}
	return *out.Parameter.Value, nil
}
