package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/infra/image"
	"github.com/gatewright/gatewright/shared/runtime/service"
)

// serviceSpec is a service with its settings.
type serviceSpec struct {
	service.Service
	// domain is the name that its clients use, and for which its certificate is issued.
	domain string
	// memoryMB is the memory of each task in megabytes. memorySetting is the name of the setting for it.
	memoryMB      int
	memorySetting string
	// maxTasks is the maximum number of tasks, 0 for a service with a fixed number.
	maxTasks int
}

// autoscales reports whether the number of tasks follows the load, between Copies and maxTasks.
func (ss serviceSpec) autoscales() bool { return ss.maxTasks > 0 }

// serviceSpecs returns the services that the settings request. Services cost money even without traffic.
func serviceSpecs(s Settings) []serviceSpec {
	var out []serviceSpec
	for _, svc := range functions.Services() {
		spec := serviceSpec{
			Service: svc.Service, domain: s.RelayDomain, memoryMB: s.RelayMemoryMB,
			memorySetting: "relayMemory",
		}
		if svc.AlsoFunction {
			spec.domain, spec.memoryMB, spec.memorySetting = s.domain(svc.Name), s.GatewayTaskMemoryMB, "gatewayTaskMemory"
			spec.Copies, spec.maxTasks = s.GatewayTasks, s.GatewayTasksMost
			if !s.servedByProcesses() {
				continue
			}
		}
		if spec.domain != "" {
			out = append(out, spec)
		}
	}
	return out
}

// stackName returns the name of a service's stack. No function has the same name.
func (ss serviceSpec) stackName() string {
	if ss.AlsoFunction {
		return logicalID(ss.Name) + "Process"
	}
	return logicalID(ss.Name)
}

// deployedService is a service with the resources that alarms and the dashboard use.
type deployedService struct {
	serviceSpec
	cluster  awsecs.CfnCluster
	resource awsecs.CfnService
	balancer balancer
}

// newService creates a service's network, its load balancer, its role and its tasks, in a nested stack, so that a
// change of the settings can remove all of them together. faultAlarm is the alarm for the gateway's own faults.
//
// Gateways scale (newScaling), but a relay does not. Connections to a relay last long: they do not move to a task that
// is added, and are closed when a task is removed. An alarm reports an overloaded relay, and a setting makes its tasks
// larger.
func newService(
	root constructs.Construct, s Settings, d data, spec serviceSpec, faultAlarm awscloudwatch.CfnAlarm,
) (*deployedService, error) {
	scope := awscdk.NewNestedStack(root, jsii.String(spec.stackName()), &awscdk.NestedStackProps{
		Description: jsii.Sprintf("The service %s: %s", spec.Name, spec.Description),
	})
	name := fmt.Sprintf("gatewright-%s-%s", s.Stage, spec.Name)
	n := newNetwork(scope, name, s, d, spec.Service)
	out := &deployedService{serviceSpec: spec, balancer: newBalancer(scope, spec, n)}
	// When the service is removed from a protected stage, its log is kept, so its name stays in use. If the service is
	// added again, its nested stack has another id, which makes the name of the new log different.
	logs := newLogGroup(scope, s, "TaskLogs",
		awscdk.Fn_Join(jsii.String("-"), &[]*string{jsii.String("/aws/ecs/" + name), stackIDPrefix()}))
	img, err := image.FromBinary(s.containerBinary(spec.Name), s.goArchitecture())
	if err != nil {
		return nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, fmt.Errorf("digest the image of %s: %w", spec.Name, err)
	}
	executionRole, executionPolicy := newTaskRole(scope, "Start", "What starts the tasks of "+name+" may do",
		executionStatements(s, spec.Service, logs))
	taskRole, taskPolicy := newTaskRole(scope, "Task", "What the service "+name+" may do",
		d.policyStatements(uniqueGrants(spec.Uses), spec.TableAccess))
	task := awsecs.NewCfnTaskDefinition(scope, jsii.String("Tasks"), &awsecs.CfnTaskDefinitionProps{
		Family: &name, NetworkMode: jsii.String("awsvpc"), RequiresCompatibilities: jsii.Strings("FARGATE"),
		Cpu: jsii.String(strconv.Itoa(spec.memoryMB / 2)), Memory: jsii.String(strconv.Itoa(spec.memoryMB)),
		RuntimePlatform: &awsecs.CfnTaskDefinition_RuntimePlatformProperty{
			CpuArchitecture:       jsii.String(map[string]string{"arm64": "ARM64", "x86_64": "X86_64"}[s.Architecture]),
			OperatingSystemFamily: jsii.String("LINUX"),
		},
		ExecutionRoleArn: executionRole.AttrArn(), TaskRoleArn: taskRole.AttrArn(),
		ContainerDefinitions: &[]any{s.containerDefinition(spec.Service, d, logs, imageName(digest.String()))},
	})
	loadBalancer := &awsecs.CfnService_LoadBalancerProperty{
		ContainerName: &spec.Name, ContainerPort: jsii.Number(spec.Port.Listen), TargetGroupArn: out.balancer.targets.Ref(),
	}
	dependencies := []awscdk.CfnResource{executionPolicy, taskPolicy}
	if n.internetRoute != nil {
		dependencies = append(dependencies, n.internetRoute)
	}
	if shifting, shiftPolicy := newTrafficShifting(scope, name, spec, out.balancer); shifting != nil {
		loadBalancer.AdvancedConfiguration = shifting // refers to the listener, which is therefore no dependency
		dependencies = append(dependencies, shiftPolicy)
	} else {
		dependencies = append(dependencies, out.balancer.listener)
	}
	out.cluster = awsecs.NewCfnCluster(scope, jsii.String("Cluster"), &awsecs.CfnClusterProps{ClusterName: &name})
	out.resource = awsecs.NewCfnService(scope, jsii.String("Service"), &awsecs.CfnServiceProps{
		Cluster: out.cluster.Ref(), ServiceName: &spec.Name, TaskDefinition: task.Ref(),
		LaunchType: jsii.String("FARGATE"), DesiredCount: spec.desiredCount(),
		AvailabilityZoneRebalancing:   jsii.String("ENABLED"),
		DeploymentConfiguration:       spec.deploymentConfiguration(s, faultAlarm),
		HealthCheckGracePeriodSeconds: jsii.Number(time.Minute.Seconds()),
		EnableExecuteCommand:          jsii.Bool(false),
		EnableEcsManagedTags:          jsii.Bool(true),
		PropagateTags:                 jsii.String("SERVICE"),
		LoadBalancers:                 &[]any{loadBalancer},
		NetworkConfiguration: &awsecs.CfnService_NetworkConfigurationProperty{
			AwsvpcConfiguration: &awsecs.CfnService_AwsVpcConfigurationProperty{
				Subnets: &n.subnets, SecurityGroups: &[]*string{n.tasks.AttrGroupId()},
				// The public address is for outgoing traffic. The security group restricts incoming traffic.
				AssignPublicIp: jsii.String(map[bool]string{true: "ENABLED", false: "DISABLED"}[n.public]),
			},
		},
	})
	for _, dependency := range dependencies {
		out.resource.AddDependency(dependency)
	}
	newScaling(scope, out)
	newServiceAlarms(scope, out, d, s.Stage)
	awscdk.NewCfnOutput(root, jsii.String(spec.stackName()+"Target"), &awscdk.CfnOutputProps{
		Description: s.dnsDescription(spec.domain), Value: out.balancer.resource.AttrDnsName(),
	})
	return out, nil
}

// stackIDPrefix returns the first part of the id of the stack, such as 0123abcd in
// arn:aws:cloudformation:REGION:ACCOUNT:stack/NAME/0123abcd-…. A later stack with the same name has another id.
func stackIDPrefix() *string {
	const idIndex = 2
	return awscdk.Fn_Select(jsii.Number(0),
		awscdk.Fn_Split(jsii.String("-"),
			awscdk.Fn_Select(jsii.Number(idIndex), awscdk.Fn_Split(jsii.String("/"), awscdk.Aws_STACK_ID(), nil)), nil))
}

// desiredCount returns the number of tasks in the template. It returns nil for a service that scales, because an update
// would reset the number. Without a number, CloudFormation leaves the number of an existing service unchanged, and
// creates a new service with one task.
func (ss serviceSpec) desiredCount() *float64 {
	if ss.autoscales() {
		return nil
	}
	return jsii.Number(ss.Copies)
}

// stopTimeout is the longest time that Fargate waits between SIGTERM and SIGKILL.
const stopTimeout = 2 * time.Minute

// containerDefinition returns the only container of a task.
func (s Settings) containerDefinition(
	svc service.Service, d data, logs awslogs.CfnLogGroup, image *string,
) *awsecs.CfnTaskDefinition_ContainerDefinitionProperty {
	out := &awsecs.CfnTaskDefinition_ContainerDefinitionProperty{
		Name: &svc.Name, Image: image, Essential: jsii.Bool(true),
		ReadonlyRootFilesystem: jsii.Bool(true), Privileged: jsii.Bool(false),
		LinuxParameters: &awsecs.CfnTaskDefinition_LinuxParametersProperty{
			Capabilities: &awsecs.CfnTaskDefinition_KernelCapabilitiesProperty{Drop: jsii.Strings("ALL")},
		},
		StopTimeout: jsii.Number(stopTimeout.Seconds()),
		PortMappings: &[]any{&awsecs.CfnTaskDefinition_PortMappingProperty{
			ContainerPort: jsii.Number(svc.Port.Listen),
			Protocol:      jsii.String("tcp"),
		}},
		LogConfiguration: &awsecs.CfnTaskDefinition_LogConfigurationProperty{
			LogDriver: jsii.String("awslogs"),
			Options: &map[string]*string{
				"awslogs-group": logs.Ref(), "awslogs-region": awscdk.Aws_REGION(), "awslogs-stream-prefix": &svc.Name,
				// A slow log service must not delay requests.
				"mode": jsii.String("non-blocking"), "max-buffer-size": jsii.String("4m"),
			},
		},
	}
	variables := s.environment(d)
	variables["AWS_REGION"] = awscdk.Aws_REGION() // Lambda sets it for functions
	// The load balancer checks the health of tasks at this address, and no other client can connect to it.
	if svc.Admin.Listen != "" {
		variables[svc.Admin.Listen] = jsii.Sprintf(":%d", adminPort(svc))
	}
	for name, value := range s.Bounds[svc.Name] {
		variables[name] = jsii.String(value)
	}
	var pairs []any
	for _, name := range sortedKeys(variables) {
		pairs = append(pairs, &awsecs.CfnTaskDefinition_KeyValuePairProperty{Name: jsii.String(name), Value: variables[name]})
	}
	out.Environment = &pairs
	if svc.Certificate != "" {
		out.Secrets = &[]any{&awsecs.CfnTaskDefinition_SecretProperty{
			Name:      &svc.Certificate,
			ValueFrom: s.certificateARN(svc),
		}}
	}
	return out
}

// containerBinary returns the path of a service's binary.
func (s Settings) containerBinary(name string) string {
	return filepath.Join(s.Assets, name, "container")
}

// imageName returns the name of the image that command publish uploads, by its digest.
func imageName(digest string) *string {
	return awscdk.Fn_Sub(jsii.String("${AWS::AccountId}.dkr.ecr.${AWS::Region}.${AWS::URLSuffix}/"+
		image.Repository("${AWS::AccountId}", "${AWS::Region}")+"@"+digest), nil)
}

// certificateARN returns the ARN of the parameter with a service's certificate and private key. The parameter is not a
// resource of the stack: CloudFormation cannot create encrypted parameters.
func (s Settings) certificateARN(svc service.Service) *string {
	return awscdk.Fn_Sub(
		jsii.Sprintf("arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/gatewright/%s/%s-certificate",
			s.Stage, svc.Name), nil)
}

// executionStatements returns the permissions that ECS needs to start a task before its own
// process runs: it pulls the image, reads the certificate, and writes the log.
func executionStatements(s Settings, svc service.Service, logs awslogs.CfnLogGroup) []any {
	repository := awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:ecr:${AWS::Region}:${AWS::AccountId}:repository/"+
		image.Repository("${AWS::AccountId}", "${AWS::Region}")), nil)
	out := []any{
		// This action supports no resource-level permissions.
		allow([]any{"ecr:GetAuthorizationToken"}, "*"),
		allow([]any{"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"}, repository),
		allow([]any{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.AttrArn()),
	}
	if svc.Certificate != "" {
		// The parameter is encrypted under the account's default key of Parameter Store, which needs no grant.
		out = append(out, allow([]any{"ssm:GetParameters"}, s.certificateARN(svc)))
	}
	return out
}

// newTaskRole creates a role that only tasks of this account can assume, and the policy of the role.
func newTaskRole(
	scope constructs.Construct, id, description string, statements []any,
) (awsiam.CfnRole, awsiam.CfnPolicy) {
	role := awsiam.NewCfnRole(scope, jsii.String(id+"Role"), &awsiam.CfnRoleProps{
		Description: &description,
		AssumeRolePolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{map[string]any{
				"Effect": "Allow", "Action": "sts:AssumeRole",
				"Principal": map[string]any{"Service": "ecs-tasks.amazonaws.com"},
				"Condition": map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": awscdk.Aws_ACCOUNT_ID()}},
			}},
		},
	})
	return role, awsiam.NewCfnPolicy(scope, jsii.String(id+"Policy"), &awsiam.CfnPolicyProps{
		PolicyName:     jsii.String("grants"),
		PolicyDocument: map[string]any{"Version": "2012-10-17", "Statement": statements},
		Roles:          &[]*string{role.Ref()},
	})
}
