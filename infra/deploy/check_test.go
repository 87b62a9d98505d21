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
	// checked is the template of an installation with a check, and checking that of the check.
	checked  = `{"Metadata": {"gatewright:check-region": "eu-central-1"}, "Resources": {"F": {"Type": "AWS::Lambda::Function"}}}`
	checking = `{"Resources": {"C": {"Type": "AWS::Lambda::Function"}}, "Parameters": {"ApiAddress": {"Type": "String"}, "BootstrapVersion": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cdk-bootstrap/hnb659fds/version"}},
		"Rules": {"CheckBootstrapVersion": {"Assertions": [{"Assert": {"Fn::Not": [{"Fn::Contains": [["1", "2", "3", "4", "5"], {"Ref": "BootstrapVersion"}]}]}}]}}}`
)

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
	f.check.keeps("akey_old")
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
		"one half deleted":   {func(f *fake) { f.there.status = types.StackStatusDeleteFailed }, checked, "type aws cloudformation delete-stack --region eu-central-1 --stack-name gatewright-dev-check"},
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
		for range 2 { // also a second time, of an installation that its protection has kept
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
