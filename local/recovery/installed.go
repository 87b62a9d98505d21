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

	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/store"
)

// installed are the services that have an installation, as far as they are asked.
type installed struct {
	region    string
	stacks    *cloudformation.Client
	tables    *dynamodb.Client
	items     *dynamodb.Client // as store.Table asks: once, which it repeats itself
	functions *lambda.Client
	objects   *s3.Client
	keys      *kms.Client
}

// open makes clients by the environment's credentials. It makes no request.
func open(getenv func(string) string) (installed, error) {
	sdk, err := cloud.SDK(getenv)
	if err != nil {
		return installed{}, err
	}
	return installed{
		region: sdk.Region,
		stacks: cloudformation.NewFromConfig(sdk), tables: dynamodb.NewFromConfig(sdk), items: store.Connect(sdk, aws.ToString(sdk.BaseEndpoint)),
		functions: lambda.NewFromConfig(sdk), keys: kms.NewFromConfig(sdk),
		objects: s3.NewFromConfig(sdk, func(o *s3.Options) { o.UsePathStyle = sdk.BaseEndpoint != nil }),
	}, nil
}

// stack is what an installation is, as CloudFormation knows it.
type stack struct {
	name, status string
	// table, bucket and key are the names of its parts; stream is the restored table's that it goes on
	// with, "" where it has a table of its own.
	table, bucket, key, stream string
	// functions are the names of its functions, without that of the gateway.
	functions []string
	gateway   string
	// services are the ARNs of its services of ECS.
	services []string
}

// stackOf looks at the stack of a stage.
func (a installed) stackOf(ctx context.Context, stage string) (s stack, err error) {
	s.name = "gatewright-" + stage
	out, err := a.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &s.name})
	if code(err) == "ValidationError" || err == nil && len(out.Stacks) == 0 {
		return s, fmt.Errorf("there is no stack %s in %s: check STAGE and AWS_REGION", s.name, a.region)
	}
	if err != nil {
		return s, fmt.Errorf("look at the stack %s: %w", s.name, err)
	}
	s.status = string(out.Stacks[0].StackStatus)
	outputs := map[string]*string{"TableName": &s.table, "BucketName": &s.bucket, "RootKeyId": &s.key, "TableStream": &s.stream}
	for _, o := range out.Stacks[0].Outputs {
		if to := outputs[aws.ToString(o.OutputKey)]; to != nil {
			*to = aws.ToString(o.OutputValue)
		}
	}
	if s.table == "" || s.bucket == "" || s.key == "" {
		return s, fmt.Errorf("the stack %s has no TableName, BucketName and RootKeyId: it is none of ours, or has never been deployed whole", s.name)
	}
	pages := cloudformation.NewListStackResourcesPaginator(a.stacks, &cloudformation.ListStackResourcesInput{StackName: &s.name})
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

// code is AWS's name for an error, "" for what is none of AWS's.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// missing reports whether AWS does not know what it was asked about.
func missing(err error) bool {
	return strings.Contains(code(err), "NotFound")
}
