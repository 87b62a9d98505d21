// Package parameters reads secrets that Parameter Store of AWS Systems Manager keeps, in functions that have a role for them.
//
// What it is not: a source of settings, which functions have in their environment. Tasks read their secrets by ECS. It is a package of its own,
// and no part of cloud, so that only functions which need it link the SDK's client. There is only this file.
package parameters

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/gatewright/gatewright/shared/cloud"
)

// Store reads the parameters of an account in a region.
type Store struct{ client *ssm.Client }

// Open makes the Store of the region and the role in the environment of a function, by getenv. It makes no request.
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
