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
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/telemetry/otlp"
	"github.com/gatewright/gatewright/shared/trigger"
)

// requestTimeout of functions behind routes is a second more than they give
// themselves, so that it is they who answer 504 (shared/api). The platform cuts
// at 29 s.
const requestTimeout = 29 * time.Second

// streamTimeout is how long an answer of the gateway may go on where it streams:
// as long as API Gateway and Lambda let it.
const streamTimeout = 15 * time.Minute

// declared is a function as it follows from declarations.
type declared struct {
	name    string
	does    string
	uses    []api.Use
	reach   store.Reach
	timeout time.Duration
	memory  int
	// models says that it may ask models of Bedrock, computes that its calls take the processor (api.Group.Computes).
	models, computes bool
	routes           []api.Declaration
	on               []trigger.Event
	// retries are those of calls that wait for no answer.
	retries trigger.Retries
	// unversioned says that callers call its newest code, and that it reserves no concurrency (newHook).
	unversioned bool
}

// declaredFunctions derives all functions: a group of operations each, and
// those that events call.
func declaredFunctions(s Settings) []declared {
	var out []declared
	for _, g := range functions.Groups() {
		d := declared{name: g.Name, does: g.Description, routes: g.Declarations(), reach: g.Reached(), timeout: requestTimeout, memory: s.MemoryMB, models: g.Models}
		if d.computes = g.Computes; d.computes {
			d.memory = s.ComputeMemoryMB
		}
		for _, o := range d.routes {
			d.uses = append(append(d.uses, o.Uses...), o.Asides()...)
		}
		out = append(out, d)
	}
	for _, t := range functions.Triggered() {
		serves := slices.ContainsFunc(t.On, func(e trigger.Event) bool { return e.HTTP })
		if serves && !s.byFunction() {
			continue
		}
		d := declared{name: t.Name, does: t.Does, uses: t.Uses, reach: t.Reach, timeout: t.Timeout, on: t.On, retries: t.Retries, memory: s.MemoryMB}
		switch {
		case t.Heavy:
			d.memory = s.BuilderMemoryMB
		case serves:
			d.memory = s.GatewayMemoryMB
			if s.Streaming {
				d.timeout = streamTimeout
			}
		}
		out = append(out, d)
	}
	return out
}

// function is a deployed function with what belongs to it.
type function struct {
	declared
	// fullName is what Lambda calls it.
	fullName string
	resource awslambda.CfnFunction
	// alias is what is called of it.
	alias awslambda.CfnAlias
	// alarms are on where it fails: a release of it ends with them.
	alarms []awscloudwatch.CfnAlarm
	role   awsiam.CfnRole
	// policy is the role's, once all is collected.
	policy awsiam.CfnPolicy
	// statements are what its role allows; triggers add theirs before newPolicy.
	statements []any
	// mappings poll on the function's behalf, which its policy has to allow first.
	mappings    []awslambda.CfnEventSourceMapping
	deadLetters awssqs.CfnQueue
}

// newFunction makes a function with its role, whose policy comes last
// (newPolicy): triggers add to it first.
func newFunction(scope constructs.Construct, s Settings, d data, f declared) *function {
	id := exported(f.name)
	name := jsii.String(s.functionName(f.name))
	logs := newFunctionLogs(scope, s, f.name)
	out := &function{declared: f, fullName: *name, statements: d.policy(union(f.uses), f.reach)}
	out.statements = append(out.statements,
		allow([]any{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.AttrArn()))
	if s.Emulator == "" {
		// The service takes no resource for these two.
		out.statements = append(out.statements, allow([]any{"xray:PutTelemetryRecords", "xray:PutTraceSegments"}, "*"))
	}
	out.role = newFunctionRole(scope, id, *name)
	code := awss3assets.NewAsset(scope, jsii.String(id+"Code"), &awss3assets.AssetProps{
		Path: jsii.String(s.asset(f.name)),
	})
	variables := s.environment(d)
	if f.models {
		maps.Copy(variables, s.modelVariables())
		out.statements = append(out.statements, s.modelStatements()...)
	}
	props := &awslambda.CfnFunctionProps{
		FunctionName:  name,
		Description:   jsii.String(f.does),
		Runtime:       jsii.String("provided.al2023"),
		Handler:       jsii.String("bootstrap"),
		Architectures: jsii.Strings(s.Architecture),
		Code: &awslambda.CfnFunction_CodeProperty{
			S3Bucket: code.S3BucketName(), S3Key: code.S3ObjectKey(),
		},
		Role:          out.role.AttrArn(),
		MemorySize:    jsii.Number(f.memory),
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
	out.newLive(scope, props)
	if n := s.reserved(f); n > 0 {
		// After the version, which has nothing of it: Lambda publishes none for it.
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

// functionName returns what Lambda calls a function of the installation.
func (s Settings) functionName(name string) string { return "gatewright-" + s.Stage + "-" + name }

// newFunctionLogs makes the log of a function, also of one that is not there at present.
func newFunctionLogs(scope constructs.Construct, s Settings, function string) awslogs.CfnLogGroup {
	return newLogs(scope, s, exported(function)+"Logs", jsii.Sprintf("/aws/lambda/gatewright-%s-%s", s.Stage, function))
}

// newLogs makes a log that outlives what writes it where the stage is protected. So no update may leave it out and a later
// one make it again: the name is taken then.
func newLogs(scope constructs.Construct, s Settings, id string, name *string) awslogs.CfnLogGroup {
	logs := awslogs.NewCfnLogGroup(scope, &id, &awslogs.CfnLogGroupProps{LogGroupName: name, RetentionInDays: jsii.Number(s.LogDays)})
	logs.ApplyRemovalPolicy(removal(s), nil)
	return logs
}

// environment are the variables by which each process knows its installation. Those
// that most installations do without are left out: a collector's address, and what
// only a test sets.
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
	// Gateways ask it, and the operations on tunnels refuse services that lead back to it.
	if s.relay() != "" {
		variables[config.VarRelay] = jsii.String(s.relay())
	}
	if s.APIDomain != "" {
		variables[config.VarAPIDomain] = &s.APIDomain
	}
	if d.address != nil {
		variables[config.VarAPIURL] = d.address
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

// mostWords bounds what the settings add to the environment variables of a function. Lambda takes 4 KB of variables, their names included:
// https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html. The names and what AWS decides, such as ARNs, are within the fourth one.
const mostWords = 3 << 10

// wordBytes returns how many bytes the settings add to the environment variables of a function.
func (s Settings) wordBytes() (n int) {
	for _, text := range slices.Concat(s.Origins, []string{s.GatewayURL, s.OTLPEndpoint, s.relay(), s.APIDomain, s.APIURL, s.Limits, s.UsesFile}) {
		n += len(text) + 1
	}
	return n
}

// newPolicy gives the function's role all that was collected for it.
func (f *function) newPolicy(scope constructs.Construct) {
	f.policy = awsiam.NewCfnPolicy(scope, jsii.String(exported(f.name)+"Policy"), &awsiam.CfnPolicyProps{
		PolicyName:     jsii.String("grants"),
		PolicyDocument: map[string]any{"Version": "2012-10-17", "Statement": f.statements},
		Roles:          &[]*string{f.role.Ref()},
	})
	// Lambda checks that the role may send traces when it creates the function, and that it may read the stream when it creates a mapping.
	f.resource.AddDependency(f.policy)
	for _, m := range f.mappings {
		m.AddDependency(f.policy)
	}
}

// permit lets a service call the function's alias on behalf of a source, of whose ARN
// account is to be the owner; nil where the ARN names it.
func (f *function) permit(scope constructs.Construct, id, service string, source, account *string) awslambda.CfnPermission {
	return awslambda.NewCfnPermission(scope, jsii.String(exported(f.name)+id), &awslambda.CfnPermissionProps{
		Action:        jsii.String("lambda:InvokeFunction"),
		FunctionName:  f.alias.Ref(),
		Principal:     &service,
		SourceArn:     source,
		SourceAccount: account,
	})
}

// asset is the folder of a function's code.
func (s Settings) asset(name string) string { return filepath.Join(s.Assets, name) }
