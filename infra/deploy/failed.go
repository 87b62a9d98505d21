package main

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/gatewright/gatewright/infra/removals"
)

// cloudFormation is the part of CloudFormation's client that a deployment calls.
type cloudFormation interface {
	removals.CloudFormation
	UpdateTerminationProtection(context.Context, *cloudformation.UpdateTerminationProtectionInput,
		...func(*cloudformation.Options)) (*cloudformation.UpdateTerminationProtectionOutput, error)
}

var _ cloudFormation = (*cloudformation.Client)(nil)

// unprotect switches off the termination protection of a stack whose creation failed. The CDK switches the protection
// on before CloudFormation creates anything. In the next deployment the CDK deletes the failed stack, which the
// protection would prevent, and protects the new stack.
//
// unprotect affects no stack that has ever been deployed: such a stack has another status, and the call names the
// failed stack by its ARN, which no other stack has. A stack that is REVIEW_IN_PROGRESS stays protected, because the
// CDK continues with that stack and deletes nothing.
func (d deployment) unprotect(ctx context.Context, failed *removals.Failed) error {
	if failed == nil || !failed.Protected {
		return nil
	}
	currentRegion, err := d.region(ctx)
	if err != nil {
		return err
	}
	account, err := d.connectAWS(ctx, currentRegion)
	if err != nil {
		return err
	}
	if _, err := account.stacks.UpdateTerminationProtection(ctx,
		&cloudformation.UpdateTerminationProtectionInput{
			StackName:                   &failed.ID,
			EnableTerminationProtection: aws.Bool(false),
		}); err != nil {
		return refuse("the termination protection of the failed stack could not be switched off (%s): have somebody type "+
			"aws cloudformation update-termination-protection --no-enable-termination-protection --region %s --stack-name %s, "+
			"and deploy again",
			oneLine(err), currentRegion, failed.ID)
	}
	_, err = fmt.Fprintf(d.out, "The termination protection of the failed %s is off, so that the stack can be deleted.\n",
		d.stackName())
	return err
}

// retainedType is a type of resource that can be left when a stack is deleted.
type retainedType struct {
	kind string
	// nameProperty is the property that sets the name of a resource.
	nameProperty string
	// remove says how to remove a resource, with %[1]s for its name and %[2]s for the region.
	remove string
}

var retainedTypes = []retainedType{
	{
		kind: bucketType, nameProperty: "BucketName",
		remove: "empty it, old versions too, and type aws s3api delete-bucket --region %[2]s --bucket %[1]s",
	},
	{
		kind: logGroupType, nameProperty: "LogGroupName",
		remove: "type aws logs delete-log-group --region %[2]s --log-group-name %[1]s",
	},
	{kind: "AWS::DynamoDB::Table", nameProperty: "TableName", remove: removeTable},
	{kind: "AWS::DynamoDB::GlobalTable", nameProperty: "TableName", remove: removeTable},
	{kind: "AWS::KMS::Key", remove: "type aws kms schedule-key-deletion --region %[2]s --key-id %[1]s"},
	// This is the role for access logs, which API Gateway uses until another role is set.
	{kind: "AWS::IAM::Role", remove: "wait until aws apigateway get-account --region %[2]s names another role, and type " +
		"aws iam detach-role-policy --role-name %[1]s --policy-arn " +
		"$(aws iam list-attached-role-policies --role-name %[1]s --query 'AttachedPolicies[].PolicyArn' --output text) && " +
		"aws iam delete-role --role-name %[1]s"},
}

const removeTable = "type aws dynamodb update-table --region %[2]s --table-name %[1]s " +
	"--no-deletion-protection-enabled && aws dynamodb delete-table --region %[2]s --table-name %[1]s"

// leftoverFindings returns a finding for each resource of a failed stack whose name the next stack needs, and reports
// the other resources that the failed stack leaves. With RetainExceptOnCreate, CloudFormation deletes the created
// resources when the creation of a stack fails. Resources that it could not delete, such as a table with deletion
// protection, are kept when the failed stack is deleted.
func leftoverFindings(ctx context.Context, p preflight) (findings []string, err error) {
	if p.deployed.Failed == nil {
		return nil, nil
	}
	all, err := p.leftovers(ctx, p.deployed.Failed.ID, "")
	for _, l := range all {
		if l.nameNeeded {
			findings = append(findings, fmt.Sprintf("the failed stack has left %s, whose name the next one needs: look at "+
				"what is in it, %s, and deploy again", l.label, l.remove))
		} else {
			_, _ = fmt.Fprintf(p.out, "The failed stack leaves %s behind, which the next one does not use. To remove it, %s.\n",
				l.label, l.remove)
		}
	}
	return findings, err
}

// leftover is a resource that is kept when its failed stack is deleted.
type leftover struct {
	// id is the name in AWS. label is the type followed by the id, for messages. remove says how to remove the resource.
	id, label, remove string
	// nameNeeded reports whether the planned resource has the same name.
	nameNeeded bool
}

// leftovers returns the resources that are kept when a failed stack and its nested stacks are deleted. nestedPath is
// the path of the stack in the planned templates.
func (p preflight) leftovers(ctx context.Context, stack, nestedPath string) (out []leftover, err error) {
	pages := cloudformation.NewListStackResourcesPaginator(p.account.stacks,
		&cloudformation.ListStackResourcesInput{StackName: &stack})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.StackResourceSummaries {
			kind, logicalID := aws.ToString(r.ResourceType), aws.ToString(r.LogicalResourceId)
			id := aws.ToString(r.PhysicalResourceId)
			if id == "" || r.ResourceStatus == types.ResourceStatusDeleteComplete {
				continue
			}
			if kind == "AWS::CloudFormation::Stack" {
				nested, err := p.leftovers(ctx, id, path.Join(nestedPath, logicalID))
				if err != nil {
					return nil, err
				}
				out = append(out, nested...)
				continue
			}
			planned := p.planned.Templates[nestedPath].Resources[logicalID]
			for _, rt := range retainedTypes {
				if kind != rt.kind || planned.Type == kind && !strings.HasPrefix(planned.DeletionPolicy, "Retain") {
					continue
				}
				out = append(out, leftover{
					id: id, label: "the " + kind + " " + id, remove: fmt.Sprintf(rt.remove, id, p.region),
					nameNeeded: planned.Type == kind && sameInEachStack(planned.Properties[rt.nameProperty]),
				})
			}
		}
	}
	return out, nil
}

// sameInEachStack reports whether each stack from a template uses the same name for a resource. name is the value of
// the name property in the template, or nil. A name that contains the stack's id differs in each stack.
func sameInEachStack(name any) bool {
	return name != nil && !strings.Contains(fmt.Sprint(name), "AWS::StackId")
}
