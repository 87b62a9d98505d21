package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/infra/removals"
)

// These are the names of the two REST APIs. gateway is also the name of the function and of the service that serve
// deployments.
const (
	management = "api"
	gateway    = "gateway"
)

// newInstallation creates the stack of an installation with its functions and services, and returns it.
func newInstallation(app awscdk.App, s Settings, specs []functionSpec, services []serviceSpec) awscdk.Stack {
	stack := newStack(app, s)
	d := newData(stack, s)
	// The API is created before its functions, because their environment variables contain its address. This is not a
	// cycle: the API itself depends on no function, and only its methods do.
	managementAPI := newRESTAPI(stack, s, management)
	d.apiAddress = s.managementAddress(managementAPI.cfnAPI)
	apiAlarm := newAPIAlarm(managementAPI.scope, s, management)
	// Each function has two alarms or more. They are in a nested stack, because the installation's own stack would
	// otherwise come near CloudFormation's limit of 500 resources.
	alarms := awscdk.NewNestedStack(stack, jsii.String("Alarms"),
		&awscdk.NestedStackProps{Description: jsii.String("What tells that something is wrong")})
	fns, byName := newFunctions(stack, alarms, s, d, specs, apiAlarm)
	if !s.servedByFunction() {
		// The stack contains the logs of the function and of its API even without the function. So they stay readable, and a
		// later update can add the function again.
		newFunctionLogGroup(stack, s, gateway)
		newAccessLogGroup(constructs.NewConstruct(stack, jsii.String(logicalID(gateway))), s, gateway)
	}
	faultAlarm := newGatewayAlarms(alarms, d)
	if f := byName[gateway]; f != nil {
		// The gateway responds with 502 and 503 for its own faults, which the metric Errors of its function does not count.
		f.alarms = append(f.alarms, faultAlarm)
	}
	newReleases(stack, s, d, fns)
	if err := newCallHandling(stack, s, fns); err != nil {
		panic(fmt.Sprintf("infra: %v", err)) // checkTriggers has verified the triggers before
	}
	newTableAlarms(alarms, d)
	newConcurrencyAlarm(alarms, s, specs)
	deployedServices := newServices(stack, s, d, services, faultAlarm)
	routes, err := routesOf(specs)
	if err != nil {
		panic(fmt.Sprintf("infra: %v", err))
	}
	apis := map[string]awsapigateway.CfnRestApi{management: managementAPI.cfnAPI}
	newAPIResources(managementAPI, s, management, withFallbackRoutes(routes), byName)
	var domain awsapigateway.CfnDomainName
	var dependencies []constructs.IDependable
	if proxyRoutes := gatewayRoutes(specs); proxyRoutes != nil {
		gatewayAPI := newRESTAPI(stack, s, gateway)
		apis[gateway], domain = gatewayAPI.cfnAPI, newAPIResources(gatewayAPI, s, gateway, proxyRoutes, byName)
		if domain != nil { // the mapping depends on the stage, and the stage on all methods
			children := gatewayAPI.scope.Node()
			dependencies = append(dependencies, children.FindChild(jsii.String("DomainMapping")),
				children.FindChild(jsii.String("GatewayCalledByGateway")), byName[gateway].policy)
		}
	}
	newDNSRecords(stack, s, domain, dependencies, deployedServices)
	newDashboard(stack, s, d, fns, deployedServices, apis)
	newOutputs(stack, s, d, apis)
	topics := newNotificationTopics(stack, s)
	newReleaseNotification(stack, s, topics)
	newKeyNotification(stack, s, d, topics)
	newBudgets(stack, s, topics)
	setAlarmActions(stack, topics)
	return stack
}

// newStack creates the stack of an installation, without resources.
func newStack(app awscdk.App, s Settings) awscdk.Stack {
	stack := awscdk.NewStack(app, jsii.String("gatewright-"+s.Stage), &awscdk.StackProps{
		Description: jsii.Sprintf("Gatewright, the installation %s", s.Stage),
		Tags:        &map[string]*string{"product": jsii.String("gatewright"), "stage": jsii.String(s.Stage)},
		// There is no environment: the credentials decide to which account an installation is deployed.
		TerminationProtection: jsii.Bool(s.Protected),
	})
	if s.FileDigest != "" {
		stack.AddMetadata(jsii.String(removals.StageFileKey), s.FileDigest)
	}
	if s.CheckRegion != "" {
		stack.AddMetadata(jsii.String(removals.CheckRegionKey), s.CheckRegion)
	}
	return stack
}

// newFunctions creates the functions with their triggers, policies and alarms. It returns them in the order of specs
// and by name. apiAlarm is the alarm of the management API.
func newFunctions(
	stack awscdk.Stack, alarms constructs.Construct, s Settings, d data, specs []functionSpec,
	apiAlarm awscloudwatch.CfnAlarm,
) ([]*function, map[string]*function) {
	var fns []*function
	byName := map[string]*function{}
	for _, f := range specs {
		deployed := newFunction(stack, s, d, f)
		if err := newTriggers(stack, s, d, deployed); err != nil {
			panic(fmt.Sprintf("infra: %v", err)) // only a wrong declaration in the code can cause it
		}
		deployed.allowDeadLetters(s)
		deployed.newPolicy(stack)
		newAlarms(alarms, deployed)
		if len(deployed.routes) > 0 {
			// A 5xx response of API Gateway itself is no failure of the function, so the function's own alarms do not count it.
			deployed.alarms = append(deployed.alarms, apiAlarm)
		}
		fns = append(fns, deployed)
		byName[f.name] = deployed
	}
	return fns, byName
}

// newServices creates the services that run in containers.
func newServices(
	stack awscdk.Stack, s Settings, d data, services []serviceSpec, faultAlarm awscloudwatch.CfnAlarm,
) []*deployedService {
	var running []*deployedService
	for _, spec := range services {
		deployed, err := newService(stack, s, d, spec, faultAlarm)
		if err != nil {
			panic(fmt.Sprintf("infra: %v", err)) // make build has not built the service
		}
		running = append(running, deployed)
	}
	return running
}

// newAPIResources creates the routes and the domain of an API. For the management API it also creates the web ACL, if
// the settings request one. It returns the domain, or nil if the API has none.
func newAPIResources(
	api restAPI, s Settings, name string, routes []route, fns map[string]*function,
) awsapigateway.CfnDomainName {
	scope, cfnAPI := api.scope, api.cfnAPI
	addRoutes(api, s, name, routes, fns)
	if name == management {
		newWAF(scope, s, cfnAPI)
	}
	return newDomain(scope, s, name, cfnAPI)
}

// gatewayRoutes returns the routes that lead all paths to the function that serves deployments. It returns nil if there
// is no such function.
func gatewayRoutes(specs []functionSpec) []route {
	for _, f := range specs {
		for _, e := range f.triggers {
			if e.HTTP {
				return []route{
					{method: anyMethod, path: "/", function: f.name},
					{method: anyMethod, path: "/" + greedyVariable, function: f.name},
				}
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
		output(logicalID(name)+"Id", "The REST API's id", apis[name].Ref())
		address := s.platformAddress(apis[name])
		if domain := s.domain(name); domain != "" {
			address = jsii.String("https://" + domain)
		}
		output(logicalID(name)+"Address", "Where it is", address)
	}
	if apis[gateway] == nil && s.servedByProcesses() {
		output(logicalID(gateway)+"Address", "Where it is", jsii.String("https://"+s.domain(gateway)))
	}
	output("TableName", "The table", d.table.Ref())
	if s.TableStream != "" {
		output("TableStream", "The stream of the restored table", d.table.AttrStreamArn())
	}
	output("BucketName", "The bucket", d.bucket.Ref())
	output("RootKeyId", "The KMS key that wraps the root key", d.key.Ref())
	output("AlarmsTell", "Who hears of alarms", jsii.String(s.alarmRecipients()))
}

// platformAddress returns the address that API Gateway assigns to an API.
func (s Settings) platformAddress(cfnAPI awsapigateway.CfnRestApi) *string {
	return awscdk.Fn_Join(jsii.String(""), &[]*string{
		jsii.String("https://"), cfnAPI.Ref(), jsii.String(".execute-api."), awscdk.Aws_REGION(), jsii.String("."),
		awscdk.Aws_URL_SUFFIX(), jsii.String("/" + s.Stage),
	})
}

// managementAddress returns the management API's public address, nil if it is unknown: the API of an emulator has
// another address than it would have in AWS.
func (s Settings) managementAddress(cfnAPI awsapigateway.CfnRestApi) *string {
	switch {
	case s.APIURL != "":
		return &s.APIURL
	case s.Emulator != "":
		return nil
	}
	return s.platformAddress(cfnAPI)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
