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
	"github.com/gatewright/gatewright/shared/base/telemetry"
)

// checkMemoryMB is Lambda's minimum. It is enough for the check, which mostly waits for replies and computes two TLS
// handshakes.
const checkMemoryMB = 128

// newCheck creates the stack of the synthetic check in the region that the setting checkRegion names. Nothing in it
// refers to the stack of the installation, which is in another region. If no domain name is set, make deploy passes the
// address of the API as a parameter (removals.APIAddress). installation is the stack of the installation, which is
// deployed before the check and deleted after it. It is nil in tests of the check alone.
func newCheck(app awscdk.App, s Settings, installation awscdk.Stack) {
	if s.CheckRegion == "" {
		return
	}
	stack := awscdk.NewStack(app, jsii.String(removals.CheckStackName(s.Stage)), &awscdk.StackProps{
		Description:           jsii.Sprintf("Gatewright, the synthetic check of the installation %s", s.Stage),
		Tags:                  &map[string]*string{"product": jsii.String("gatewright"), "stage": jsii.String(s.Stage)},
		Env:                   &awscdk.Environment{Region: &s.CheckRegion},
		TerminationProtection: jsii.Bool(s.Protected),
	})
	if installation != nil {
		stack.AddDependency(installation, jsii.String("it checks the installation"))
	}
	f := newCheckFunction(stack, s)
	if err := newSchedule(stack, s, f, *f.triggers[0].Schedule); err != nil {
		panic(fmt.Sprintf("infra: %v", err)) // only a wrong declaration in the code can cause it
	}
	newRetries(stack, s, f)
	newCheckAlarms(stack, s)
	// An alarm can only notify topics of its own region. The stack of the installation has the budgets.
	regional := s
	regional.AlarmTopic, regional.MonthlyBudget = s.CheckTopic, 0
	setAlarmActions(stack, newNotificationTopics(stack, regional))
	awscdk.NewCfnOutput(stack, jsii.String("AlarmsTell"),
		&awscdk.CfnOutputProps{
			Description: jsii.String("Who hears of alarms"),
			Value:       jsii.String(regional.alarmRecipients()),
		})
}

// newCheckFunction creates the function of the check. Its role allows it to read the parameter with the check's key and
// to write its log.
func newCheckFunction(stack awscdk.Stack, s Settings) *function {
	fn := syntheticcheck.Function
	f := functionSpec{
		name: fn.Name, description: fn.Description, triggers: fn.Events, retries: fn.Retries,
		timeout: fn.Timeout, memoryMB: checkMemoryMB,
	}
	id, name := logicalID(f.name), jsii.String(s.functionName(f.name))
	// The log is deleted with the check's stack. It has no data of the installation, and its name must be free if the
	// check is created again.
	logs := awslogs.NewCfnLogGroup(stack, jsii.String(id+"Logs"),
		&awslogs.CfnLogGroupProps{LogGroupName: jsii.String("/aws/lambda/" + *name), RetentionInDays: jsii.Number(s.LogDays)})
	logs.ApplyRemovalPolicy(awscdk.RemovalPolicy_DESTROY, nil)
	parameter := awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter"+
		syntheticcheck.Parameter(s.Stage)), nil)
	out := &function{functionSpec: f, fullName: *name, statements: []any{
		// The parameter is encrypted under the account's default key of Parameter Store, which needs no grant.
		allow([]any{"ssm:GetParameter"}, parameter),
		allow([]any{"logs:CreateLogStream", "logs:PutLogEvents"}, logs.AttrArn()),
	}}
	out.role = newFunctionRole(stack, id, *name)
	code := awss3assets.NewAsset(stack, jsii.String(id+"Code"),
		&awss3assets.AssetProps{Path: jsii.String(s.assetFolder(f.name))})
	props := &awslambda.CfnFunctionProps{
		FunctionName:  name,
		Description:   jsii.String(f.description),
		Runtime:       jsii.String("provided.al2023"),
		Handler:       jsii.String("bootstrap"),
		Architectures: jsii.Strings(s.Architecture),
		Code:          &awslambda.CfnFunction_CodeProperty{S3Bucket: code.S3BucketName(), S3Key: code.S3ObjectKey()},
		Role:          out.role.AttrArn(),
		MemorySize:    jsii.Number(f.memoryMB),
		Timeout:       jsii.Number(f.timeout.Seconds()),
		Environment: &awslambda.CfnFunction_EnvironmentProperty{Variables: &map[string]*string{
			syntheticcheck.VarStage: &s.Stage,
			syntheticcheck.VarAPI:   s.checkAPIAddress(stack),
			syntheticcheck.VarGateway: jsii.String(strings.ReplaceAll(s.GatewayURL, "{deployment}",
				syntheticcheck.UnknownDeployment)),
			syntheticcheck.VarParameter: jsii.String(syntheticcheck.Parameter(s.Stage)),
		}},
		LoggingConfig: &awslambda.CfnFunction_LoggingConfigProperty{LogGroup: logs.Ref()},
	}
	out.resource = awslambda.NewCfnFunction(stack, jsii.String(id+"Function"), props)
	out.publishVersion(stack, props)
	out.newPolicy(stack)
	return out
}

// checkAPIAddress returns the address of the management API that clients use. If the stage's file sets no address, API
// Gateway chooses it. Then the address is known only after the installation is deployed, and is a parameter of the
// check's stack.
func (s Settings) checkAPIAddress(stack awscdk.Stack) *string {
	if s.APIURL != "" {
		return &s.APIURL
	}
	return awscdk.NewCfnParameter(stack, jsii.String(removals.APIAddress), &awscdk.CfnParameterProps{
		Type: jsii.String("String"), AllowedPattern: jsii.String("^https://[a-z0-9.-]+/[a-z0-9-]+$"),
		Description: jsii.String("The address of the management API, which the stack of the installation has as an output"),
	}).ValueAsString()
}

// newCheckAlarms creates an alarm for each check, and one for the certificates. The alarms of the checks also ring if
// no check runs.
func newCheckAlarms(stack awscdk.Stack, s Settings) {
	for _, check := range []struct{ name, title string }{
		{syntheticcheck.Management, "management API"}, {syntheticcheck.Gateway, "gateway"},
	} {
		newLowAlarm(stack, "Check"+logicalID(check.name)+"Fails",
			fmt.Sprintf("The check of the %s from %s fails or does not run: step and error in the log of %s say why",
				check.title, s.CheckRegion, syntheticcheck.Function.Name),
			metric{
				telemetry.Namespace, telemetry.ChecksPassed,
				map[string]*string{"check": jsii.String(telemetry.CheckDimension(s.Stage, check.name))},
				"Sum",
			},
			1, time.Minute, 3)
	}
	newCertificateAlarm(stack, fmt.Sprintf("A certificate that clients see expires in fewer than %d days: host in the "+
		"log of %s says which, and a certificate that was imported into ACM has to be imported again",
		expiryDays, syntheticcheck.Function.Name),
		jsii.String(telemetry.CertificateDimension(s.Stage, syntheticcheck.Certificates)))
}

// validateCheck returns an error for each invalid setting of the check.
func (s Settings) validateCheck() (errs []error) {
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	require(s.CheckTopic == "" || s.CheckRegion != "", "-c checkTopic is for alarms in another region: name the region "+
		"with checkRegion, or leave checkTopic out")
	if s.CheckRegion == "" {
		return errs
	}
	require(s.Emulator == "", "-c checkRegion is not for emulators: their addresses are not in the DNS")
	require(s.AlarmEmail+s.CheckTopic != "", "-c checkRegion notifies nobody without alarmEmail or checkTopic, a topic "+
		"of SNS in %s: add one of them", s.CheckRegion)
	for _, other := range []struct{ name, arn string }{
		{"certificateArn", s.CertificateARN},
		{"alarmTopic", s.AlarmTopic},
		{"tableStream", s.TableStream},
	} {
		require(regionOf(other.arn) != s.CheckRegion, "-c checkRegion is %s, the region of %s and of the installation: "+
			"name another region, which reports when that one does not", s.CheckRegion, other.name)
	}
	require(s.CheckTopic == "" || regionOf(s.CheckTopic) == s.CheckRegion,
		"-c checkTopic is of %s, and checkRegion is %s: name a topic of SNS there", regionOf(s.CheckTopic), s.CheckRegion)
	require(s.APIURL == "" || strings.HasPrefix(s.APIURL, "https://"),
		"-c checkRegion sends a key to apiUrl, which has to begin with https://")
	return errs
}

// regionOf returns the region of an ARN, or "" if the text is no ARN.
func regionOf(arn string) string {
	const regionIndex = 3
	if parts := strings.Split(arn, ":"); len(parts) > regionIndex {
		return parts[regionIndex]
	}
	return ""
}
