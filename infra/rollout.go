package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// With the setting canary, new tasks get canaryPercent of the new connections for canaryMinutes, like the calls of a
// function's new version (release.go). Then they get all new connections. The old tasks remain for another
// canaryMinutes.
const (
	canaryPercent = 10
	canaryMinutes = 5
)

// shiftsTraffic reports whether ECS moves new connections of a service from the target group of the old tasks to the
// target group of the new tasks. Connections to a relay stay for days, so a relay drains them instead.
func (ss serviceSpec) shiftsTraffic() bool { return ss.autoscales() }

// deploymentConfiguration returns how ECS replaces the tasks of a service.
func (ss serviceSpec) deploymentConfiguration(
	s Settings, faultAlarm awscloudwatch.CfnAlarm,
) *awsecs.CfnService_DeploymentConfigurationProperty {
	out := &awsecs.CfnService_DeploymentConfigurationProperty{
		// All old tasks continue to run until the same number of new tasks is healthy.
		MinimumHealthyPercent: jsii.Number(100), MaximumPercent: jsii.Number(200),
		DeploymentCircuitBreaker: &awsecs.CfnService_DeploymentCircuitBreakerProperty{
			Enable:   jsii.Bool(true),
			Rollback: jsii.Bool(true),
		},
	}
	if !ss.shiftsTraffic() {
		return out
	}
	// Only the alarm for the gateway's own faults stops a release: other alarms also ring while there are no tasks yet.
	out.Alarms = &awsecs.CfnService_DeploymentAlarmsProperty{
		AlarmNames: &[]*string{faultAlarm.Ref()}, Enable: jsii.Bool(true),
		Rollback: jsii.Bool(true),
	}
	if !s.Canary {
		// BLUE_GREEN without a wait moves all connections at once. ROLLING is not possible: it registers tasks only
		// with the first group, but the listener forwards to the second group after every other release.
		out.Strategy, out.BakeTimeInMinutes = jsii.String("BLUE_GREEN"), jsii.Number(0)
		return out
	}
	out.Strategy, out.BakeTimeInMinutes = jsii.String("CANARY"), jsii.Number(canaryMinutes)
	out.CanaryConfiguration = &awsecs.CfnService_CanaryConfigurationProperty{
		CanaryPercent: jsii.Number(canaryPercent), CanaryBakeTimeInMinutes: jsii.Number(canaryMinutes),
	}
	return out
}

// newTrafficShifting creates the role under which ECS registers tasks with the two target groups and changes the target
// of the listener. The role allows nothing else. Its trust policy needs no condition, because ECS accepts no role of
// another account. newTrafficShifting returns the configuration for ECS and the policy of the role, or nil for a
// service without a second group.
func newTrafficShifting(
	scope constructs.Construct, name string, spec serviceSpec, b balancer,
) (*awsecs.CfnService_AdvancedConfigurationProperty, awscdk.CfnResource) {
	if !spec.shiftsTraffic() {
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
	policy := awsiam.NewCfnPolicy(scope, jsii.String("ShiftPolicy"), &awsiam.CfnPolicyProps{
		PolicyName: jsii.String("grants"), Roles: &[]*string{role.Ref()},
		PolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{
				// These actions support no resource-level permissions.
				allow([]any{
					"elasticloadbalancing:DescribeListeners", "elasticloadbalancing:DescribeRules",
					"elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTargetHealth",
				}, "*"),
				allow([]any{"elasticloadbalancing:DeregisterTargets", "elasticloadbalancing:RegisterTargets"}, b.targets.Ref(),
					b.alternate.Ref()),
				allow([]any{"elasticloadbalancing:ModifyListener"}, b.listener.Ref()),
			},
		},
	})
	return &awsecs.CfnService_AdvancedConfigurationProperty{
		AlternateTargetGroupArn: b.alternate.Ref(), ProductionListenerRule: b.listener.Ref(), RoleArn: role.AttrArn(),
	}, policy
}
