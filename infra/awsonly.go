package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/functions/releasecheck"
	"github.com/gatewright/gatewright/functions/syntheticcheck"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// awsOnly lists the functions that only installations in AWS have. functions.Triggered does not have them, because the
// server does not contain them and emulators do not have the services that call them.
func awsOnly() []trigger.Function {
	return []trigger.Function{
		releasecheck.Function,
		syntheticcheck.Function, // in a separate stack (newCheck)
	}
}

// hookSpec returns the specification of the function that CodeDeploy calls before a version of another function gets
// traffic.
func (s Settings) hookSpec() functionSpec {
	f := releasecheck.Function
	return functionSpec{
		name: f.Name, description: f.Description, uses: f.Uses, access: f.TableAccess, timeout: f.Timeout,
		triggers: f.Events, memoryMB: s.MemoryMB, unversioned: true,
	}
}

// newHook creates the function that CodeDeploy calls before a release. Its role allows it to call each version of the
// installation's functions, and to report the result to CodeDeploy.
//
// CodeDeploy calls the newest code of the hook: the documentation of BeforeAllowTraffic has a function's name, and does
// not mention aliases. The hook reserves no concurrency, because all functions are released at the same time and their
// checks take only some seconds. The hook has no alarms either, because the operator who updates the stack is waiting
// for the result.
func newHook(scope constructs.Construct, s Settings, d data, fns []*function) {
	hook := newFunction(scope, s, d, s.hookSpec())
	var versions []any
	for _, f := range fns {
		versions = append(versions, arnOf("lambda", "function:"+f.fullName+":*"))
	}
	hook.statements = append(hook.statements,
		allow([]any{"codedeploy:GetDeployment", "codedeploy:PutLifecycleEventHookExecutionStatus"},
			arnOf("codedeploy", "deploymentgroup:gatewright-"+s.Stage+"/*")),
		allow([]any{"codedeploy:GetApplicationRevision"}, arnOf("codedeploy", "application:gatewright-"+s.Stage)),
		allow([]any{"lambda:InvokeFunction"}, versions...))
	hook.newPolicy(scope)
}

// arnOf returns the ARN of a resource in the installation's account and region, by its name.
func arnOf(service, resource string) any {
	return awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:"+service+":${AWS::Region}:${AWS::AccountId}:"+resource), nil)
}
