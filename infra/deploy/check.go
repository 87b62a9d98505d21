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
	"github.com/gatewright/gatewright/shared/credential"
)

// parameterStore is what a deployment asks of Parameter Store.
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

// there returns the deployment of the stack with the synthetic check, in its region.
func (d deployment) there(region string) deployment {
	out := d
	out.elsewhere = region
	out.region = func(context.Context) (string, error) { return region, nil }
	out.ask = func(ctx context.Context, args ...string) (string, error) {
		if !slices.Contains(args, "--region") {
			args = append(slices.Clone(args), "--region", region)
		}
		return d.ask(ctx, args...)
	}
	return out
}

// prepareCheck keeps a key for the check in Parameter Store of its region, and returns the arguments with which the CDK deploys its stack.
func (d deployment) prepareCheck(ctx context.Context, installation deployment, planned removals.Stack) (args []string, err error) {
	here, err := installation.account(ctx)
	if err != nil {
		return nil, err
	}
	there, err := d.account(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.keepKey(ctx, here.invoke, there.parameters); err != nil {
		return nil, err
	}
	return d.parametersOf(ctx, installation, planned)
}

// parametersOf returns the arguments with which the CDK gets the parameters of the stack of the check from the outputs of the installation. Without
// them it cannot compare the stack with what AWS has.
func (d deployment) parametersOf(ctx context.Context, installation deployment, planned removals.Stack) (args []string, err error) {
	if _, asked := planned.Templates[""].Parameters[removals.APIAddress]; !asked {
		return nil, nil
	}
	here, err := installation.account(ctx)
	if err != nil {
		return nil, err
	}
	address, err := removals.OutputOf(ctx, here.stacks, installation.stack(), removals.APIAddress)
	if err != nil {
		return nil, err
	}
	return []string{"--parameters", d.stack() + ":" + removals.APIAddress + "=" + address}, nil
}

// keepKey makes the account of the check and its key, and keeps the key in Parameter Store. If Parameter Store has a key that the account has, it
// changes nothing. The key has no scope: it can ask who it is, and read nothing.
//
// It may be ended anywhere and be repeated. A key whose text was lost before it was kept is revoked by the next run, which makes another one. So
// is the first key of the account, which may do everything there and whose text is not kept.
func (d deployment) keepKey(ctx context.Context, functions invoker, parameters parameterStore) error {
	kept, err := d.keptKey(ctx, parameters)
	if err != nil {
		return err
	}
	all, err := d.keysOfCheck(ctx, functions)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(k accounts.ListedKey) bool { return k.ID == kept && len(k.Scopes) == 0 && k.ExpiresOn == nil }) {
		var made accounts.Out
		if err := d.callAccounts(ctx, functions, accounts.In{Do: "create-key", Name: syntheticcheck.Account, Label: "Synthetic check", Scopes: "none"}, &made); err != nil {
			return err
		}
		if err := d.storeKey(ctx, parameters, made); err != nil {
			return err
		}
		kept = made.ID
		_, _ = fmt.Fprintf(d.out, "The account %s has the key %s, which is kept as %s in %s.\n", syntheticcheck.Account, kept, syntheticcheck.Parameter(d.stage), d.elsewhere)
	}
	return d.revokeKeys(ctx, functions, all, kept)
}

// description is what the parameter says of itself: the id of its key, by which a deployment finds out that the account has it.
const description = "account key "

// keptKey returns the id of the key that Parameter Store has, "" for none.
func (d deployment) keptKey(ctx context.Context, parameters parameterStore) (id string, err error) {
	pages := ssm.NewDescribeParametersPaginator(parameters, &ssm.DescribeParametersInput{ParameterFilters: []types.ParameterStringFilter{
		{Key: aws.String("Name"), Option: aws.String("Equals"), Values: []string{syntheticcheck.Parameter(d.stage)}},
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return "", fmt.Errorf("ask Parameter Store in %s for %s: %w", d.elsewhere, syntheticcheck.Parameter(d.stage), err)
		}
		for _, p := range page.Parameters {
			if aws.ToString(p.Name) == syntheticcheck.Parameter(d.stage) && p.Type == types.ParameterTypeSecureString {
				id, _ = strings.CutPrefix(aws.ToString(p.Description), description)
			}
		}
	}
	return id, nil
}

func (d deployment) storeKey(ctx context.Context, parameters parameterStore, key accounts.Out) error {
	name, about := syntheticcheck.Parameter(d.stage), description+key.ID
	_, err := parameters.PutParameter(ctx, &ssm.PutParameterInput{
		Name: &name, Description: &about, Value: &key.Key, Type: types.ParameterTypeSecureString, Overwrite: aws.Bool(true),
	})
	if err != nil {
		return fmt.Errorf("keep the key of the check as %s in %s (deploy again, which makes another key): %s", name, d.elsewhere, credential.Redact(oneLine(err)))
	}
	return nil
}

// keysOfCheck returns the keys of the account of the check, which it makes if there is none.
func (d deployment) keysOfCheck(ctx context.Context, functions invoker) ([]accounts.ListedKey, error) {
	found, err := d.listKeys(ctx, functions)
	if _, refused := errors.AsType[functionError](err); !refused {
		return found, err
	}
	// An account that exists is refused, and whatever else was wrong is wrong again.
	if again := d.callAccounts(ctx, functions, accounts.In{Name: syntheticcheck.Account}, &accounts.Out{}); again != nil {
		return nil, errors.Join(err, again)
	}
	return d.listKeys(ctx, functions)
}

func (d deployment) listKeys(ctx context.Context, functions invoker) ([]accounts.ListedKey, error) {
	var found accounts.Listed
	err := d.callAccounts(ctx, functions, accounts.In{Do: "list-keys", Name: syntheticcheck.Account}, &found)
	return found.Keys, err
}

// revokeKeys revokes the keys of the account of the check but one, "" for all of them.
func (d deployment) revokeKeys(ctx context.Context, functions invoker, all []accounts.ListedKey, but string) error {
	for _, key := range all {
		if key.ID == but {
			continue
		}
		if err := d.callAccounts(ctx, functions, accounts.In{Do: "revoke-key", Name: syntheticcheck.Account, ID: key.ID, Force: true}, &accounts.Out{}); err != nil {
			return err
		}
	}
	return nil
}

// functionError is what a function says of a call that it refuses or fails at.
type functionError string

func (e functionError) Error() string { return string(e) }

// callAccounts calls the function that makes accounts and keys. Its replies contain keys, and no error contains a reply.
func (d deployment) callAccounts(ctx context.Context, functions invoker, in accounts.In, out any) error {
	name := "gatewright-" + d.stage + "-accounts"
	payload, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("write the call of %s: %w", name, err)
	}
	reply, err := functions.Invoke(ctx, &lambda.InvokeInput{FunctionName: &name, Qualifier: aws.String("live"), Payload: payload})
	if err != nil {
		return fmt.Errorf("call %s: %w", name, err)
	}
	if reply.FunctionError != nil {
		var said struct {
			Message string `json:"errorMessage"`
		}
		if json.Unmarshal(reply.Payload, &said) != nil || said.Message == "" {
			said.Message = "it failed, and its log says why"
		}
		return functionError(fmt.Sprintf("%s (%s): %s", name, in.Do, credential.Redact(said.Message)))
	}
	if err := json.Unmarshal(reply.Payload, out); err != nil {
		return fmt.Errorf("read the reply of %s: it is not JSON of the expected form", name)
	}
	return nil
}

// removeCheck deletes the stack of a check that the installation is to have no more, or in another region, with its parameter and its key.
// It may be ended anywhere and be repeated: the installation says where the check is until it is deployed without it.
func (d deployment) removeCheck(ctx context.Context, installation deployment) error {
	stack, err := d.deployed(ctx)
	if err != nil {
		return err
	}
	if len(stack.Templates) > 0 || stack.Failed != nil {
		for _, command := range [][]string{
			{"update-termination-protection", "--no-enable-termination-protection"}, {"delete-stack"}, {"wait", "stack-delete-complete"},
		} {
			if _, err := d.ask(ctx, append(append([]string{"cloudformation"}, command...), "--stack-name", d.stack())...); err != nil {
				return fmt.Errorf("delete %s in %s: %w", d.stack(), d.elsewhere, err)
			}
		}
	}
	if err := d.removeParameter(ctx); err != nil {
		return err
	}
	here, err := installation.account(ctx)
	if err != nil {
		return err
	}
	all, err := d.listKeys(ctx, here.invoke)
	if refused, is := errors.AsType[functionError](err); is { // no account was made, or its text is the reason
		_, _ = fmt.Fprintf(d.out, "No key of the synthetic check is revoked: %s\n", refused)
	} else if err != nil {
		return fmt.Errorf("revoke the key of the check: %w", err)
	}
	if err := d.revokeKeys(ctx, here.invoke, all, ""); err != nil {
		return fmt.Errorf("revoke the key of the check: %w", err)
	}
	_, err = fmt.Fprintf(d.out, "The synthetic check in %s is removed. The account %s stays, without a key.\n", d.elsewhere, syntheticcheck.Account)
	return err
}

// removeParameter deletes the parameter with the key, if there is one.
func (d deployment) removeParameter(ctx context.Context) error {
	there, err := d.account(ctx)
	if err != nil {
		return err
	}
	name := syntheticcheck.Parameter(d.stage)
	_, err = there.parameters.DeleteParameter(ctx, &ssm.DeleteParameterInput{Name: &name})
	if _, missing := errors.AsType[*types.ParameterNotFound](err); err != nil && !missing {
		return fmt.Errorf("delete the parameter %s in %s: %w", name, d.elsewhere, err)
	}
	return nil
}

// destroy deletes the stacks, as `make destroy` does: the CDK asks first. The parameter with the key of the check goes after its stack.
func (d deployment) destroy(ctx context.Context) error {
	all, err := d.synthesize(ctx)
	if err != nil {
		return err
	}
	if err := d.exists(ctx, all[1:]); err != nil {
		return err
	}
	args := []string{"destroy", "--app", d.output, "--all"}
	if d.yes {
		args = append(args, "--force")
	}
	if err := d.cdk(ctx, args...); err != nil {
		return fmt.Errorf("delete %s: %w", d.stack(), err)
	}
	for _, one := range all[1:] {
		stack, err := one.deployed(ctx)
		if err != nil {
			return err
		}
		if len(stack.Templates) > 0 || stack.Failed != nil {
			continue // the answer was no
		}
		if err := one.removeParameter(ctx); err != nil {
			return err
		}
	}
	return nil
}

// exists refuses to delete an installation that does not exist: the CDK would report that it is destroyed, while the one that was meant goes on in
// another region or account. Of a deletion that was ended before its end, only the parameter of the check can be left then, and is deleted.
func (d deployment) exists(ctx context.Context, checks []*target) error {
	is := func(one deployment) (here string, exists bool, err error) {
		if here, err = one.region(ctx); err != nil {
			return here, false, err
		}
		account, err := one.aws(ctx, here)
		if err != nil {
			return here, false, err
		}
		exists, err = removals.Exists(ctx, account.stacks, one.stack())
		return here, exists, err
	}
	here, exists, err := is(d)
	if err != nil || exists {
		return err
	}
	none := fmt.Sprintf("there is no %s in %s of this AWS account: check STAGE, AWS_REGION and AWS_PROFILE", d.stack(), here)
	for _, one := range checks {
		there, exists, err := is(one.deployment)
		if err != nil {
			return err
		}
		if exists {
			return refuse("%[1]s. There is a %[2]s in %[3]s: to delete it alone, type aws cloudformation delete-stack --region %[3]s --stack-name %[2]s", none, one.stack(), there)
		}
		if err := one.removeParameter(ctx); err != nil {
			return err
		}
	}
	return refusal(none)
}
