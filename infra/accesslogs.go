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

// accessLine returns the format of a line in the access log of an API. API Gateway logs each request, also one that never reaches a function because
// it exceeds a throttle or API Gateway cannot read it. The method is the only thing in a line that a client chooses: there is no path, query, header,
// address or user agent, and no $context.error.message, which repeats headers. The route stands for the path.
func accessLine() *string {
	line, err := json.Marshal(map[string]string{
		"time": "$context.requestTime", "requestId": "$context.requestId", "method": "$context.httpMethod", "route": "$context.resourcePath",
		"status": "$context.status", "answeredBy": "$context.error.responseType", "functionStatus": "$context.integration.status",
		"milliseconds": "$context.responseLatency", "bytes": "$context.responseLength",
	})
	if err != nil {
		panic(fmt.Sprintf("infra: %v", err)) // texts are always valid
	}
	return jsii.String(string(line))
}

// Who sets the role under which API Gateway writes logs.
const (
	ownLogWriter = "own"
	noAccessLogs = "none"
)

// newAccessLogs adds an access log to the stage of an API. It returns the resource that has to exist before the stage, or nil.
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

// newAccessLog creates the log of an API, also if nothing writes to it now: a log that was left out of the stack would be kept, and its name would be
// taken when access logs are switched on again. It returns nil for an emulator.
func newAccessLog(scope constructs.Construct, s Settings, name string) awslogs.CfnLogGroup {
	if s.Emulator != "" {
		return nil
	}
	return newLogs(scope, s, "AccessLogs", jsii.Sprintf("/aws/apigateway/gatewright-%s-%s", s.Stage, name))
}

// newLogWriter creates the role under which API Gateway writes logs, and sets it in API Gateway. The setting is for all APIs of the account and
// the region. So the role and the setting stay when the stack is deleted: other installations may use them by then.
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
		// API Gateway requires this policy, by its name, when the role is set.
		ManagedPolicyArns: &[]any{awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"), nil)},
	})
	account := awsapigateway.NewCfnAccount(stack, jsii.String("LogWriter"), &awsapigateway.CfnAccountProps{CloudWatchRoleArn: role.AttrArn()})
	// Also after a creation that failed: CloudFormation does not reset the setting, which would then name a role that is gone.
	for _, kept := range []awscdk.CfnResource{role, account} {
		kept.ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN, nil)
	}
	return account
}
