package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
)

// clients has the clients of the AWS services that an installation uses.
type clients struct {
	region    string
	stacks    *cloudformation.Client
	tables    *dynamodb.Client
	items     *dynamodb.Client // for store.Table: without retries of the SDK, because store.Table retries itself
	functions *lambda.Client
	objects   *s3.Client
	kms       *kms.Client
}

// newClients creates the clients with the credentials of the environment. It sends no request.
func newClients(getenv func(string) string) (clients, error) {
	sdk, err := cloud.SDK(getenv)
	if err != nil {
		return clients{}, err
	}
	return clients{
		region: sdk.Region,
		stacks: cloudformation.NewFromConfig(sdk), tables: dynamodb.NewFromConfig(sdk),
		items:     store.Connect(sdk, aws.ToString(sdk.BaseEndpoint)),
		functions: lambda.NewFromConfig(sdk), kms: kms.NewFromConfig(sdk),
		objects: s3.NewFromConfig(sdk, func(o *s3.Options) { o.UsePathStyle = sdk.BaseEndpoint != nil }),
	}, nil
}

// stack describes the stack of an installation, as CloudFormation returns it.
type stack struct {
	name, status string
	// table, bucket and key are the names of the stack's resources. If the stack uses a restored table, stream is the
	// ARN of that table's stream. It is "" if the stack uses its own table.
	table, bucket, key, stream string
	// functions are the names of the stack's functions, without the gateway's function. gateway is the name of the
	// gateway's function, or "" if the stack has none.
	functions []string
	gateway   string
	// services are the ARNs of the stack's ECS services.
	services []string
}

// stackOf reads the stack of a stage.
func (c clients) stackOf(ctx context.Context, stage string) (s stack, err error) {
	s.name = "gatewright-" + stage
	out, err := c.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &s.name})
	if errorCode(err) == "ValidationError" || err == nil && len(out.Stacks) == 0 {
		return s, fmt.Errorf("there is no stack %s in %s: check STAGE and AWS_REGION", s.name, c.region)
	}
	if err != nil {
		return s, fmt.Errorf("look at the stack %s: %w", s.name, err)
	}
	s.status = string(out.Stacks[0].StackStatus)
	outputs := map[string]*string{
		"TableName": &s.table, "BucketName": &s.bucket, "RootKeyId": &s.key,
		"TableStream": &s.stream,
	}
	for _, o := range out.Stacks[0].Outputs {
		if dst := outputs[aws.ToString(o.OutputKey)]; dst != nil {
			*dst = aws.ToString(o.OutputValue)
		}
	}
	if s.table == "" || s.bucket == "" || s.key == "" {
		return s, fmt.Errorf("the stack %s has no TableName, BucketName and RootKeyId: it is none of ours, or has never "+
			"been deployed whole", s.name)
	}
	pages := cloudformation.NewListStackResourcesPaginator(c.stacks,
		&cloudformation.ListStackResourcesInput{StackName: &s.name})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return s, fmt.Errorf("list what the stack %s has: %w", s.name, err)
		}
		for _, r := range page.StackResourceSummaries {
			name := aws.ToString(r.PhysicalResourceId)
			switch {
			case aws.ToString(r.ResourceType) == "AWS::ECS::Service":
				s.services = append(s.services, name)
			case aws.ToString(r.ResourceType) != "AWS::Lambda::Function":
			case name == s.name+"-gateway":
				s.gateway = name
			default:
				s.functions = append(s.functions, name)
			}
		}
	}
	return s, nil
}

// errorCode returns the AWS error code of an error, "" for other errors.
func errorCode(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// isNotFound reports whether an error says that AWS does not have the requested resource.
func isNotFound(err error) bool {
	return strings.Contains(errorCode(err), "NotFound")
}
