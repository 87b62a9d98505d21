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

	"github.com/gatewright/gatewright/shared/management/api"
)

// deployedContent returns the logical id of an API's deployment, and the properties of all its other resources as text.
// It fails the test if the stage uses another deployment.
func (a assembly) deployedContent(t *testing.T, name string) (deployment, properties string) {
	t.Helper()
	apiID, stage := "", ""
	for id, r := range a.all("AWS::ApiGateway::RestApi") {
		if r.Properties["Name"] == "gatewright-dev-"+name {
			apiID = id
		}
	}
	var texts []string
	for _, stack := range a.stacks {
		for id, r := range stack.Resources {
			if !strings.HasPrefix(r.Type, "AWS::ApiGateway::") || id != apiID && refID(r.Properties["RestApiId"]) != apiID {
				continue
			}
			if r.Type == "AWS::ApiGateway::Deployment" {
				deployment = id
				continue
			}
			properties := maps.Clone(r.Properties)
			if r.Type == "AWS::ApiGateway::Stage" {
				stage = refID(r.Properties["DeploymentId"])
				delete(properties, "DeploymentId")
			}
			text, err := json.Marshal(properties)
			if err != nil {
				t.Fatal(err)
			}
			if r.Type == "AWS::ApiGateway::BasePathMapping" {
				text = fmt.Append(text, render(a.find(refID(r.Properties["DomainName"])).Properties["DomainName"]))
			}
			texts = append(texts, id+" "+string(text))
		}
	}
	if stage != "" && stage != deployment || deployment == "" {
		t.Errorf("the stage of %s uses the deployment %q, want %q", name, stage, deployment)
	}
	slices.Sort(texts)
	return deployment, strings.Join(texts, "\n")
}

// TestDeploymentChangesWithItsContent checks that each change of an API creates a new deployment, because a stage
// serves a snapshot of the API, and that other changes do not.
func TestDeploymentChangesWithItsContent(t *testing.T) {
	s := settingsFor(t, minimalContext(nil))
	const rollKey, bulkCreate, updateVariables = "ApiKeyConsumersService_rollKey", "ApiKeyKeysService_bulkCreate",
		"VariablesService_update"
	// withoutOperation returns an installation with only the API functions that have one of these three operations, and
	// without the operation id.
	withoutOperation := func(id string) assembly {
		specs := slices.DeleteFunc(functionSpecs(s), func(f functionSpec) bool {
			return len(f.routes) > 0 && !slices.ContainsFunc(f.routes, func(o api.Declaration) bool {
				return slices.Contains([]string{rollKey, bulkCreate, updateVariables}, o.ID)
			})
		})
		for i, f := range specs {
			specs[i].routes = slices.DeleteFunc(slices.Clone(f.routes), func(o api.Declaration) bool { return o.ID == id })
		}
		return synthesizeWith(t, s, specs)
	}
	before, base := synthesize(t, minimalContext(nil)), withoutOperation("")
	for name, tc := range map[string]struct {
		from, to   assembly
		redeployed []string // the APIs that are deployed again
	}{
		"another memory": {before, synthesize(t, minimalContext(largerContext)), nil},
		"other environment variables": {
			synthesize(t, minimalContext(apiDomainContext)),
			synthesize(t, minimalContext(functionContext)), nil,
		},
		"streaming":  {before, synthesize(t, minimalContext(streamingContext)), []string{gateway}},
		"API domain": {before, synthesize(t, minimalContext(apiDomainContext)), []string{management}},
		"another domain": {
			synthesizeFew(t, minimalContext(nil)),
			synthesizeFew(t, minimalContext(map[string]string{"gatewayDomain": "others.example.com"})),
			[]string{gateway},
		},
		"no domain":                           {before, synthesize(t, noDomainContext), []string{gateway}},
		"operation removed":                   {base, withoutOperation(rollKey), []string{management}},
		"operation on a shared path removed":  {base, withoutOperation(bulkCreate), []string{management}},
		"operation on a shared route removed": {base, withoutOperation(updateVariables), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, api := range []string{management, gateway} {
				from, oldContent := tc.from.deployedContent(t, api)
				to, newContent := tc.to.deployedContent(t, api)
				if (oldContent != newContent) != (from != to) {
					t.Errorf("%s: deployment = %s after %s, want another one only if the content changes (changed: %v)", api, to,
						from, oldContent != newContent)
				}
				if want := slices.Contains(tc.redeployed, api); want != (from != to) {
					t.Errorf("%s: new deployment = %v, want %v", api, from != to, want)
				}
			}
		})
	}
}

// TestDeploymentFollowsFromProperties checks that different properties have different deployment ids, and that equal
// properties have the same id, even in separate objects.
func TestDeploymentFollowsFromProperties(t *testing.T) {
	scope := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("x"), nil)
	throttled := func(rate float64) any {
		return &awsapigateway.CfnStageProps{
			RestApiId: jsii.String("r"), StageName: jsii.String("dev"),
			MethodSettings: &[]any{&awsapigateway.CfnStage_MethodSettingProperty{
				HttpMethod: jsii.String("*"), ResourcePath: jsii.String("/*"), ThrottlingRateLimit: &rate,
			}},
		}
	}
	authorized := func(kind string) any {
		return &awsapigateway.CfnMethodProps{
			RestApiId: jsii.String("r"), ResourceId: jsii.String("p"),
			HttpMethod: jsii.String("GET"), AuthorizationType: &kind, AuthorizerId: jsii.String("a"),
		}
	}
	apiReference := func(id string) any {
		cfnAPI := awsapigateway.NewCfnRestApi(scope, &id, &awsapigateway.CfnRestApiProps{Name: &id})
		return &awsapigateway.CfnMethodProps{
			ResourceId: jsii.String("p"), HttpMethod: jsii.String("GET"),
			RestApiId: cfnAPI.Ref(),
		}
	}
	names := map[string]string{}
	for name, parts := range map[string][]any{
		"no properties": nil, "a stage": {throttled(1)}, "another rate": {throttled(2)}, "a method": {authorized("NONE")},
		"another authorizer": {authorized("CUSTOM")},
		"two changes":        {throttled(1), authorized("NONE")}, "a reference": {apiReference("A")},
		"another reference": {apiReference("B")}, "a text": {"api.example.com"},
	} {
		id := deploymentID(scope, parts)
		if other := names[id]; other != "" {
			t.Errorf("deploymentID(%s) = %s, want another than for %s", name, id, other)
		}
		names[id] = name
		if repeated := deploymentID(scope, parts); repeated != id {
			t.Errorf("deploymentID(%s) = %s and then %s, want the same", name, id, repeated)
		}
	}
	if first := deploymentID(scope, []any{throttled(1)}); names[first] != "a stage" {
		t.Errorf("deploymentID(the same properties) = %s, want that of \"a stage\"", first)
	}
}
