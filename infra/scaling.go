package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapplicationautoscaling"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// How a service follows its work: docs/decisions/0064-gateways-follow-their-processors.md.
const (
	// busyPercent of its processors is what a task is to have on average. The rest is what comes while
	// another one starts, which takes two minutes.
	busyPercent = 60
	// growEvery is between two times that tasks are added: as long as one takes to be measured.
	growEvery = time.Minute
	// shrinkEvery is between two times that tasks are taken away, longer than one takes to leave: until
	// it is gone it still answers, and is counted.
	shrinkEvery = 5 * time.Minute
)

// newScaling has a service have as many tasks as its processors ask for. Services that have as many as they are
// declared to have make none of it.
func newScaling(scope constructs.Construct, s *deployedService) {
	if !s.grows() {
		return
	}
	target := awsapplicationautoscaling.NewCfnScalableTarget(scope, jsii.String("Scaling"), &awsapplicationautoscaling.CfnScalableTargetProps{
		ServiceNamespace: jsii.String("ecs"), ScalableDimension: jsii.String("ecs:service:DesiredCount"),
		ResourceId: awscdk.Fn_Join(jsii.String("/"), &[]*string{jsii.String("service"), s.cluster.Ref(), s.resource.AttrName()}),
		// The role is the account's own for this, which AWS makes.
		MinCapacity: jsii.Number(s.Copies), MaxCapacity: jsii.Number(s.most),
	})
	awsapplicationautoscaling.NewCfnScalingPolicy(scope, jsii.String("ScalingByProcessors"), &awsapplicationautoscaling.CfnScalingPolicyProps{
		PolicyName: jsii.String("processors"), PolicyType: jsii.String("TargetTrackingScaling"), ScalingTargetId: target.Ref(),
		TargetTrackingScalingPolicyConfiguration: &awsapplicationautoscaling.CfnScalingPolicy_TargetTrackingScalingPolicyConfigurationProperty{
			TargetValue: jsii.Number(busyPercent),
			PredefinedMetricSpecification: &awsapplicationautoscaling.CfnScalingPolicy_PredefinedMetricSpecificationProperty{
				PredefinedMetricType: jsii.String("ECSServiceAverageCPUUtilization"),
			},
			ScaleOutCooldown: jsii.Number(growEvery.Seconds()), ScaleInCooldown: jsii.Number(shrinkEvery.Seconds()),
		},
	})
}
