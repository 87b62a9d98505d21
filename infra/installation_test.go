package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// TestTableMatchesTheStoreSchema compares the template of both kinds of table with store.Schema.
func TestTableMatchesTheStoreSchema(t *testing.T) {
	for _, kind := range []string{"single", "global"} {
		t.Run(kind, func(t *testing.T) { testTable(t, kind) })
	}
}

func testTable(t *testing.T, kind string) {
	schema := store.Schema()
	resourceType := map[string]string{"single": "AWS::DynamoDB::Table", "global": "AWS::DynamoDB::GlobalTable"}[kind]
	p := maps.Clone(synthesizeFew(t, minimalContext(map[string]string{"table": kind})).only(t, resourceType).Properties)
	if kind == "global" {
		p["PointInTimeRecoverySpecification"] = get(p, "Replicas", 0, "PointInTimeRecoverySpecification")
		if len(p["Replicas"].([]any)) != 1 || render(get(p, "Replicas", 0, "Region")) != "${AWS::Region}" {
			t.Errorf("replicas of the global table = %v, want one in ${AWS::Region}", p["Replicas"])
		}
	}
	type key struct{ AttributeName, KeyType string }
	var got struct {
		BillingMode             string
		KeySchema               []key
		StreamSpecification     struct{ StreamViewType string }
		TimeToLiveSpecification struct {
			AttributeName string
			Enabled       bool
		}
		PointInTimeRecoverySpecification struct{ PointInTimeRecoveryEnabled bool }
		GlobalSecondaryIndexes           []struct {
			IndexName  string
			KeySchema  []key
			Projection struct{ ProjectionType string }
		}
		AttributeDefinitions []struct{ AttributeName, AttributeType string }
	}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if want := []key{{schema.PartitionKey, "HASH"}, {schema.SortKey, "RANGE"}}; !slices.Equal(got.KeySchema, want) {
		t.Errorf("key of the table = %v, want %v", got.KeySchema, want)
	}
	if got.BillingMode != "PAY_PER_REQUEST" || got.StreamSpecification.StreamViewType != string(schema.Stream) {
		t.Errorf("the table is %s, want PAY_PER_REQUEST and the stream %s", raw, schema.Stream)
	}
	if ttl := got.TimeToLiveSpecification; ttl.AttributeName != schema.TTL || !ttl.Enabled {
		t.Errorf("TTL of the table = %+v, want %s, enabled", ttl, schema.TTL)
	}
	if !got.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled {
		t.Errorf("the table is %s, want point-in-time recovery", raw)
	}
	if len(got.GlobalSecondaryIndexes) != len(schema.Indexes) {
		t.Fatalf("the table has %d indexes, want %d", len(got.GlobalSecondaryIndexes), len(schema.Indexes))
	}
	for i, index := range schema.Indexes {
		g := got.GlobalSecondaryIndexes[i]
		want := []key{{index.PartitionKey, "HASH"}, {index.SortKey, "RANGE"}}
		if g.IndexName != string(index.Name) || g.Projection.ProjectionType != string(index.Projection) ||
			!slices.Equal(g.KeySchema, want) {
			t.Errorf("index of the table = %+v, want %s with the key %v and the projection %s", g, index.Name, want,
				index.Projection)
		}
	}
	if want := 2 + 2*len(schema.Indexes); len(got.AttributeDefinitions) != want {
		t.Errorf("the table defines %d attributes, want only the %d of its keys", len(got.AttributeDefinitions), want)
	}
}

// TestProtectedInstallationRetainsItsResources checks that CloudFormation keeps the table, the bucket, the KMS key and
// the logs of a protected installation if its stack is deleted, and deletes those of an unprotected one.
func TestProtectedInstallationRetainsItsResources(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		context              map[string]string
		kind, deletionPolicy string
		protected            bool
	}{
		{"default", nil, "AWS::DynamoDB::Table", "RetainExceptOnCreate", true},
		{
			"protected stage dev",
			map[string]string{"stage": "dev", "protected": "true"},
			"AWS::DynamoDB::Table",
			"RetainExceptOnCreate", true,
		},
		{"global table", map[string]string{"table": "global"}, "AWS::DynamoDB::GlobalTable", "RetainExceptOnCreate", true},
		{
			"unprotected stage production",
			map[string]string{"stage": "production", "protected": "false"},
			"AWS::DynamoDB::Table",
			"Delete", false,
		},
		{
			"unprotected global table",
			map[string]string{"table": "global", "protected": "false"},
			"AWS::DynamoDB::GlobalTable",
			"Delete", false,
		},
		{"emulator", map[string]string{"emulator": miniStack}, "AWS::DynamoDB::Table", "Delete", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := synthesizeFew(t, minimalContext(tt.context))
			for _, kind := range []string{tt.kind, "AWS::S3::Bucket", "AWS::KMS::Key"} {
				if got := a.only(t, kind).DeletionPolicy; got != tt.deletionPolicy {
					t.Errorf("the deletion policy of %s is %s, want %s", kind, got, tt.deletionPolicy)
				}
			}
			for id, r := range a.all("AWS::Logs::LogGroup") {
				if r.DeletionPolicy != tt.deletionPolicy {
					t.Errorf("the deletion policy of %s is %s, want %s", id, r.DeletionPolicy, tt.deletionPolicy)
				}
			}
			table := a.only(t, tt.kind).Properties
			if tt.kind == "AWS::DynamoDB::GlobalTable" {
				table, _ = get(table, "Replicas", 0).(map[string]any)
			}
			if got := table["DeletionProtectionEnabled"]; got != tt.protected {
				t.Errorf("DeletionProtectionEnabled of the table = %v, want %v", got, tt.protected)
			}
			if got := get(table, "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled"); got != true {
				t.Errorf("PointInTimeRecoveryEnabled of the table = %v, want true", got)
			}
			// Protected also sets the stack's termination protection.
			if got := settingsFor(t, minimalContext(tt.context)).Protected; got != tt.protected {
				t.Errorf("Settings.Protected = %v, want %v", got, tt.protected)
			}
		})
	}
}

// TestBucketRefusesPublicAccessAndPlainHTTP checks that the bucket blocks public access, refuses requests without TLS,
// keeps versions, and removes objects after the expected number of days.
func TestBucketRefusesPublicAccessAndPlainHTTP(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	p := a.only(t, "AWS::S3::Bucket").Properties
	block, _ := p["PublicAccessBlockConfiguration"].(map[string]any)
	if len(block) != 4 || slices.Contains(slices.Collect(maps.Values(block)), any(false)) {
		t.Errorf("PublicAccessBlockConfiguration = %v, want all four blocks", block)
	}
	if get(p, "VersioningConfiguration", "Status") != "Enabled" {
		t.Errorf("VersioningConfiguration = %v, want Enabled", p["VersioningConfiguration"])
	}
	policy := a.only(t, "AWS::S3::BucketPolicy").Properties["PolicyDocument"]
	if get(policy, "Statement", 0, "Effect") != "Deny" ||
		get(policy, "Statement", 0, "Condition", "Bool", "aws:SecureTransport") != "false" {
		t.Errorf("policy of the bucket = %v, want plain HTTP denied", policy)
	}
	rules, _ := get(p, "LifecycleConfiguration", "Rules").([]any)
	expirationDays := map[string]any{}
	for _, r := range rules {
		expirationDays[get(r, "Prefix").(string)] = get(r, "ExpirationInDays")
	}
	if want := map[string]any{
		"uploads/": 1.0, "sources/": nil, "artifacts/": nil,
		"truststores/": nil,
	}; !maps.Equal(expirationDays, want) {
		t.Errorf("objects are removed after %v days, want %v", expirationDays, want)
	}
}

// TestBucketPermissionPrecedesTheBucket checks that the permission to call the function is created before the bucket,
// because S3 verifies the notification when the bucket is created. The permission must not refer to the bucket, which
// does not exist yet.
func TestBucketPermissionPrecedesTheBucket(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	bucket := a.only(t, "AWS::S3::Bucket")
	for id, p := range a.all("AWS::Lambda::Permission") {
		if p.Properties["Principal"] != "s3.amazonaws.com" {
			continue
		}
		if !slices.Contains(bucket.DependsOn, id) {
			t.Errorf("dependencies of the bucket = %v, want %s in them", bucket.DependsOn, id)
		}
		if arn := render(p.Properties["SourceArn"]); strings.Contains(arn, "${Bucket") {
			t.Errorf("SourceArn of the permission = %s, want no reference to the bucket", arn)
		}
		if bucket.Properties["BucketName"] == nil {
			t.Error("the bucket has no BucketName, want a fixed name, which the permission contains")
		}
		if p.Properties["SourceAccount"] == nil {
			t.Error("the permission has no SourceAccount, want one: otherwise a bucket of any account could call")
		}
		return
	}
	t.Error("the bucket may call no function, want one")
}

// TestStreamFailuresGoToDeadLetterQueues checks that each function that reads the table's stream has its own
// dead-letter queue. Lambda sends only the failed records of a batch to it.
func TestStreamFailuresGoToDeadLetterQueues(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	queues := map[string]bool{}
	for _, m := range a.all("AWS::Lambda::EventSourceMapping") {
		p := m.Properties
		if get(p, "FunctionResponseTypes", 0) != "ReportBatchItemFailures" || p["BisectBatchOnFunctionError"] != true {
			t.Errorf("event source mapping = %v, want ReportBatchItemFailures and BisectBatchOnFunctionError", p)
		}
		queue := render(get(p, "DestinationConfig", "OnFailure", "Destination"))
		if !strings.HasSuffix(queue, "DeadLetters.Arn}") {
			t.Errorf("failed records go to %q, want a dead-letter queue", queue)
		}
		queues[queue] = true
	}
	if n := len(a.all("AWS::Lambda::EventSourceMapping")); n == 0 || len(queues) != n {
		t.Errorf("%d event source mappings have the queues %v, want one each", n, queues)
	}
}

// TestSchedulesMayCallTheirFunctions checks that each declared schedule calls the alias of its function, and that its
// role allows nothing else.
func TestSchedulesMayCallTheirFunctions(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	var want []string
	for _, f := range functionSpecs(settingsFor(t, minimalContext(nil))) {
		for _, e := range f.triggers {
			if e.Schedule != nil {
				want = append(want, fmt.Sprintf("${%sFunction.Arn} %s", logicalID(f.name), e.Schedule.Name))
			}
		}
	}
	grants := a.grants()
	var got []string
	for _, s := range a.all("AWS::Scheduler::Schedule") {
		target := render(get(s.Properties, "Target", "Arn"))
		role := strings.TrimSuffix(render(get(s.Properties, "Target", "RoleArn")), ".Arn}") + "}"
		if allowed := grants[role]; len(allowed) != 1 || allowed[0].actions[0] != "lambda:InvokeFunction" ||
			allowed[0].resources[0] != target {
			t.Errorf("grants of the schedule's role = %v, want lambda:InvokeFunction on %s alone", allowed, target)
		}
		var event trigger.Schedule
		if err := json.Unmarshal([]byte(get(s.Properties, "Target", "Input").(string)), &event); err != nil {
			t.Errorf("input of the schedule for %s: error = %v, want JSON", target, err)
		}
		got = append(got, fmt.Sprintf("${%s.Arn} %s", a.aliasTarget(refID(get(s.Properties, "Target", "Arn"))), event.Name))
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("schedules = %v, want %v", got, want)
	}
}

// TestOnlyOurBinariesRun checks that all functions of the product are deployed, and no others. Functions of CDK
// constructs would have another runtime and their own permissions.
func TestOnlyOurBinariesRun(t *testing.T) {
	for _, emulator := range emulators {
		a := synthesize(t, minimalContext(emulatorContexts[emulator]))
		names := map[string]bool{}
		specs := functionSpecs
		if emulator == "" {
			specs = allFunctions
		}
		for _, f := range specs(settingsFor(t, minimalContext(nil))) {
			names[logicalID(f.name)+"Function"] = true
		}
		for id, f := range a.all("AWS::Lambda::Function") {
			if !names[id] || f.Properties["Runtime"] != "provided.al2023" {
				t.Errorf("%s: function %s has the runtime %v, want a known function on provided.al2023", emulator, id,
					f.Properties["Runtime"])
			}
			delete(names, id)
		}
		if len(names) > 0 {
			t.Errorf("%s: functions %v are not deployed, want all", emulator, names)
		}
		for _, s := range a.stacks {
			for id, r := range s.Resources {
				if strings.HasPrefix(r.Type, "Custom::") || r.Type == "AWS::CloudFormation::CustomResource" {
					t.Errorf("%s: %s is a custom resource, want none", emulator, id)
				}
			}
		}
	}
}

// TestTemplateContainsNoAccount checks that templates can be deployed to any account. They do not contain 12 digits in
// a row, eu-west-1, us-east-1, or the beginning of a secret.
func TestTemplateContainsNoAccount(t *testing.T) {
	account := regexp.MustCompile(`\b[0-9]{12}\b`)
	a := synthesize(t, noDomainContext)
	for name, raw := range a.raw {
		if match := account.Find(raw); match != nil {
			t.Errorf("%s contains %s, want no account", name, match)
		}
		for _, text := range []string{"AKIA", "SecretString", "eu-west-1", "us-east-1"} {
			if strings.Contains(string(raw), text) {
				t.Errorf("%s contains %q, want no secret and no region", name, text)
			}
		}
	}
}

// withAddedFunctions returns an installation with the product's functions and two more. The first one has an operation
// on the path of existing operations, with other parameter names, and an operation on a path of its own. The second one
// has each kind of trigger.
func withAddedFunctions(t *testing.T) (assembly, []functionSpec) {
	t.Helper()
	functions := func(s Settings) []functionSpec {
		added := functionSpec{name: "added", timeout: time.Minute, memoryMB: 128, triggers: []trigger.Event{
			{ObjectCreated: "truststore/"},
			{FromStream: true},
			{Schedule: &trigger.Schedule{Name: "often", Interval: 10 * time.Minute}},
			{Schedule: &trigger.Schedule{Name: "nightly", Cron: "30 2 * * 1-5"}},
		}, retries: trigger.Retries{MaxRetries: 1, MaxAge: time.Hour, DeadLetter: true}}
		writeAsset(t, s, added.name)
		first := s.withFunction(t, "aaa",
			api.Declaration{ID: "aaa_put", Method: "PUT", Path: "/v1/accounts/{account}/key-buckets/{bucket}"},
			api.Declaration{ID: "aaa_list", Method: "GET", Path: "/v1/accounts/{account}/aaa"})
		return slices.Concat([]functionSpec{first}, functionSpecs(s), []functionSpec{added})
	}
	return synthesizeCached(t, minimalContext(nil), "added", functions), functions(settingsFor(t, minimalContext(nil)))
}

// TestAddedFunctionIsCalledByItsTriggers adds a function with each kind of trigger. Its triggers must be added to those
// of the other functions.
func TestAddedFunctionIsCalledByItsTriggers(t *testing.T) {
	base := synthesize(t, minimalContext(nil))
	before, schedules := len(base.all("AWS::Lambda::EventSourceMapping")), len(base.all("AWS::Scheduler::Schedule"))
	a, _ := withAddedFunctions(t)
	notifications, _ := get(a.only(t, "AWS::S3::Bucket").Properties, "NotificationConfiguration",
		"LambdaConfigurations").([]any)
	if len(notifications) != 2 {
		t.Errorf("the bucket notifies %d functions, want 2", len(notifications))
	}
	if n := len(a.all("AWS::Lambda::EventSourceMapping")); n != before+1 {
		t.Errorf("the stream calls %d functions, want %d", n, before+1)
	}
	if n := len(a.all("AWS::Scheduler::Schedule")); n != schedules+2 {
		t.Errorf("there are %d schedules, want %d", n, schedules+2)
	}
	for id, want := range map[string]string{
		"AddedOftenSchedule":   "rate(10 minutes)",
		"AddedNightlySchedule": "cron(30 2 ? * 2,3,4,5,6 *)",
	} {
		p := a.find(id).Properties
		// Without a time zone, the schedule uses UTC.
		if p["ScheduleExpression"] != want || p["ScheduleExpressionTimezone"] != nil {
			t.Errorf("%s is %v in %v, want %s", id, p["ScheduleExpression"], p["ScheduleExpressionTimezone"], want)
		}
	}
	if a.all("AWS::IAM::Role")["AddedRole"].Type == "" {
		t.Error("the added function has no role AddedRole, want one")
	}
	if a.all("AWS::CloudWatch::Alarm")["AddedErrors"].Type == "" {
		t.Error("the added function has no alarm AddedErrors, want one")
	}
}

// TestTwoFunctionsCannotShareARoute checks that routesOf refuses two operations with the same method and path if they
// belong to two functions. The names of path parameters do not matter.
func TestTwoFunctionsCannotShareARoute(t *testing.T) {
	one := functionSpec{name: "one", routes: []api.Declaration{{ID: "a", Method: "GET", Path: "/v1/things/{id}"}}}
	two := functionSpec{name: "two", routes: []api.Declaration{{ID: "b", Method: "GET", Path: "/v1/things/{name}"}}}
	if _, err := routesOf([]functionSpec{one, two}); err == nil ||
		!strings.Contains(err.Error(), "change a path of b") {
		t.Errorf("routesOf(one route of two functions) error = %v, want one with \"change a path of b\"", err)
	}
}

// TestDomainsAndWebACLFollowTheSettings checks that domains and a web ACL exist only with their settings. APIs with
// domains do not respond at the addresses of API Gateway.
func TestDomainsAndWebACLFollowTheSettings(t *testing.T) {
	base := synthesize(t, noDomainContext)
	if n := len(base.all("AWS::ApiGateway::DomainName")) + len(base.all("AWS::WAFv2::WebACL")); n != 0 {
		t.Errorf("without settings there are %d domains and web ACLs, want none", n)
	}
	a := synthesize(t, minimalContext(apiDomainContext))
	var names []string
	for _, d := range a.all("AWS::ApiGateway::DomainName") {
		names = append(names, d.Properties["DomainName"].(string))
	}
	slices.Sort(names)
	if want := []string{"*.apis.example.com", "api.example.com"}; !slices.Equal(names, want) {
		t.Errorf("domain names = %v, want %v", names, want)
	}
	for id, api := range a.all("AWS::ApiGateway::RestApi") {
		if api.Properties["DisableExecuteApiEndpoint"] != true {
			t.Errorf("%s: DisableExecuteApiEndpoint = %v, want true", id, api.Properties["DisableExecuteApiEndpoint"])
		}
	}
	a.only(t, "AWS::WAFv2::WebACL")
	if arn := render(a.only(t, "AWS::WAFv2::WebACLAssociation").Properties["ResourceArn"]); !strings.HasSuffix(arn,
		"/stages/dev") {
		t.Errorf("the web ACL is associated with %s, want the stage dev", arn)
	}
}

// TestOnlyTheGatewayStreams checks that the gateway streams if the setting says so, and that the management API never
// streams.
func TestOnlyTheGatewayStreams(t *testing.T) {
	for streaming, want := range map[string]any{"true": "STREAM", "false": nil} {
		context := streamingContext
		if streaming == "false" {
			context = nil
		}
		a, gatewayMethods := synthesize(t, minimalContext(context)), 0
		for id, m := range a.all("AWS::ApiGateway::Method") {
			props := m.Properties["Integration"]
			mode, uri := get(props, "ResponseTransferMode"), render(get(props, "Uri"))
			isGateway := a.integratedFunction(m) == "GatewayFunction"
			if isGateway {
				gatewayMethods++
			}
			if isGateway && (mode != want || strings.Contains(uri, "response-streaming-invocations") != (want != nil)) ||
				!isGateway && mode != nil {
				t.Errorf("streaming=%s: %s has the transfer mode %v and the URI %s, want %v for the gateway, none for others",
					streaming, id, mode, uri, want)
			}
		}
		if gatewayMethods == 0 {
			t.Errorf("streaming=%s: no method calls GatewayFunction, want at least one", streaming)
		}
		env := get(a.all("AWS::Lambda::Function")["GatewayFunction"].Properties, "Environment", "Variables",
			"GATEWRIGHT_STREAMING")
		if env != streaming {
			t.Errorf("streaming=%s: GATEWRIGHT_STREAMING = %v, want %s", streaming, env, streaming)
		}
	}
}

// TestAllContextErrorsAreReportedTogether checks that one error names each invalid setting of a context.
func TestAllContextErrorsAreReportedTogether(t *testing.T) {
	_, err := settingsFromContext(func(name string) any {
		return map[string]any{
			"stage": "Production!", "memory": "lots", "logDays": 31, "emulator": "other", "architecture": "mips",
			"gatewayMemory": 64,
			"apiDomain":     "api.example.com", "relayDomain": "https://relay.example.com", "relayMemory": 3000,
			"apiUrl": "api.example.com", "origins": "https://a.example.com b.example.com", "relayUrl": "http://127.0.0.1:9003",
			"docsEmbeddings": "amazon.nova-lite-v1:0", "docsAnswers": "arn:aws:bedrock:*:*:inference-profile/x",
			"docsAnswersADay": 0, "canary": "yes",
		}[name]
	})
	if err == nil {
		t.Fatal("settingsFromContext(invalid settings) error = nil, want one")
	}
	for _, name := range []string{
		"stage", "memory", "logDays", "emulator", "architecture", "gatewayMemory",
		"certificateArn", "gatewayDomain", "relayDomain", "relayMemory", "apiUrl", "origins", "docsEmbeddings is one",
		"docsAnswers is the id", "docsAnswersADay", "canary is true or false",
	} {
		if !strings.Contains(err.Error(), "-c "+name) {
			t.Errorf("error = %v, want %q in it", err, "-c "+name)
		}
	}
}

// TestEmulatorDeploymentDiffersAsDocumented checks that an emulator lacks only the resources that docs/emulators.md
// names ("What is left out there"). It does not see types of resources that only the emulator has.
func TestEmulatorDeploymentDiffersAsDocumented(t *testing.T) {
	count := func(a assembly) map[string]int {
		out := map[string]int{}
		for _, s := range a.stacks {
			for _, r := range s.Resources {
				out[r.Type]++
			}
		}
		return out
	}
	aws := count(synthesize(t, minimalContext(nil)))
	for emulator, want := range map[string]map[string]int{
		localStack: {"AWS::ApiGateway::DomainName": -1, "AWS::ApiGateway::BasePathMapping": -1},
		miniStack:  {"AWS::ApiGateway::DomainName": -1, "AWS::ApiGateway::BasePathMapping": -1},
	} {
		functions := len(functionSpecs(settingsFor(t, minimalContext(nil))))
		maps.Copy(want, map[string]int{
			"AWS::CodeDeploy::Application": -1, "AWS::CodeDeploy::DeploymentGroup": -functions, "AWS::CloudFormation::Stack": -1,
			// The access logs and their role.
			"AWS::ApiGateway::Account": -1, "AWS::Logs::LogGroup": -3, "AWS::IAM::Role": -functions - 2,
			"AWS::Lambda::Function": -1, "AWS::IAM::Policy": -1, // the hook of releases, which also has a log and a role
		})
		counts := count(synthesize(t, minimalContext(emulatorContexts[emulator])))
		got := map[string]int{}
		for kind, n := range aws {
			if d := counts[kind] - n; d != 0 {
				got[kind] = d
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: numbers of resources differ from AWS by %v, want %v", emulator, got, want)
		}
	}
}
