package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/gatewright/gatewright/functions/syntheticcheck"
)

const (
	checkRegion = "eu-central-1"
	checkKey    = "/gatewright/dev/check-key"
	apiAddress  = "https://a1b2c3.execute-api.eu-west-1.amazonaws.com/dev"
	// checkedTemplate is the template of an installation with a check. checkTemplate is the template of the check's own
	// stack.
	checkedTemplate = `{"Metadata": {"gatewright:check-region": "eu-central-1"}, ` +
		`"Resources": {"F": {"Type": "AWS::Lambda::Function"}}}`
	checkTemplate = `{"Resources": {"C": {"Type": "AWS::Lambda::Function"}},
		"Parameters": {"ApiAddress": {"Type": "String"}, "BootstrapVersion": {"Type": "AWS::SSM::Parameter::Value<String>",
		"Default": "/cdk-bootstrap/hnb659fds/version"}},
		"Rules": {"CheckBootstrapVersion": {"Assertions": [
			{"Assert": {"Fn::Not": [{"Fn::Contains": [["1", "2", "3", "4", "5"], {"Ref": "BootstrapVersion"}]}]}}]}}}`
)

// TestCheckIsDeployedAfterItsInstallation checks the deployments of both stacks and the key of the check. The stack of
// the check needs the address of the API, which only a deployed installation has. A second deployment does not change
// the key.
func TestCheckIsDeployedAfterItsInstallation(t *testing.T) {
	f := newFakeWithCheck()
	steps, output, err := f.run(t, checkedTemplate, false)
	if err != nil || steps != "synth deploy deploy" {
		t.Fatalf("deploy() = %v with the steps %q, want two deployments; output %q", err, steps, output)
	}
	key := f.requireOneKey(t, output)
	if f.status != types.StackStatusUpdateComplete || f.checkAccount.status != types.StackStatusUpdateComplete {
		t.Errorf("status of the stacks = %s and %s, want UPDATE_COMPLETE", f.status, f.checkAccount.status)
	}
	if want := "gatewright-dev-check:ApiAddress=" + apiAddress; !slices.Contains(f.check.deployed, want) {
		t.Errorf("cdk %q, want the parameter %s", f.check.deployed, want)
	}
	for _, line := range []string{
		"There is no gatewright-dev in eu-west-1 yet: all of its 1 resources are new",
		"There is no gatewright-dev-check in eu-central-1 yet: all of its 1 resources are new",
		"The account gatewright-check has the key " + key + ", which is kept as /gatewright/dev/check-key in eu-central-1.",
	} {
		if !strings.Contains(output, line) {
			t.Errorf("output = %q, want %q in it", output, line)
		}
	}
	steps, output, err = f.run(t, checkedTemplate, false)
	if err != nil || steps != "synth diff deploy deploy" || f.check.puts != 1 {
		t.Errorf("second deploy() = %v, steps %q, %d calls of PutParameter so far, want no error, the steps "+
			"\"synth diff deploy deploy\" and one call", err, steps, f.check.puts)
	}
	if got := f.requireOneKey(t, output); got != key {
		t.Errorf("key after the second deploy() = %s, want %s as before", got, key)
	}
	f.checkAccount.plannedTemplate = strings.Replace(checkTemplate, "ApiAddress", "Other", 1)
	if _, _, err = f.run(t, checkedTemplate, false); err != nil || slices.Contains(f.check.deployed, "--parameters") {
		t.Errorf("deploy(template without a parameter) = %v by cdk %q, want no --parameters", err, f.check.deployed)
	}
}

// TestInterruptedCheckDeploymentCanBeRepeated interrupts a deployment at each call, before or after the call takes
// effect. After a repetition the account has one key, which is stored.
func TestInterruptedCheckDeploymentCanBeRepeated(t *testing.T) {
	interruptions := 0
	for _, killAfter := range []bool{false, true} {
		for call := 1; ; call++ {
			f := newFakeWithCheck()
			f.check.killAt, f.check.killAfter = call, killAfter
			_, firstOutput, err := f.run(t, checkedTemplate, false)
			if f.check.calls < call {
				break
			}
			interruptions++
			if err == nil || !strings.Contains(err.Error(), errKilled.Error()) {
				t.Errorf("deploy() interrupted at call %d (late: %v) = %v, want %v", call, killAfter, err, errKilled)
			}
			f.check.killAt = 0
			_, secondOutput, err := f.run(t, checkedTemplate, false)
			if err != nil {
				t.Fatalf("deploy() after an interruption at call %d (late: %v) = %v, want no error", call, killAfter, err)
			}
			f.requireOneKey(t, firstOutput+secondOutput)
		}
	}
	if interruptions < 14 {
		t.Errorf("deploy() was interrupted at %d calls, want at least 14", interruptions)
	}
}

// TestUnknownStoredKeyIsReplaced checks a stored key that the account does not have, for example after a restore, or
// from an installation that was deleted.
func TestUnknownStoredKeyIsReplaced(t *testing.T) {
	f := newFakeWithCheck()
	f.check.storeUnknownKey("akey_old")
	_, output, err := f.run(t, checkedTemplate, false)
	if err != nil {
		t.Fatalf("deploy() = %v, want no error", err)
	}
	if got := f.requireOneKey(t, output); got == "akey_old" {
		t.Errorf("key after deploy() = %s, want another key", got)
	}
}

// TestCheckRegionIsVerifiedBeforeAnythingIsCreated checks that each problem in the check's region refuses the
// deployment with one line.
func TestCheckRegionIsVerifiedBeforeAnythingIsCreated(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*fakeAccount)
		planned string
		want    string
	}{
		"no bootstrap stack": {func(f *fakeAccount) {
			f.checkAccount.parameters = nil
		}, checkedTemplate, "the CDK has no bootstrap stack in eu-central-1 of this account (Parameter Store has no " +
			"/cdk-bootstrap/hnb659fds/version): type make bootstrap AWS_REGION=eu-central-1"},
		"old bootstrap stack": {func(f *fakeAccount) {
			f.checkAccount.parameters = map[string]string{"/cdk-bootstrap/hnb659fds/version": "5"}
		}, checkedTemplate, "the CDK's bootstrap stack in eu-central-1 of this account has version 5, and the templates " +
			"need version 6: type make bootstrap AWS_REGION=eu-central-1"},
		"region of the installation": {
			func(*fakeAccount) {}, strings.Replace(checkedTemplate, checkRegion, "eu-west-1", 1),
			"checkRegion is eu-west-1, the installation's own region: name another one in infra/stages/dev.json, which " +
				"reports when this one does not",
		},
		"a busy stack": {func(f *fakeAccount) {
			f.checkAccount.status = types.StackStatusUpdateInProgress
		}, checkedTemplate, "gatewright-dev-check is UPDATE_IN_PROGRESS"},
		"partly deleted stack": {func(f *fakeAccount) {
			f.checkAccount.status = types.StackStatusDeleteFailed
		}, checkedTemplate, "type aws cloudformation delete-stack --region eu-central-1 --stack-name gatewright-dev-check"},
		"deployed stack with a table": {func(f *fakeAccount) {
			f.checkAccount.status, f.checkAccount.template = types.StackStatusCreateComplete,
				`{"Resources": {"Table": {"Type": "AWS::DynamoDB::Table"}}}`
		}, checkedTemplate, "the table with all data would be removed"},
	} {
		f := newFakeWithCheck()
		tt.change(f)
		steps, _, err := f.run(t, tt.planned, false)
		if !errors.Is(err, errRefused) || steps != "synth" || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: deploy() = %v with the steps %q, want a refusal after synth that says %q in one line", name, err,
				steps, tt.want)
		}
	}
}

// TestFailedFirstCheckDeploymentIsRepeated checks that the failed stack of the check is deleted and created again,
// although it is protected.
func TestFailedFirstCheckDeploymentIsRepeated(t *testing.T) {
	f := newFakeWithCheck()
	f.checkAccount.errs["create"] = errors.New("failed")
	if _, _, err := f.run(t, checkedTemplate, false); err == nil ||
		f.checkAccount.status != types.StackStatusRollbackComplete || !f.checkAccount.protected {
		t.Fatalf("first deploy() = %v, stack %s, protected: %v, want a failure, ROLLBACK_COMPLETE, protected: true", err,
			f.checkAccount.status, f.checkAccount.protected)
	}
	delete(f.checkAccount.errs, "create")
	_, output, err := f.run(t, checkedTemplate, false)
	if err != nil || f.checkAccount.status != types.StackStatusUpdateComplete || !f.checkAccount.protected ||
		f.checkAccount.id != 2 {
		t.Errorf("second deploy() = %v, stack %d is %s (protected: %v), want stack 2, protected, UPDATE_COMPLETE; output %q",
			err, f.checkAccount.id, f.checkAccount.status, f.checkAccount.protected, output)
	}
	f.requireOneKey(t, output)
}

// TestMissingCredentialsAfterTheDeploymentAreNoRefusal checks that an error between the deployments of the installation
// and of its check is not a refusal, which would say that nothing was deployed.
func TestMissingCredentialsAfterTheDeploymentAreNoRefusal(t *testing.T) {
	f := newFakeWithCheck()
	_, _, err := f.run(t, checkedTemplate, false, func(d *deployment) {
		connectAWS := d.connectAWS
		d.connectAWS = func(ctx context.Context, region string) (account, error) {
			if f.template != "" && region == "eu-west-1" {
				return account{}, refuse("there are no credentials")
			}
			return connectAWS(ctx, region)
		}
	})
	if err == nil || errors.Is(err, errRefused) || !strings.Contains(err.Error(), "the installation is deployed") {
		t.Errorf("deploy() without credentials for the check = %v, want \"the installation is deployed\" and no refusal", err)
	}
}

// TestCheckIsRemovedOnRequest checks that REMOVE=checkRegion removes the check's stack, its parameter and its key, even
// after an interruption.
func TestCheckIsRemovedOnRequest(t *testing.T) {
	withoutCheck := strings.Replace(checkedTemplate, "gatewright:check-region", "other", 1)
	interruptions := 0
	for _, killAfter := range []bool{false, true} {
		for call := 1; ; call++ {
			f := newFakeWithCheck()
			if _, _, err := f.run(t, checkedTemplate, false); err != nil {
				t.Fatal(err)
			}
			steps, _, err := f.run(t, withoutCheck, false)
			const want = "the synthetic check in eu-central-1 with its alarms, its key and its topic would be removed: leave " +
				"checkRegion in infra/stages/dev.json as it was, or say REMOVE=checkRegion to have it removed"
			if !errors.Is(err, errRefused) || steps != "synth" || err.Error() != want {
				t.Fatalf("deploy(without REMOVE) = %v with the steps %q, want %q", err, steps, want)
			}
			allowRemoval := func(d *deployment) { d.allowedRemovals = []string{"checkRegion"} }
			f.check.calls, f.check.killAt, f.check.killAfter = 0, call, killAfter
			_, output, err := f.run(t, withoutCheck, false, allowRemoval)
			done := f.check.calls < call
			if !done {
				interruptions++
				f.check.killAt = 0
				_, output, err = f.run(t, withoutCheck, false, allowRemoval)
			}
			if err != nil || f.checkAccount.status != "" || f.template != withoutCheck {
				t.Fatalf("deploy() after an interruption at call %d (late: %v) = %v, stack %q, template %q, want no check",
					call, killAfter, err, f.checkAccount.status, f.template)
			}
			const message = "The synthetic check in eu-central-1 is removed."
			if n := len(f.check.parameters); n != 0 || !strings.Contains(output, message) {
				t.Fatalf("deploy() after an interruption at call %d (late: %v): %d parameters, output %q, want 0 and %q", call,
					killAfter, n, output, message)
			}
			if keys, err := f.check.service.Keys(t.Context(), syntheticcheck.Account); err != nil || len(keys) != 0 {
				t.Errorf("Keys(account of the check) = %v, error %v, want none", keys, err)
			}
			if done {
				break
			}
		}
	}
	if interruptions < 10 {
		t.Errorf("deploy() was interrupted at %d calls, want at least 10", interruptions)
	}
}

// TestCheckMovesToAnotherRegionOnRequest checks that a move without REMOVE=checkRegion is refused. With it, only the
// stack in the new region remains, with a new key.
func TestCheckMovesToAnotherRegionOnRequest(t *testing.T) {
	f := newFakeWithCheck()
	_, output, err := f.run(t, checkedTemplate, false)
	if err != nil {
		t.Fatal(err)
	}
	key := f.requireOneKey(t, output)
	previous := f.checkAccount
	f.previousCheckAccount, f.checkAccount = previous, &fakeAccount{
		region: "eu-north-1", plannedTemplate: checkTemplate,
		parameters: previous.parameters, check: f.check, errs: map[string]error{},
	}
	moved := strings.Replace(checkedTemplate, checkRegion, "eu-north-1", 1)
	if _, _, err := f.run(t, moved, false); !errors.Is(err, errRefused) ||
		!strings.Contains(err.Error(), "REMOVE=checkRegion") {
		t.Errorf("deploy(without REMOVE) = %v, want a refusal with REMOVE=checkRegion", err)
	}
	_, output, err = f.run(t, moved, false, func(d *deployment) { d.allowedRemovals = []string{"checkRegion"} })
	if err != nil || previous.status != "" || f.checkAccount.status != types.StackStatusUpdateComplete {
		t.Errorf("deploy() = %v with the stacks %q and %q, want the second one alone; output %q", err, previous.status,
			f.checkAccount.status, output)
	}
	if got := f.requireOneKey(t, output); got == key {
		t.Errorf("key after deploy() = %s, want another key", got)
	}
}

// TestDestroyRemovesTheParameterAfterTheStack checks that destroy deletes the parameter with the check's key if the
// check's stack is deleted, and keeps it if the user declines the deletion.
func TestDestroyRemovesTheParameterAfterTheStack(t *testing.T) {
	for _, yes := range []bool{false, true} {
		f := newFakeWithCheck()
		if _, _, err := f.run(t, checkedTemplate, false); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a second destroy must work too, because termination protection may have kept the installation
			var destroyed []string
			steps, _, err := f.runAction(t, deployment.destroy, checkedTemplate, false, func(d *deployment) {
				d.yes = yes
				cdk := d.cdk
				d.cdk = func(ctx context.Context, args ...string) error {
					if args[0] == "destroy" {
						if destroyed = args; yes {
							f.checkAccount.status, f.checkAccount.template = "", ""
						}
					}
					return cdk(ctx, args...)
				}
			})
			if err != nil || steps != "synth destroy" || !slices.Contains(destroyed, "--all") ||
				slices.Contains(destroyed, "--force") != yes {
				t.Errorf("destroy() = %v with the steps %q and cdk %q, want all stacks, and --force: %v", err, steps,
					destroyed, yes)
			}
			if _, exists := f.check.parameters[checkKey]; exists == yes {
				t.Errorf("destroy(confirmed: %v): the parameter exists = %v, want %v", yes, exists, !yes)
			}
		}
	}
}
