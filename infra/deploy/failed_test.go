package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"
)

// TestFailedFirstDeploymentIsRepeated: the stack is deleted and created again, and protected at the end.
func TestFailedFirstDeploymentIsRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*fake) // between the two deployments
		says   string
	}{
		"rolled back": {func(*fake) {}, "The first deployment of gatewright-dev has failed (ROLLBACK_COMPLETE). Its stack is deleted, and created again.\n"},
		"not all of it": {
			func(f *fake) {
				remaining(f, types.ResourceStatusDeleteComplete, "AWS::S3::Bucket", "Bucket", "gatewright-dev-000000000000-eu-west-1")
				remaining(f, types.ResourceStatusDeleteFailed, "AWS::DynamoDB::Table", "Table", "gatewright-dev-Table-1")
			},
			"The failed stack leaves the AWS::DynamoDB::Table gatewright-dev-Table-1 behind, which the next one does not use. " +
				"To remove it, type aws dynamodb update-table --region eu-west-1 --table-name gatewright-dev-Table-1 --no-deletion-protection-enabled && aws dynamodb delete-table --region eu-west-1 --table-name gatewright-dev-Table-1.\n",
		},
		"the role for access logs": {
			func(f *fake) {
				remaining(f, types.ResourceStatusDeleteSkipped, "AWS::IAM::Role", "LogWriterRole", "gatewright-dev-LogWriterRole-1")
				remaining(f, types.ResourceStatusDeleteComplete, "AWS::IAM::Role", "RollupRole", "gatewright-dev-RollupRole-1")
			},
			"The failed stack leaves the AWS::IAM::Role gatewright-dev-LogWriterRole-1 behind, which the next one does not use. " +
				"To remove it, wait until aws apigateway get-account --region eu-west-1 names another role, and type aws iam detach-role-policy --role-name gatewright-dev-LogWriterRole-1 --policy-arn " +
				"$(aws iam list-attached-role-policies --role-name gatewright-dev-LogWriterRole-1 --query 'AttachedPolicies[].PolicyArn' --output text) && aws iam delete-role --role-name gatewright-dev-LogWriterRole-1.\n",
		},
		"a log in a nested stack": {
			func(f *fake) {
				remaining(f, types.ResourceStatusDeleteFailed, "AWS::CloudFormation::Stack", "RelayNestedStack", "arn:nested")
				kind, name := "AWS::Logs::LogGroup", "/aws/ecs/gatewright-dev-relay-0123"
				f.leave("arn:nested", types.StackResourceSummary{ResourceType: &kind, LogicalResourceId: &kind, PhysicalResourceId: &name, ResourceStatus: types.ResourceStatusDeleteFailed})
			},
			"behind, which the next one does not use. To remove it, type aws logs delete-log-group --region eu-west-1 --log-group-name /aws/ecs/gatewright-dev-relay-0123.\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := ready()
			if _, _, err := f.run(t, whole, true); err == nil || f.status != types.StackStatusRollbackComplete || !f.protected {
				t.Fatalf("first deploy() = %v with the stack %s, protected %v, want a failure with ROLLBACK_COMPLETE, protected", err, f.status, f.protected)
			}
			tt.change(f)
			steps, said, err := f.run(t, whole, false)
			if err != nil || steps != "synth images deploy" {
				t.Fatalf("second deploy() = %v with the steps %q, want synth images deploy", err, steps)
			}
			if f.id != 2 || f.status != types.StackStatusUpdateComplete {
				t.Errorf("the stack is the %d. one, %s, want the 2. one, deployed", f.id, f.status)
			}
			if !f.protected {
				t.Error("the new stack is not protected, want termination protection")
			}
			const off = "The termination protection of the failed gatewright-dev is off, so that the stack can be deleted.\n"
			if !strings.Contains(said, off) {
				t.Errorf("it says %q, want %q", said, off)
			}
			if !strings.Contains(said, tt.says) {
				t.Errorf("it says %q, want %q", said, tt.says)
			}
		})
	}
}

// TestProtectionIsSwitchedOffOnlyForAFailedCreation: never for a stack that was ever deployed, and not before somebody says yes.
func TestProtectionIsSwitchedOffOnlyForAFailedCreation(t *testing.T) {
	for _, status := range types.StackStatus("").Values() {
		want := status == types.StackStatusRollbackComplete || status == types.StackStatusRollbackFailed
		f := ready()
		f.status, f.protected, f.template = status, true, whole
		_, said, _ := f.run(t, whole, false)
		if got := slices.Contains(f.asked, "UpdateTerminationProtection"); got != want {
			t.Errorf("%s: UpdateTerminationProtection was called: %v, want %v; it says %q", status, got, want, said)
		}
		if !f.protected {
			t.Errorf("%s: the stack is not protected at the end, want termination protection", status)
		}
	}
	f := ready()
	f.status, f.protected = types.StackStatusRollbackComplete, true
	steps, _, err := f.run(t, whole, false, func(d *deployment) { d.yes, d.terminal, d.in = false, true, strings.NewReader("no\n") })
	if !errors.Is(err, errRefused) || steps != "synth" || !f.protected {
		t.Errorf("without a yes deploy() = %v with the steps %q, protected %v, want a refusal, synth alone and true", err, steps, f.protected)
	}
}

// TestBucketThatGoesWithItsStackIsNotInTheWay: CloudFormation deletes it with the failed stack, where the stage is not protected.
func TestBucketThatGoesWithItsStackIsNotInTheWay(t *testing.T) {
	f := ready()
	remaining(f, types.ResourceStatusDeleteFailed, "AWS::S3::Bucket", "Bucket", "gatewright-dev-000000000000-eu-west-1")
	if steps, said, err := f.run(t, strings.ReplaceAll(whole, "RetainExceptOnCreate", "Delete"), false); err != nil || strings.Contains(said, "behind") {
		t.Errorf("deploy() = %v with the steps %q, want success and no word of the bucket; it says %q", err, steps, said)
	}
}

// TestProtectionThatStaysOnStopsTheDeployment: the CDK could not delete the stack.
func TestProtectionThatStaysOnStopsTheDeployment(t *testing.T) {
	f := ready()
	f.status, f.protected = types.StackStatusRollbackComplete, true
	f.fails["UpdateTerminationProtection"] = &smithy.GenericAPIError{Code: "AccessDenied", Message: "User is not authorized to perform: cloudformation:UpdateTerminationProtection"}
	steps, _, err := f.run(t, whole, false)
	if !errors.Is(err, errRefused) || steps != "synth" {
		t.Fatalf("deploy() = %v with the steps %q, want a refusal after synth", err, steps)
	}
	const want = "have somebody type aws cloudformation update-termination-protection --no-enable-termination-protection --region eu-west-1 --stack-name arn:aws:cloudformation:eu-west-1:000000000000:stack/gatewright-dev/0, and deploy again"
	if got := err.Error(); strings.Contains(got, "\n") || !strings.Contains(got, want) {
		t.Errorf("deploy() = %q, want one line with %q", got, want)
	}
}

// TestStackOfSomebodyElseIsNotTakenForTheFailedOne that was shown.
func TestStackOfSomebodyElseIsNotTakenForTheFailedOne(t *testing.T) {
	f := ready()
	f.status = types.StackStatusRollbackComplete
	steps, _, err := f.run(t, whole, false, func(d *deployment) {
		d.images = func(context.Context) error {
			f.status, f.template, f.protected, f.id = types.StackStatusCreateComplete, whole, true, f.id+1
			return nil
		}
	})
	if !errors.Is(err, errRefused) || strings.Contains(steps, "deploy") || !f.protected {
		t.Errorf("deploy() = %v with the steps %q, protected %v, want a refusal, no deploy and true", err, steps, f.protected)
	}
}

// TestStackThatCouldNotBeDeletedIsNotDeployedTo: CloudFormation would refuse the update, and the line says how to go on.
func TestStackThatCouldNotBeDeletedIsNotDeployedTo(t *testing.T) {
	f := ready()
	f.status = types.StackStatusDeleteFailed
	steps, _, err := f.run(t, whole, false)
	if !errors.Is(err, errRefused) || steps != "synth" {
		t.Fatalf("deploy() = %v with the steps %q, want a refusal after synth", err, steps)
	}
	const want = "gatewright-dev is DELETE_FAILED: CloudFormation could not delete all of it, and does not update it: type aws cloudformation describe-stack-events --region eu-west-1 --stack-name gatewright-dev to see why, " +
		"remove the cause, and type aws cloudformation delete-stack --region eu-west-1 --stack-name gatewright-dev"
	if got := err.Error(); got != want {
		t.Errorf("deploy() = %q, want %q", got, want)
	}
}
