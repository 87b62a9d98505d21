package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapplicationautoscaling"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// These numbers control how a service scales (docs/decisions/0064-gateways-follow-their-processors.md).
const (
	// targetCPUPercent is the target for the average use of the tasks' processors. The rest
	// is for load that arrives while another task starts, which takes two minutes.
	targetCPUPercent = 60
	// scaleOutCooldown is the minimum time between two additions of tasks: the interval of the CPU metric.
	scaleOutCooldown = time.Minute
	// scaleInCooldown is the minimum time between two removals of tasks. It is longer than a task needs to drain: a
	// draining task still serves and is counted.
	scaleInCooldown = 5 * time.Minute
)

// newScaling creates the resources that scale a service by the use of its processors. It creates nothing for a service
// with a fixed number of tasks.
func newScaling(scope constructs.Construct, s *deployedService) {
	if !s.autoscales() {
		return
	}
	target := awsapplicationautoscaling.NewCfnScalableTarget(scope, jsii.String("Scaling"),
		&awsapplicationautoscaling.CfnScalableTargetProps{
			ServiceNamespace: jsii.String("ecs"), ScalableDimension: jsii.String("ecs:service:DesiredCount"),
			ResourceId: awscdk.Fn_Join(jsii.String("/"),
				&[]*string{jsii.String("service"), s.cluster.Ref(), s.resource.AttrName()}),
			// The target needs no role here: AWS creates a service-linked role in the account.
			MinCapacity: jsii.Number(s.Copies), MaxCapacity: jsii.Number(s.maxTasks),
		})
	awsapplicationautoscaling.NewCfnScalingPolicy(scope, jsii.String("ScalingByProcessors"),
		&awsapplicationautoscaling.CfnScalingPolicyProps{
			PolicyName: jsii.String("processors"), PolicyType: jsii.String("TargetTrackingScaling"),
			ScalingTargetId: target.Ref(),
			TargetTrackingScalingPolicyConfiguration: &awsapplicationautoscaling.CfnScalingPolicy_TargetTrackingScalingPolicyConfigurationProperty{
				TargetValue: jsii.Number(targetCPUPercent),
				PredefinedMetricSpecification: &awsapplicationautoscaling.CfnScalingPolicy_PredefinedMetricSpecificationProperty{
					PredefinedMetricType: jsii.String("ECSServiceAverageCPUUtilization"),
				},
				ScaleOutCooldown: jsii.Number(scaleOutCooldown.Seconds()), ScaleInCooldown: jsii.Number(scaleInCooldown.Seconds()),
			},
		})
}
