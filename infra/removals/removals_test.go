package removals_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/infra/removals"
)

// installed is the template of an installation with everything.
const installed = `{"Resources": {
	"Table": {"Type": "AWS::DynamoDB::Table", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {"DeletionProtectionEnabled": true, "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
		"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}}},
	"Bucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {"BucketName": {"Fn::Sub": "gatewright-dev-${AWS::AccountId}"}, "VersioningConfiguration": {"Status": "Enabled"},
		"PublicAccessBlockConfiguration": {"BlockPublicAcls": true, "BlockPublicPolicy": true}}},
	"RootKey": {"Type": "AWS::KMS::Key", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {"EnableKeyRotation": true, "MultiRegion": false}},
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

// global is that of a table of the other kind.
const global = `{"Resources": {"Table": {"Type": "AWS::DynamoDB::GlobalTable", "Properties": {"Replicas": [{"Region": {"Ref": "AWS::Region"}, "DeletionProtectionEnabled": true,
	"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}}]}}}}`

// restored goes on with a table that is none of its own.
const restored = `{"Resources": {"Function": {"Type": "AWS::Lambda::Function"}}, "Outputs": {"TableStream": {"Value": "arn:x"}}}`

const relay = `{"Resources": {"Balancer": {"Type": "AWS::ElasticLoadBalancingV2::LoadBalancer", "Properties": {"Type": "network"}}, "Listener": {"Type": "AWS::ElasticLoadBalancingV2::Listener"},
	"Service": {"Type": "AWS::ECS::Service", "Properties": {"ServiceName": "relay"}}}}`

func planned(t *testing.T, root, nested string, protected bool) removals.Stack {
	t.Helper()
	files := fstest.MapFS{
		"manifest.json":  {Data: []byte(fmt.Sprintf(`{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "root.json", "terminationProtection": %v}}}}`, protected))},
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

func TestWhatAnUpdateWouldRemoveIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		from, before, after string   // before is installed where it is ""
		nested              string   // relay where it is ""
		unprotected         bool     // says that the stack has lost its protection
		want                []string // names and texts, with a colon between
	}{
		"nothing":                              {from: "", after: "", want: nil},
		"a function":                           {from: `"Function": {"Type": "AWS::Lambda::Function"},`, after: "", want: nil},
		"the API's domain":                     {from: `"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "api.example.com"}},`, want: []string{"apiDomain: the domain name api.example.com"}},
		"another name in its place":            {from: `"api.example.com"`, after: `"api2.example.com"`, want: []string{"apiDomain: the domain name api.example.com"}},
		"the deployments'":                     {from: `"*.apis.example.com"`, after: `"*.others.example.com"`, want: []string{"gatewayDomain: the domain name *.apis.example.com"}},
		"the web ACL":                          {from: `"ACL": {"Type": "AWS::WAFv2::WebACL"},`, want: []string{"waf: the web ACL"}},
		"what puts it before the API":          {from: `"ACLAssociation": {"Type": "AWS::WAFv2::WebACLAssociation"},`, want: []string{"waf: the web ACL"}},
		"an API":                               {from: `"Api": {"Type": "AWS::ApiGateway::RestApi"}`, after: `"Api2": {"Type": "AWS::ApiGateway::RestApi"}`, want: []string{"Api: an API with its address"}},
		"the table":                            {from: `"Table": {"Type": "AWS::DynamoDB::Table"`, after: `"Table2": {"Type": "AWS::DynamoDB::Table"`, want: []string{"Table: the table with all data"}},
		"another key of the table":             {from: `"AttributeName": "pk"`, after: `"AttributeName": "id"`, want: []string{"Table: the table with all data"}},
		"a table of another kind":              {from: `AWS::DynamoDB::Table`, after: `AWS::DynamoDB::GlobalTable`, want: []string{"table: the table would be another kind of table"}},
		"and back":                             {before: global, from: `AWS::DynamoDB::GlobalTable`, after: `AWS::DynamoDB::Table`, want: []string{"protected: the protection", "table: the table would be another kind of table"}},
		"the table for something else":         {from: `"Table": {"Type": "AWS::DynamoDB::Table"`, after: `"Table": {"Type": "AWS::Lambda::Function"`, want: []string{"Table: the table with all data"}},
		"the table's deletion protection":      {from: `"DeletionProtectionEnabled": true`, after: `"DeletionProtectionEnabled": false`, want: nil}, // it is kept, by its policy
		"both of the table's":                  {from: `"DeletionPolicy": "RetainExceptOnCreate", "Properties": {"DeletionProtectionEnabled": true`, after: `"DeletionPolicy": "Delete", "Properties": {"DeletionProtectionEnabled": false`, want: []string{"protected: the protection against deletion of Table"}},
		"a replica's":                          {before: global, from: `"DeletionProtectionEnabled": true`, after: `"DeletionProtectionEnabled": false`, want: []string{"protected: the protection against deletion of Table"}},
		"the table's recovery":                 {from: `"PointInTimeRecoveryEnabled": true`, after: `"PointInTimeRecoveryEnabled": false`, want: []string{"Table: the table's point-in-time recovery"}},
		"a replica's recovery":                 {before: global, from: `"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true}`, after: `"Unheard": 1`, want: []string{"Table: the table's point-in-time recovery"}},
		"the bucket's name":                    {from: `gatewright-dev-${`, after: `gatewright-${`, want: []string{"Bucket: the bucket with all sources and artifacts"}},
		"the bucket's versions":                {from: `{"Status": "Enabled"}`, after: `{"Status": "Suspended"}`, want: []string{"Bucket: the bucket's versions"}},
		"the bucket's block of public access":  {from: `"BlockPublicAcls": true, "BlockPublicPolicy": true`, after: `"BlockPublicAcls": false`, want: []string{"Bucket: the bucket's block of public access"}},
		"the key":                              {from: `"RootKey"`, after: `"OtherKey"`, want: []string{"RootKey: the KMS key"}},
		"the key's rotation":                   {from: `"EnableKeyRotation": true`, after: `"EnableKeyRotation": false`, want: []string{"RootKey: the yearly rotation"}},
		"the key of alarms":                    {before: `{"Resources": {"Function": {"Type": "AWS::Lambda::Function"}, "AlarmKey": {"Type": "AWS::KMS::Key", "Properties": {"EnableKeyRotation": true}}}}`, from: `, "AlarmKey": {"Type": "AWS::KMS::Key", "Properties": {"EnableKeyRotation": true}}`, want: nil},
		"a key of many regions":                {from: `"MultiRegion": false`, after: `"MultiRegion": true`, want: []string{"multiRegionKey: the multiRegionKey of RootKey would be another"}},
		"a key that does not say it":           {from: `, "MultiRegion": false`, after: ``, want: nil},
		"a log that is kept, from one that is": {from: `"DeletionPolicy": "Retain"}`, after: `"DeletionPolicy": "RetainExceptOnCreate"}`, want: nil},
		"a log that is kept":                   {from: `"DeletionPolicy": "Retain"}`, after: `"DeletionPolicy": "Delete"}`, want: []string{"protected: the protection against deletion of Logs"}},
		"all of it":                            {from: `RetainExceptOnCreate`, after: `Delete`, unprotected: true, want: []string{"protected: the protection against deletion of the stack, Bucket, RootKey"}},
		"the stack's":                          {unprotected: true, want: []string{"protected: the protection against deletion of the stack"}},
		"a restored table":                     {before: restored, from: `, "Outputs": {"TableStream": {"Value": "arn:x"}}`, want: []string{"tableStream: the restored table of arn:x, with all data"}},
		"another restored table":               {before: restored, from: `arn:x`, after: `arn:y`, want: []string{"tableStream: the restored table of arn:x, with all data"}},
		"what failed for good":                 {from: `"DeadLetters": {"Type": "AWS::SQS::Queue"},`, want: []string{"DeadLetters: a queue of what failed for good"}},
		"the relay":                            {from: `"RelayNestedStack"`, after: `"Other"`, want: []string{"relayDomain: a load balancer"}},
		"a part of it":                         {nested: `{"Resources": {"Service": {"Type": "AWS::ECS::Service"}}}`, want: []string{"relayDomain: a load balancer"}},
		"another one in its place":             {nested: strings.Replace(relay, `"network"`, `"application"`, 1), want: []string{"relayDomain: a load balancer"}},
	} {
		t.Run(name, func(t *testing.T) {
			before, nested := installed, relay
			if tt.before != "" {
				before = tt.before
			}
			if tt.nested != "" {
				nested = tt.nested
			}
			after := strings.ReplaceAll(before, tt.from, tt.after)
			if tt.from == "" {
				after = before
			} else if after == before {
				t.Fatalf("%q is not there", tt.from)
			}
			var got []string
			for _, r := range removals.Of(planned(t, before, relay, true), planned(t, after, nested, !tt.unprotected)) {
				got = append(got, r.Name+": "+r.Lost)
			}
			if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("it would remove %q, want %q", got, tt.want)
			}
		})
	}
}

// TestHostileTemplateRemovesNothingUnseen: what is changed at once in several places, stays by its name alone, or is there by a condition.
func TestHostileTemplateRemovesNothingUnseen(t *testing.T) {
	const acl = `{"Resources": {"WebACL": {"Type": "AWS::WAFv2::WebACL", "Properties": {"Name": "a", "Scope": "REGIONAL", "Rules": [{"Name": "flood", "Action": {"Block": {}}}]}},
		"Association": {"Type": "AWS::WAFv2::WebACLAssociation", "Properties": {"ResourceArn": "arn:one"}},
		"Key": {"Type": "AWS::KMS::Key", "DeletionPolicy": "Retain", "Properties": {"EnableKeyRotation": true}},
		"RelayNestedStack": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "relay.json"}}}}`
	const served = `{"Resources": {"Api": {"Type": "AWS::ApiGateway::RestApi"}, "Stage": {"Type": "AWS::ApiGateway::Stage", "Properties": {"RestApiId": {"Ref": "Api"}, "StageName": "dev"}},
		"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "api.example.com"}},
		"Mapping": {"Type": "AWS::ApiGateway::BasePathMapping", "Properties": {"DomainName": {"Ref": "ApiDomain"}, "RestApiId": {"Ref": "Api"}, "Stage": "dev"}},
		"Literal": {"Type": "AWS::ApiGateway::BasePathMapping", "Properties": {"DomainName": "*.apis.example.com", "RestApiId": {"Ref": "Api"}}},
		"RelayNestedStack": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "relay.json"}}}}`
	const mapping = `"Mapping": {"Type": "AWS::ApiGateway::BasePathMapping", "Properties": {"DomainName": {"Ref": "ApiDomain"}, "RestApiId": {"Ref": "Api"}, "Stage": "dev"}},`
	const domain = `"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "api.example.com"}},`
	api := []string{"apiDomain: the domain name api.example.com by which"}
	for name, tt := range map[string]struct {
		before  string
		changes []string // a text and what stands in its place
		nested  string
		want    []string
	}{
		"renamed and replaced at once":          {before: installed, changes: []string{`"ApiDomain": {`, `"NewDomain": {`, `"api.example.com"`, `"api2.example.com"`}, want: []string{"apiDomain: the domain name api.example.com"}},
		"two that change their names":           {before: installed, changes: []string{`"ApiDomain"`, `"X"`, `"GatewayDomain"`, `"ApiDomain"`, `"X"`, `"GatewayDomain"`}, want: []string{"apiDomain: the domain name api", "gatewayDomain: the domain name *.apis"}},
		"one name for another type":             {before: installed, changes: []string{`"ApiDomain": {"Type": "AWS::ApiGateway::DomainName"`, `"ApiDomain": {"Type": "AWS::ApiGateway::DomainNameV2"`}, want: []string{"apiDomain: the domain name"}},
		"a domain by a condition":               {before: installed, changes: []string{`"ApiDomain": {`, `"ApiDomain": {"Condition": "Never", `}, want: []string{"apiDomain: the domain name"}},
		"a table by a condition":                {before: installed, changes: []string{`"Table": {`, `"Table": {"Condition": "Never", `}, want: []string{"Table: the table with all data"}},
		"a name by a condition":                 {before: installed, changes: []string{`"DomainName": "api.example.com"`, `"DomainName": {"Fn::If": ["A", "api.example.com", {"Ref": "AWS::NoValue"}]}`}, want: []string{"apiDomain: the domain name"}},
		"a protection by a condition":           {before: global, changes: []string{`"DeletionProtectionEnabled": true`, `"DeletionProtectionEnabled": {"Fn::If": ["A", true, false]}`}, want: []string{"protected: the protection against deletion of Table"}},
		"a nested stack by a condition":         {before: installed, changes: []string{`"RelayNestedStack": {`, `"RelayNestedStack": {"Condition": "Never", `}, want: []string{"relayDomain: a load balancer"}},
		"a nested stack, whole":                 {before: installed, changes: []string{`"RelayNestedStack": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "relay.json"}}`, `"Other": {"Type": "AWS::SNS::Topic"}`}, want: []string{"relayDomain: a load balancer"}},
		"a domain moved to a nested stack":      {before: installed, changes: []string{`"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "api.example.com"}},`, ``}, nested: strings.Replace(relay, `"Service"`, `"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "api.example.com"}}, "Service"`, 1), want: []string{"apiDomain: the domain name"}},
		"a policy and the protection, one each": {before: installed, changes: []string{`"DeletionPolicy": "RetainExceptOnCreate", "Properties": {"DeletionProtectionEnabled": true`, `"Properties": {"DeletionProtectionEnabled": "false"`}, want: []string{"protected: the protection against deletion of Table"}},
		"a policy of another word":              {before: installed, changes: []string{`"DeletionPolicy": "Retain"}`, `"DeletionPolicy": "Snapshot"}`}, want: []string{"protected: the protection against deletion of Logs"}},
		"a key that is switched off":            {before: acl, changes: []string{`"EnableKeyRotation": true`, `"EnableKeyRotation": true, "Enabled": false`}, want: []string{"Key: the KMS key, which is switched off"}},
		"a web ACL without its rule":            {before: acl, changes: []string{`{"Name": "flood", "Action": {"Block": {}}}`, ``}, want: []string{"waf: the rule flood"}},
		"a rule that counts":                    {before: acl, changes: []string{`{"Block": {}}`, `{"Count": {}}`}, want: []string{"waf: the rule flood"}},
		"a web ACL before something else":       {before: acl, changes: []string{`"arn:one"`, `"arn:two"`}, want: []string{"waf: the web ACL before an API"}},
		"a web ACL of another scope":            {before: acl, changes: []string{`"REGIONAL"`, `"CLOUDFRONT"`}, want: []string{"waf: the web ACL that stops floods"}},
		"what leads a domain to its API":        {before: served, changes: []string{mapping, ``}, want: api},
		"and the domain with it, told once":     {before: served, changes: []string{mapping, ``, domain, ``}, want: api},
		"to another API":                        {before: served, changes: []string{`{"Ref": "ApiDomain"}, "RestApiId": {"Ref": "Api"}`, `{"Ref": "ApiDomain"}, "RestApiId": {"Ref": "Other"}`}, want: api},
		"at a path alone":                       {before: served, changes: []string{`"Ref": "Api"}, "Stage": "dev"}},`, `"Ref": "Api"}, "Stage": "dev", "BasePath": "v1"}},`}, want: api},
		"by a condition":                        {before: served, changes: []string{`"Mapping": {`, `"Mapping": {"Condition": "Never", `}, want: api},
		"for something else":                    {before: served, changes: []string{`"Mapping": {"Type": "AWS::ApiGateway::BasePathMapping"`, `"Mapping": {"Type": "AWS::ApiGateway::BasePathMappingV2"`}, want: api},
		"the deployments', by its name":         {before: served, changes: []string{`"Literal": {`, `"Literal": {"Condition": "Never", `}, want: []string{"gatewayDomain: the domain name *.apis.example.com"}},
		"an API that no stage shows":            {before: served, changes: []string{`"Stage": {"Type": "AWS::ApiGateway::Stage"`, `"Stage": {"Type": "AWS::ApiGateway::Deployment"`}, want: []string{"Stage: an API with its address"}},
		"a stage of another name":               {before: served, changes: []string{`"StageName": "dev"`, `"StageName": "next"`}, want: []string{"Stage: an API with its address"}},
		"a load balancer that takes nothing":    {before: served, nested: strings.Replace(relay, `"Listener": {"Type"`, `"Other": {"Type"`, 1), want: []string{"relayDomain: a load balancer"}},
		"one that has nothing behind it":        {before: served, nested: strings.Replace(relay, `AWS::ECS::Service`, `AWS::ECS::TaskSet`, 1), want: []string{"relayDomain: a load balancer"}},
		"one that has something else behind it": {before: served, nested: strings.Replace(relay, `"ServiceName": "relay"`, `"ServiceName": "other"`, 1), want: []string{"relayDomain: a load balancer"}},
	} {
		t.Run(name, func(t *testing.T) {
			after, nested := tt.before, relay
			for change := range slices.Chunk(tt.changes, 2) {
				if !strings.Contains(after, change[0]) {
					t.Fatalf("%q is not there", change[0])
				}
				after = strings.ReplaceAll(after, change[0], change[1])
			}
			if tt.nested != "" {
				nested = tt.nested
			}
			var got []string
			for _, r := range removals.Of(planned(t, tt.before, relay, true), planned(t, after, nested, true)) {
				got = append(got, r.Name+": "+r.Lost)
			}
			if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("it would remove %q, want %q", got, tt.want)
			}
		})
	}
}

// TestWhatIsAddedRemovesNothing: all of an installation, beside nothing.
func TestWhatIsAddedRemovesNothing(t *testing.T) {
	for _, before := range []removals.Stack{{}, planned(t, `{"Resources": {"Function": {"Type": "AWS::Lambda::Function"}}}`, relay, false)} {
		if got := removals.Of(before, planned(t, installed, relay, true)); len(got) > 0 {
			t.Errorf("it would remove %v", got)
		}
	}
}

// TestRemovalNeedsItsName, and one that AWS does not do needs something else.
func TestRemovalNeedsItsName(t *testing.T) {
	all := []removals.Removal{{Name: "apiDomain", Lost: "the domain name x"}, {Name: "multiRegionKey", Lost: "the key would be another", Final: true}, {Name: "waf", Lost: "the web ACL"}}
	const file = "infra/stages/dev.json"
	for wanted, want := range map[string][]string{
		"":                             {"the domain name x would be removed: leave apiDomain in infra/stages/dev.json as it was, or say REMOVE=apiDomain", "the key would be another, which AWS does to no installation", "the web ACL would be removed"},
		"waf":                          {"the domain name x", "the key would be"},
		"waf apiDomain multiRegionKey": {"the key would be another, which AWS does to no installation: say multiRegionKey in infra/stages/dev.json as it was made, or make another stage"},
		"apiDomai WAF *":               {"the domain name x", "the key would be", "the web ACL"},
	} {
		if got := removals.Refused(all, strings.Fields(wanted), file); !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("with %q it says %q, want %q", wanted, got, want)
		}
	}
}

// TestRemovalIsToldAsTheDocumentationSays, letter by letter.
func TestRemovalIsToldAsTheDocumentationSays(t *testing.T) {
	page, err := os.ReadFile("../../docs/aws.md")
	if err != nil {
		t.Fatal(err)
	}
	after := strings.Replace(installed, `"ACL": {"Type": "AWS::WAFv2::WebACL"},`, "", 1)
	lines := removals.Refused(removals.Of(planned(t, installed, relay, true), planned(t, after, relay, true)), nil, "infra/stages/dev.json")
	if len(lines) != 1 || !strings.Contains(string(page), "\ndeploy: "+lines[0]+"\n") {
		t.Errorf("docs/aws.md does not have %q", lines)
	}
}

// account answers as CloudFormation does, by the stacks' ids.
type account struct {
	status    types.StackStatus // "" for no stack
	templates map[string]string
	nested    map[string][]string // of a stack: ids of those in it, logical and other
	broken    error
}

func (a account) DescribeStacks(_ context.Context, in *cloudformation.DescribeStacksInput, _ ...func(*cloudformation.Options)) (*cloudformation.DescribeStacksOutput, error) {
	switch {
	case a.broken != nil:
		return nil, a.broken
	case a.status == "":
		return nil, &smithy.GenericAPIError{Code: "ValidationError", Message: "Stack with id " + *in.StackName + " does not exist"}
	}
	id, protected := "arn:root", true
	return &cloudformation.DescribeStacksOutput{Stacks: []types.Stack{{StackId: &id, StackStatus: a.status, EnableTerminationProtection: &protected}}}, nil
}

func (a account) GetTemplate(_ context.Context, in *cloudformation.GetTemplateInput, _ ...func(*cloudformation.Options)) (*cloudformation.GetTemplateOutput, error) {
	text := a.templates[*in.StackName]
	return &cloudformation.GetTemplateOutput{TemplateBody: &text}, nil
}

func (a account) ListStackResources(_ context.Context, in *cloudformation.ListStackResourcesInput, _ ...func(*cloudformation.Options)) (*cloudformation.ListStackResourcesOutput, error) {
	// A page for each, as of a stack with more than a hundred.
	ids := a.nested[*in.StackName]
	page := 0
	if in.NextToken != nil {
		_, _ = fmt.Sscan(*in.NextToken, &page)
	}
	out := &cloudformation.ListStackResourcesOutput{}
	kind := "AWS::CloudFormation::Stack"
	out.StackResourceSummaries = []types.StackResourceSummary{{LogicalResourceId: &ids[page], PhysicalResourceId: &ids[page+1], ResourceType: &kind}}
	if page+2 < len(ids) {
		next := fmt.Sprint(page + 2)
		out.NextToken = &next
	}
	return out, nil
}

// TestDeployedStackIsReadAsThePlannedOne, nested stacks and what they nest.
func TestDeployedStackIsReadAsThePlannedOne(t *testing.T) {
	twice := strings.Replace(installed, `"RelayNestedStack"`, `"CallsNestedStack": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "relay.json"}}, "RelayNestedStack"`, 1)
	of := account{
		status:    types.StackStatusUpdateComplete,
		templates: map[string]string{"arn:root": twice, "arn:relay": relay, "arn:calls": relay},
		nested:    map[string][]string{"arn:root": {"CallsNestedStack", "arn:calls", "RelayNestedStack", "arn:relay"}},
	}
	got, err := removals.Deployed(t.Context(), of, "gatewright-dev")
	if err != nil {
		t.Fatal(err)
	}
	want := planned(t, twice, relay, true)
	if !got.Protected || !slices.Equal(slices.Sorted(maps.Keys(got.Templates)), []string{"", "CallsNestedStack", "RelayNestedStack"}) || asText(t, got) != asText(t, want) {
		t.Errorf("it is %v", slices.Sorted(maps.Keys(got.Templates)))
	}
	if !got.Serves() || (removals.Stack{}).Serves() {
		t.Error("what serves is told wrongly")
	}
}

func asText(t *testing.T, s removals.Stack) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStackWhoseCreationFailedIsNamed, so that it can be deleted, and no other stack is taken for one.
func TestStackWhoseCreationFailedIsNamed(t *testing.T) {
	for status, want := range map[types.StackStatus]*removals.Failed{
		types.StackStatusRollbackComplete: {ID: "arn:root", Status: "ROLLBACK_COMPLETE", Protected: true}, types.StackStatusRollbackFailed: {ID: "arn:root", Status: "ROLLBACK_FAILED", Protected: true},
		"": nil, types.StackStatusReviewInProgress: nil, types.StackStatusUpdateComplete: nil, types.StackStatusUpdateRollbackComplete: nil,
	} {
		got, err := removals.Deployed(t.Context(), account{status: status, templates: map[string]string{"arn:root": relay}}, "gatewright-dev")
		if err != nil || !reflect.DeepEqual(got.Failed, want) {
			t.Errorf("Deployed() of a stack that is %s = %+v, error %v, want %+v", status, got.Failed, err, want)
		}
	}
}

// TestBootstrapIsWhatTheTemplateAsserts: the versions that its rule lists are too old.
func TestBootstrapIsWhatTheTemplateAsserts(t *testing.T) {
	const (
		parameter = `"Parameters": {"BootstrapVersion": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cdk-bootstrap/other/version"}}`
		rule      = `"Rules": {"CheckBootstrapVersion": {"Assertions": [{"Assert": {"Fn::Not": [{"Fn::Contains": [["1", "2", "10"], {"Ref": "BootstrapVersion"}]}]}}]}}`
		resources = `"Resources": {"F": {"Type": "AWS::Lambda::Function"}}`
	)
	for name, tt := range map[string]struct {
		template, want string
		minimum        int
	}{
		"a rule":                   {parameter + ", " + rule + ", " + resources, "/cdk-bootstrap/other/version", 11},
		"no rule":                  {parameter + ", " + resources, "", 0},
		"a rule of something else": {rule + ", " + resources, "", 0},
	} {
		if got, minimum := planned(t, "{"+tt.template+"}", relay, false).Bootstrap(); got != tt.want || minimum != tt.minimum {
			t.Errorf("%s: Bootstrap() = %q, %d, want %q, %d", name, got, minimum, tt.want, tt.minimum)
		}
	}
}

// TestStacksThatAreNotThereHaveNothingToLose, and those that cannot be read are no such: what is not known may not be removed.
func TestStacksThatAreNotThereHaveNothingToLose(t *testing.T) {
	for status, want := range map[types.StackStatus]string{
		"": "", types.StackStatusRollbackComplete: "", types.StackStatusReviewInProgress: "", types.StackStatusDeleteComplete: "",
		types.StackStatusUpdateInProgress: "wait until that has ended", types.StackStatusDeleteInProgress: "wait until", types.StackStatusUpdateRollbackCompleteCleanupInProgress: "wait until",
		types.StackStatusUpdateComplete: "it is no JSON", types.StackStatusDeleteFailed: "gatewright-dev is DELETE_FAILED: CloudFormation could not delete all of it",
	} {
		got, err := removals.Deployed(t.Context(), account{status: status}, "gatewright-dev")
		if want == "" && (err != nil || len(got.Templates) > 0) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v and %v, want %q", status, got, err, want)
		}
	}
	denied := errors.New("AccessDenied")
	if _, err := removals.Deployed(t.Context(), account{broken: denied}, "gatewright-dev"); !errors.Is(err, denied) {
		t.Errorf("error %v", err)
	}
	other := &smithy.GenericAPIError{Code: "ValidationError", Message: "1 validation error detected"}
	if _, err := removals.Deployed(t.Context(), account{broken: other}, "gatewright-dev"); err == nil {
		t.Error("another refusal is taken for a stack that is not there")
	}
	if _, err := removals.Deployed(t.Context(), account{status: types.StackStatusUpdateComplete, templates: map[string]string{"arn:root": `{"Resources": {}}`}}, "gatewright-dev"); err == nil {
		t.Error("a template of nothing is read")
	}
}

func TestPlannedStackThatCannotBeReadIsAnError(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"nothing":                 {},
		"no such stack":           {"manifest.json": {Data: []byte(`{"artifacts": {}}`)}},
		"no template":             {"manifest.json": {Data: []byte(`{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "x.json"}}}}`)}},
		"one that is transformed": {"manifest.json": {Data: []byte(`{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "x.json"}}}}`)}, "x.json": {Data: []byte(`{"Transform": "AWS::Serverless-2016-10-31", "Resources": {"N": {"Type": "AWS::SNS::Topic"}}}`)}},
		"an unnamed one":          {"manifest.json": {Data: []byte(`{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "x.json"}}}}`)}, "x.json": {Data: []byte(`{"Resources": {"N": {"Type": "AWS::CloudFormation::Stack"}}}`)}},
	} {
		if _, err := removals.Planned(files, "gatewright-dev"); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

// TestWhatServesDeploymentsGoesLast: not while it is alone, nor while names lead to it, whatever is wanted.
func TestWhatServesDeploymentsGoesLast(t *testing.T) {
	const (
		api      = `"GatewayRest1": {"Type": "AWS::ApiGateway::RestApi"}, "GatewayDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "*.apis.example.com"}}`
		tasks    = `"GatewayProcessNestedStack": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "relay.json"}}`
		records  = `"A": {"Type": "AWS::Route53::RecordSet", "Properties": {"HostedZoneId": "Z1", "SetIdentifier": "function", "Weight": %d}}, "B": {"Type": "AWS::Route53::RecordSet", "Properties": {"HostedZoneId": "Z1", "SetIdentifier": "process", "Weight": %d}}`
		function = `"F": {"Type": "AWS::Lambda::Function"}`
	)
	stack := func(at string, parts ...string) removals.Stack {
		return planned(t, `{"Resources": {`+strings.Join(append(parts, function), ", ")+`}, "Outputs": {"GatewayAddress": {"Value": "https://*.`+at+`"}}}`, relay, false)
	}
	led := func(byFunction, byProcess int) string { return fmt.Sprintf(records, byFunction, byProcess) }
	const at = "apis.example.com"
	for name, tt := range map[string]struct {
		before, after  removals.Stack
		want, ifWanted []string // a text of each line
	}{
		"processes are added":            {stack(at, api), stack(at, api, tasks), nil, nil},
		"a function is added":            {stack(at, tasks), stack(at, api, tasks), nil, nil},
		"at once to processes":           {stack(at, api), stack(at, tasks), []string{"an API with its address would be removed while nothing else serves deployments: say gateway=both in infra/stages/dev.json and deploy that first, and remove it when nobody calls it any more"}, []string{"nothing else serves"}},
		"at once to the function":        {stack(at, tasks), stack(at, api), []string{"a load balancer whose name clients connect to, with what answers behind it, would be removed while nothing else"}, []string{"nothing else serves"}},
		"the function at last":           {stack(at, api, tasks), stack(at, tasks), []string{"or say REMOVE=gateway to"}, nil},
		"the processes at last":          {stack(at, api, tasks), stack(at, api), []string{"or say REMOVE=gateway to"}, nil},
		"a function that is asked":       {stack(at, api, tasks, led(10, 90)), stack(at, tasks, led(0, 100)), []string{"while 10 of 100 clients are led there: say gatewayContainerWeight=100"}, []string{"10 of 100"}},
		"processes that are asked":       {stack(at, api, tasks, led(99, 1)), stack(at, api, led(100, 0)), []string{"while 1 of 100 clients are led there: say gatewayContainerWeight=0 "}, []string{"1 of 100"}},
		"a function that is asked none":  {stack(at, api, tasks, led(0, 100)), stack(at, tasks, led(0, 100)), []string{"or say REMOVE=gateway to"}, nil},
		"all to a new function":          {stack(at, tasks, led(0, 100)), stack(at, api, tasks, led(100, 0)), []string{"the way of every client to the processes would be removed while what they would be led to is made by the same deployment: say gatewayContainerWeight=100 in"}, []string{"gatewayContainerWeight=100"}},
		"none to a new function":         {stack(at, tasks, led(0, 100)), stack(at, api, tasks, led(0, 100)), nil, nil},
		"all to new processes":           {stack(at, api, led(100, 0)), stack(at, api, tasks, led(0, 100)), []string{"the way of every client to the function would be removed while"}, []string{"gatewayContainerWeight=0"}},
		"some to new processes":          {stack(at, api, led(100, 0)), stack(at, api, tasks, led(70, 30)), nil, nil},
		"a record of what stays":         {stack(at, api, tasks, led(70, 30)), stack(at, api, tasks, strings.Split(led(70, 30), ", \"B\"")[0]), []string{"the record of Z1 by which 30 of 100 clients find deployments would be removed: leave hostedZone"}, []string{"REMOVE=hostedZone"}},
		"a record that leads nobody":     {stack(at, api, tasks, led(100, 0)), stack(at, api, tasks, strings.Split(led(100, 0), ", \"B\"")[0]), nil, nil},
		"all at last":                    {stack(at, api, tasks, led(70, 30)), stack(at, api, tasks, led(0, 100)), nil, nil},
		"a name that is another":         {stack(at, tasks), stack("b.example.com", tasks), []string{"the domain name *.apis.example.com by which clients call would be removed: leave gatewayDomain"}, nil},
		"a name that is another as well": {stack(at, api, tasks), stack("b.example.com", tasks), []string{"or say REMOVE=gateway to", "leave gatewayDomain"}, nil},
		"both at once":                   {stack(at, api, tasks), stack(at), []string{"a load balancer whose name clients connect to, with what answers behind it, would be removed while nothing else", "an API with its address would be removed while nothing else"}, []string{"nothing else serves", "nothing else serves"}},
	} {
		all := removals.Of(tt.before, tt.after)
		if got := removals.Refused(all, nil, "infra/stages/dev.json"); !slices.EqualFunc(got, tt.want, strings.Contains) {
			t.Errorf("%s: it says %q, want %q", name, got, tt.want)
		}
		if got := removals.Refused(all, []string{"gateway", "gatewayDomain"}, "infra/stages/dev.json"); !slices.EqualFunc(got, tt.ifWanted, strings.Contains) {
			t.Errorf("%s: with all of it wanted it says %q, want %q", name, got, tt.ifWanted)
		}
	}
}
