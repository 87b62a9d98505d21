package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// A canary takes as many of a hundred new connections for as many minutes as that of a function takes
// calls (release.go), and the tasks of before stay for as many minutes after it.
const (
	canaryPercent = 10
	canaryMinutes = 5
)

// shifts says that ECS leads a service's connections from the tasks of before to others, by and by, with two groups
// of targets that change places. Connections to a relay stay for days: another one is told by a drain.
func (d deployment) shifts() bool { return d.grows() }

// deployed is how ECS puts other tasks in a service's place.
func (d deployment) deployed(s Settings, faults awscloudwatch.CfnAlarm) *awsecs.CfnService_DeploymentConfigurationProperty {
	out := &awsecs.CfnService_DeploymentConfigurationProperty{
		// All that there were go on until as many new ones answer.
		MinimumHealthyPercent: jsii.Number(100), MaximumPercent: jsii.Number(200),
		DeploymentCircuitBreaker: &awsecs.CfnService_DeploymentCircuitBreakerProperty{Enable: jsii.Bool(true), Rollback: jsii.Bool(true)},
	}
	if !d.shifts() {
		return out
	}
	// The alarm that tells of our own faults, and none that is on while there are no tasks yet.
	out.Alarms = &awsecs.CfnService_DeploymentAlarmsProperty{AlarmNames: &[]*string{faults.Ref()}, Enable: jsii.Bool(true), Rollback: jsii.Bool(true)}
	if !s.Canary {
		// All at once, and never ROLLING: with that, tasks are registered with the first group alone, while
		// the listener leads to the second after each other release.
		out.Strategy, out.BakeTimeInMinutes = jsii.String("BLUE_GREEN"), jsii.Number(0)
		return out
	}
	out.Strategy, out.BakeTimeInMinutes = jsii.String("CANARY"), jsii.Number(canaryMinutes)
	out.CanaryConfiguration = &awsecs.CfnService_CanaryConfigurationProperty{
		CanaryPercent: jsii.Number(canaryPercent), CanaryBakeTimeInMinutes: jsii.Number(canaryMinutes),
	}
	return out
}

// newShifter makes the role under which ECS registers tasks with the two groups of targets and leads the
// listener to them, and to none else; nil for a service that does without. Nobody can hand ECS a role of another account, so
// that its trust needs no condition.
func newShifter(scope constructs.Construct, name string, d deployment, b balancer) (*awsecs.CfnService_AdvancedConfigurationProperty, awscdk.CfnResource) {
	if !d.shifts() {
		return nil, nil
	}
	role := awsiam.NewCfnRole(scope, jsii.String("ShiftRole"), &awsiam.CfnRoleProps{
		Description: jsii.String("What ECS may do to lead connections to other tasks of " + name),
		AssumeRolePolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{map[string]any{
				"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": map[string]any{"Service": "ecs.amazonaws.com"},
			}},
		},
	})
	may := awsiam.NewCfnPolicy(scope, jsii.String("ShiftPolicy"), &awsiam.CfnPolicyProps{
		PolicyName: jsii.String("grants"), Roles: &[]*string{role.Ref()},
		PolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{
				// The service takes no resource for these.
				allow([]any{
					"elasticloadbalancing:DescribeListeners", "elasticloadbalancing:DescribeRules",
					"elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTargetHealth",
				}, "*"),
				allow([]any{"elasticloadbalancing:DeregisterTargets", "elasticloadbalancing:RegisterTargets"}, b.targets.Ref(), b.others.Ref()),
				allow([]any{"elasticloadbalancing:ModifyListener"}, b.listener.Ref()),
			},
		},
	})
	return &awsecs.CfnService_AdvancedConfigurationProperty{
		AlternateTargetGroupArn: b.others.Ref(), ProductionListenerRule: b.listener.Ref(), RoleArn: role.AttrArn(),
	}, may
}
