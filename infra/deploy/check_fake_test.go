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
	sharedaccounts "github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

var errKilled = errors.New("signal: killed")

// checkServices are the function that makes accounts, the product's own, and Parameter Store of the check's region.
type checkServices struct {
	service *sharedaccounts.Service
	call    func(context.Context, accounts.In) (any, error)
	// parameters by their names.
	parameters map[string]ssm.PutParameterInput
	puts       int
	// killed is the number of the call at which the deployment ends, 0 for none, and late says whether the call has its effect before that.
	calls, killed int
	late          bool
	// deployed are the arguments of the CDK for the stack of the check.
	deployed []string
}

type rootKey struct{}

func (rootKey) Root(context.Context) ([]byte, error) { return make([]byte, 32), nil }

// withCheck is an account whose installation has a check, both regions ready and nothing deployed.
func withCheck() *fake {
	bootstrapped := map[string]string{"/cdk-bootstrap/hnb659fds/version": "21"}
	table := store.New(memory.New(), store.Options{Random: rand.Reader, Now: time.Now})
	services := &checkServices{
		service:    sharedaccounts.Open(installation.Parts{Table: table, IDs: ids.NewSource(rand.Reader, time.Now), Now: time.Now}),
		parameters: map[string]ssm.PutParameterInput{},
	}
	services.call = accounts.Handler(services.service, rootKey{}, slog.New(slog.DiscardHandler))
	there := &fake{region: checkRegion, planned: checking, parameters: bootstrapped, check: services, fails: map[string]error{}}
	return &fake{there: there, check: services, parameters: bootstrapped, fails: map[string]error{}}
}

// account is what a deployment sees of a region.
func (f *fake) account(_ context.Context, region string) (account, error) {
	if other := f.in(region); other != nil {
		return account{stacks: other, functions: other, parameters: f.check}, nil
	}
	if region != "eu-west-1" {
		return account{}, fmt.Errorf("nobody should ask the region %q", region)
	}
	return account{stacks: f, functions: f, invoke: f.check}, nil
}

// in returns the account in a region that has or had the check, nil for another one.
func (f *fake) in(region string) *fake {
	for _, other := range []*fake{f.there, f.was} {
		if other != nil && other.region == region {
			return other
		}
	}
	return nil
}

// do does something unless the deployment ends before it, and says whether it ends after it.
func (c *checkServices) do(effect func() error) error {
	c.calls++
	if c.calls == c.killed && !c.late {
		return errKilled
	}
	if err := effect(); err != nil {
		return err
	}
	if c.calls == c.killed {
		return errKilled
	}
	return nil
}

func (c *checkServices) Invoke(ctx context.Context, in *lambda.InvokeInput, _ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	var out lambda.InvokeOutput
	err := c.do(func() error {
		if *in.FunctionName != "gatewright-dev-accounts" || *in.Qualifier != "live" {
			return fmt.Errorf("there is no function %s:%s", *in.FunctionName, *in.Qualifier)
		}
		var event accounts.In
		if err := json.Unmarshal(in.Payload, &event); err != nil {
			return err
		}
		said, err := c.call(ctx, event)
		if err != nil {
			out.FunctionError, said = aws.String("Unhandled"), map[string]string{"errorMessage": err.Error(), "errorType": "errorString"}
		}
		out.Payload, err = json.Marshal(said)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// DescribeParameters returns an empty page first, as Parameter Store may.
func (c *checkServices) DescribeParameters(_ context.Context, in *ssm.DescribeParametersInput, _ ...func(*ssm.Options)) (*ssm.DescribeParametersOutput, error) {
	if in.NextToken == nil {
		return &ssm.DescribeParametersOutput{NextToken: aws.String("more")}, nil
	}
	var out ssm.DescribeParametersOutput
	return &out, c.do(func() error {
		if p, is := c.parameters[in.ParameterFilters[0].Values[0]]; is {
			out.Parameters = append(out.Parameters, types.ParameterMetadata{Name: p.Name, Description: p.Description, Type: p.Type})
		}
		return nil
	})
}

func (c *checkServices) PutParameter(_ context.Context, in *ssm.PutParameterInput, _ ...func(*ssm.Options)) (*ssm.PutParameterOutput, error) {
	return &ssm.PutParameterOutput{}, c.do(func() error {
		if _, is := c.parameters[*in.Name]; is && !aws.ToBool(in.Overwrite) {
			return &types.ParameterAlreadyExists{}
		}
		c.parameters[*in.Name] = *in
		c.puts++
		return nil
	})
}

func (c *checkServices) DeleteParameter(_ context.Context, in *ssm.DeleteParameterInput, _ ...func(*ssm.Options)) (*ssm.DeleteParameterOutput, error) {
	return &ssm.DeleteParameterOutput{}, c.do(func() error {
		if _, is := c.parameters[*in.Name]; !is {
			return &types.ParameterNotFound{}
		}
		delete(c.parameters, *in.Name)
		return nil
	})
}

// createCheck is cdk deploy of the stack of the check.
func (f *fake) createCheck(args []string) error {
	return f.check.do(func() error {
		f.check.deployed = args
		return f.there.create(f.there.planned, true, f.there.fails["create"] != nil)
	})
}

// deletes does what the AWS command line is asked for about the stack of the check.
func (f *fake) deletes(args []string) error {
	if args[slices.Index(args, "--stack-name")+1] != "gatewright-dev-check" {
		return fmt.Errorf("nobody should call aws cloudformation %s", strings.Join(args, " "))
	}
	return f.check.do(func() error {
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

// keeps has Parameter Store keep a key that the account of the check does not have.
func (c *checkServices) keeps(id string) {
	c.parameters[checkKey] = ssm.PutParameterInput{Name: aws.String(checkKey), Value: aws.String("old"), Description: aws.String("account key " + id), Type: types.ParameterTypeSecureString}
}

// holds fails the test unless the account of the check has one key, which may nothing and is kept in Parameter Store.
func (f *fake) holds(t *testing.T, said string) (id string) {
	t.Helper()
	all, err := f.check.service.Keys(t.Context(), syntheticcheck.Account)
	if err != nil || len(all) != 1 || len(all[0].Permissions.Scopes) != 0 {
		t.Fatalf("the account of the check has the keys %+v, error %v, want one without a scope", all, err)
	}
	kept := f.check.parameters[checkKey]
	if kept.Type != types.ParameterTypeSecureString {
		t.Errorf("the parameter is a %q, want a SecureString", kept.Type)
	}
	by, err := f.check.service.Authenticate(t.Context(), aws.ToString(kept.Value))
	if err != nil || by.KeyID != all[0].ID || by.AccountName != syntheticcheck.Account {
		t.Errorf("what is kept is the key of %+v, error %v, want %s", by, err, all[0].ID)
	}
	if text := said + strings.Join(f.check.deployed, " ") + aws.ToString(kept.Description); strings.Contains(text, aws.ToString(kept.Value)) {
		t.Error("the text of the key is in the output, in an argument or in the description, want it in the parameter alone")
	}
	return all[0].ID
}
