package main

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscodedeploy"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/functions/releasecheck"
)

// liveAlias is the alias that all callers of a function use. It points to one published version, which consists of code
// and configuration. Only the hook has no alias (newHook).
const liveAlias = "live"

// canaryConfig directs a tenth of the calls to a new version for five minutes, and then all calls.
const canaryConfig = "CodeDeployDefault.LambdaCanary10Percent5Minutes"

// publishVersion publishes a version of the function and points the alias to it.
//
// CloudFormation publishes a version when a template contains a version with a new logical id. The logical id is
// derived from all properties of the function, including the digest of its code. The old version is deleted at the end
// of an update, when the alias no longer points to it.
func (f *function) publishVersion(scope constructs.Construct, properties *awslambda.CfnFunctionProps) {
	text, err := json.Marshal(awscdk.Stack_Of(scope).Resolve(properties))
	if err != nil {
		panic(fmt.Sprintf("infra: %v", err)) // Resolve returns only values of JSON
	}
	id := logicalID(f.name)
	version := awslambda.NewCfnVersion(scope, jsii.String(id+"Version"+shortDigest(string(text))),
		&awslambda.CfnVersionProps{
			FunctionName: f.resource.Ref(),
		})
	f.alias = awslambda.NewCfnAlias(scope, jsii.String(id+"Live"), &awslambda.CfnAliasProps{
		FunctionName: f.resource.Ref(), FunctionVersion: version.AttrVersion(), Name: jsii.String(liveAlias),
	})
}

// newReleases lets CodeDeploy move the aliases to new versions step by step. If an alarm of the function rings,
// CodeDeploy moves the alias back immediately, and the update of the stack fails.
//
// The alarms are the function's regular ones, and so include failures of the old version: an alarm that already rings
// prevents the release. Separate alarms for the new version would be two more per function, and cost about five dollars
// a month (docs/cost.md). With the setting canary=false, CloudFormation moves the aliases itself: a release ignores
// alarms, and nothing calls the hook.
//
// Before a version gets traffic, CodeDeploy calls the hook (newHook), which calls the version. CodeDeploy does not move
// aliases that are being created, so nothing calls the hook then.
//
// The resources are in a nested stack, because the installation's own stack would otherwise come near CloudFormation's
// limit of 500 resources.
func newReleases(root constructs.Construct, s Settings, d data, fns []*function) {
	if s.Emulator != "" {
		return // emulators have no CodeDeploy
	}
	scope := awscdk.NewNestedStack(root, jsii.String("Releases"), &awscdk.NestedStackProps{
		Description: jsii.String("How functions are released"),
	})
	newHook(scope, s, d, fns)
	name := "gatewright-" + s.Stage
	application := awscodedeploy.NewCfnApplication(scope, jsii.String("Application"), &awscodedeploy.CfnApplicationProps{
		ApplicationName: &name, ComputePlatform: jsii.String("Lambda"),
	})
	for _, f := range fns {
		var alarms []any
		for _, a := range f.alarms {
			alarms = append(alarms, &awscodedeploy.CfnDeploymentGroup_AlarmProperty{Name: a.Ref()})
		}
		awscodedeploy.NewCfnDeploymentGroup(scope, jsii.String(logicalID(f.name)+"Release"),
			&awscodedeploy.CfnDeploymentGroupProps{
				ApplicationName: application.Ref(), DeploymentGroupName: jsii.String(f.name),
				ServiceRoleArn:       newReleaseRole(scope, s, f).AttrArn(),
				DeploymentConfigName: jsii.String(canaryConfig),
				DeploymentStyle: &awscodedeploy.CfnDeploymentGroup_DeploymentStyleProperty{
					DeploymentType: jsii.String("BLUE_GREEN"), DeploymentOption: jsii.String("WITH_TRAFFIC_CONTROL"),
				},
				AlarmConfiguration: &awscodedeploy.CfnDeploymentGroup_AlarmConfigurationProperty{
					Alarms: &alarms, Enabled: jsii.Bool(true), IgnorePollAlarmFailure: jsii.Bool(false),
				},
				AutoRollbackConfiguration: &awscodedeploy.CfnDeploymentGroup_AutoRollbackConfigurationProperty{
					Enabled: jsii.Bool(true),
					Events:  jsii.Strings("DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM", "DEPLOYMENT_STOP_ON_REQUEST"),
				},
			})
		f.alias.Node().AddDependency(scope)
		if s.Canary {
			f.alias.CfnOptions().SetUpdatePolicy(&awscdk.CfnUpdatePolicy{
				CodeDeployLambdaAliasUpdate: &awscdk.CfnCodeDeployLambdaAliasUpdate{
					ApplicationName: &name, DeploymentGroupName: jsii.String(f.name),
					BeforeAllowTrafficHook: jsii.String(s.functionName(releasecheck.Function.Name)),
				},
			})
		}
	}
}

// newReleaseRole creates the role under which CodeDeploy moves the function's alias and calls the hook.
func newReleaseRole(scope constructs.Construct, s Settings, f *function) awsiam.CfnRole {
	name := f.fullName
	alias := arnOf("lambda", "function:"+name+":"+liveAlias)
	return awsiam.NewCfnRole(scope, jsii.String(logicalID(f.name)+"ReleaseRole"), &awsiam.CfnRoleProps{
		Description: jsii.Sprintf("What CodeDeploy may do to release %s", name),
		AssumeRolePolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{map[string]any{
				"Effect": "Allow", "Action": "sts:AssumeRole",
				"Principal": map[string]any{"Service": "codedeploy.amazonaws.com"},
				"Condition": map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": awscdk.Aws_ACCOUNT_ID()}},
			}},
		},
		Policies: &[]any{&awsiam.CfnRole_PolicyProperty{
			PolicyName: jsii.String("release"),
			PolicyDocument: map[string]any{
				"Version": "2012-10-17",
				"Statement": []any{
					allow([]any{"lambda:GetAlias", "lambda:UpdateAlias"}, arnOf("lambda", "function:"+name), alias),
					// CodeDeploy checks whether the version has provisioned concurrency. The installation's versions
					// have none.
					allow([]any{"lambda:GetProvisionedConcurrencyConfig"}, alias),
					// This action reads several alarms at once and cannot be limited to one.
					allow([]any{"cloudwatch:DescribeAlarms"}, arnOf("cloudwatch", "alarm:*")),
					allow([]any{"lambda:InvokeFunction"}, arnOf("lambda", "function:"+s.functionName(releasecheck.Function.Name))),
				},
			},
		}},
	})
}
