package main

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// accessLine is what API Gateway logs of each request, also of one that never reaches a function: one beyond a throttle, or one that it cannot
// read. It has nothing that a client chooses but the method: no path, query, header, address or user agent, and no $context.error.message, which repeats
// headers. A path is named by its route.
func accessLine() *string {
	line, err := json.Marshal(map[string]string{
		"time": "$context.requestTime", "requestId": "$context.requestId", "method": "$context.httpMethod", "route": "$context.resourcePath",
		"status": "$context.status", "answeredBy": "$context.error.responseType", "functionStatus": "$context.integrationStatus",
		"milliseconds": "$context.responseLatency", "bytes": "$context.responseLength",
	})
	if err != nil {
		panic(fmt.Sprintf("infra: %v", err)) // these are texts
	}
	return jsii.String(string(line))
}

// Who sets the role under which API Gateway writes logs.
const (
	ownLogWriter = "own"
	noAccessLogs = "none"
)

// newAccessLogs has the stage of an API log its requests, and returns what has to be there before the stage, nil for nothing.
func newAccessLogs(f front, s Settings, name string, stage *awsapigateway.CfnStageProps) constructs.IDependable {
	logs := newAccessLog(f.scope, s, name)
	if logs == nil || s.AccessLogs == noAccessLogs {
		return nil
	}
	stage.AccessLogSetting = &awsapigateway.CfnStage_AccessLogSettingProperty{DestinationArn: logs.AttrArn(), Format: accessLine()}
	if s.AccessLogs != ownLogWriter {
		return nil
	}
	return newLogWriter(awscdk.Stack_Of(f.scope))
}

// newAccessLog makes the log of an API, also if nothing writes it at present: its name is in nobody's way when something does again. It is nil for
// an emulator.
func newAccessLog(scope constructs.Construct, s Settings, name string) awslogs.CfnLogGroup {
	if s.Emulator != "" {
		return nil
	}
	return newLogs(scope, s, "AccessLogs", jsii.Sprintf("/aws/apigateway/gatewright-%s-%s", s.Stage, name))
}

// newLogWriter makes the role under which API Gateway writes logs, and tells API Gateway of it. The role is a setting of the account and the region, which
// all APIs there share. So both stay when the stack goes: other installations may have come to write under this role.
func newLogWriter(stack awscdk.Stack) constructs.IDependable {
	if made := stack.Node().TryFindChild(jsii.String("LogWriter")); made != nil {
		return made
	}
	role := awsiam.NewCfnRole(stack, jsii.String("LogWriterRole"), &awsiam.CfnRoleProps{
		Description: jsii.String("What API Gateway may do to write access logs in this account and region"),
		AssumeRolePolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{map[string]any{
				"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": map[string]any{"Service": "apigateway.amazonaws.com"},
			}},
		},
		// API Gateway asks for this policy by its name when it is told of the role.
		ManagedPolicyArns: &[]any{awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"), nil)},
	})
	account := awsapigateway.NewCfnAccount(stack, jsii.String("LogWriter"), &awsapigateway.CfnAccountProps{CloudWatchRoleArn: role.AttrArn()})
	for _, kept := range []awscdk.CfnResource{role, account} {
		kept.ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE, nil)
	}
	return account
}
