package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3assets"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/functions/syntheticcheck"
	"github.com/gatewright/gatewright/infra/removals"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// checkMemoryMB is the least that Lambda has: the function waits for replies, and computes two TLS handshakes.
const checkMemoryMB = 128

// newCheck makes the stack of the synthetic check in the region that the setting checkRegion names. Nothing in it refers to the stack of the
// installation, which is in another region: make deploy gives it the address of the API (removals.APIAddress) where no domain name is set.
// installation is the stack to deploy before it, and to delete after it.
func newCheck(app awscdk.App, s Settings, installation awscdk.Stack) {
	if s.CheckRegion == "" {
		return
	}
	stack := awscdk.NewStack(app, jsii.String(removals.CheckStack(s.Stage)), &awscdk.StackProps{
		Description:           jsii.Sprintf("Gatewright, the synthetic check of the installation %s", s.Stage),
		Tags:                  &map[string]*string{"product": jsii.String("gatewright"), "stage": jsii.String(s.Stage)},
		Env:                   &awscdk.Environment{Region: &s.CheckRegion},
		TerminationProtection: jsii.Bool(s.Protected),
	})
	if installation != nil {
		stack.AddDependency(installation, jsii.String("it checks the installation"))
	}
	f := newCheckFunction(stack, s)
	if err := newSchedule(stack, s, f, *f.on[0].Schedule); err != nil {
		panic(fmt.Sprintf("infra: %v", err)) // the declaration is wrong; no setting can be
	}
	newRetries(stack, s, f)
	newCheckAlarms(stack, s)
	// A topic sends only alarms of its own region. No budget is watched here.
	there := s
	there.AlarmTopic, there.MonthlyBudget = s.CheckTopic, 0
	addressAlarms(stack, newNoticeTopics(stack, there))
	awscdk.NewCfnOutput(stack, jsii.String("AlarmsTell"), &awscdk.CfnOutputProps{Description: jsii.String("Who hears of alarms"), Value: jsii.String(there.whoHears())})
}

// newCheckFunction makes the function, whose role may read the one parameter with its key and write its log.
func newCheckFunction(stack awscdk.Stack, s Settings) *function {
	of := syntheticcheck.Function
	f := declared{name: of.Name, does: of.Does, on: of.On, retries: of.Retries, timeout: of.Timeout, memory: checkMemoryMB}
	id, name := exported(f.name), jsii.String(s.functionName(f.name))
	// The log goes with its stack. It is about the installation and not a part of it, and its name has to be free if the check comes back.
	logs := awslogs.NewCfnLogGroup(stack, jsii.String(id+"Logs"), &awslogs.CfnLogGroupProps{LogGroupName: jsii.String("/aws/lambda/" + *name), RetentionInDays: jsii.Number(s.LogDays)})
	logs.ApplyRemovalPolicy(awscdk.RemovalPolicy_DESTROY, nil)
	parameter := awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter"+syntheticcheck.Parameter(s.Stage)), nil)
	out := &function{declared: f, fullName: *name, statements: []any{
		// Encrypted under the account's own key of Parameter Store, which needs no grant.
		allow([]any{"ssm:GetParameter"}, parameter),
		allow([]any{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.AttrArn()),
	}}
	out.role = newFunctionRole(stack, id, *name)
	code := awss3assets.NewAsset(stack, jsii.String(id+"Code"), &awss3assets.AssetProps{Path: jsii.String(s.asset(f.name))})
	props := &awslambda.CfnFunctionProps{
		FunctionName:  name,
		Description:   jsii.String(f.does),
		Runtime:       jsii.String("provided.al2023"),
		Handler:       jsii.String("bootstrap"),
		Architectures: jsii.Strings(s.Architecture),
		Code:          &awslambda.CfnFunction_CodeProperty{S3Bucket: code.S3BucketName(), S3Key: code.S3ObjectKey()},
		Role:          out.role.AttrArn(),
		MemorySize:    jsii.Number(f.memory),
		Timeout:       jsii.Number(f.timeout.Seconds()),
		Environment: &awslambda.CfnFunction_EnvironmentProperty{Variables: &map[string]*string{
			syntheticcheck.VarStage:     &s.Stage,
			syntheticcheck.VarAPI:       s.checkedAPI(stack),
			syntheticcheck.VarGateway:   jsii.String(strings.ReplaceAll(s.GatewayURL, "{deployment}", syntheticcheck.Unserved)),
			syntheticcheck.VarParameter: jsii.String(syntheticcheck.Parameter(s.Stage)),
		}},
		LoggingConfig: &awslambda.CfnFunction_LoggingConfigProperty{LogGroup: logs.Ref()},
	}
	out.resource = awslambda.NewCfnFunction(stack, jsii.String(id+"Function"), props)
	out.newLive(stack, props)
	out.newPolicy(stack)
	return out
}

// checkedAPI is the address of the management API that clients use. API Gateway chooses it if the stage's file sets none. It is known then
// when the installation is deployed, and is a parameter of the stack.
func (s Settings) checkedAPI(stack awscdk.Stack) *string {
	if s.APIURL != "" {
		return &s.APIURL
	}
	return awscdk.NewCfnParameter(stack, jsii.String(removals.APIAddress), &awscdk.CfnParameterProps{
		Type: jsii.String("String"), AllowedPattern: jsii.String("^https://[a-z0-9.-]+/[a-z0-9-]+$"),
		Description: jsii.String("The address of the management API, which the stack of the installation has as an output"),
	}).ValueAsString()
}

// newCheckAlarms creates an alarm for each check, and one for the certificates. The alarms of the checks also ring if no check runs.
func newCheckAlarms(stack awscdk.Stack, s Settings) {
	for _, check := range []struct{ name, what string }{
		{syntheticcheck.Management, "management API"}, {syntheticcheck.Gateway, "gateway"},
	} {
		newLowAlarm(stack, "Check"+exported(check.name)+"Fails",
			fmt.Sprintf("The check of the %s from %s fails or does not run: step and error in the log of %s say why", check.what, s.CheckRegion, syntheticcheck.Function.Name),
			metric{telemetry.Namespace, telemetry.ChecksPassed, map[string]*string{"check": jsii.String(telemetry.CheckOf(s.Stage, check.name))}, "Sum"},
			1, time.Minute, 3)
	}
	newCertificateAlarm(stack, fmt.Sprintf("A certificate that clients see expires in fewer than %d days: host in the log of %s says which, and a certificate that was imported into ACM has to be imported again",
		expiryDays, syntheticcheck.Function.Name), jsii.String(telemetry.CertificateOf(s.Stage, syntheticcheck.Certificates)))
}

// checkSettings returns what is wrong with the settings of the check, a line each.
func (s Settings) checkSettings() (wrong []error) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(s.CheckTopic == "" || s.CheckRegion != "", "-c checkTopic is for alarms in another region: name the region with checkRegion, or leave checkTopic out")
	if s.CheckRegion == "" {
		return wrong
	}
	check(s.Emulator == "", "-c checkRegion is not for emulators: their addresses are not in the DNS")
	check(s.AlarmEmail+s.CheckTopic != "", "-c checkRegion notifies nobody without alarmEmail or checkTopic, a topic of SNS in %s: add one of them", s.CheckRegion)
	for _, other := range []struct{ name, arn string }{{"certificateArn", s.CertificateARN}, {"alarmTopic", s.AlarmTopic}, {"tableStream", s.TableStream}} {
		check(regionOf(other.arn) != s.CheckRegion, "-c checkRegion is %s, the region of %s and of the installation: name another region, which reports when that one does not", s.CheckRegion, other.name)
	}
	check(s.CheckTopic == "" || regionOf(s.CheckTopic) == s.CheckRegion, "-c checkTopic is of %s, and checkRegion is %s: name a topic of SNS there", regionOf(s.CheckTopic), s.CheckRegion)
	check(s.APIURL == "" || strings.HasPrefix(s.APIURL, "https://"), "-c checkRegion sends a key to apiUrl, which has to begin with https://")
	return wrong
}

// regionOf returns the region of an ARN, "" for none.
func regionOf(arn string) string {
	const place = 3
	if parts := strings.Split(arn, ":"); len(parts) > place {
		return parts[place]
	}
	return ""
}
