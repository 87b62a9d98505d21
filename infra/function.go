package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3assets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/base/telemetry/otlp"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// requestTimeout is the timeout of functions behind routes. Handlers in the functions time out a second earlier, so
// that the functions themselves respond with 504 (shared/management/api). API Gateway stops waiting after 29 s.
const requestTimeout = 29 * time.Second

// streamTimeout is the maximum duration of a streamed response of the gateway: the maximum of API Gateway and Lambda.
const streamTimeout = 15 * time.Minute

// functionSpec is a function that is derived from declarations.
type functionSpec struct {
	name        string
	description string
	uses        []api.Use
	access      store.TableAccess
	timeout     time.Duration
	memoryMB    int
	// usesModels says that the function can call models of Bedrock. cpuBound says that its calls keep the processor
	// busy (api.Group.CPUBound).
	usesModels, cpuBound bool
	routes               []api.Declaration
	triggers             []trigger.Event
	// retries says how often and how long Lambda retries asynchronous calls.
	retries trigger.Retries
	// unversioned says that callers call the newest code instead of a published version, and that the function reserves
	// no concurrency (newHook).
	unversioned bool
}

// functionSpecs derives the functions: one for each group of operations, and one for each function that events call. If
// only processes serve deployments, there is no function for the gateway. The functions in awsOnly are not among them:
// newHook and newCheck create those.
func functionSpecs(s Settings) []functionSpec {
	var out []functionSpec
	for _, g := range functions.Groups() {
		spec := functionSpec{
			name: g.Name, description: g.Description, routes: g.Declarations(), access: g.FullTableAccess(),
			timeout: requestTimeout, memoryMB: s.MemoryMB, usesModels: g.UsesModels,
		}
		if spec.cpuBound = g.CPUBound; spec.cpuBound {
			spec.memoryMB = s.ComputeMemoryMB
		}
		for _, o := range spec.routes {
			spec.uses = append(append(spec.uses, o.Uses...), o.OptionalUses()...)
		}
		out = append(out, spec)
	}
	for _, t := range functions.Triggered() {
		servesHTTP := slices.ContainsFunc(t.Events, func(e trigger.Event) bool { return e.HTTP })
		if servesHTTP && !s.servedByFunction() {
			continue
		}
		spec := functionSpec{
			name: t.Name, description: t.Description, uses: t.Uses, access: t.TableAccess, timeout: t.Timeout,
			triggers: t.Events, retries: t.Retries, memoryMB: s.MemoryMB,
		}
		switch {
		case t.HighMemory:
			spec.memoryMB = s.BuilderMemoryMB
		case servesHTTP:
			spec.memoryMB = s.GatewayMemoryMB
			if s.Streaming {
				spec.timeout = streamTimeout
			}
		}
		out = append(out, spec)
	}
	return out
}

// function is a deployed function with its other resources.
type function struct {
	functionSpec
	// fullName is the name in Lambda.
	fullName string
	resource awslambda.CfnFunction
	// alias is the alias through which callers call the function.
	alias awslambda.CfnAlias
	// alarms ring when the function fails. An alarm also stops a release of the function and rolls it back.
	alarms []awscloudwatch.CfnAlarm
	role   awsiam.CfnRole
	// policy is the policy of the role. It is created when all statements are known.
	policy awsiam.CfnPolicy
	// statements are the permissions of the role. Triggers add to them before newPolicy.
	statements []any
	// mappings poll streams for the function. The policy has to exist before the mappings.
	mappings []awslambda.CfnEventSourceMapping
	// deadLetters is the queue for records of the table's stream that failed in all attempts. It is nil if the stream
	// does not call the function.
	deadLetters awssqs.CfnQueue
}

// newFunction creates a function with its role. newPolicy creates the policy of the role later, because triggers add to
// it.
func newFunction(scope constructs.Construct, s Settings, d data, f functionSpec) *function {
	id := logicalID(f.name)
	name := jsii.String(s.functionName(f.name))
	logs := newFunctionLogGroup(scope, s, f.name)
	out := &function{functionSpec: f, fullName: *name, statements: d.policyStatements(uniqueGrants(f.uses), f.access)}
	out.statements = append(out.statements,
		allow([]any{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.AttrArn()))
	if s.Emulator == "" {
		// These two actions support no resource-level permissions.
		out.statements = append(out.statements, allow([]any{"xray:PutTelemetryRecords", "xray:PutTraceSegments"}, "*"))
	}
	out.role = newFunctionRole(scope, id, *name)
	code := awss3assets.NewAsset(scope, jsii.String(id+"Code"), &awss3assets.AssetProps{
		Path: jsii.String(s.assetFolder(f.name)),
	})
	variables := s.environment(d)
	if f.usesModels {
		maps.Copy(variables, s.modelVariables())
		out.statements = append(out.statements, s.modelStatements()...)
	}
	props := &awslambda.CfnFunctionProps{
		FunctionName:  name,
		Description:   jsii.String(f.description),
		Runtime:       jsii.String("provided.al2023"),
		Handler:       jsii.String("bootstrap"),
		Architectures: jsii.Strings(s.Architecture),
		Code: &awslambda.CfnFunction_CodeProperty{
			S3Bucket: code.S3BucketName(), S3Key: code.S3ObjectKey(),
		},
		Role:          out.role.AttrArn(),
		MemorySize:    jsii.Number(f.memoryMB),
		Timeout:       jsii.Number(f.timeout.Seconds()),
		Environment:   &awslambda.CfnFunction_EnvironmentProperty{Variables: &variables},
		LoggingConfig: &awslambda.CfnFunction_LoggingConfigProperty{LogGroup: logs.Ref()},
	}
	if s.Emulator == "" {
		props.TracingConfig = &awslambda.CfnFunction_TracingConfigProperty{Mode: jsii.String("Active")}
	}
	out.resource = awslambda.NewCfnFunction(scope, jsii.String(id+"Function"), props)
	if f.unversioned {
		return out
	}
	out.publishVersion(scope, props)
	if n := s.reserved(f); n > 0 {
		// The concurrency is set after the version was derived, because a change of the concurrency must not publish a
		// version.
		out.resource.SetReservedConcurrentExecutions(jsii.Number(n))
	}
	return out
}

// newFunctionRole creates the role of a function, without a policy.
func newFunctionRole(scope constructs.Construct, id, name string) awsiam.CfnRole {
	return awsiam.NewCfnRole(scope, jsii.String(id+"Role"), &awsiam.CfnRoleProps{
		Description: jsii.Sprintf("What the function %s may do", name),
		AssumeRolePolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{map[string]any{
				"Effect": "Allow", "Action": "sts:AssumeRole",
				"Principal": map[string]any{"Service": "lambda.amazonaws.com"},
			}},
		},
	})
}

// functionName returns the name in Lambda of a function of the installation.
func (s Settings) functionName(name string) string { return "gatewright-" + s.Stage + "-" + name }

// newFunctionLogGroup creates the log group of a function. The function itself need not be in the stack.
func newFunctionLogGroup(scope constructs.Construct, s Settings, function string) awslogs.CfnLogGroup {
	return newLogGroup(scope, s, logicalID(function)+"Logs",
		jsii.Sprintf("/aws/lambda/gatewright-%s-%s", s.Stage, function))
}

// newLogGroup creates a log group. If the stage is protected, the log group is kept when it is removed from the stack.
// A log group with a fixed name must therefore always be in the stack: after an update without it, a later update could
// not create it again, because its name would be in use.
func newLogGroup(scope constructs.Construct, s Settings, id string, name *string) awslogs.CfnLogGroup {
	logs := awslogs.NewCfnLogGroup(scope, &id, &awslogs.CfnLogGroupProps{
		LogGroupName:    name,
		RetentionInDays: jsii.Number(s.LogDays),
	})
	logs.ApplyRemovalPolicy(removalPolicy(s), nil)
	return logs
}

// environment returns the environment variables that describe the installation to each process. Optional variables,
// such as a collector's address and those for tests, are left out if they are not set.
func (s Settings) environment(d data) map[string]*string {
	variables := map[string]*string{
		config.VarTable:            d.table.Ref(),
		config.VarBucket:           d.bucketName,
		config.VarKMSKey:           d.key.AttrArn(),
		config.VarDeploymentURL:    jsii.String(s.GatewayURL),
		config.VarPrivateUpstreams: jsii.String(strconv.FormatBool(s.PrivateUpstreams)),
		config.VarStreaming:        jsii.String(strconv.FormatBool(s.Streaming)),
		config.VarDecodedPaths:     jsii.String(strconv.FormatBool(s.Emulator == miniStack)),
	}
	if s.OTLPEndpoint != "" {
		variables[otlp.VarEndpoint] = &s.OTLPEndpoint
	}
	// Gateways use the relay, and the operations on tunnels refuse services whose address is the relay's.
	if s.relay() != "" {
		variables[config.VarRelay] = jsii.String(s.relay())
	}
	if s.APIDomain != "" {
		variables[config.VarAPIDomain] = &s.APIDomain
	}
	if d.apiAddress != nil {
		variables[config.VarAPIURL] = d.apiAddress
	}
	if len(s.Origins) > 0 {
		variables[config.VarOrigins] = jsii.String(strings.Join(s.Origins, " "))
	}
	if s.HeaderUnderscores {
		variables[config.VarUnderscores] = jsii.String("true")
	}
	if s.StandardHTTP {
		variables[config.VarStandardHTTP] = jsii.String("true")
	}
	if s.Limits != "" {
		variables[config.VarLimits] = &s.Limits
	}
	if s.UsesFile != "" {
		variables[config.VarUsesFile] = &s.UsesFile
	}
	return variables
}

// maxSettingBytes is the maximum number of bytes that the settings add to the environment variables of a function.
// Lambda allows 4 KB for all variables, including their names:
// https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html. The names of the variables, and values that
// AWS creates, such as ARNs, fit into the fourth KB.
const maxSettingBytes = 3 << 10

// settingBytes returns the maximum number of bytes that the settings add to the environment variables of a function. It
// adds a byte to each text, because spaces separate the origins.
func (s Settings) settingBytes() (n int) {
	for _, text := range slices.Concat(s.Origins, []string{
		s.GatewayURL, s.OTLPEndpoint, s.relay(), s.APIDomain, s.APIURL,
		s.Limits, s.UsesFile,
	}) {
		n += len(text) + 1
	}
	return n
}

// newPolicy grants the function's role all permissions that were collected for it.
func (f *function) newPolicy(scope constructs.Construct) {
	f.policy = awsiam.NewCfnPolicy(scope, jsii.String(logicalID(f.name)+"Policy"), &awsiam.CfnPolicyProps{
		PolicyName:     jsii.String("grants"),
		PolicyDocument: map[string]any{"Version": "2012-10-17", "Statement": f.statements},
		Roles:          &[]*string{f.role.Ref()},
	})
	// When Lambda creates the function, it checks that the role may send traces. When it creates a mapping, it checks
	// that the role may read the stream.
	f.resource.AddDependency(f.policy)
	for _, m := range f.mappings {
		m.AddDependency(f.policy)
	}
}

// allowInvoke allows a service to call the function's alias on behalf of a source. account is the ID of the AWS account
// that owns the source, nil if the source's ARN contains the ID.
func (f *function) allowInvoke(
	scope constructs.Construct, id, service string, source, account *string,
) awslambda.CfnPermission {
	return awslambda.NewCfnPermission(scope, jsii.String(logicalID(f.name)+id), &awslambda.CfnPermissionProps{
		Action:        jsii.String("lambda:InvokeFunction"),
		FunctionName:  f.alias.Ref(),
		Principal:     &service,
		SourceArn:     source,
		SourceAccount: account,
	})
}

// assetFolder returns the folder of a function's code.
func (s Settings) assetFolder(name string) string { return filepath.Join(s.Assets, name) }
