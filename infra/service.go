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
	"github.com/gatewright/gatewright/shared/service"
)

// deployment is what an installation's context says of a service.
type deployment struct {
	service.Service
	// domain is the name that its clients know, and that its certificate is for.
	domain string
	// memoryMB is each task's, memoryWord the word of the context that sets it.
	memoryMB   int
	memoryWord string
	// most is how many copies there are at most, 0 for one that has as many as it is declared to have.
	most int
}

// grows says that it has as many copies as its work asks for, from Copies on.
func (d deployment) grows() bool { return d.most > 0 }

// declaredServices are the services of an installation: none that its context does not
// ask for, since they cost money while nobody asks.
func declaredServices(s Settings) []deployment {
	var out []deployment
	for _, declared := range functions.Services() {
		of := deployment{Service: declared.Service, domain: s.RelayDomain, memoryMB: s.RelayMemoryMB, memoryWord: "relayMemory"}
		if declared.Beside {
			of.domain, of.memoryMB, of.memoryWord = s.domain(declared.Name), s.GatewayTaskMemoryMB, "gatewayTaskMemory"
			of.Copies, of.most = s.GatewayTasks, s.GatewayTasksMost
			if !s.byProcess() {
				continue
			}
		}
		if of.domain != "" {
			out = append(out, of)
		}
	}
	return out
}

// stack is what a service's stack is called: a function may have its name.
func (d deployment) stack() string {
	if d.Beside {
		return exported(d.Name) + "Process"
	}
	return exported(d.Name)
}

// deployedService is a service with what watches it.
type deployedService struct {
	deployment
	cluster  awsecs.CfnCluster
	resource awsecs.CfnService
	balancer balancer
}

// newService makes a service's network, its load balancer, its role and its tasks, in
// a nested stack of its own: another context removes all of it. faults tells of the gateway's own.
//
// A relay scales by nothing. What it holds are connections that stay: those that are there
// do not move to a task that is added, and have to when one is taken away. A service
// that has too much to do has an alarm, and larger tasks are a setting; gateways grow (newScaling).
func newService(root constructs.Construct, s Settings, d data, of deployment, faults awscloudwatch.CfnAlarm) (*deployedService, error) {
	scope := awscdk.NewNestedStack(root, jsii.String(of.stack()), &awscdk.NestedStackProps{
		Description: jsii.Sprintf("The service %s: %s", of.Name, of.Does),
	})
	name := fmt.Sprintf("gatewright-%s-%s", s.Stage, of.Name)
	n := newNetwork(scope, name, s, d, of.Service)
	out := &deployedService{deployment: of, balancer: newBalancer(scope, of, n)}
	// A log stays when a stage without the service is deployed, and its name with it: a service that comes back has another
	// nested stack, by whose id its log is told from that one.
	logs := newLogs(scope, s, "TaskLogs", awscdk.Fn_Join(jsii.String("-"), &[]*string{jsii.String("/aws/ecs/" + name), stackMark()}))
	made, err := image.Of(s.container(of.Name), s.goArchitecture())
	if err != nil {
		return nil, err
	}
	digest, err := made.Digest()
	if err != nil {
		return nil, fmt.Errorf("digest the image of %s: %w", of.Name, err)
	}
	starts, startMay := newTaskRole(scope, "Start", "What starts the tasks of "+name+" may do", starting(s, of.Service, logs))
	role, may := newTaskRole(scope, "Task", "What the service "+name+" may do", d.policy(union(of.Uses), of.Reach))
	task := awsecs.NewCfnTaskDefinition(scope, jsii.String("Tasks"), &awsecs.CfnTaskDefinitionProps{
		Family: &name, NetworkMode: jsii.String("awsvpc"), RequiresCompatibilities: jsii.Strings("FARGATE"),
		Cpu: jsii.String(strconv.Itoa(of.memoryMB / 2)), Memory: jsii.String(strconv.Itoa(of.memoryMB)),
		RuntimePlatform: &awsecs.CfnTaskDefinition_RuntimePlatformProperty{
			CpuArchitecture:       jsii.String(map[string]string{"arm64": "ARM64", "x86_64": "X86_64"}[s.Architecture]),
			OperatingSystemFamily: jsii.String("LINUX"),
		},
		ExecutionRoleArn: starts.AttrArn(), TaskRoleArn: role.AttrArn(),
		ContainerDefinitions: &[]any{s.containerOf(of.Service, d, logs, imageName(digest.String()))},
	})
	leads := &awsecs.CfnService_LoadBalancerProperty{
		ContainerName: &of.Name, ContainerPort: jsii.Number(of.Port.Listens), TargetGroupArn: out.balancer.targets.Ref(),
	}
	before := []awscdk.CfnResource{startMay, may}
	if n.gate != nil {
		before = append(before, n.gate)
	}
	if shifter, shiftMay := newShifter(scope, name, of, out.balancer); shifter != nil {
		leads.AdvancedConfiguration = shifter // which names the listener
		before = append(before, shiftMay)
	} else {
		before = append(before, out.balancer.listener)
	}
	out.cluster = awsecs.NewCfnCluster(scope, jsii.String("Cluster"), &awsecs.CfnClusterProps{ClusterName: &name})
	out.resource = awsecs.NewCfnService(scope, jsii.String("Service"), &awsecs.CfnServiceProps{
		Cluster: out.cluster.Ref(), ServiceName: &of.Name, TaskDefinition: task.Ref(),
		LaunchType: jsii.String("FARGATE"), DesiredCount: of.count(),
		AvailabilityZoneRebalancing:   jsii.String("ENABLED"),
		DeploymentConfiguration:       of.deployed(s, faults),
		HealthCheckGracePeriodSeconds: jsii.Number(time.Minute.Seconds()),
		EnableExecuteCommand:          jsii.Bool(false),
		EnableEcsManagedTags:          jsii.Bool(true),
		PropagateTags:                 jsii.String("SERVICE"),
		LoadBalancers:                 &[]any{leads},
		NetworkConfiguration: &awsecs.CfnService_NetworkConfigurationProperty{
			AwsvpcConfiguration: &awsecs.CfnService_AwsVpcConfigurationProperty{
				Subnets: &n.subnets, SecurityGroups: &[]*string{n.tasks.AttrGroupId()},
				// The way out; nothing comes in that the security group does not let.
				AssignPublicIp: jsii.String(map[bool]string{true: "ENABLED", false: "DISABLED"}[n.public]),
			},
		},
	})
	for _, first := range before {
		out.resource.AddDependency(first)
	}
	newScaling(scope, out)
	newServiceAlarms(scope, out, d, s.Stage)
	awscdk.NewCfnOutput(root, jsii.String(of.stack()+"Target"), &awscdk.CfnOutputProps{
		Description: s.ledBy(of.domain), Value: out.balancer.resource.AttrDnsName(),
	})
	return out, nil
}

// stackMark is the first part of the id of the stack that it stands in, which no other stack has, and neither has the
// next one of its name: arn:aws:cloudformation:REGION:ACCOUNT:stack/NAME/0123abcd-….
func stackMark() *string {
	const id = 2
	return awscdk.Fn_Select(jsii.Number(0), awscdk.Fn_Split(jsii.String("-"), awscdk.Fn_Select(jsii.Number(id), awscdk.Fn_Split(jsii.String("/"), awscdk.Aws_STACK_ID(), nil)), nil))
}

// count is what the template says of how many there are: nothing of a service that grows, whose number an update
// would set back otherwise. Without it CloudFormation leaves the number as it is, and makes a service with one.
func (d deployment) count() *float64 {
	if d.grows() {
		return nil
	}
	return jsii.Number(d.Copies)
}

// stopTimeout is the longest that Fargate waits between SIGTERM and SIGKILL.
const stopTimeout = 2 * time.Minute

// containerOf is the one container of a task.
func (s Settings) containerOf(of service.Service, d data, logs awslogs.CfnLogGroup, image *string) *awsecs.CfnTaskDefinition_ContainerDefinitionProperty {
	out := &awsecs.CfnTaskDefinition_ContainerDefinitionProperty{
		Name: &of.Name, Image: image, Essential: jsii.Bool(true),
		ReadonlyRootFilesystem: jsii.Bool(true), Privileged: jsii.Bool(false),
		LinuxParameters: &awsecs.CfnTaskDefinition_LinuxParametersProperty{
			Capabilities: &awsecs.CfnTaskDefinition_KernelCapabilitiesProperty{Drop: jsii.Strings("ALL")},
		},
		StopTimeout:  jsii.Number(stopTimeout.Seconds()),
		PortMappings: &[]any{&awsecs.CfnTaskDefinition_PortMappingProperty{ContainerPort: jsii.Number(of.Port.Listens), Protocol: jsii.String("tcp")}},
		LogConfiguration: &awsecs.CfnTaskDefinition_LogConfigurationProperty{
			LogDriver: jsii.String("awslogs"),
			Options: &map[string]*string{
				"awslogs-group": logs.Ref(), "awslogs-region": awscdk.Aws_REGION(), "awslogs-stream-prefix": &of.Name,
				// A log service that is slow must not hold up requests.
				"mode": jsii.String("non-blocking"), "max-buffer-size": jsii.String("4m"),
			},
		},
	}
	variables := s.environment(d)
	variables["AWS_REGION"] = awscdk.Aws_REGION() // as Lambda does
	if of.Admin.Listen != "" {                    // the load balancer asks for its health there, and nobody else can
		variables[of.Admin.Listen] = jsii.Sprintf(":%d", adminPort(of))
	}
	for name, value := range s.Bounds[of.Name] {
		variables[name] = jsii.String(value)
	}
	var pairs []any
	for _, name := range sortedKeys(variables) {
		pairs = append(pairs, &awsecs.CfnTaskDefinition_KeyValuePairProperty{Name: jsii.String(name), Value: variables[name]})
	}
	out.Environment = &pairs
	if of.Certificate != "" {
		out.Secrets = &[]any{&awsecs.CfnTaskDefinition_SecretProperty{Name: &of.Certificate, ValueFrom: s.certificateOf(of)}}
	}
	return out
}

// container is the file of a service's binary.
func (s Settings) container(name string) string { return filepath.Join(s.Assets, name, "container") }

// imageName is where Command publish uploads images to, by the digest.
func imageName(digest string) *string {
	return awscdk.Fn_Sub(jsii.String("${AWS::AccountId}.dkr.ecr.${AWS::Region}.${AWS::URLSuffix}/"+
		image.Repository("${AWS::AccountId}", "${AWS::Region}")+"@"+digest), nil)
}

// certificateOf is the parameter with a service's certificate and private key. It is no
// resource of the stack: CloudFormation makes none whose text is a secret, and knows none.
func (s Settings) certificateOf(of service.Service) *string {
	return awscdk.Fn_Sub(jsii.Sprintf("arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/gatewright/%s/%s-certificate", s.Stage, of.Name), nil)
}

// starting is what ECS does for a task before its own process runs: it pulls the image,
// reads the certificate, and writes the log.
func starting(s Settings, of service.Service, logs awslogs.CfnLogGroup) []any {
	repository := awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:ecr:${AWS::Region}:${AWS::AccountId}:repository/"+
		image.Repository("${AWS::AccountId}", "${AWS::Region}")), nil)
	out := []any{
		// The service takes no resource for this one.
		allow([]any{"ecr:GetAuthorizationToken"}, "*"),
		allow([]any{"ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"}, repository),
		allow([]any{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.AttrArn()),
	}
	if of.Certificate != "" {
		// Sealed by the account's own key of Parameter Store, which asks for no grant.
		out = append(out, allow([]any{"ssm:GetParameters"}, s.certificateOf(of)))
	}
	return out
}

// newTaskRole makes a role that tasks of this account alone take on, and its policy.
func newTaskRole(scope constructs.Construct, id, what string, statements []any) (awsiam.CfnRole, awsiam.CfnPolicy) {
	role := awsiam.NewCfnRole(scope, jsii.String(id+"Role"), &awsiam.CfnRoleProps{
		Description: &what,
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
