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

// TestFailedFirstDeploymentIsRepeated checks that the next deployment deletes the failed stack and creates a new one,
// which is protected at the end.
func TestFailedFirstDeploymentIsRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*fakeAccount) // between the two deployments
		want   string
	}{
		"rollback complete": {
			func(*fakeAccount) {},
			"The first deployment of gatewright-dev has failed (ROLLBACK_COMPLETE). Its stack is deleted, and created again.\n",
		},
		"rollback failed": {
			func(f *fakeAccount) {
				addLeftover(f, types.ResourceStatusDeleteComplete, "AWS::S3::Bucket", "Bucket",
					"gatewright-dev-000000000000-eu-west-1")
				addLeftover(f, types.ResourceStatusDeleteFailed, "AWS::DynamoDB::Table", "Table", "gatewright-dev-Table-1")
			},
			"The failed stack leaves the AWS::DynamoDB::Table gatewright-dev-Table-1 behind, which the next one does not use. " +
				"To remove it, type aws dynamodb update-table --region eu-west-1 --table-name gatewright-dev-Table-1 " +
				"--no-deletion-protection-enabled && aws dynamodb delete-table --region eu-west-1 --table-name " +
				"gatewright-dev-Table-1.\n",
		},
		"role for access logs left": {
			func(f *fakeAccount) {
				addLeftover(f, types.ResourceStatusDeleteSkipped, "AWS::IAM::Role", "LogWriterRole",
					"gatewright-dev-LogWriterRole-1")
				addLeftover(f, types.ResourceStatusDeleteComplete, "AWS::IAM::Role", "RollupRole", "gatewright-dev-RollupRole-1")
			},
			"The failed stack leaves the AWS::IAM::Role gatewright-dev-LogWriterRole-1 behind, which the next one does not " +
				"use. To remove it, wait until aws apigateway get-account --region eu-west-1 names another role, and type aws iam " +
				"detach-role-policy --role-name gatewright-dev-LogWriterRole-1 --policy-arn " +
				"$(aws iam list-attached-role-policies --role-name gatewright-dev-LogWriterRole-1 --query " +
				"'AttachedPolicies[].PolicyArn' --output text) && aws iam delete-role --role-name " +
				"gatewright-dev-LogWriterRole-1.\n",
		},
		"log in a nested stack left": {
			func(f *fakeAccount) {
				addLeftover(f, types.ResourceStatusDeleteFailed, "AWS::CloudFormation::Stack", "RelayNestedStack", "arn:nested")
				kind, name := "AWS::Logs::LogGroup", "/aws/ecs/gatewright-dev-relay-0123"
				f.addResource("arn:nested", types.StackResourceSummary{
					ResourceType: &kind, LogicalResourceId: &kind,
					PhysicalResourceId: &name, ResourceStatus: types.ResourceStatusDeleteFailed,
				})
			},
			"behind, which the next one does not use. To remove it, type aws logs delete-log-group --region eu-west-1 " +
				"--log-group-name /aws/ecs/gatewright-dev-relay-0123.\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyAccount()
			if _, _, err := f.run(t, fullTemplate, true); err == nil || f.status != types.StackStatusRollbackComplete ||
				!f.protected {
				t.Fatalf("first deploy() = %v with the stack %s, protected %v, want a failure with ROLLBACK_COMPLETE, protected",
					err, f.status, f.protected)
			}
			tt.change(f)
			steps, output, err := f.run(t, fullTemplate, false)
			if err != nil || steps != "synth images deploy" {
				t.Fatalf("second deploy() = %v with the steps %q, want synth images deploy", err, steps)
			}
			if f.id != 2 || f.status != types.StackStatusUpdateComplete {
				t.Errorf("stack %d has the status %s, want stack 2 with UPDATE_COMPLETE", f.id, f.status)
			}
			if !f.protected {
				t.Error("the new stack is not protected, want termination protection")
			}
			const off = "The termination protection of the failed gatewright-dev is off, so that the stack can be deleted.\n"
			if !strings.Contains(output, off) {
				t.Errorf("output = %q, want %q in it", output, off)
			}
			if !strings.Contains(output, tt.want) {
				t.Errorf("output = %q, want %q in it", output, tt.want)
			}
		})
	}
}

// TestProtectionIsSwitchedOffOnlyForAFailedCreation checks that a deployment switches termination protection off only
// for a stack whose creation failed, and only after the confirmation.
func TestProtectionIsSwitchedOffOnlyForAFailedCreation(t *testing.T) {
	for _, status := range types.StackStatus("").Values() {
		want := status == types.StackStatusRollbackComplete || status == types.StackStatusRollbackFailed
		f := readyAccount()
		f.status, f.protected, f.template = status, true, fullTemplate
		_, output, _ := f.run(t, fullTemplate, false)
		if got := slices.Contains(f.operations, "UpdateTerminationProtection"); got != want {
			t.Errorf("%s: UpdateTerminationProtection was called: %v, want %v; output %q", status, got, want, output)
		}
		if !f.protected {
			t.Errorf("%s: the stack is not protected at the end, want termination protection", status)
		}
	}
	f := readyAccount()
	f.status, f.protected = types.StackStatusRollbackComplete, true
	steps, _, err := f.run(t, fullTemplate, false, func(d *deployment) {
		d.yes, d.terminal, d.in = false, true, strings.NewReader("no\n")
	})
	if !errors.Is(err, errRefused) || steps != "synth" || !f.protected {
		t.Errorf("deploy(answer no) = %v with the steps %q, protected: %v, want a refusal, only synth, and true", err,
			steps, f.protected)
	}
}

// TestBucketDeletedWithItsStackDoesNotBlock checks a bucket without a retention policy: CloudFormation deletes it with
// the failed stack, so its name does not prevent the next deployment.
func TestBucketDeletedWithItsStackDoesNotBlock(t *testing.T) {
	f := readyAccount()
	addLeftover(f, types.ResourceStatusDeleteFailed, "AWS::S3::Bucket", "Bucket", "gatewright-dev-000000000000-eu-west-1")
	steps, output, err := f.run(t, strings.ReplaceAll(fullTemplate, "RetainExceptOnCreate", "Delete"), false)
	if err != nil || strings.Contains(output, "behind") {
		t.Errorf("deploy() = %v with the steps %q, want success, and no \"behind\" in the output %q", err, steps, output)
	}
}

// TestFailureToUnprotectStopsTheDeployment checks that nothing is deployed if the protection of a failed stack cannot
// be switched off, because the CDK could not delete the stack.
func TestFailureToUnprotectStopsTheDeployment(t *testing.T) {
	f := readyAccount()
	f.status, f.protected = types.StackStatusRollbackComplete, true
	f.errs["UpdateTerminationProtection"] = &smithy.GenericAPIError{
		Code:    "AccessDenied",
		Message: "User is not authorized to perform: cloudformation:UpdateTerminationProtection",
	}
	steps, _, err := f.run(t, fullTemplate, false)
	if !errors.Is(err, errRefused) || steps != "synth" {
		t.Fatalf("deploy() = %v with the steps %q, want a refusal after synth", err, steps)
	}
	const want = "have somebody type aws cloudformation update-termination-protection " +
		"--no-enable-termination-protection --region eu-west-1 --stack-name " +
		"arn:aws:cloudformation:eu-west-1:000000000000:stack/gatewright-dev/0, and deploy again"
	if got := err.Error(); strings.Contains(got, "\n") || !strings.Contains(got, want) {
		t.Errorf("deploy() = %q, want one line with %q", got, want)
	}
}

// TestConcurrentlyCreatedStackIsNotDeleted checks that a deployment does not delete a stack that somebody else has
// created after the failed stack was shown.
func TestConcurrentlyCreatedStackIsNotDeleted(t *testing.T) {
	f := readyAccount()
	f.status = types.StackStatusRollbackComplete
	steps, _, err := f.run(t, fullTemplate, false, func(d *deployment) {
		d.uploadImages = func(context.Context) error {
			f.status, f.template, f.protected, f.id = types.StackStatusCreateComplete, fullTemplate, true, f.id+1
			return nil
		}
	})
	if !errors.Is(err, errRefused) || strings.Contains(steps, "deploy") || !f.protected {
		t.Errorf("deploy() = %v with the steps %q, protected %v, want a refusal, no deploy and true", err, steps, f.protected)
	}
}

// TestUndeletedStackIsNotDeployedTo checks the error for a stack whose deletion failed, which CloudFormation would not
// update.
func TestUndeletedStackIsNotDeployedTo(t *testing.T) {
	f := readyAccount()
	f.status = types.StackStatusDeleteFailed
	steps, _, err := f.run(t, fullTemplate, false)
	if !errors.Is(err, errRefused) || steps != "synth" {
		t.Fatalf("deploy() = %v with the steps %q, want a refusal after synth", err, steps)
	}
	const want = "gatewright-dev is DELETE_FAILED: CloudFormation could not delete all of it, and does not update it: " +
		"type aws cloudformation describe-stack-events --region eu-west-1 --stack-name gatewright-dev to see why, " +
		"remove the cause, and type aws cloudformation delete-stack --region eu-west-1 --stack-name gatewright-dev"
	if got := err.Error(); got != want {
		t.Errorf("deploy() = %q, want %q", got, want)
	}
}
