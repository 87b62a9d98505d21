package removals_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/infra/removals"
)

// aclTemplate is the template of an installation with a web ACL and a KMS key.
const aclTemplate = `{"Resources": {
	"WebACL": {"Type": "AWS::WAFv2::WebACL", "Properties": {"Name": "a", "Scope": "REGIONAL",
		"Rules": [{"Name": "flood", "Action": {"Block": {}}}]}},
	"Association": {"Type": "AWS::WAFv2::WebACLAssociation", "Properties": {"ResourceArn": "arn:one"}},
	"Key": {"Type": "AWS::KMS::Key", "DeletionPolicy": "Retain", "Properties": {"EnableKeyRotation": true}},
	"RelayNestedStack": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "relay.json"}}}}`

// These are resources of domainTemplate that a test case removes.
const (
	mappingResource = `"Mapping": {"Type": "AWS::ApiGateway::BasePathMapping", "Properties": ` +
		`{"DomainName": {"Ref": "ApiDomain"}, "RestApiId": {"Ref": "Api"}, "Stage": "dev"}},`
	domainResource = `"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", ` +
		`"Properties": {"DomainName": "api.example.com"}},`
)

// domainTemplate is the template of an installation whose API has a domain.
const domainTemplate = `{"Resources": {
	"Api": {"Type": "AWS::ApiGateway::RestApi"},
	"Stage": {"Type": "AWS::ApiGateway::Stage", "Properties": {"RestApiId": {"Ref": "Api"}, "StageName": "dev"}},
	` + domainResource + mappingResource + `
	"Literal": {"Type": "AWS::ApiGateway::BasePathMapping",
		"Properties": {"DomainName": "*.apis.example.com", "RestApiId": {"Ref": "Api"}}},
	"RelayNestedStack": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "relay.json"}}}}`

// apiLoss is the expected removal of the API's domain name.
var apiLoss = []string{"apiDomain: the domain name api.example.com by which"}

// hostileTemplateCases are changes of a template that seem to keep a resource, and the removals that they cause.
var hostileTemplateCases = map[string]struct {
	before  string
	changes []string // texts, each followed by its replacement
	nested  string   // the template of the nested stack, "" means relayTemplate
	want    []string // the name, a colon, and the beginning of the loss of each removal
}{
	"API domain with another logical ID and name": {before: fullTemplate, changes: []string{
		`"ApiDomain": {`, `"NewDomain": {`,
		`"api.example.com"`, `"api2.example.com"`,
	}, want: []string{"apiDomain: the domain name api.example.com"}},
	"logical IDs of two domains swapped": {
		before:  fullTemplate,
		changes: []string{`"ApiDomain"`, `"X"`, `"GatewayDomain"`, `"ApiDomain"`, `"X"`, `"GatewayDomain"`},
		want:    []string{"apiDomain: the domain name api", "gatewayDomain: the domain name *.apis"},
	},
	"domain of another resource type": {
		before: fullTemplate,
		changes: []string{
			`"ApiDomain": {"Type": "AWS::ApiGateway::DomainName"`,
			`"ApiDomain": {"Type": "AWS::ApiGateway::DomainNameV2"`,
		}, want: []string{"apiDomain: the domain name"},
	},
	"domain with a condition": {
		before:  fullTemplate,
		changes: []string{`"ApiDomain": {`, `"ApiDomain": {"Condition": "Never", `},
		want:    []string{"apiDomain: the domain name"},
	},
	"table with a condition": {
		before:  fullTemplate,
		changes: []string{`"Table": {`, `"Table": {"Condition": "Never", `},
		want:    []string{"Table: the table with all data"},
	},
	"domain name with a condition": {
		before: fullTemplate,
		changes: []string{
			`"DomainName": "api.example.com"`,
			`"DomainName": {"Fn::If": ["A", "api.example.com", {"Ref": "AWS::NoValue"}]}`,
		},
		want: []string{"apiDomain: the domain name"},
	},
	"deletion protection with a condition": {
		before: globalTableTemplate,
		changes: []string{
			`"DeletionProtectionEnabled": true`,
			`"DeletionProtectionEnabled": {"Fn::If": ["A", true, false]}`,
		},
		want: []string{"protected: the protection against deletion of Table"},
	},
	"nested stack with a condition": {before: fullTemplate, changes: []string{
		`"RelayNestedStack": {`,
		`"RelayNestedStack": {"Condition": "Never", `,
	}, want: []string{"relayDomain: a load balancer"}},
	"nested stack replaced by a topic": {
		before: fullTemplate,
		changes: []string{
			`"RelayNestedStack": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "relay.json"}}`,
			`"Other": {"Type": "AWS::SNS::Topic"}`,
		}, want: []string{"relayDomain: a load balancer"},
	},
	"a domain moved to a nested stack": {
		before: fullTemplate,
		changes: []string{
			`"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "api.example.com"}},`, ``,
		},
		nested: strings.Replace(relayTemplate, `"Service"`,
			`"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "api.example.com"}}, "Service"`,
			1), want: []string{"apiDomain: the domain name"},
	},
	"table without a policy and with a protection that is a text": {
		before: fullTemplate,
		changes: []string{
			`"DeletionPolicy": "RetainExceptOnCreate", "Properties": {"DeletionProtectionEnabled": true`,
			`"Properties": {"DeletionProtectionEnabled": "false"`,
		},
		want: []string{"protected: the protection against deletion of Table"},
	},
	"deletion policy Snapshot": {before: fullTemplate, changes: []string{
		`"DeletionPolicy": "Retain"}`,
		`"DeletionPolicy": "Snapshot"}`,
	}, want: []string{"protected: the protection against deletion of Logs"}},
	"key disabled": {before: aclTemplate, changes: []string{
		`"EnableKeyRotation": true`,
		`"EnableKeyRotation": true, "Enabled": false`,
	}, want: []string{"Key: the KMS key, which is switched off"}},
	"a web ACL without its rule": {before: aclTemplate, changes: []string{
		`{"Name": "flood", "Action": {"Block": {}}}`,
		``,
	}, want: []string{"waf: the rule flood"}},
	"rule that only counts": {
		before: aclTemplate, changes: []string{`{"Block": {}}`, `{"Count": {}}`},
		want: []string{"waf: the rule flood"},
	},
	"web ACL associated with another resource": {
		before: aclTemplate, changes: []string{`"arn:one"`, `"arn:two"`},
		want: []string{"waf: the web ACL before an API"},
	},
	"a web ACL of another scope": {
		before: aclTemplate, changes: []string{`"REGIONAL"`, `"CLOUDFRONT"`},
		want: []string{"waf: the web ACL that stops floods"},
	},
	"mapping removed": {before: domainTemplate, changes: []string{mappingResource, ``}, want: apiLoss},
	"mapping and domain removed": {
		before: domainTemplate, changes: []string{mappingResource, ``, domainResource, ``},
		want: apiLoss,
	},
	"domain mapped to another API": {
		before: domainTemplate,
		changes: []string{
			`{"Ref": "ApiDomain"}, "RestApiId": {"Ref": "Api"}`,
			`{"Ref": "ApiDomain"}, "RestApiId": {"Ref": "Other"}`,
		}, want: apiLoss,
	},
	"mapping only at a base path": {
		before:  domainTemplate,
		changes: []string{`"Ref": "Api"}, "Stage": "dev"}},`, `"Ref": "Api"}, "Stage": "dev", "BasePath": "v1"}},`},
		want:    apiLoss,
	},
	"mapping with a condition": {
		before:  domainTemplate,
		changes: []string{`"Mapping": {`, `"Mapping": {"Condition": "Never", `}, want: apiLoss,
	},
	"mapping of another resource type": {
		before: domainTemplate,
		changes: []string{
			`"Mapping": {"Type": "AWS::ApiGateway::BasePathMapping"`,
			`"Mapping": {"Type": "AWS::ApiGateway::BasePathMappingV2"`,
		}, want: apiLoss,
	},
	"mapping of the gateway domain with a condition": {
		before:  domainTemplate,
		changes: []string{`"Literal": {`, `"Literal": {"Condition": "Never", `},
		want:    []string{"gatewayDomain: the domain name *.apis.example.com"},
	},
	"stage of another resource type": {
		before:  domainTemplate,
		changes: []string{`"Stage": {"Type": "AWS::ApiGateway::Stage"`, `"Stage": {"Type": "AWS::ApiGateway::Deployment"`},
		want:    []string{"Stage: an API with its address"},
	},
	"stage renamed": {
		before:  domainTemplate,
		changes: []string{`"StageName": "dev"`, `"StageName": "next"`}, want: []string{"Stage: an API with its address"},
	},
	"load balancer without a listener": {
		before: domainTemplate,
		nested: strings.Replace(relayTemplate, `"Listener": {"Type"`, `"Other": {"Type"`, 1),
		want:   []string{"relayDomain: a load balancer"},
	},
	"load balancer without a service": {
		before: domainTemplate,
		nested: strings.Replace(relayTemplate, `AWS::ECS::Service`, `AWS::ECS::TaskSet`, 1),
		want:   []string{"relayDomain: a load balancer"},
	},
	"load balancer of another service": {
		before: domainTemplate,
		nested: strings.Replace(relayTemplate, `"ServiceName": "relay"`, `"ServiceName": "other"`, 1),
		want:   []string{"relayDomain: a load balancer"},
	},
}

// TestHostileTemplateHidesNoRemoval checks that Diff reports removals even if a change keeps the name of a resource,
// adds a condition, or changes several things at once.
func TestHostileTemplateHidesNoRemoval(t *testing.T) {
	for name, tt := range hostileTemplateCases {
		t.Run(name, func(t *testing.T) {
			after, nested := tt.before, relayTemplate
			for change := range slices.Chunk(tt.changes, 2) {
				if !strings.Contains(after, change[0]) {
					t.Fatalf("the template does not contain %q, want it to", change[0])
				}
				after = strings.ReplaceAll(after, change[0], change[1])
			}
			if tt.nested != "" {
				nested = tt.nested
			}
			var got []string
			for _, r := range removals.Diff(newPlan(t, tt.before, relayTemplate, true), newPlan(t, after, nested, true)) {
				got = append(got, r.Name+": "+r.Loss)
			}
			if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("Diff() = %q, want prefixes %q", got, tt.want)
			}
		})
	}
}
