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

// live is the alias of each function that everything calls: it leads to one published version,
// in which code and configuration belong together.
const live = "live"

// canary has a version take a tenth of the calls for five minutes, and all of them then.
const canary = "CodeDeployDefault.LambdaCanary10Percent5Minutes"

// newLive publishes a version of the function, and has the alias lead to it.
//
// A version is published once: another logical id makes another one, which follows from all the
// properties of the function, the digest of its code among them. The one before is removed when
// nothing leads to it any more, at the end of an update.
func (f *function) newLive(scope constructs.Construct, properties *awslambda.CfnFunctionProps) {
	text, err := json.Marshal(awscdk.Stack_Of(scope).Resolve(properties))
	if err != nil {
		panic(fmt.Sprintf("infra: %v", err)) // it comes from JSON
	}
	id := exported(f.name)
	version := awslambda.NewCfnVersion(scope, jsii.String(id+"Version"+digest(string(text))), &awslambda.CfnVersionProps{
		FunctionName: f.resource.Ref(),
	})
	f.alias = awslambda.NewCfnAlias(scope, jsii.String(id+"Live"), &awslambda.CfnAliasProps{
		FunctionName: f.resource.Ref(), FunctionVersion: version.AttrVersion(), Name: jsii.String(live),
	})
}

// newReleases has CodeDeploy lead the aliases to other versions, by and by, and back at once when an
// alarm of the function is on, which fails the update of the stack.
//
// The alarms are those that the function has anyway, and so tell of the version before as well: an
// alarm that is on before refuses the release. Alarms of a version's own would be two more for each function,
// which are some five dollars a month (docs/cost.md). Without the canary of the context a release
// asks no alarm.
//
// Before a version gets traffic, CodeDeploy calls the hook (newHook), which calls the version once. Aliases that are created are not moved
// by CodeDeploy, so that nothing calls the hook then.
//
// It stands in a nested stack: with it the installation's own would come near CloudFormation's 500 resources.
func newReleases(root constructs.Construct, s Settings, d data, fs []*function) {
	if s.Emulator != "" {
		return // neither has CodeDeploy
	}
	scope := awscdk.NewNestedStack(root, jsii.String("Releases"), &awscdk.NestedStackProps{
		Description: jsii.String("How functions are released"),
	})
	newHook(scope, s, d, fs)
	name := "gatewright-" + s.Stage
	application := awscodedeploy.NewCfnApplication(scope, jsii.String("Application"), &awscodedeploy.CfnApplicationProps{
		ApplicationName: &name, ComputePlatform: jsii.String("Lambda"),
	})
	for _, f := range fs {
		var alarms []any
		for _, a := range f.alarms {
			alarms = append(alarms, &awscodedeploy.CfnDeploymentGroup_AlarmProperty{Name: a.Ref()})
		}
		awscodedeploy.NewCfnDeploymentGroup(scope, jsii.String(exported(f.name)+"Release"), &awscodedeploy.CfnDeploymentGroupProps{
			ApplicationName: application.Ref(), DeploymentGroupName: jsii.String(f.name), ServiceRoleArn: newReleaseRole(scope, s, f).AttrArn(),
			DeploymentConfigName: jsii.String(canary),
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

// newReleaseRole makes the role under which CodeDeploy moves the alias of this function and no other, and calls the hook.
func newReleaseRole(scope constructs.Construct, s Settings, f *function) awsiam.CfnRole {
	name := f.fullName
	alias := arnOf("lambda", "function:"+name+":"+live)
	return awsiam.NewCfnRole(scope, jsii.String(exported(f.name)+"ReleaseRole"), &awsiam.CfnRoleProps{
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
					// Whether the version has instances kept ready, which none of ours has.
					allow([]any{"lambda:GetProvisionedConcurrencyConfig"}, alias),
					// It is asked for several at once, for which the service takes no single one.
					allow([]any{"cloudwatch:DescribeAlarms"}, arnOf("cloudwatch", "alarm:*")),
					allow([]any{"lambda:InvokeFunction"}, arnOf("lambda", "function:"+s.functionName(releasecheck.Function.Name))),
				},
			},
		}},
	})
}
