package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/gatewright/gatewright/functions/accounts"
	"github.com/gatewright/gatewright/functions/syntheticcheck"
	sharedaccounts "github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

const (
	checkRegion = "eu-central-1"
	checkKey    = "/gatewright/dev/check-key"
	apiAddress  = "https://a1b2c3.execute-api.eu-west-1.amazonaws.com/dev"
	// checked is the template of an installation with a check, and checking that of the check.
	checked  = `{"Metadata": {"gatewright:check-region": "eu-central-1"}, "Resources": {"F": {"Type": "AWS::Lambda::Function"}}}`
	checking = `{"Resources": {"C": {"Type": "AWS::Lambda::Function"}}, "Parameters": {"ApiAddress": {"Type": "String"}, "BootstrapVersion": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cdk-bootstrap/hnb659fds/version"}},
		"Rules": {"CheckBootstrapVersion": {"Assertions": [{"Assert": {"Fn::Not": [{"Fn::Contains": [["1", "2", "3", "4", "5"], {"Ref": "BootstrapVersion"}]}]}}]}}}`
)

var errKilled = errors.New("signal: killed")

// checkServices are the function that makes accounts, the product's own, and Parameter Store of the check's region.
type checkServices struct {
	service *sharedaccounts.Service
	call    awslambda.Handler
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
	services.call = awslambda.NewHandler(accounts.Handler(services.service, rootKey{}, slog.New(slog.DiscardHandler)))
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
		payload, err := c.call.Invoke(ctx, in.Payload)
		if out.Payload = payload; err != nil {
			out.FunctionError, out.Payload = aws.String("Unhandled"), fmt.Appendf(nil, `{"errorMessage": %q, "errorType": "errorString"}`, err)
		}
		return nil
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
			out.Parameters = append(out.Parameters, ssmtypes.ParameterMetadata{Name: p.Name, Description: p.Description, Type: p.Type})
		}
		return nil
	})
}

func (c *checkServices) PutParameter(_ context.Context, in *ssm.PutParameterInput, _ ...func(*ssm.Options)) (*ssm.PutParameterOutput, error) {
	return &ssm.PutParameterOutput{}, c.do(func() error {
		if _, is := c.parameters[*in.Name]; is && !aws.ToBool(in.Overwrite) {
			return &ssmtypes.ParameterAlreadyExists{}
		}
		c.parameters[*in.Name] = *in
		c.puts++
		return nil
	})
}

func (c *checkServices) DeleteParameter(_ context.Context, in *ssm.DeleteParameterInput, _ ...func(*ssm.Options)) (*ssm.DeleteParameterOutput, error) {
	return &ssm.DeleteParameterOutput{}, c.do(func() error {
		if _, is := c.parameters[*in.Name]; !is {
			return &ssmtypes.ParameterNotFound{}
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

// holds fails the test unless the account of the check has one key, which may nothing and is kept in Parameter Store.
func (f *fake) holds(t *testing.T, said string) (id string) {
	t.Helper()
	all, err := f.check.service.Keys(t.Context(), syntheticcheck.Account)
	if err != nil || len(all) != 1 || len(all[0].Permissions.Scopes) != 0 {
		t.Fatalf("the account of the check has the keys %+v, error %v, want one without a scope", all, err)
	}
	kept := f.check.parameters[checkKey]
	if kept.Type != ssmtypes.ParameterTypeSecureString {
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

// TestCheckIsDeployedAfterItsInstallation with a key of its own; a repetition changes nothing of the key.
func TestCheckIsDeployedAfterItsInstallation(t *testing.T) {
	f := withCheck()
	steps, said, err := f.run(t, checked, false)
	if err != nil || steps != "synth deploy deploy" {
		t.Fatalf("deploy() = %v with the steps %q, want two deployments; it says %q", err, steps, said)
	}
	key := f.holds(t, said)
	if f.status != types.StackStatusUpdateComplete || f.there.status != types.StackStatusUpdateComplete {
		t.Errorf("the stacks are %s and %s, want both deployed", f.status, f.there.status)
	}
	if want := "gatewright-dev-check:ApiAddress=" + apiAddress; !slices.Contains(f.check.deployed, want) {
		t.Errorf("cdk %q, want the parameter %s", f.check.deployed, want)
	}
	for _, line := range []string{
		"There is no gatewright-dev in eu-west-1 yet: all of its 1 resources are new", "There is no gatewright-dev-check in eu-central-1 yet: all of its 1 resources are new",
		"The account gatewright-check has the key " + key + ", which is kept as /gatewright/dev/check-key in eu-central-1.",
	} {
		if !strings.Contains(said, line) {
			t.Errorf("it says %q, want %q", said, line)
		}
	}
	steps, said, err = f.run(t, checked, false)
	if err != nil || steps != "synth diff deploy deploy" || f.check.puts != 1 || f.holds(t, said) != key {
		t.Errorf("the second deploy() = %v with the steps %q after %d keys were kept, want the same key", err, steps, f.check.puts)
	}
	f.there.planned = strings.Replace(checking, "ApiAddress", "Other", 1)
	if _, _, err = f.run(t, checked, false); err != nil || slices.Contains(f.check.deployed, "--parameters") {
		t.Errorf("with a domain deploy() = %v by cdk %q, want no parameter", err, f.check.deployed)
	}
}

// TestEndedDeploymentOfACheckIsRepeated from wherever it ended, also with the reply of a call lost: there is one key afterwards, and it is kept.
func TestEndedDeploymentOfACheckIsRepeated(t *testing.T) {
	ended := 0
	for _, late := range []bool{false, true} {
		for at := 1; ; at++ {
			f := withCheck()
			f.check.killed, f.check.late = at, late
			_, first, err := f.run(t, checked, false)
			if f.check.calls < at {
				break
			}
			ended++
			if err == nil || !strings.Contains(err.Error(), errKilled.Error()) {
				t.Errorf("deploy() that ends at call %d = %v, want %v", at, err, errKilled)
			}
			f.check.killed = 0
			_, second, err := f.run(t, checked, false)
			if err != nil {
				t.Fatalf("deploy() after one that ended at call %d (late: %v) = %v", at, late, err)
			}
			f.holds(t, first+second)
		}
	}
	if ended < 14 {
		t.Errorf("it was ended at %d calls, want 14 at least", ended)
	}
}

// TestKeyThatTheAccountHasNoMoreIsReplaced: of a table that was restored, or of an installation that was deleted.
func TestKeyThatTheAccountHasNoMoreIsReplaced(t *testing.T) {
	f := withCheck()
	f.check.parameters[checkKey] = ssm.PutParameterInput{Name: aws.String(checkKey), Value: aws.String("old"), Description: aws.String("account key akey_old"), Type: ssmtypes.ParameterTypeSecureString}
	if _, said, err := f.run(t, checked, false); err != nil || f.holds(t, said) == "akey_old" {
		t.Errorf("deploy() = %v, want another key", err)
	}
}

// TestRegionOfTheCheckIsCheckedBeforeAnythingIsCreated in a line that says what to do.
func TestRegionOfTheCheckIsCheckedBeforeAnythingIsCreated(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*fake)
		planned string
		want    string
	}{
		"no bootstrap stack": {func(f *fake) { f.there.parameters = nil }, checked, "the CDK has no bootstrap stack in eu-central-1 of this account (Parameter Store has no /cdk-bootstrap/hnb659fds/version): type make bootstrap AWS_REGION=eu-central-1"},
		"an old one":         {func(f *fake) { f.there.parameters = map[string]string{"/cdk-bootstrap/hnb659fds/version": "5"} }, checked, "the CDK's bootstrap stack in eu-central-1 of this account has version 5, and the templates need version 6: type make bootstrap AWS_REGION=eu-central-1"},
		"the same region":    {func(*fake) {}, strings.Replace(checked, checkRegion, "eu-west-1", 1), "checkRegion is eu-west-1, the installation's own region: name another one in infra/stages/dev.json, which reports when this one does not"},
		"a busy stack":       {func(f *fake) { f.there.status = types.StackStatusUpdateInProgress }, checked, "gatewright-dev-check is UPDATE_IN_PROGRESS"},
		"one half deleted":   {func(f *fake) { f.there.status = types.StackStatusDeleteFailed }, checked, "type aws cloudformation delete-stack --stack-name gatewright-dev-check --region eu-central-1"},
		"another stage's": {func(f *fake) {
			f.there.status, f.there.template = types.StackStatusCreateComplete, `{"Resources": {"Table": {"Type": "AWS::DynamoDB::Table"}}}`
		}, checked, "the table with all data would be removed"},
	} {
		f := withCheck()
		tt.change(f)
		steps, _, err := f.run(t, tt.planned, false)
		if !errors.Is(err, errRefused) || steps != "synth" || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: deploy() = %v with the steps %q, want a refusal after synth that says %q in one line", name, err, steps, tt.want)
		}
	}
}

// TestFailedFirstDeploymentOfACheckIsRepeated: its stack is protected, and is deleted before it is created again.
func TestFailedFirstDeploymentOfACheckIsRepeated(t *testing.T) {
	f := withCheck()
	f.there.fails["create"] = errors.New("failed")
	if _, _, err := f.run(t, checked, false); err == nil || f.there.status != types.StackStatusRollbackComplete || !f.there.protected {
		t.Fatalf("the first deploy() = %v with the stack %s, want a failure", err, f.there.status)
	}
	delete(f.there.fails, "create")
	_, said, err := f.run(t, checked, false)
	if err != nil || f.there.status != types.StackStatusUpdateComplete || !f.there.protected || f.there.id != 2 {
		t.Errorf("the second deploy() = %v with the %d. stack, %s; it says %q", err, f.there.id, f.there.status, said)
	}
	f.holds(t, said)
}

// TestCheckIsRemovedWithAWord, its stack, its parameter and its key, also if that ends in between.
func TestCheckIsRemovedWithAWord(t *testing.T) {
	without := strings.Replace(checked, "gatewright:check-region", "other", 1)
	ended := 0
	for _, late := range []bool{false, true} {
		for at := 1; ; at++ {
			f := withCheck()
			if _, _, err := f.run(t, checked, false); err != nil {
				t.Fatal(err)
			}
			steps, _, err := f.run(t, without, false)
			const want = "the synthetic check in eu-central-1 with its alarms, its key and its topic would be removed: leave checkRegion in infra/stages/dev.json as it was, or say REMOVE=checkRegion to have it removed"
			if !errors.Is(err, errRefused) || steps != "synth" || err.Error() != want {
				t.Fatalf("without a word deploy() = %v with the steps %q, want %q", err, steps, want)
			}
			named := func(d *deployment) { d.wanted = []string{"checkRegion"} }
			f.check.calls, f.check.killed, f.check.late = 0, at, late
			_, said, err := f.run(t, without, false, named)
			done := f.check.calls < at
			if !done {
				ended++
				f.check.killed = 0
				_, said, err = f.run(t, without, false, named)
			}
			if err != nil || f.there.status != "" || len(f.check.parameters) != 0 || f.template != without || !strings.Contains(said, "The synthetic check in eu-central-1 is removed.") {
				t.Fatalf("deploy() after one that ended at call %d (late: %v) = %v with the stack %q and %d parameters; it says %q", at, late, err, f.there.status, len(f.check.parameters), said)
			}
			if keys, err := f.check.service.Keys(t.Context(), syntheticcheck.Account); err != nil || len(keys) != 0 {
				t.Errorf("the account has the keys %v, error %v, want none", keys, err)
			}
			if done {
				break
			}
		}
	}
	if ended < 10 {
		t.Errorf("it was ended at %d calls, want 10 at least", ended)
	}
}

// TestCheckMovesToAnotherRegionWithAWord: one stack is there afterwards, with another key.
func TestCheckMovesToAnotherRegionWithAWord(t *testing.T) {
	f := withCheck()
	_, said, err := f.run(t, checked, false)
	if err != nil {
		t.Fatal(err)
	}
	key := f.holds(t, said)
	was := f.there
	f.was, f.there = was, &fake{region: "eu-north-1", planned: checking, parameters: was.parameters, check: f.check, fails: map[string]error{}}
	moved := strings.Replace(checked, checkRegion, "eu-north-1", 1)
	if _, _, err := f.run(t, moved, false); !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "REMOVE=checkRegion") {
		t.Errorf("without a word deploy() = %v, want a refusal that names it", err)
	}
	_, said, err = f.run(t, moved, false, func(d *deployment) { d.wanted = []string{"checkRegion"} })
	if err != nil || was.status != "" || f.there.status != types.StackStatusUpdateComplete || f.holds(t, said) == key {
		t.Errorf("deploy() = %v with the stacks %q and %q, want the second one alone and another key; it says %q", err, was.status, f.there.status, said)
	}
}

// TestDestroyRemovesTheParameterAfterTheStack, and leaves it where the answer was no.
func TestDestroyRemovesTheParameterAfterTheStack(t *testing.T) {
	for _, yes := range []bool{false, true} {
		f := withCheck()
		if _, _, err := f.run(t, checked, false); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a repetition has nothing to delete
			var destroyed []string
			steps, _, err := f.runs(t, deployment.destroy, checked, false, func(d *deployment) {
				d.yes = yes
				cdk := d.cdk
				d.cdk = func(ctx context.Context, args ...string) error {
					if args[0] == "destroy" {
						if destroyed = args; yes {
							f.there.status, f.there.template = "", ""
						}
					}
					return cdk(ctx, args...)
				}
			})
			if err != nil || steps != "synth destroy" || !slices.Contains(destroyed, "--all") || slices.Contains(destroyed, "--force") != yes {
				t.Errorf("destroy() = %v with the steps %q and cdk %q, want all stacks, and --force: %v", err, steps, destroyed, yes)
			}
			if _, kept := f.check.parameters[checkKey]; kept == yes {
				t.Errorf("with the answer %v the parameter is there: %v", yes, kept)
			}
		}
	}
}
