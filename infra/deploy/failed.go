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

// cloudFormation is what a deployment asks of CloudFormation.
type cloudFormation interface {
	removals.CloudFormation
	UpdateTerminationProtection(context.Context, *cloudformation.UpdateTerminationProtectionInput, ...func(*cloudformation.Options)) (*cloudformation.UpdateTerminationProtectionOutput, error)
}

var _ cloudFormation = (*cloudformation.Client)(nil)

// unprotect switches off the termination protection of a stack whose creation failed. The CDK switches the protection on before CloudFormation
// creates anything. In the next deployment it deletes the failed stack, which the protection would prevent, and protects the new stack.
//
// No stack that has ever been deployed is affected: its status is another one, and the call names the failed stack by its ARN, which no other
// stack has. A stack that is REVIEW_IN_PROGRESS stays protected, because the CDK continues with that stack and deletes nothing.
func (d deployment) unprotect(ctx context.Context, failed *removals.Failed) error {
	if failed == nil || !failed.Protected {
		return nil
	}
	here, err := d.region(ctx)
	if err != nil {
		return err
	}
	account, err := d.aws(ctx, here)
	if err != nil {
		return err
	}
	if _, err := account.stacks.UpdateTerminationProtection(ctx, &cloudformation.UpdateTerminationProtectionInput{StackName: &failed.ID, EnableTerminationProtection: aws.Bool(false)}); err != nil {
		return refuse("the termination protection of the failed stack could not be switched off (%s): have somebody type aws cloudformation update-termination-protection --no-enable-termination-protection --region %s --stack-name %s, and deploy again",
			oneLine(err), here, failed.ID)
	}
	_, err = fmt.Fprintf(d.out, "The termination protection of the failed %s is off, so that the stack can be deleted.\n", d.stack())
	return err
}

// retained is a type of resource that a stack can leave behind.
type retained struct {
	kind string
	// nameProperty is the property that sets the name of a resource.
	nameProperty string
	// remove is how to remove a resource, with %[1]s for its name and %[2]s for the region.
	remove string
}

var retainedTypes = []retained{
	{kind: bucketType, nameProperty: "BucketName", remove: "empty it, old versions too, and type aws s3api delete-bucket --region %[2]s --bucket %[1]s"},
	{kind: logGroupType, nameProperty: "LogGroupName", remove: "type aws logs delete-log-group --region %[2]s --log-group-name %[1]s"},
	{kind: "AWS::DynamoDB::Table", nameProperty: "TableName", remove: removeTable},
	{kind: "AWS::DynamoDB::GlobalTable", nameProperty: "TableName", remove: removeTable},
	{kind: "AWS::KMS::Key", remove: "type aws kms schedule-key-deletion --region %[2]s --key-id %[1]s"},
	// The role for access logs, which API Gateway uses until another one is set.
	{kind: "AWS::IAM::Role", remove: "wait until aws apigateway get-account --region %[2]s names another role, and type aws iam detach-role-policy --role-name %[1]s --policy-arn " +
		"$(aws iam list-attached-role-policies --role-name %[1]s --query 'AttachedPolicies[].PolicyArn' --output text) && aws iam delete-role --role-name %[1]s"},
}

const removeTable = "type aws dynamodb update-table --region %[2]s --table-name %[1]s --no-deletion-protection-enabled && aws dynamodb delete-table --region %[2]s --table-name %[1]s"

// remains refuses a deployment if a failed stack has left a resource whose name the next stack needs, and reports the other resources that it
// leaves behind. With RetainExceptOnCreate, CloudFormation deletes what it has created when the creation of a stack fails. What it could not
// delete then, such as a table with deletion protection, it keeps when the failed stack is deleted.
func remains(ctx context.Context, p preflight) (findings []string, err error) {
	if p.deployed.Failed == nil {
		return nil, nil
	}
	all, err := p.leftovers(ctx, p.deployed.Failed.ID, "")
	for _, l := range all {
		if l.nameNeeded {
			findings = append(findings, fmt.Sprintf("the failed stack has left %s, whose name the next one needs: look at what is in it, %s, and deploy again", l.name, l.remove))
		} else {
			_, _ = fmt.Fprintf(p.out, "The failed stack leaves %s behind, which the next one does not use. To remove it, %s.\n", l.name, l.remove)
		}
	}
	return findings, err
}

// leftover is a resource that stays when its failed stack is deleted.
type leftover struct {
	// id is what AWS calls it, and name has the type before that.
	id, name, remove string
	// nameNeeded reports whether the planned resource has the same name.
	nameNeeded bool
}

// leftovers returns what a failed stack and the stacks nested in it leave behind. at is the path of the stack in the planned templates.
func (p preflight) leftovers(ctx context.Context, stack, at string) (out []leftover, err error) {
	pages := cloudformation.NewListStackResourcesPaginator(p.account.stacks, &cloudformation.ListStackResourcesInput{StackName: &stack})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.StackResourceSummaries {
			kind, name, id := aws.ToString(r.ResourceType), aws.ToString(r.PhysicalResourceId), aws.ToString(r.LogicalResourceId)
			if name == "" || r.ResourceStatus == types.ResourceStatusDeleteComplete {
				continue
			}
			if kind == "AWS::CloudFormation::Stack" {
				nested, err := p.leftovers(ctx, name, path.Join(at, id))
				if err != nil {
					return nil, err
				}
				out = append(out, nested...)
				continue
			}
			planned := p.planned.Templates[at].Resources[id]
			for _, of := range retainedTypes {
				if kind != of.kind || planned.Type == kind && !strings.HasPrefix(planned.DeletionPolicy, "Retain") {
					continue
				}
				out = append(out, leftover{
					id: name, name: "the " + kind + " " + name, remove: fmt.Sprintf(of.remove, name, p.region),
					nameNeeded: planned.Type == kind && sameInEachStack(planned.Properties[of.nameProperty]),
				})
			}
		}
	}
	return out, nil
}

// sameInEachStack reports whether a name is written in the template without the stack's own id.
func sameInEachStack(name any) bool {
	return name != nil && !strings.Contains(fmt.Sprint(name), "AWS::StackId")
}
