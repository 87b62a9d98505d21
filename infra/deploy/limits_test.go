package main

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// limits are the concurrency of a Lambda account: all of it, and what no function reserves.
func limits(limit, unreserved int32) *lambda.GetAccountSettingsOutput {
	return &lambda.GetAccountSettingsOutput{AccountLimit: &types.AccountLimit{ConcurrentExecutions: limit, UnreservedConcurrentExecutions: aws.Int32(unreserved)}}
}
