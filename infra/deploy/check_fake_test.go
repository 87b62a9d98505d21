package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/gatewright/gatewright/functions/accounts"
	"github.com/gatewright/gatewright/functions/syntheticcheck"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	sharedaccounts "github.com/gatewright/gatewright/shared/resource/accounts"
)

// errKilled is the error of a call at which a deployment is interrupted.
var errKilled = errors.New("signal: killed")

// checkServices fakes the function that creates accounts, by running its code, and Parameter Store in the check's
// region.
type checkServices struct {
	// service has the accounts and keys of the installation. call is the handler of the function.
	service *sharedaccounts.Service
	call    func(context.Context, accounts.In) (any, error)
	// parameters has the parameters by name. puts is the number of successful calls of PutParameter.
	parameters map[string]ssm.PutParameterInput
	puts       int
	// calls is the number of calls so far. killAt is the number of the call at which the deployment is interrupted, or
	// 0. killAfter says that this call takes effect before the interruption.
	calls, killAt int
	killAfter     bool
	// deployed has the arguments with which the CDK has deployed the stack of the check.
	deployed []string
}

// rootKey is a root key of zeros.
type rootKey struct{}

func (rootKey) Root(context.Context) ([]byte, error) { return make([]byte, 32), nil }

// newFakeWithCheck returns an account for an installation with a check. Both regions have a bootstrap stack, and
// nothing is deployed yet.
func newFakeWithCheck() *fakeAccount {
	bootstrapped := map[string]string{"/cdk-bootstrap/hnb659fds/version": "21"}
	table := store.New(memory.New(), store.Options{Random: rand.Reader, Now: time.Now})
	services := &checkServices{
		service: sharedaccounts.Open(installation.Parts{
			Table: table, IDs: ids.NewSource(rand.Reader, time.Now),
			Now: time.Now,
		}),
		parameters: map[string]ssm.PutParameterInput{},
	}
	services.call = accounts.Handler(services.service, rootKey{}, slog.New(slog.DiscardHandler))
	checkAccount := &fakeAccount{
		region: checkRegion, plannedTemplate: checkTemplate, parameters: bootstrapped, check: services,
		errs: map[string]error{},
	}
	return &fakeAccount{checkAccount: checkAccount, check: services, parameters: bootstrapped, errs: map[string]error{}}
}

// account returns the clients of a region for a deployment.
func (f *fakeAccount) account(_ context.Context, region string) (account, error) {
	if other := f.inRegion(region); other != nil {
		return account{stacks: other, functions: other, parameters: f.check}, nil
	}
	if region != "eu-west-1" {
		return account{}, fmt.Errorf("unexpected region: %q", region)
	}
	return account{stacks: f, functions: f, invoke: f.check}, nil
}

// inRegion returns the account in a region that has or had the check, or nil for any other region.
func (f *fakeAccount) inRegion(region string) *fakeAccount {
	for _, other := range []*fakeAccount{f.checkAccount, f.previousCheckAccount} {
		if other != nil && other.region == region {
			return other
		}
	}
	return nil
}

// interruptible counts a call and runs its effect. If the deployment is interrupted at this call, it returns errKilled,
// before or after the effect.
func (c *checkServices) interruptible(effect func() error) error {
	c.calls++
	if c.calls == c.killAt && !c.killAfter {
		return errKilled
	}
	if err := effect(); err != nil {
		return err
	}
	if c.calls == c.killAt {
		return errKilled
	}
	return nil
}

func (c *checkServices) Invoke(
	ctx context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options),
) (*lambda.InvokeOutput, error) {
	var out lambda.InvokeOutput
	err := c.interruptible(func() error {
		if *in.FunctionName != "gatewright-dev-accounts" || *in.Qualifier != "live" {
			return fmt.Errorf("there is no function %s:%s", *in.FunctionName, *in.Qualifier)
		}
		var event accounts.In
		if err := json.Unmarshal(in.Payload, &event); err != nil {
			return err
		}
		result, err := c.call(ctx, event)
		if err != nil {
			out.FunctionError, result = aws.String("Unhandled"),
				map[string]string{"errorMessage": err.Error(), "errorType": "errorString"}
		}
		out.Payload, err = json.Marshal(result)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// DescribeParameters returns an empty page first, as Parameter Store may.
func (c *checkServices) DescribeParameters(
	_ context.Context, in *ssm.DescribeParametersInput, _ ...func(*ssm.Options),
) (*ssm.DescribeParametersOutput, error) {
	if in.NextToken == nil {
		return &ssm.DescribeParametersOutput{NextToken: aws.String("more")}, nil
	}
	var out ssm.DescribeParametersOutput
	return &out, c.interruptible(func() error {
		if p, ok := c.parameters[in.ParameterFilters[0].Values[0]]; ok {
			out.Parameters = append(out.Parameters, types.ParameterMetadata{
				Name: p.Name, Description: p.Description,
				Type: p.Type,
			})
		}
		return nil
	})
}

func (c *checkServices) PutParameter(
	_ context.Context, in *ssm.PutParameterInput, _ ...func(*ssm.Options),
) (*ssm.PutParameterOutput, error) {
	return &ssm.PutParameterOutput{}, c.interruptible(func() error {
		if _, ok := c.parameters[*in.Name]; ok && !aws.ToBool(in.Overwrite) {
			return &types.ParameterAlreadyExists{}
		}
		c.parameters[*in.Name] = *in
		c.puts++
		return nil
	})
}

func (c *checkServices) DeleteParameter(
	_ context.Context, in *ssm.DeleteParameterInput, _ ...func(*ssm.Options),
) (*ssm.DeleteParameterOutput, error) {
	return &ssm.DeleteParameterOutput{}, c.interruptible(func() error {
		if _, ok := c.parameters[*in.Name]; !ok {
			return &types.ParameterNotFound{}
		}
		delete(c.parameters, *in.Name)
		return nil
	})
}

// createCheck does the work of `cdk deploy` for the stack of the check.
func (f *fakeAccount) createCheck(args []string) error {
	return f.check.interruptible(func() error {
		f.check.deployed = args
		return f.checkAccount.deployStack(f.checkAccount.plannedTemplate, true, f.checkAccount.errs["create"] != nil)
	})
}

// checkStackCommand does the work of `aws cloudformation` for the stack of the check.
func (f *fakeAccount) checkStackCommand(args []string) error {
	if args[slices.Index(args, "--stack-name")+1] != "gatewright-dev-check" {
		return fmt.Errorf("unexpected command: aws cloudformation %s", strings.Join(args, " "))
	}
	return f.check.interruptible(func() error {
		switch args[0] {
		case "update-termination-protection":
			f.protected = false
		case "delete-stack":
			if f.protected {
				return errors.New("Stack [gatewright-dev-check] cannot be deleted while TerminationProtection is enabled")
			}
			f.status, f.template = "", ""
		}
		return nil
	})
}

// storeUnknownKey stores a key in Parameter Store that is not a key of the check's account.
func (c *checkServices) storeUnknownKey(id string) {
	c.parameters[checkKey] = ssm.PutParameterInput{
		Name: aws.String(checkKey), Value: aws.String("old"),
		Description: aws.String("account key " + id), Type: types.ParameterTypeSecureString,
	}
}

// requireOneKey fails the test unless the account of the check has exactly one key, which has no scope and is the key
// in Parameter Store. output must not contain the key's text. requireOneKey returns the key's id.
func (f *fakeAccount) requireOneKey(t *testing.T, output string) (id string) {
	t.Helper()
	keys, err := f.check.service.Keys(t.Context(), syntheticcheck.Account)
	if err != nil || len(keys) != 1 || len(keys[0].Permissions.Scopes) != 0 {
		t.Fatalf("the account of the check has the keys %+v, error %v, want one without a scope", keys, err)
	}
	parameter := f.check.parameters[checkKey]
	if parameter.Type != types.ParameterTypeSecureString {
		t.Errorf("the parameter is a %q, want a SecureString", parameter.Type)
	}
	principal, err := f.check.service.Authenticate(t.Context(), aws.ToString(parameter.Value))
	if err != nil || principal.KeyID != keys[0].ID || principal.AccountName != syntheticcheck.Account {
		t.Errorf("Authenticate(stored key) = %+v, error %v, want the key %s", principal, err, keys[0].ID)
	}
	if text := output + strings.Join(f.check.deployed, " ") + aws.ToString(parameter.Description); strings.Contains(text,
		aws.ToString(parameter.Value)) {
		t.Error("the text of the key is in the output, in an argument or in the description, want it in the parameter alone")
	}
	return keys[0].ID
}
