package removals_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gatewright/gatewright/infra/removals"
)

// fullTemplate is the template of an installation with most types of resources that have a rule.
const fullTemplate = `{"Resources": {
	"Table": {"Type": "AWS::DynamoDB::Table", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {"DeletionProtectionEnabled": true,
		"KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
		"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}}},
	"Bucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {
		"BucketName": {"Fn::Sub": "gatewright-dev-${AWS::AccountId}"}, "VersioningConfiguration": {"Status": "Enabled"},
		"PublicAccessBlockConfiguration": {"BlockPublicAcls": true, "BlockPublicPolicy": true}}},
	"RootKey": {"Type": "AWS::KMS::Key", "DeletionPolicy": "RetainExceptOnCreate",
		"Properties": {"EnableKeyRotation": true, "MultiRegion": false}},
	"Logs": {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "Retain"},
	"Api": {"Type": "AWS::ApiGateway::RestApi"},
	"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "api.example.com"}},
	"GatewayDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "*.apis.example.com"}},
	"ACL": {"Type": "AWS::WAFv2::WebACL"},
	"ACLAssociation": {"Type": "AWS::WAFv2::WebACLAssociation"},
	"DeadLetters": {"Type": "AWS::SQS::Queue"},
	"Function": {"Type": "AWS::Lambda::Function"},
	"RelayNestedStack": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "relay.json"}}
}}`

// globalTableTemplate is the template of an installation with a global table.
const globalTableTemplate = `{"Resources": {"Table": {"Type": "AWS::DynamoDB::GlobalTable", "Properties": {"Replicas": [{
	"Region": {"Ref": "AWS::Region"}, "DeletionProtectionEnabled": true,
	"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}}]}}}}`

// restoredTableTemplate is the template of an installation with a restored table.
const restoredTableTemplate = `{"Resources": {"Function": {"Type": "AWS::Lambda::Function"}}, ` +
	`"Outputs": {"TableStream": {"Value": "arn:x"}}}`

// relayTemplate is the template of a nested stack with a load balancer.
const relayTemplate = `{"Resources": {
	"Balancer": {"Type": "AWS::ElasticLoadBalancingV2::LoadBalancer", "Properties": {"Type": "network"}},
	"Listener": {"Type": "AWS::ElasticLoadBalancingV2::Listener"},
	"Service": {"Type": "AWS::ECS::Service", "Properties": {"ServiceName": "relay"}}}}`

// newPlan returns the stack that Planned reads. root is its template, and nested is the template of its nested stacks.
// protected says whether it has termination protection.
func newPlan(t *testing.T, root, nested string, protected bool) removals.Stack {
	t.Helper()
	files := fstest.MapFS{
		"manifest.json": {
			Data: []byte(
				fmt.Sprintf(
					`{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "root.json", "terminationProtection": %v}}}}`,
					protected)),
		},
		"root.json":      {Data: []byte(root)},
		"relay.json":     {Data: []byte(nested)},
		"unrelated.json": {Data: []byte(`{}`)},
	}
	s, err := removals.Planned(files, "gatewright-dev")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// updateCases are changes of a template, and the removals that they cause.
var updateCases = map[string]struct {
	template         string   // the template before the update, "" means fullTemplate
	oldText, newText string   // oldText is replaced by newText in the template
	nested           string   // the template of the nested stack, "" means relayTemplate
	unprotected      bool     // whether the new stack has no termination protection
	want             []string // the name, a colon, and the beginning of the loss of each removal
}{
	"no change": {oldText: "", newText: "", want: nil},
	"function removed": {
		oldText: `"Function": {"Type": "AWS::Lambda::Function"},`, newText: "",
		want: nil,
	},
	"API domain removed": {
		oldText: `"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "api.example.com"}},`,
		want:    []string{"apiDomain: the domain name api.example.com"},
	},
	"API domain renamed": {
		oldText: `"api.example.com"`, newText: `"api2.example.com"`,
		want: []string{"apiDomain: the domain name api.example.com"},
	},
	"gateway domain renamed": {
		oldText: `"*.apis.example.com"`, newText: `"*.others.example.com"`,
		want: []string{"gatewayDomain: the domain name *.apis.example.com"},
	},
	"web ACL removed": {
		oldText: `"ACL": {"Type": "AWS::WAFv2::WebACL"},`,
		want:    []string{"waf: the web ACL"},
	},
	"web ACL association removed": {
		oldText: `"ACLAssociation": {"Type": "AWS::WAFv2::WebACLAssociation"},`,
		want:    []string{"waf: the web ACL"},
	},
	"API with another logical ID": {
		oldText: `"Api": {"Type": "AWS::ApiGateway::RestApi"}`,
		newText: `"Api2": {"Type": "AWS::ApiGateway::RestApi"}`, want: []string{"Api: an API with its address"},
	},
	"table with another logical ID": {
		oldText: `"Table": {"Type": "AWS::DynamoDB::Table"`,
		newText: `"Table2": {"Type": "AWS::DynamoDB::Table"`, want: []string{"Table: the table with all data"},
	},
	"table with another key": {
		oldText: `"AttributeName": "pk"`, newText: `"AttributeName": "id"`,
		want: []string{"Table: the table with all data"},
	},
	"table turned into a global table": {
		oldText: `AWS::DynamoDB::Table`, newText: `AWS::DynamoDB::GlobalTable`,
		want: []string{"table: the table would be another kind of table"},
	},
	"global table turned into a table": {
		template: globalTableTemplate, oldText: `AWS::DynamoDB::GlobalTable`,
		newText: `AWS::DynamoDB::Table`,
		want:    []string{"protected: the protection", "table: the table would be another kind of table"},
	},
	"table turned into a function": {
		oldText: `"Table": {"Type": "AWS::DynamoDB::Table"`,
		newText: `"Table": {"Type": "AWS::Lambda::Function"`, want: []string{"Table: the table with all data"},
	},
	// The table is still retained by its deletion policy.
	"deletion protection of the table removed": {
		oldText: `"DeletionProtectionEnabled": true`,
		newText: `"DeletionProtectionEnabled": false`, want: nil,
	},
	"deletion protection and policy of the table removed": {
		oldText: `"DeletionPolicy": "RetainExceptOnCreate", "Properties": {"DeletionProtectionEnabled": true`,
		newText: `"DeletionPolicy": "Delete", "Properties": {"DeletionProtectionEnabled": false`,
		want:    []string{"protected: the protection against deletion of Table"},
	},
	"deletion protection of a replica removed": {
		template: globalTableTemplate, oldText: `"DeletionProtectionEnabled": true`,
		newText: `"DeletionProtectionEnabled": false`, want: []string{"protected: the protection against deletion of Table"},
	},
	"point-in-time recovery of the table removed": {
		oldText: `"PointInTimeRecoveryEnabled": true`,
		newText: `"PointInTimeRecoveryEnabled": false`, want: []string{"Table: the table's point-in-time recovery"},
	},
	"point-in-time recovery of a replica removed": {
		template: globalTableTemplate,
		oldText:  `"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}`, newText: `"Unheard": 1`,
		want: []string{"Table: the table's point-in-time recovery"},
	},
	"bucket renamed": {
		oldText: `gatewright-dev-${`, newText: `gatewright-${`,
		want: []string{"Bucket: the bucket with all sources and artifacts"},
	},
	"bucket versioning suspended": {
		oldText: `{"Status": "Enabled"}`, newText: `{"Status": "Suspended"}`,
		want: []string{"Bucket: the bucket's versions"},
	},
	"public access block of the bucket weakened": {
		oldText: `"BlockPublicAcls": true, "BlockPublicPolicy": true`,
		newText: `"BlockPublicAcls": false`, want: []string{"Bucket: the bucket's block of public access"},
	},
	"KMS key with another logical ID": {
		oldText: `"RootKey"`, newText: `"OtherKey"`,
		want: []string{"RootKey: the KMS key"},
	},
	"key rotation disabled": {
		oldText: `"EnableKeyRotation": true`, newText: `"EnableKeyRotation": false`,
		want: []string{"RootKey: the yearly rotation"},
	},
	"alarm key removed": {
		template: `{"Resources": {"Function": {"Type": "AWS::Lambda::Function"}, "AlarmKey": ` +
			`{"Type": "AWS::KMS::Key", "Properties": {"EnableKeyRotation": true}}}}`,
		oldText: `, "AlarmKey": {"Type": "AWS::KMS::Key", "Properties": {"EnableKeyRotation": true}}`, want: nil,
	},
	"key turned into a multi-Region key": {
		oldText: `"MultiRegion": false`, newText: `"MultiRegion": true`,
		want: []string{"multiRegionKey: the multiRegionKey of RootKey would be another"},
	},
	"MultiRegion of the key left out": {oldText: `, "MultiRegion": false`, newText: ``, want: nil},
	"deletion policy of a log from Retain to RetainExceptOnCreate": {
		oldText: `"DeletionPolicy": "Retain"}`,
		newText: `"DeletionPolicy": "RetainExceptOnCreate"}`, want: nil,
	},
	"deletion policy of a log from Retain to Delete": {
		oldText: `"DeletionPolicy": "Retain"}`, newText: `"DeletionPolicy": "Delete"}`,
		want: []string{"protected: the protection against deletion of Logs"},
	},
	"all deletion policies and the termination protection removed": {
		oldText: `RetainExceptOnCreate`, newText: `Delete`, unprotected: true,
		want: []string{"protected: the protection against deletion of the stack, Bucket, RootKey"},
	},
	"termination protection removed": {
		unprotected: true,
		want:        []string{"protected: the protection against deletion of the stack"},
	},
	"restored table removed": {
		template: restoredTableTemplate,
		oldText:  `, "Outputs": {"TableStream": {"Value": "arn:x"}}`,
		want:     []string{"tableStream: the restored table of arn:x, with all data"},
	},
	"restored table replaced": {
		template: restoredTableTemplate, oldText: `arn:x`, newText: `arn:y`,
		want: []string{"tableStream: the restored table of arn:x, with all data"},
	},
	"dead-letter queue removed": {
		oldText: `"DeadLetters": {"Type": "AWS::SQS::Queue"},`,
		want:    []string{"DeadLetters: a queue of what failed for good"},
	},
	"relay stack renamed": {
		oldText: `"RelayNestedStack"`, newText: `"Other"`,
		want: []string{"relayDomain: a load balancer"},
	},
	"relay stack without its load balancer": {
		nested: `{"Resources": {"Service": {"Type": "AWS::ECS::Service"}}}`,
		want:   []string{"relayDomain: a load balancer"},
	},
	"load balancer of another type": {
		nested: strings.Replace(relayTemplate, `"network"`, `"application"`, 1),
		want:   []string{"relayDomain: a load balancer"},
	},
}

// TestRemovalsOfAnUpdateAreReported checks that Diff returns exactly the removals of each update in updateCases.
func TestRemovalsOfAnUpdateAreReported(t *testing.T) {
	for name, tt := range updateCases {
		t.Run(name, func(t *testing.T) {
			before, nested := fullTemplate, relayTemplate
			if tt.template != "" {
				before = tt.template
			}
			if tt.nested != "" {
				nested = tt.nested
			}
			after := strings.ReplaceAll(before, tt.oldText, tt.newText)
			if tt.oldText == "" {
				after = before
			} else if after == before {
				t.Fatalf("the template does not contain %q, want it to", tt.oldText)
			}
			var got []string
			for _, r := range removals.Diff(newPlan(t, before, relayTemplate, true),
				newPlan(t, after, nested, !tt.unprotected)) {
				got = append(got, r.Name+": "+r.Loss)
			}
			if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("Diff() = %q, want prefixes %q", got, tt.want)
			}
		})
	}
}

// TestAdditionsRemoveNothing checks that adding a whole installation to an empty stack, or to a stack with one
// function, removes nothing.
func TestAdditionsRemoveNothing(t *testing.T) {
	for _, before := range []removals.Stack{
		{},
		newPlan(t, `{"Resources": {"Function": {"Type": "AWS::Lambda::Function"}}}`, relayTemplate, false),
	} {
		if got := removals.Diff(before, newPlan(t, fullTemplate, relayTemplate, true)); len(got) > 0 {
			t.Errorf("Diff() after additions = %v, want none", got)
		}
	}
}

// TestRemovalMustBeAllowedByName checks that Refusals leaves out only removals that are allowed by name, and never a
// removal that AWS cannot do.
func TestRemovalMustBeAllowedByName(t *testing.T) {
	all := []removals.Removal{
		{Name: "apiDomain", Loss: "the domain name x"},
		{Name: "multiRegionKey", Loss: "the key would be another", Impossible: true},
		{Name: "waf", Loss: "the web ACL"},
	}
	const file = "infra/stages/dev.json"
	for allowed, want := range map[string][]string{
		"": {
			"the domain name x would be removed: leave apiDomain in infra/stages/dev.json as " +
				"it was, or say REMOVE=apiDomain", "the key would be another, which AWS does to no installation",
			"the web ACL would be removed",
		},
		"waf": {"the domain name x", "the key would be"},
		"waf apiDomain multiRegionKey": {"the key would be another, which AWS does to no installation: say multiRegionKey " +
			"in infra/stages/dev.json as it was made, or make another stage"},
		"apiDomai WAF *": {"the domain name x", "the key would be", "the web ACL"},
	} {
		if got := removals.Refusals(all, strings.Fields(allowed), file); !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("Refusals(allowed %q) = %q, want lines that begin with %q", allowed, got, want)
		}
	}
}

// TestRefusalMatchesTheDocumentation checks that docs/aws.md quotes the line of a refusal literally.
func TestRefusalMatchesTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	after := strings.Replace(fullTemplate, `"ACL": {"Type": "AWS::WAFv2::WebACL"},`, "", 1)
	lines := removals.Refusals(removals.Diff(newPlan(t, fullTemplate, relayTemplate, true),
		newPlan(t, after, relayTemplate, true)), nil, "infra/stages/dev.json")
	if len(lines) != 1 || !strings.Contains(string(page), "\ndeploy: "+lines[0]+"\n") {
		t.Errorf("Refusals() = %q, want one line that docs/aws.md quotes", lines)
	}
}
