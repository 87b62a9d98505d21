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

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/trigger"
)

// TestTableIsTheStores: the store's own CreateTable makes the same one.
func TestTableIsTheStores(t *testing.T) {
	for _, kind := range []string{"single", "global"} {
		t.Run(kind, func(t *testing.T) { testTable(t, kind) })
	}
}

func testTable(t *testing.T, kind string) {
	schema := store.Schema()
	of := map[string]string{"single": "AWS::DynamoDB::Table", "global": "AWS::DynamoDB::GlobalTable"}[kind]
	p := maps.Clone(synthesiseFew(t, needed(map[string]string{"table": kind})).only(t, of).Properties)
	if kind == "global" {
		p["PointInTimeRecoverySpecification"] = get(p, "Replicas", 0, "PointInTimeRecoverySpecification")
		if len(p["Replicas"].([]any)) != 1 || render(get(p, "Replicas", 0, "Region")) != "${AWS::Region}" {
			t.Errorf("its replicas are %v", p["Replicas"])
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
		t.Errorf("its key is %v", got.KeySchema)
	}
	if got.BillingMode != "PAY_PER_REQUEST" || got.StreamSpecification.StreamViewType != string(schema.Stream) ||
		got.TimeToLiveSpecification.AttributeName != schema.TTL || !got.TimeToLiveSpecification.Enabled ||
		!got.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled {
		t.Errorf("the table is %s", raw)
	}
	if len(got.GlobalSecondaryIndexes) != len(schema.Indexes) {
		t.Fatalf("it has %d indexes, want %d", len(got.GlobalSecondaryIndexes), len(schema.Indexes))
	}
	for i, index := range schema.Indexes {
		g := got.GlobalSecondaryIndexes[i]
		want := []key{{index.PartitionKey, "HASH"}, {index.SortKey, "RANGE"}}
		if g.IndexName != string(index.Name) || g.Projection.ProjectionType != string(index.Projection) || !slices.Equal(g.KeySchema, want) {
			t.Errorf("its index is %+v", g)
		}
	}
	if want := 2 + 2*len(schema.Indexes); len(got.AttributeDefinitions) != want {
		t.Errorf("%d attributes are defined, want the keys' %d: DynamoDB refuses others", len(got.AttributeDefinitions), want)
	}
}

func TestProtectedInstallationOutlivesItsStack(t *testing.T) {
	for _, tt := range []struct {
		name       string
		context    map[string]string
		kind, kept string
		protected  bool
	}{
		{"unless it says otherwise", nil, "AWS::DynamoDB::Table", "RetainExceptOnCreate", true},
		{"whatever it is called", map[string]string{"stage": "dev", "protected": "true"}, "AWS::DynamoDB::Table", "RetainExceptOnCreate", true},
		{"a global table", map[string]string{"table": "global"}, "AWS::DynamoDB::GlobalTable", "RetainExceptOnCreate", true},
		{"it says otherwise", map[string]string{"stage": "production", "protected": "false"}, "AWS::DynamoDB::Table", "Delete", false},
		{"a global one of those", map[string]string{"table": "global", "protected": "false"}, "AWS::DynamoDB::GlobalTable", "Delete", false},
		{"an emulator's", map[string]string{"emulator": miniStack}, "AWS::DynamoDB::Table", "Delete", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := synthesiseFew(t, needed(tt.context))
			for _, kind := range []string{tt.kind, "AWS::S3::Bucket", "AWS::KMS::Key"} {
				if got := a.only(t, kind).DeletionPolicy; got != tt.kept {
					t.Errorf("the deletion policy of %s is %s, want %s", kind, got, tt.kept)
				}
			}
			for id, r := range a.all("AWS::Logs::LogGroup") {
				if r.DeletionPolicy != tt.kept {
					t.Errorf("the deletion policy of %s is %s, want %s", id, r.DeletionPolicy, tt.kept)
				}
			}
			table := a.only(t, tt.kind).Properties
			if tt.kind == "AWS::DynamoDB::GlobalTable" {
				table, _ = get(table, "Replicas", 0).(map[string]any)
			}
			if table["DeletionProtectionEnabled"] != tt.protected || get(table, "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled") != true {
				t.Errorf("the table's protection is %v and %v, want %v", table["DeletionProtectionEnabled"], table["PointInTimeRecoverySpecification"], tt.protected)
			}
			if got := settingsFor(t, needed(tt.context)).Protected; got != tt.protected { // which the stack's termination protection is
				t.Errorf("it is protected: %v, want %v", got, tt.protected)
			}
		})
	}
}

func TestBucketTakesNothingPublicAndNothingWithoutTLS(t *testing.T) {
	a := synthesise(t, needed(nil))
	p := a.only(t, "AWS::S3::Bucket").Properties
	block, _ := p["PublicAccessBlockConfiguration"].(map[string]any)
	if len(block) != 4 || slices.Contains(slices.Collect(maps.Values(block)), any(false)) {
		t.Errorf("public access is blocked by %v", block)
	}
	if get(p, "VersioningConfiguration", "Status") != "Enabled" {
		t.Error("it keeps no versions")
	}
	policy := a.only(t, "AWS::S3::BucketPolicy").Properties["PolicyDocument"]
	if get(policy, "Statement", 0, "Effect") != "Deny" || get(policy, "Statement", 0, "Condition", "Bool", "aws:SecureTransport") != "false" {
		t.Errorf("its policy is %v", policy)
	}
	rules, _ := get(p, "LifecycleConfiguration", "Rules").([]any)
	removed := map[string]any{}
	for _, r := range rules {
		removed[get(r, "Prefix").(string)] = get(r, "ExpirationInDays")
	}
	if want := map[string]any{"uploads/": 1.0, "sources/": nil, "artifacts/": nil, "truststores/": nil}; !maps.Equal(removed, want) {
		t.Errorf("objects are removed after %v days, want %v", removed, want)
	}
}

// TestBucketMayCallBeforeItIsMade: CloudFormation checks the notification when
// it makes the bucket, and the permission must not refer to a bucket that is
// not there yet.
func TestBucketMayCallBeforeItIsMade(t *testing.T) {
	a := synthesise(t, needed(nil))
	bucket := a.only(t, "AWS::S3::Bucket")
	for id, p := range a.all("AWS::Lambda::Permission") {
		if p.Properties["Principal"] != "s3.amazonaws.com" {
			continue
		}
		if !slices.Contains(bucket.DependsOn, id) {
			t.Errorf("the bucket depends on %v, not on %s", bucket.DependsOn, id)
		}
		if arn := render(p.Properties["SourceArn"]); strings.Contains(arn, "${Bucket") || render(bucket.Properties["BucketName"]) == "" {
			t.Errorf("the permission is for %s", arn)
		}
		if p.Properties["SourceAccount"] == nil {
			t.Error("anybody's bucket of that name could call")
		}
		return
	}
	t.Error("the bucket may call no function")
}

func TestStreamFailuresAreKept(t *testing.T) {
	a := synthesise(t, needed(nil))
	queues := map[string]bool{}
	for _, m := range a.all("AWS::Lambda::EventSourceMapping") {
		p := m.Properties
		if get(p, "FunctionResponseTypes", 0) != "ReportBatchItemFailures" || p["BisectBatchOnFunctionError"] != true {
			t.Errorf("a bad record holds up its batch: %v", p)
		}
		queue := render(get(p, "DestinationConfig", "OnFailure", "Destination"))
		if !strings.HasSuffix(queue, "DeadLetters.Arn}") {
			t.Errorf("what fails for good goes to %q", queue)
		}
		queues[queue] = true
	}
	if n := len(a.all("AWS::Lambda::EventSourceMapping")); n == 0 || len(queues) != n {
		t.Errorf("%d functions that the stream calls have the queues %v", n, queues)
	}
}

func TestEverySchedulesFunctionMayBeCalled(t *testing.T) {
	a := synthesise(t, needed(nil))
	var want []string
	for _, f := range declaredFunctions(settingsFor(t, needed(nil))) {
		for _, e := range f.on {
			if e.Schedule != nil {
				want = append(want, fmt.Sprintf("${%sFunction.Arn} %s", exported(f.name), e.Schedule.Name))
			}
		}
	}
	grants := a.grants()
	var got []string
	for _, s := range a.all("AWS::Scheduler::Schedule") {
		target := render(get(s.Properties, "Target", "Arn"))
		role := strings.TrimSuffix(render(get(s.Properties, "Target", "RoleArn")), ".Arn}") + "}"
		if allowed := grants[role]; len(allowed) != 1 || allowed[0].actions[0] != "lambda:InvokeFunction" || allowed[0].resources[0] != target {
			t.Errorf("the schedule's role may %v", allowed)
		}
		var event trigger.Schedule
		if err := json.Unmarshal([]byte(get(s.Properties, "Target", "Input").(string)), &event); err != nil {
			t.Error(err)
		}
		got = append(got, fmt.Sprintf("${%s.Arn} %s", a.aliased(unreferred(get(s.Properties, "Target", "Arn"))), event.Name))
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("schedules %v, want %v", got, want)
	}
}

// TestNothingBeyondOurBinariesRuns: functions that constructs of the CDK bring
// along run on another runtime, under grants of their own.
func TestNothingBeyondOurBinariesRuns(t *testing.T) {
	for _, emulator := range emulators {
		a := synthesise(t, needed(emulated[emulator]))
		names := map[string]bool{}
		deployed := declaredFunctions
		if emulator == "" {
			deployed = everyFunction
		}
		for _, f := range deployed(settingsFor(t, needed(nil))) {
			names[exported(f.name)+"Function"] = true
		}
		for id, f := range a.all("AWS::Lambda::Function") {
			if !names[id] || f.Properties["Runtime"] != "provided.al2023" {
				t.Errorf("%s: %s runs on %v", emulator, id, f.Properties["Runtime"])
			}
			delete(names, id)
		}
		if len(names) > 0 {
			t.Errorf("%s: %v are not deployed", emulator, names)
		}
		for _, s := range a.stacks {
			for id, r := range s.Resources {
				if strings.HasPrefix(r.Type, "Custom::") || r.Type == "AWS::CloudFormation::CustomResource" {
					t.Errorf("%s: %s is a custom resource", emulator, id)
				}
			}
		}
	}
}

// TestFunctionsKnowTheirInstallation: what shared/cloud reads.
func TestFunctionsKnowTheirInstallation(t *testing.T) {
	a := synthesise(t, needed(nil))
	for id, f := range a.all("AWS::Lambda::Function") {
		env, _ := get(f.Properties, "Environment", "Variables").(map[string]any)
		for _, name := range []string{"GATEWRIGHT_TABLE", "GATEWRIGHT_BUCKET", "GATEWRIGHT_KMS_KEY", "GATEWRIGHT_DEPLOYMENT_URL"} {
			if env[name] == nil || env[name] == "" {
				t.Errorf("%s is not told %s", id, name)
			}
		}
	}
}

// TestFunctionsKnowThePublicAddress of the management API, which cards name: the one that is
// given, or its own domain's, or the platform's. An emulator's is not that of AWS.
func TestFunctionsKnowThePublicAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		context map[string]string
		want    string
	}{
		"the platform's":        {nil, "https://${Api}.execute-api.${AWS::Region}.${AWS::URLSuffix}/dev"},
		"its domain's":          {ownDomain, "https://api.example.com"},
		"of what is before it":  {told, "https://edge.example.com/api"},
		"an emulator's":         {map[string]string{"emulator": miniStack}, ""},
		"given for an emulator": {besideEmulator, "http://api.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			a := synthesise(t, needed(tc.context))
			want := tc.want
			for id, rest := range a.all("AWS::ApiGateway::RestApi") {
				if rest.Properties["Name"] == "gatewright-dev-api" {
					want = strings.ReplaceAll(want, "${Api}", "${"+id+"}")
				}
			}
			for id, f := range a.all("AWS::Lambda::Function") {
				got := ""
				if v := get(f.Properties, "Environment", "Variables", "GATEWRIGHT_API_URL"); v != nil {
					got = render(v)
				}
				if got != want {
					t.Errorf("%s is told %q, want %q", id, got, want)
				}
			}
		})
	}
}

// TestFunctionsKnowWhosePagesMayCall: nobody's but where the context says it.
func TestFunctionsKnowWhosePagesMayCall(t *testing.T) {
	for want, context := range map[string]map[string]string{"": nil, pages: told} {
		a := synthesise(t, needed(context))
		for id, f := range a.all("AWS::Lambda::Function") {
			if got, _ := get(f.Properties, "Environment", "Variables", "GATEWRIGHT_ORIGINS").(string); got != want {
				t.Errorf("%s is told %q, want %q", id, got, want)
			}
		}
	}
}

// TestFunctionsTraceWhereTheContextSays: and nowhere without it.
func TestFunctionsTraceWhereTheContextSays(t *testing.T) {
	for want, context := range map[any]map[string]string{collector: told, nil: nil} {
		a := synthesise(t, needed(context))
		for id, f := range a.all("AWS::Lambda::Function") {
			if got := get(f.Properties, "Environment", "Variables", "OTEL_EXPORTER_OTLP_ENDPOINT"); got != want {
				t.Errorf("%s sends spans to %v, want %v", id, got, want)
			}
		}
	}
}

// TestTemplateNamesNoAccount: it has to fit every account, and tell of none.
func TestTemplateNamesNoAccount(t *testing.T) {
	account := regexp.MustCompile(`\b[0-9]{12}\b`)
	a := synthesise(t, withoutDomains)
	for name, raw := range a.raw {
		if found := account.Find(raw); found != nil {
			t.Errorf("%s holds %s", name, found)
		}
		for _, word := range []string{"AKIA", "SecretString", "eu-west-1", "us-east-1"} {
			if strings.Contains(string(raw), word) {
				t.Errorf("%s holds %q", name, word)
			}
		}
	}
}

// withAdded returns an installation of the product's functions, another one before all others, with operations on paths of theirs and
// parameters called otherwise, and another one after them, which each kind of trigger calls.
func withAdded(t *testing.T) (assembly, []declared) {
	t.Helper()
	functions := func(s Settings) []declared {
		added := declared{name: "added", timeout: time.Minute, memory: 128, on: []trigger.Event{
			{ObjectCreated: "truststore/"},
			{StreamRecords: true},
			{Schedule: &trigger.Schedule{Name: "often", Every: 10 * time.Minute}},
			{Schedule: &trigger.Schedule{Name: "nightly", Cron: "30 2 * * 1-5"}},
		}, retries: trigger.Retries{Attempts: 1, MaxAge: time.Hour, Keep: true}}
		writeAsset(t, s, added.name)
		first := s.withFunction(t, "aaa",
			api.Declaration{ID: "aaa_put", Method: "PUT", Path: "/v1/accounts/{account}/key-buckets/{bucket}"},
			api.Declaration{ID: "aaa_list", Method: "GET", Path: "/v1/accounts/{account}/aaa"})
		return slices.Concat([]declared{first}, declaredFunctions(s), []declared{added})
	}
	return synthesiseOnce(t, needed(nil), "added", functions), functions(settingsFor(t, needed(nil)))
}

// TestFunctionAddedLaterIsCalled gives the product another function of each kind
// of trigger: both of a kind have to be called.
func TestFunctionAddedLaterIsCalled(t *testing.T) {
	without := synthesise(t, needed(nil))
	before, schedules := len(without.all("AWS::Lambda::EventSourceMapping")), len(without.all("AWS::Scheduler::Schedule"))
	a, _ := withAdded(t)
	notified, _ := get(a.only(t, "AWS::S3::Bucket").Properties, "NotificationConfiguration", "LambdaConfigurations").([]any)
	if len(notified) != 2 {
		t.Errorf("the bucket tells %d functions, want 2", len(notified))
	}
	if n := len(a.all("AWS::Lambda::EventSourceMapping")); n != before+1 {
		t.Errorf("the stream calls %d functions, want %d", n, before+1)
	}
	if n := len(a.all("AWS::Scheduler::Schedule")); n != schedules+2 {
		t.Errorf("there are %d schedules, want %d", n, schedules+2)
	}
	for id, want := range map[string]string{"AddedOftenSchedule": "rate(10 minutes)", "AddedNightlySchedule": "cron(30 2 ? * 2,3,4,5,6 *)"} {
		p := a.find(id).Properties
		// Without a time zone, UTC is meant.
		if p["ScheduleExpression"] != want || p["ScheduleExpressionTimezone"] != nil {
			t.Errorf("%s is %v in %v, want %s", id, p["ScheduleExpression"], p["ScheduleExpressionTimezone"], want)
		}
	}
	if a.all("AWS::IAM::Role")["AddedRole"].Type == "" || a.all("AWS::CloudWatch::Alarm")["AddedErrors"].Type == "" {
		t.Error("it has no role or no alarm")
	}
}

func TestTwoFunctionsCannotShareARoute(t *testing.T) {
	one := declared{name: "one", routes: []api.Declaration{{ID: "a", Method: "GET", Path: "/v1/things/{id}"}}}
	two := declared{name: "two", routes: []api.Declaration{{ID: "b", Method: "GET", Path: "/v1/things/{name}"}}}
	if _, err := routesOf([]declared{one, two}); err == nil || !strings.Contains(err.Error(), "b") {
		t.Errorf("error %v", err)
	}
}

func TestDomainsAndWebACLAreTheContexts(t *testing.T) {
	without := synthesise(t, withoutDomains)
	if n := len(without.all("AWS::ApiGateway::DomainName")) + len(without.all("AWS::WAFv2::WebACL")); n != 0 {
		t.Errorf("%d domains and web ACLs that nobody asked for", n)
	}
	a := synthesise(t, needed(ownDomain))
	var names []string
	for _, d := range a.all("AWS::ApiGateway::DomainName") {
		names = append(names, d.Properties["DomainName"].(string))
	}
	slices.Sort(names)
	if want := []string{"*.apis.example.com", "api.example.com"}; !slices.Equal(names, want) {
		t.Errorf("domains %v, want %v", names, want)
	}
	for id, rest := range a.all("AWS::ApiGateway::RestApi") {
		if rest.Properties["DisableExecuteApiEndpoint"] != true {
			t.Errorf("%s answers at the platform's address beside its own", id)
		}
	}
	a.only(t, "AWS::WAFv2::WebACL")
	if arn := render(a.only(t, "AWS::WAFv2::WebACLAssociation").Properties["ResourceArn"]); !strings.HasSuffix(arn, "/stages/dev") {
		t.Errorf("the web ACL is before %s", arn)
	}
}

// TestOnlyTheGatewayStreams: the management API's answers are whole.
func TestOnlyTheGatewayStreams(t *testing.T) {
	for streaming, want := range map[string]any{"true": "STREAM", "false": nil} {
		context := streams
		if streaming == "false" {
			context = nil
		}
		a := synthesise(t, needed(context))
		for id, m := range a.all("AWS::ApiGateway::Method") {
			in := m.Properties["Integration"]
			mode, uri := get(in, "ResponseTransferMode"), render(get(in, "Uri"))
			served := a.behind(m) == "GatewayFunction"
			if served && (mode != want || strings.Contains(uri, "response-streaming-invocations") != (want != nil)) || !served && mode != nil {
				t.Errorf("streaming %s: %s has the mode %v and the address %s", streaming, id, mode, uri)
			}
		}
		env := get(a.all("AWS::Lambda::Function")["GatewayFunction"].Properties, "Environment", "Variables", "GATEWRIGHT_STREAMING")
		if env != streaming {
			t.Errorf("streaming %s: the function is told %v", streaming, env)
		}
	}
}

func TestWrongContextIsToldAllAtOnce(t *testing.T) {
	_, err := settingsOf(func(name string) any {
		return map[string]any{
			"stage": "Production!", "memory": "lots", "logDays": 31, "emulator": "other", "architecture": "mips", "gatewayMemory": 64,
			"apiDomain": "api.example.com", "relayDomain": "https://relay.example.com", "relayMemory": 3000, "apiUrl": "api.example.com", "origins": "https://a.example.com b.example.com", "relayUrl": "http://127.0.0.1:9003",
			"docsEmbeddings": "amazon.nova-lite-v1:0", "docsAnswers": "arn:aws:bedrock:*:*:inference-profile/x", "docsAnswersADay": 0, "canary": "yes",
		}[name]
	})
	if err == nil {
		t.Fatal("it is taken")
	}
	for _, name := range []string{"stage", "memory", "logDays", "emulator", "architecture", "gatewayMemory", "certificateArn", "gatewayDomain", "relayDomain", "relayMemory", "apiUrl", "origins", "docsEmbeddings is one", "docsAnswers is the id", "docsAnswersADay", "canary is true or false"} {
		if !strings.Contains(err.Error(), "-c "+name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}

// TestEmulatorsLackWhatTheDecisionSays keeps what is deployed to an emulator as
// close to what is deployed to AWS as docs/emulators.md tells ("What is left out
// there").
func TestEmulatorsLackWhatTheDecisionSays(t *testing.T) {
	count := func(a assembly) map[string]int {
		out := map[string]int{}
		for _, s := range a.stacks {
			for _, r := range s.Resources {
				out[r.Type]++
			}
		}
		return out
	}
	aws := count(synthesise(t, needed(nil)))
	for emulator, want := range map[string]map[string]int{
		localStack: {"AWS::ApiGateway::DomainName": -1, "AWS::ApiGateway::BasePathMapping": -1},
		miniStack:  {"AWS::ApiGateway::DomainName": -1, "AWS::ApiGateway::BasePathMapping": -1},
	} {
		functions := len(declaredFunctions(settingsFor(t, needed(nil))))
		maps.Copy(want, map[string]int{
			"AWS::CodeDeploy::Application": -1, "AWS::CodeDeploy::DeploymentGroup": -functions, "AWS::CloudFormation::Stack": -1,
			"AWS::ApiGateway::Account": -1, "AWS::Logs::LogGroup": -3, "AWS::IAM::Role": -functions - 2, // access logs, and who writes them
			"AWS::Lambda::Function": -1, "AWS::IAM::Policy": -1, // the hook of releases, with a log and a role
		})
		there := count(synthesise(t, needed(emulated[emulator])))
		got := map[string]int{}
		for kind, n := range aws {
			if d := there[kind] - n; d != 0 {
				got[kind] = d
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s has beyond AWS %v, want %v", emulator, got, want)
		}
	}
}
