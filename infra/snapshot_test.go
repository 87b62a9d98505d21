package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/api"
)

// served gives, for an API, the logical id of its deployment, and the properties of all that
// belongs to the API but the deployment, as text.
func (a assembly) served(t *testing.T, name string) (deployment, properties string) {
	t.Helper()
	rest, stage := "", ""
	for id, r := range a.all("AWS::ApiGateway::RestApi") {
		if r.Properties["Name"] == "gatewright-dev-"+name {
			rest = id
		}
	}
	var texts []string
	for _, stack := range a.stacks {
		for id, r := range stack.Resources {
			if !strings.HasPrefix(r.Type, "AWS::ApiGateway::") || id != rest && unreferred(r.Properties["RestApiId"]) != rest {
				continue
			}
			if r.Type == "AWS::ApiGateway::Deployment" {
				deployment = id
				continue
			}
			properties := maps.Clone(r.Properties)
			if r.Type == "AWS::ApiGateway::Stage" {
				stage = unreferred(r.Properties["DeploymentId"])
				delete(properties, "DeploymentId")
			}
			text, err := json.Marshal(properties)
			if err != nil {
				t.Fatal(err)
			}
			if r.Type == "AWS::ApiGateway::BasePathMapping" {
				text = fmt.Append(text, render(a.find(unreferred(r.Properties["DomainName"])).Properties["DomainName"]))
			}
			texts = append(texts, id+" "+string(text))
		}
	}
	if stage != "" && stage != deployment || deployment == "" {
		t.Errorf("the stage of %s shows %q, and its deployment is %q", name, stage, deployment)
	}
	slices.Sort(texts)
	return deployment, strings.Join(texts, "\n")
}

// TestDeploymentIsAnotherForWhatIsServed, and for nothing else: a stage shows a snapshot.
func TestDeploymentIsAnotherForWhatIsServed(t *testing.T) {
	s := settingsFor(t, needed(nil))
	const rolls, rides, shares = "ApiKeyConsumersService_rollKey", "ApiKeyKeysService_bulkCreate", "VariablesService_update"
	// without returns an installation of the functions of these operations, without one of them.
	without := func(id string) assembly {
		fs := slices.DeleteFunc(declaredFunctions(s), func(f declared) bool {
			return len(f.routes) > 0 && !slices.ContainsFunc(f.routes, func(o api.Declaration) bool { return slices.Contains([]string{rolls, rides, shares}, o.ID) })
		})
		for i, f := range fs {
			fs[i].routes = slices.DeleteFunc(slices.Clone(f.routes), func(o api.Declaration) bool { return o.ID == id })
		}
		return synthesiseOf(t, s, fs)
	}
	before, few := synthesise(t, needed(nil)), without("")
	for name, tc := range map[string]struct {
		was, is assembly
		another []string // the APIs that are deployed again
	}{
		"another memory":                  {before, synthesise(t, needed(larger)), nil},
		"what functions know":             {synthesise(t, needed(ownDomain)), synthesise(t, needed(told)), nil},
		"streaming":                       {before, synthesise(t, needed(streams)), []string{gateway}},
		"a domain":                        {before, synthesise(t, needed(ownDomain)), []string{management}},
		"another domain":                  {synthesiseFew(t, needed(nil)), synthesiseFew(t, needed(map[string]string{"gatewayDomain": "others.example.com"})), []string{gateway}},
		"no domain":                       {before, synthesise(t, withoutDomains), []string{gateway}},
		"an operation less":               {few, without(rolls), []string{management}},
		"one less that rides":             {few, without(rides), []string{management}},
		"one that shares a route is gone": {few, without(shares), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, api := range []string{management, gateway} {
				was, served := tc.was.served(t, api)
				is, serves := tc.is.served(t, api)
				if (served != serves) != (was != is) {
					t.Errorf("%s: the deployment was %s and is %s; what it serves has changed: %v", api, was, is, served != serves)
				}
				if want := slices.Contains(tc.another, api); want != (was != is) {
					t.Errorf("%s: it is deployed again: %v, want %v", api, was != is, want)
				}
			}
		})
	}
}

// TestDeploymentFollowsFromProperties of any kind, those that no API has so far too, and not from the
// order in which others are made.
func TestDeploymentFollowsFromProperties(t *testing.T) {
	scope := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("x"), nil)
	throttled := func(rate float64) any {
		return &awsapigateway.CfnStageProps{RestApiId: jsii.String("r"), StageName: jsii.String("dev"), MethodSettings: &[]any{&awsapigateway.CfnStage_MethodSettingProperty{
			HttpMethod: jsii.String("*"), ResourcePath: jsii.String("/*"), ThrottlingRateLimit: &rate,
		}}}
	}
	authorized := func(kind string) any {
		return &awsapigateway.CfnMethodProps{RestApiId: jsii.String("r"), ResourceId: jsii.String("p"), HttpMethod: jsii.String("GET"), AuthorizationType: &kind, AuthorizerId: jsii.String("a")}
	}
	rest := func(id string) any {
		made := awsapigateway.NewCfnRestApi(scope, &id, &awsapigateway.CfnRestApiProps{Name: &id})
		return &awsapigateway.CfnMethodProps{ResourceId: jsii.String("p"), HttpMethod: jsii.String("GET"), RestApiId: made.Ref()}
	}
	seen := map[string]string{}
	for name, parts := range map[string][]any{
		"nothing": nil, "a stage": {throttled(1)}, "another rate": {throttled(2)}, "a method": {authorized("NONE")}, "another authorizer": {authorized("CUSTOM")},
		"two": {throttled(1), authorized("NONE")}, "a reference": {rest("A")}, "another reference": {rest("B")}, "a text": {"api.example.com"},
	} {
		id := deploymentID(scope, parts)
		if other := seen[id]; other != "" {
			t.Errorf("%s and %s have one deployment, %s", name, other, id)
		}
		seen[id] = name
		if again := deploymentID(scope, parts); again != id {
			t.Errorf("%s has the deployments %s and %s", name, id, again)
		}
	}
	if first := deploymentID(scope, []any{throttled(1)}); seen[first] != "a stage" {
		t.Errorf("the same properties are another deployment, %s", first)
	}
}
