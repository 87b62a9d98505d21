package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/gatewright/gatewright/functions/accounts"
	"github.com/gatewright/gatewright/functions/syntheticcheck"
	"github.com/gatewright/gatewright/infra/removals"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// parameterStore is the part of the client of Parameter Store that a deployment calls.
type parameterStore interface {
	ssm.DescribeParametersAPIClient
	PutParameter(context.Context, *ssm.PutParameterInput, ...func(*ssm.Options)) (*ssm.PutParameterOutput, error)
	DeleteParameter(context.Context, *ssm.DeleteParameterInput, ...func(*ssm.Options)) (*ssm.DeleteParameterOutput, error)
}

// invoker calls functions.
type invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

var (
	_ parameterStore = (*ssm.Client)(nil)
	_ invoker        = (*lambda.Client)(nil)
)

// forCheck returns the deployment of the stack with the synthetic check, in its region.
func (d deployment) forCheck(region string) deployment {
	out := d
	out.checkRegion = region
	out.region = func(context.Context) (string, error) { return region, nil }
	out.runAWS = func(ctx context.Context, args ...string) (string, error) {
		if !slices.Contains(args, "--region") {
			args = append(slices.Clone(args), "--region", region)
		}
		return d.runAWS(ctx, args...)
	}
	return out
}

// prepareCheck makes sure that Parameter Store has a key for the check in the check's region (ensureKey). It returns
// the additional arguments with which the CDK deploys the check's stack.
func (d deployment) prepareCheck(
	ctx context.Context, installation deployment, planned removals.Stack,
) (args []string, err error) {
	installationAccount, err := installation.account(ctx)
	if err != nil {
		return nil, err
	}
	checkAccount, err := d.account(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.ensureKey(ctx, installationAccount.invoke, checkAccount.parameters); err != nil {
		return nil, err
	}
	return d.checkStackArgs(ctx, installation, planned)
}

// checkStackArgs returns arguments for the CDK with the values of the parameters of the check's stack. The values are
// outputs of the installation's stack. Without them the CDK cannot compare the check's stack with the stack in AWS.
func (d deployment) checkStackArgs(
	ctx context.Context, installation deployment, planned removals.Stack,
) (args []string, err error) {
	if _, isDeclared := planned.Templates[""].Parameters[removals.APIAddress]; !isDeclared {
		return nil, nil
	}
	installationAccount, err := installation.account(ctx)
	if err != nil {
		return nil, err
	}
	address, err := removals.StackOutput(ctx, installationAccount.stacks, installation.stackName(), removals.APIAddress)
	if err != nil {
		return nil, err
	}
	return []string{"--parameters", d.stackName() + ":" + removals.APIAddress + "=" + address}, nil
}

// ensureKey creates the account of the check and a key of the account, and stores the key in Parameter Store. If
// Parameter Store already has a key of the account, without a scope and without an expiry, ensureKey keeps it. The key
// has no scope: it can only read its own identity.
//
// ensureKey can be interrupted anywhere and be repeated. If an interruption loses the text of a key before it is
// stored, the next run revokes that key and creates another. ensureKey also revokes all other keys of the account. One
// of them is the first key of the account, which has full access and whose text is not stored.
func (d deployment) ensureKey(ctx context.Context, functions invoker, parameters parameterStore) error {
	keyID, err := d.storedKeyID(ctx, parameters)
	if err != nil {
		return err
	}
	keys, err := d.listOrCreateKeys(ctx, functions)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(keys, func(k accounts.KeySummary) bool {
		return k.ID == keyID && len(k.Scopes) == 0 && k.ExpiresOn == nil
	}) {
		var created accounts.Out
		if err := d.callAccounts(ctx, functions, accounts.In{
			Action: "create-key", Name: syntheticcheck.Account,
			Label: "Synthetic check", Scopes: "none",
		}, &created); err != nil {
			return err
		}
		if err := d.storeKey(ctx, parameters, created); err != nil {
			return err
		}
		keyID = created.ID
		_, _ = fmt.Fprintf(d.out, "The account %s has the key %s, which is kept as %s in %s.\n", syntheticcheck.Account,
			keyID, syntheticcheck.Parameter(d.stage), d.checkRegion)
	}
	return d.revokeKeys(ctx, functions, keys, keyID)
}

// descriptionPrefix begins the description of the parameter. The id of the stored key follows. A deployment compares
// this id with the keys of the account.
const descriptionPrefix = "account key "

// storedKeyID returns the id of the key in Parameter Store, or "" if there is none. For a parameter with another
// description than storeKey writes, the result is no id of a key.
func (d deployment) storedKeyID(ctx context.Context, parameters parameterStore) (id string, err error) {
	pages := ssm.NewDescribeParametersPaginator(parameters,
		&ssm.DescribeParametersInput{ParameterFilters: []types.ParameterStringFilter{
			{Key: aws.String("Name"), Option: aws.String("Equals"), Values: []string{syntheticcheck.Parameter(d.stage)}},
		}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return "", fmt.Errorf("ask Parameter Store in %s for %s: %w", d.checkRegion, syntheticcheck.Parameter(d.stage), err)
		}
		for _, p := range page.Parameters {
			if aws.ToString(p.Name) == syntheticcheck.Parameter(d.stage) && p.Type == types.ParameterTypeSecureString {
				id, _ = strings.CutPrefix(aws.ToString(p.Description), descriptionPrefix)
			}
		}
	}
	return id, nil
}

// storeKey stores the text of a key in Parameter Store, and the id of the key in the description of the parameter.
func (d deployment) storeKey(ctx context.Context, parameters parameterStore, key accounts.Out) error {
	name, description := syntheticcheck.Parameter(d.stage), descriptionPrefix+key.ID
	_, err := parameters.PutParameter(ctx, &ssm.PutParameterInput{
		Name: &name, Description: &description, Value: &key.Key, Type: types.ParameterTypeSecureString,
		Overwrite: aws.Bool(true),
	})
	if err != nil {
		return fmt.Errorf("keep the key of the check as %s in %s (deploy again, which makes another key): %s", name,
			d.checkRegion, credential.Redact(oneLine(err)))
	}
	return nil
}

// listOrCreateKeys returns the keys of the account of the check. If the account does not exist, it creates the account
// with a first key.
func (d deployment) listOrCreateKeys(ctx context.Context, functions invoker) ([]accounts.KeySummary, error) {
	keys, err := d.listKeys(ctx, functions)
	if _, isRefused := errors.AsType[functionError](err); !isRefused {
		return keys, err
	}
	// The call fails if the account exists. If listKeys failed for another reason than a missing account, this call
	// fails too.
	if createErr := d.callAccounts(ctx, functions, accounts.In{Name: syntheticcheck.Account},
		&accounts.Out{}); createErr != nil {
		return nil, errors.Join(err, createErr)
	}
	return d.listKeys(ctx, functions)
}

func (d deployment) listKeys(ctx context.Context, functions invoker) ([]accounts.KeySummary, error) {
	var listed accounts.KeyList
	err := d.callAccounts(ctx, functions, accounts.In{Action: "list-keys", Name: syntheticcheck.Account}, &listed)
	return listed.Keys, err
}

// revokeKeys revokes all keys of the account of the check except the key with the id except. If except is "", it
// revokes all.
func (d deployment) revokeKeys(
	ctx context.Context, functions invoker, keys []accounts.KeySummary, except string,
) error {
	for _, key := range keys {
		if key.ID == except {
			continue
		}
		if err := d.callAccounts(ctx, functions, accounts.In{
			Action: "revoke-key", Name: syntheticcheck.Account, ID: key.ID,
			Force: true,
		}, &accounts.Out{}); err != nil {
			return err
		}
	}
	return nil
}

// functionError is the error message that a function has returned.
type functionError string

func (e functionError) Error() string { return string(e) }

// callAccounts calls the function that creates accounts and keys. Its replies can contain keys. So an error contains at
// most the message of a failed call, with its credentials redacted.
func (d deployment) callAccounts(ctx context.Context, functions invoker, in accounts.In, out any) error {
	name := "gatewright-" + d.stage + "-accounts"
	payload, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("write the call of %s: %w", name, err)
	}
	reply, err := functions.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &name, Qualifier: aws.String("live"),
		Payload: payload,
	})
	if err != nil {
		return fmt.Errorf("call %s: %w", name, err)
	}
	if reply.FunctionError != nil {
		var failure struct {
			Message string `json:"errorMessage"`
		}
		if json.Unmarshal(reply.Payload, &failure) != nil || failure.Message == "" {
			failure.Message = "it failed, and its log says why"
		}
		return functionError(fmt.Sprintf("%s (%s): %s", name, in.Action, credential.Redact(failure.Message)))
	}
	if err := json.Unmarshal(reply.Payload, out); err != nil {
		return fmt.Errorf("read the reply of %s: it is not JSON of the expected form", name)
	}
	return nil
}

// removeCheck deletes a check that the installation no longer has, or has in another region: its stack, its parameter
// and its key. removeCheck can be interrupted anywhere and be repeated: the deployed installation records the check's
// region until it is deployed without the check.
func (d deployment) removeCheck(ctx context.Context, installation deployment) error {
	stack, err := d.deployedStack(ctx)
	if err != nil {
		return err
	}
	if len(stack.Templates) > 0 || stack.Failed != nil {
		for _, command := range [][]string{
			{"update-termination-protection", "--no-enable-termination-protection"},
			{"delete-stack"},
			{"wait", "stack-delete-complete"},
		} {
			if _, err := d.runAWS(ctx, append(append([]string{"cloudformation"}, command...), "--stack-name",
				d.stackName())...); err != nil {
				return fmt.Errorf("delete %s in %s: %w", d.stackName(), d.checkRegion, err)
			}
		}
	}
	if err := d.removeParameter(ctx); err != nil {
		return err
	}
	installationAccount, err := installation.account(ctx)
	if err != nil {
		return err
	}
	keys, err := d.listKeys(ctx, installationAccount.invoke)
	if fnErr, ok := errors.AsType[functionError](err); ok { // the message says why: for example, there is no account
		_, _ = fmt.Fprintf(d.out, "No key of the synthetic check is revoked: %s\n", fnErr)
	} else if err != nil {
		return fmt.Errorf("revoke the key of the check: %w", err)
	}
	if err := d.revokeKeys(ctx, installationAccount.invoke, keys, ""); err != nil {
		return fmt.Errorf("revoke the key of the check: %w", err)
	}
	_, err = fmt.Fprintf(d.out, "The synthetic check in %s is removed. The account %s stays, without a key.\n",
		d.checkRegion, syntheticcheck.Account)
	return err
}

// removeParameter deletes the parameter with the key, if there is one.
func (d deployment) removeParameter(ctx context.Context) error {
	checkAccount, err := d.account(ctx)
	if err != nil {
		return err
	}
	name := syntheticcheck.Parameter(d.stage)
	_, err = checkAccount.parameters.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: &name})
	if _, missing := errors.AsType[*types.ParameterNotFound](err); err != nil && !missing {
		return fmt.Errorf("delete the parameter %s in %s: %w", name, d.checkRegion, err)
	}
	return nil
}

// destroy deletes the stacks, as `make destroy` does. Unless d.yes is set, the CDK requests a confirmation first. The
// parameter with the key of the check is deleted after its stack.
func (d deployment) destroy(ctx context.Context) error {
	targets, err := d.synthesize(ctx)
	if err != nil {
		return err
	}
	if err := d.checkExists(ctx, targets[1:]); err != nil {
		return err
	}
	args := []string{"destroy", "--app", d.output, "--all"}
	if d.yes {
		args = append(args, "--force")
	}
	if err := d.cdk(ctx, args...); err != nil {
		return fmt.Errorf("delete %s: %w", d.stackName(), err)
	}
	for _, t := range targets[1:] {
		stack, err := t.deployedStack(ctx)
		if err != nil {
			return err
		}
		if len(stack.Templates) > 0 || stack.Failed != nil {
			continue // the user declined
		}
		if err := t.removeParameter(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkExists returns an error if the installation to delete does not exist. The CDK would report that it is destroyed,
// while the intended installation continues in another region or account. After an interrupted deletion, only the
// parameter of the check can be left: checkExists deletes it.
func (d deployment) checkExists(ctx context.Context, checkTargets []*target) error {
	find := func(t deployment) (currentRegion string, exists bool, err error) {
		if currentRegion, err = t.region(ctx); err != nil {
			return currentRegion, false, err
		}
		account, err := t.connectAWS(ctx, currentRegion)
		if err != nil {
			return currentRegion, false, err
		}
		exists, err = removals.Exists(ctx, account.stacks, t.stackName())
		return currentRegion, exists, err
	}
	currentRegion, exists, err := find(d)
	if err != nil || exists {
		return err
	}
	notFound := fmt.Sprintf("there is no %s in %s of this AWS account: check STAGE, AWS_REGION and AWS_PROFILE",
		d.stackName(), currentRegion)
	for _, t := range checkTargets {
		otherRegion, exists, err := find(t.deployment)
		if err != nil {
			return err
		}
		if exists {
			return refuse("%[1]s. There is a %[2]s in %[3]s: to delete it alone, type aws cloudformation delete-stack "+
				"--region %[3]s --stack-name %[2]s", notFound, t.stackName(), otherRegion)
		}
		if err := t.removeParameter(ctx); err != nil {
			return err
		}
	}
	return refusal(notFound)
}
