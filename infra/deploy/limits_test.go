package main

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
)

// limits returns account settings of Lambda with a quota of concurrency, and with the unreserved part of the quota.
func limits(limit, unreserved int32) *lambda.GetAccountSettingsOutput {
	return &lambda.GetAccountSettingsOutput{AccountLimit: &types.AccountLimit{
		ConcurrentExecutions:           limit,
		UnreservedConcurrentExecutions: aws.Int32(unreserved),
	}}
}
