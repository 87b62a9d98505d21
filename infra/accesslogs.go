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

// accessLine returns the format of a line in the access log of an API. API Gateway logs each request, even a request
// that reaches no function because it exceeds a throttle or cannot be parsed. The only value in a line that a client
// chooses is the method. A line has no path, query, header, address or user agent, and no $context.error.message, which
// repeats headers. It has the route in place of the path.
func accessLine() *string {
	line, err := json.Marshal(map[string]string{
		"time": "$context.requestTime", "requestId": "$context.requestId", "method": "$context.httpMethod",
		"route":  "$context.resourcePath",
		"status": "$context.status", "answeredBy": "$context.error.responseType",
		"functionStatus": "$context.integration.status",
		"milliseconds":   "$context.responseLatency", "bytes": "$context.responseLength",
	})
	if err != nil {
		panic(fmt.Sprintf("infra: %v", err)) // cannot happen: a map of texts always has a JSON form
	}
	return jsii.String(string(line))
}

// These are values of Settings.AccessLogs. With own, the stack sets the role under which API Gateway writes logs. With
// none, there are no access logs.
const (
	accessLogsOwnRole = "own"
	accessLogsNone    = "none"
)

// addAccessLog creates the log group for the access log of an API and, unless access logs are off, adds it to stage. It
// returns the resource that has to exist before the stage, or nil.
func addAccessLog(api restAPI, s Settings, name string, stage *awsapigateway.CfnStageProps) constructs.IDependable {
	logs := newAccessLogGroup(api.scope, s, name)
	if logs == nil || s.AccessLogs == accessLogsNone {
		return nil
	}
	stage.AccessLogSetting = &awsapigateway.CfnStage_AccessLogSettingProperty{
		DestinationArn: logs.AttrArn(),
		Format:         accessLine(),
	}
	if s.AccessLogs != accessLogsOwnRole {
		return nil
	}
	return newLogWriterRole(awscdk.Stack_Of(api.scope))
}

// newAccessLogGroup creates the log group for the access log of an API, even while access logs are off. If the stack
// left the log out, AWS would keep it, and its name would be in use when access logs are switched on again. It returns
// nil for an emulator.
func newAccessLogGroup(scope constructs.Construct, s Settings, name string) awslogs.CfnLogGroup {
	if s.Emulator != "" {
		return nil
	}
	return newLogGroup(scope, s, "AccessLogs", jsii.Sprintf("/aws/apigateway/gatewright-%s-%s", s.Stage, name))
}

// newLogWriterRole creates the role under which API Gateway writes logs, and the resource that sets the role in API
// Gateway. It returns this resource. If the stack already contains the resource, it creates nothing. The setting
// applies to all APIs of the account and the region. The role and the setting are therefore kept when the stack is
// deleted: other installations may use them by then.
func newLogWriterRole(stack awscdk.Stack) constructs.IDependable {
	if existing := stack.Node().TryFindChild(jsii.String("LogWriter")); existing != nil {
		return existing
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
		ManagedPolicyArns: &[]any{
			awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs"),
				nil),
		},
	})
	account := awsapigateway.NewCfnAccount(stack, jsii.String("LogWriter"),
		&awsapigateway.CfnAccountProps{CloudWatchRoleArn: role.AttrArn()})
	// The role and the setting are also kept if the creation of the stack fails: CloudFormation does not reset the
	// setting, which would then name a deleted role.
	for _, retained := range []awscdk.CfnResource{role, account} {
		retained.ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN, nil)
	}
	return account
}
