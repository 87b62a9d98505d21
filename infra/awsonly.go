package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/functions/releasecheck"
	"github.com/gatewright/gatewright/functions/syntheticcheck"
	"github.com/gatewright/gatewright/shared/trigger"
)

// awsOnly lists the functions that only installations in AWS have. The server links none of them, so that they are not in
// functions.Triggered, and emulators lack what calls them.
func awsOnly() []trigger.Function {
	return []trigger.Function{
		releasecheck.Function,
		syntheticcheck.Function, // in a stack of its own (newCheck)
	}
}

// hook returns the declaration of the function that CodeDeploy calls before a version of another function gets traffic.
func (s Settings) hook() declared {
	f := releasecheck.Function
	return declared{name: f.Name, does: f.Does, uses: f.Uses, reach: f.Reach, timeout: f.Timeout, on: f.On, memory: s.MemoryMB, unversioned: true}
}

// newHook makes that function. It may call the versions of the installation's functions, and nothing else of them.
//
// CodeDeploy calls the newest code of it: the documentation of the hook BeforeAllowTraffic has a function's name, and says nothing of
// aliases. It reserves no concurrency, because all functions are released at the same time and their checks take some seconds together. It has no
// alarms either: whoever updates the stack is waiting for it.
func newHook(scope constructs.Construct, s Settings, d data, fs []*function) {
	hook := newFunction(scope, s, d, s.hook())
	var versions []any
	for _, f := range fs {
		versions = append(versions, arnOf("lambda", "function:"+f.fullName+":*"))
	}
	hook.statements = append(hook.statements,
		allow([]any{"codedeploy:GetDeployment", "codedeploy:PutLifecycleEventHookExecutionStatus"}, arnOf("codedeploy", "deploymentgroup:gatewright-"+s.Stage+"/*")),
		allow([]any{"codedeploy:GetApplicationRevision"}, arnOf("codedeploy", "application:gatewright-"+s.Stage)),
		allow([]any{"lambda:InvokeFunction"}, versions...))
	hook.newPolicy(scope)
}

// arnOf returns the ARN of a resource of the installation's account and region, by its name.
func arnOf(service, resource string) any {
	return awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:"+service+":${AWS::Region}:${AWS::AccountId}:"+resource), nil)
}
