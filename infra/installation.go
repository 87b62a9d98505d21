package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/infra/removals"
)

// The two REST APIs.
const (
	management = "api"
	gateway    = "gateway"
)

// newInstallation makes the stack of an installation of functions and services, and returns it.
func newInstallation(app awscdk.App, s Settings, declarations []declared, services []deployment) awscdk.Stack {
	stack := awscdk.NewStack(app, jsii.String("gatewright-"+s.Stage), &awscdk.StackProps{
		Description: jsii.Sprintf("Gatewright, the installation %s", s.Stage),
		Tags:        &map[string]*string{"product": jsii.String("gatewright"), "stage": jsii.String(s.Stage)},
		// No environment: an installation goes where the credentials lead.
		TerminationProtection: jsii.Bool(s.Protected),
	})
	if s.FileDigest != "" {
		stack.AddMetadata(jsii.String(removals.StageFileKey), s.FileDigest)
	}
	if s.CheckRegion != "" {
		stack.AddMetadata(jsii.String(removals.CheckRegionKey), s.CheckRegion)
	}
	d := newData(stack, s)
	// The API before its functions, which are told its address. There is no circle in it: an
	// API depends on no function, and only its methods do.
	frontDoor := newFront(stack, s, management)
	d.address = s.managementAddress(frontDoor.rest)
	failing := newAPIAlarms(frontDoor.scope, s, management)
	// Alarms of functions are three of each and more: with them the installation's own stack would come near CloudFormation's 500 resources.
	alarms := awscdk.NewNestedStack(stack, jsii.String("Alarms"), &awscdk.NestedStackProps{Description: jsii.String("What tells that something is wrong")})
	var fs []*function
	byName := map[string]*function{}
	for _, f := range declarations {
		deployed := newFunction(stack, s, d, f)
		if err := newTriggers(stack, s, d, deployed); err != nil {
			panic(fmt.Sprintf("infra: %v", err)) // a declaration is wrong; no setting can be
		}
		deployed.mayKeep(s)
		deployed.newPolicy(stack)
		newAlarms(alarms, deployed)
		if len(deployed.routes) > 0 {
			// What it answers by itself is no failure of the function.
			deployed.alarms = append(deployed.alarms, failing)
		}
		fs = append(fs, deployed)
		byName[f.name] = deployed
	}
	if !s.byFunction() {
		// What the function wrote stays readable, and its name is free for it when it comes back.
		newFunctionLogs(stack, s, gateway)
		newAccessLog(constructs.NewConstruct(stack, jsii.String(exported(gateway))), s, gateway)
	}
	faults := newGatewayAlarms(alarms, d)
	if f := byName[gateway]; f != nil {
		// The gateway answers 502 and 503 for its own faults, which the metric Errors of its function does not count.
		f.alarms = append(f.alarms, faults)
	}
	newReleases(stack, s, d, fs)
	if err := newCalls(stack, s, fs); err != nil {
		panic(fmt.Sprintf("infra: %v", err)) // checkTriggers says it before
	}
	newTableAlarms(alarms, d)
	newConcurrencyAlarm(alarms, s, declarations)
	var running []*deployedService
	for _, of := range services {
		deployed, err := newService(stack, s, d, of, faults)
		if err != nil {
			panic(fmt.Sprintf("infra: %v", err)) // make build has not built it
		}
		running = append(running, deployed)
	}
	routes, err := routesOf(declarations)
	if err != nil {
		panic(fmt.Sprintf("infra: %v", err))
	}
	apis := map[string]awsapigateway.CfnRestApi{management: frontDoor.rest}
	newAPIWithAll(frontDoor, s, management, withUnknown(routes), byName)
	var domain awsapigateway.CfnDomainName
	var answering []constructs.IDependable
	if served := gatewayRoutes(declarations); served != nil {
		deployments := newFront(stack, s, gateway)
		apis[gateway], domain = deployments.rest, newAPIWithAll(deployments, s, gateway, served, byName)
		if domain != nil { // the mapping comes after the stage, and that after all methods
			children := deployments.scope.Node()
			answering = append(answering, children.FindChild(jsii.String("DomainMapping")), children.FindChild(jsii.String("GatewayCalledByGateway")), byName[gateway].policy)
		}
	}
	newNames(stack, s, domain, answering, running)
	newDashboard(stack, s, d, fs, running, apis)
	newOutputs(stack, s, d, apis)
	topics := newNoticeTopics(stack, s)
	newReleaseNotice(stack, s, topics)
	newKeyNotice(stack, s, d, topics)
	newBudgets(stack, s, topics)
	addressAlarms(stack, topics)
	return stack
}

// newAPIWithAll gives an API its routes, its web ACL and its domain, which it returns.
func newAPIWithAll(f front, s Settings, name string, routes []route, fs map[string]*function) awsapigateway.CfnDomainName {
	scope, rest := f.scope, f.rest
	addRoutes(f, s, name, routes, fs)
	if name == management {
		newWAF(scope, s, rest)
	}
	return newDomain(scope, s, name, rest)
}

// gatewayRoutes routes everything to the function that serves deployments, nil where there is none.
func gatewayRoutes(declarations []declared) []route {
	for _, f := range declarations {
		for _, e := range f.on {
			if e.HTTP {
				return []route{{method: anyMethod, path: "/", function: f.name}, {method: anyMethod, path: "/" + greedy, function: f.name}}
			}
		}
	}
	return nil
}

func newOutputs(stack awscdk.Stack, s Settings, d data, apis map[string]awsapigateway.CfnRestApi) {
	output := func(name, description string, value *string) {
		awscdk.NewCfnOutput(stack, &name, &awscdk.CfnOutputProps{Description: &description, Value: value})
	}
	for _, name := range sortedKeys(apis) {
		output(exported(name)+"Id", "The REST API's id", apis[name].Ref())
		address := s.platformAddress(apis[name])
		if domain := s.domain(name); domain != "" {
			address = jsii.String("https://" + domain)
		}
		output(exported(name)+"Address", "Where it is", address)
	}
	if apis[gateway] == nil && s.byProcess() {
		output(exported(gateway)+"Address", "Where it is", jsii.String("https://"+s.domain(gateway)))
	}
	output("TableName", "The table", d.table.Ref())
	if s.TableStream != "" {
		output("TableStream", "The stream of the restored table", d.table.AttrStreamArn())
	}
	output("BucketName", "The bucket", d.bucket.Ref())
	output("RootKeyId", "The KMS key that wraps the root key", d.key.Ref())
	output("AlarmsTell", "Who hears of alarms", jsii.String(s.whoHears()))
}

// platformAddress is what API Gateway calls an API.
func (s Settings) platformAddress(rest awsapigateway.CfnRestApi) *string {
	return awscdk.Fn_Join(jsii.String(""), &[]*string{
		jsii.String("https://"), rest.Ref(), jsii.String(".execute-api."), awscdk.Aws_REGION(), jsii.String("."),
		awscdk.Aws_URL_SUFFIX(), jsii.String("/" + s.Stage),
	})
}

// managementAddress is the management API's public address, nil where it is not known: an
// emulator's API is not at the address that it would have in AWS.
func (s Settings) managementAddress(rest awsapigateway.CfnRestApi) *string {
	switch {
	case s.APIURL != "":
		return &s.APIURL
	case s.Emulator != "":
		return nil
	}
	return s.platformAddress(rest)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
