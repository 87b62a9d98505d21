package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/local/released"
)

// keepers is the file with the resources that installations must not lose by an update.
const keepers = "testdata/kept.txt"

const keepersHead = `# The resources of an installation that hold data or an address, or have a name of their own: stack, logical id, type, and the
# properties of which another value has CloudFormation make another resource. TestKeepersAreUpdatedInPlace refuses, also with -update,
# an installation that would lose one of them. Where that is wanted, write "gone " before its line, by hand, and say in the
# commit how operators move what it holds.
`

// replaced are the properties of which another value makes another resource, or is refused, by the type of the resource: those
// that its schema calls create-only (CloudFormation's reference: "Update requires: Replacement"), as far as they can be ours.
var replaced = map[string][]string{
	// Another stream, which follows from its specification, makes other event sources.
	"AWS::DynamoDB::Table":            {"TableName", "ImportSourceSpecification", "KeySchema", "LocalSecondaryIndexes", "StreamSpecification"},
	"AWS::DynamoDB::GlobalTable":      {"TableName", "GlobalTableSourceArn", "KeySchema", "LocalSecondaryIndexes", "StreamSpecification"},
	"AWS::S3::Bucket":                 {"BucketName", "BucketNamePrefix", "BucketNamespace"},
	"AWS::KMS::Key":                   {"KeySpec", "KeyUsage", "MultiRegion", "Origin"},
	"AWS::SQS::Queue":                 {"QueueName", "FifoQueue"},
	"AWS::SNS::Topic":                 {"TopicName", "FifoTopic"},
	"AWS::SNS::Subscription":          {"TopicArn", "Protocol", "Endpoint"}, // another one has to be confirmed again
	"AWS::Logs::LogGroup":             {"LogGroupName"},
	"AWS::Lambda::Function":           {"FunctionName", "PackageType", "TenancyConfig", "DurableConfig"},
	"AWS::Lambda::Alias":              {"FunctionName", "Name"},
	"AWS::Lambda::EventSourceMapping": {"EventSourceArn", "StartingPosition", "StartingPositionTimestamp"},
	"AWS::Scheduler::Schedule":        {"Name"},
	"AWS::IAM::Role":                  {"RoleName", "Path"},
	// Their parts are in testdata/apis.txt.
	"AWS::ApiGateway::RestApi":                  {},
	"AWS::ApiGateway::Account":                  {},
	"AWS::ApiGateway::Stage":                    {"RestApiId", "StageName"},
	"AWS::ApiGateway::DomainName":               {"DomainName"},
	"AWS::ApiGateway::BasePathMapping":          {"DomainName", "BasePath"},
	"AWS::CodeDeploy::Application":              {"ApplicationName", "ComputePlatform"},
	"AWS::CodeDeploy::DeploymentGroup":          {"ApplicationName", "DeploymentGroupName"},
	"AWS::WAFv2::WebACL":                        {"Name", "Scope"},
	"AWS::EC2::VPC":                             {"CidrBlock", "InstanceTenancy"},
	"AWS::EC2::Subnet":                          {"VpcId", "AvailabilityZone", "CidrBlock"},
	"AWS::ECS::Cluster":                         {"ClusterName"},
	"AWS::ECS::Service":                         {"Cluster", "Role", "SchedulingStrategy", "ServiceName", "LaunchType"},
	"AWS::ElasticLoadBalancingV2::LoadBalancer": {"Name", "Type", "Scheme"},
	"AWS::ElasticLoadBalancingV2::TargetGroup":  {"Name", "TargetType", "Protocol", "ProtocolVersion", "Port", "VpcId", "IpAddressType"},
	// ECS leads it elsewhere at each release: CloudFormation leads it back with whatever it changes of it.
	"AWS::ElasticLoadBalancingV2::Listener": {"LoadBalancerArn", "Port", "Protocol", "DefaultActions", "ListenerAttributes"},
	"AWS::Route53::RecordSet":               {"HostedZoneId", "HostedZoneName", "Name", "SetIdentifier", "Type"},
}

// remade are the types of resources with which nothing is lost: each release has others, or another one does the same.
var remade = []string{
	"AWS::Budgets::Budget", "AWS::CDK::Metadata", "AWS::CloudFormation::Stack", "AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm", "AWS::CloudWatch::Dashboard", "AWS::Events::Rule", "AWS::Logs::MetricFilter",
	"AWS::Lambda::Version", "AWS::Lambda::Permission", "AWS::Lambda::EventInvokeConfig",
	"AWS::ApiGateway::Deployment", "AWS::ApiGateway::Method", "AWS::ApiGateway::Resource", "AWS::ApiGateway::GatewayResponse",
	"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::S3::BucketPolicy", "AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy",
	"AWS::WAFv2::WebACLAssociation", "AWS::ECS::TaskDefinition",
	"AWS::EC2::InternetGateway", "AWS::EC2::Route", "AWS::EC2::RouteTable", "AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress",
	"AWS::EC2::SubnetRouteTableAssociation", "AWS::EC2::VPCEndpoint", "AWS::EC2::VPCGatewayAttachment",
	"AWS::ApplicationAutoScaling::ScalableTarget", "AWS::ApplicationAutoScaling::ScalingPolicy",
}

// keeper is a resource that has to stay.
type keeper struct {
	stack, id, kind string
	pinned          string // the properties that make another one of it, as JSON
	gone            bool
}

func (k keeper) String() string { return fmt.Sprintf("%s of %s, an %s,", k.id, k.stack, k.kind) }

func (k keeper) line() string {
	line := strings.Join([]string{k.stack, k.id, k.kind, k.pinned}, " ")
	if k.gone {
		line = "gone " + line
	}
	return line + "\n"
}

func (k keeper) same(other keeper) bool {
	return k.stack == other.stack && k.id == other.id && k.kind == other.kind
}

func (k keeper) compare(other keeper) int {
	return cmp.Or(cmp.Compare(k.stack, other.stack), cmp.Compare(k.kind, other.kind), cmp.Compare(k.id, other.id))
}

// everything is the context of an installation that has all that one can have.
func everything() map[string]string {
	return serving(map[string]string{"waf": "true", "apiDomain": "api.example.com", "hostedZone": "Z0123456789ABCDEFGHIJ", "gatewayContainerWeight": "10", "alarmEmail": email, "monthlyBudget": "100"})
}

// TestKeepersAreUpdatedInPlace that an installation would miss: each resource that holds something is where it was, and is called as
// it was. -update takes what is added.
func TestKeepersAreUpdatedInPlace(t *testing.T) {
	text, err := os.ReadFile(keepers)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	was, err := readKeepers(string(text))
	if err != nil {
		t.Fatal(err)
	}
	is := append(synthesise(t, everything()).keepers(t), synthesiseCheck(t, everything()).keepers(t)...)
	for _, text := range lost(was, is) {
		t.Error(text)
	}
	if !t.Failed() {
		golden.Equal(t, keepers, keepersHead+writeKeepers(was, is))
	}
}

// keepers are those of all stacks, sorted.
func (a assembly) keepers(t *testing.T) (out []keeper) {
	t.Helper()
	stackOf := a.stackOf()
	stackOf[checkFile] = "check"
	for file, stack := range a.stacks {
		for id, r := range stack.Resources {
			properties, ok := replaced[r.Type]
			if !ok {
				if !slices.Contains(remade, r.Type) {
					t.Errorf("%s is an %s, of which nothing is known: say in kept_test.go what makes another one of it, or that nothing is lost with it", id, r.Type)
				}
				continue
			}
			values := map[string]any{}
			for _, name := range properties {
				if v, ok := r.Properties[name]; ok {
					values[name] = v
				}
			}
			pinned, err := json.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, keeper{stack: cmp.Or(stackOf[file], "installation"), id: id, kind: r.Type, pinned: string(pinned)})
		}
	}
	slices.SortFunc(out, keeper.compare)
	return out
}

// lost says what an update would lose of an installation: a line for each.
func lost(was, is []keeper) (out []string) {
	for _, k := range was {
		i := slices.IndexFunc(is, k.same)
		switch {
		case k.gone:
		case i < 0:
			out = append(out, fmt.Sprintf("%s would be removed by an update, with what it holds or is called by: keep its stack and its logical id, "+
				`or write "gone " before its line in %s`, k, keepers))
		case is[i].pinned != k.pinned:
			out = append(out, fmt.Sprintf("%s would be another one after an update, or the update would be refused: %s has to stay %s; "+
				"what is to be otherwise is a resource of another logical id, to which what it holds is moved", k, is[i].pinned, k.pinned))
		}
	}
	return out
}

// writeKeepers has a line for each that there is, and for each that is gone.
func writeKeepers(was, is []keeper) string {
	all := slices.Clone(is)
	for _, k := range was {
		if k.gone && !slices.ContainsFunc(is, k.same) {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, keeper.compare)
	var out strings.Builder
	for _, k := range all {
		out.WriteString(k.line())
	}
	return out.String()
}

func readKeepers(text string) (out []keeper, err error) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rest, gone := strings.CutPrefix(strings.TrimSpace(line), "gone ")
		words := strings.SplitN(rest, " ", 4)
		if len(words) != 4 || !json.Valid([]byte(words[3])) {
			return nil, fmt.Errorf("%s: %q is no resource: take the file from the last commit", keepers, line)
		}
		out = append(out, keeper{stack: words[0], id: words[1], kind: words[2], pinned: words[3], gone: gone})
	}
	return out, nil
}

// TestUpdatesThatLoseSomethingAreTold, and no others.
func TestUpdatesThatLoseSomethingAreTold(t *testing.T) {
	const was = `installation Table AWS::DynamoDB::Table {"KeySchema":["PK","SK"]}
installation OneLive AWS::Lambda::Alias {"FunctionName":{"Ref":"One"},"Name":"live"}
gone installation Queue AWS::SQS::Queue {}
Relay Balancer AWS::ElasticLoadBalancingV2::LoadBalancer {"Name":"relay"}
`
	for name, tc := range map[string]struct {
		from, to string
		want     string // "" for what is taken
	}{
		"nothing":                      {"", "", ""},
		"something is added":           {"", "installation Two AWS::Lambda::Alias {}\n", ""},
		"what is gone comes back":      {"", "installation Queue AWS::SQS::Queue {}\n", ""},
		"the table is gone":            {`installation Table AWS::DynamoDB::Table {"KeySchema":["PK","SK"]}` + "\n", "", "Table of installation, an AWS::DynamoDB::Table, would be removed"},
		"an alias is dropped":          {`installation OneLive AWS::Lambda::Alias {"FunctionName":{"Ref":"One"},"Name":"live"}` + "\n", "", "OneLive of installation, an AWS::Lambda::Alias, would be removed"},
		"a logical id is another":      {"installation Table", "installation TableV2", "Table of installation, an AWS::DynamoDB::Table, would be removed"},
		"a resource is in a new stack": {"Relay Balancer", "Network Balancer", "Balancer of Relay, an AWS::ElasticLoadBalancingV2::LoadBalancer, would be removed"},
		"it is of another type":        {"AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable", "Table of installation, an AWS::DynamoDB::Table, would be removed"},
		"a key of the table changes":   {`"SK"`, `"Sort"`, `Table of installation, an AWS::DynamoDB::Table, would be another one after an update, or the update would be refused: {"KeySchema":["PK","Sort"]} has to stay {"KeySchema":["PK","SK"]}`},
		"an alias is called otherwise": {`"live"`, `"next"`, "OneLive of installation"},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := readKeepers(was)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(was, tc.from, tc.to, 1)
			after, err := readKeepers(text)
			if err != nil {
				t.Fatal(err)
			}
			after = slices.DeleteFunc(after, func(k keeper) bool { return k.gone })
			got := lost(before, after)
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want) || strings.Contains(got[0], "\n")) {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
			if tc.want == "" && !strings.Contains(writeKeepers(before, after), "installation Queue AWS::SQS::Queue") {
				t.Error("what is gone is forgotten")
			}
		})
	}
	if _, err := readKeepers("<<<<<<< ours\n"); err == nil || !strings.Contains(err.Error(), keepers) {
		t.Errorf("a file with something else is read: %v", err)
	}
}

// TestEveryContextKeepsTheSame: what a word of the context adds moves nothing that is there without it.
func TestEveryContextKeepsTheSame(t *testing.T) {
	all := synthesise(t, everything()).keepers(t)
	for name, context := range map[string]map[string]string{
		"the least": needed(nil), "a web ACL and no canary": needed(unfenced),
		"processes beside the function": ringing, "processes alone": needed(map[string]string{"gateway": "container"}),
	} {
		for _, text := range lost(synthesise(t, context).keepers(t), all) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if kinds := kindsOf(all); len(kinds) < 20 {
		t.Errorf("the installation that has everything has keepers of the types %v alone", kinds)
	}
}

func kindsOf(all []keeper) []string {
	kinds := map[string]bool{}
	for _, k := range all {
		kinds[k.kind] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}

// TestLocksHoldWhatTheLastReleaseHad, whoever has written into them by hand since: this version can be an update of that one.
func TestLocksHoldWhatTheLastReleaseHad(t *testing.T) {
	commit, err := released.Commit("..")
	if err != nil {
		t.Fatal(err)
	}
	if !released.There(t.Context(), "..", commit) {
		if released.Complete(t.Context(), "..") {
			t.Fatalf("the checkout has its whole history, and the last release %s is not in it", commit)
		}
		t.Skip("this checkout is a shallow one, without the last release")
	}
	// A lock of this version that the release had not is compared from the next one on.
	text := func(name string) (before, now string) {
		raw, err := released.File(t.Context(), "..", commit, "infra/"+name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		is, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw), string(is)
	}
	before, now := text(lock)
	was, err := readParts(before)
	if err != nil || len(was) == 0 {
		t.Fatalf("of the last release there are %d parts of APIs, %v", len(was), err)
	}
	is, err := readParts(now)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range refused(was, is) {
		t.Error(text)
	}
	before, now = text(keepers)
	had, err := readKeepers(before)
	if err != nil {
		t.Fatal(err)
	}
	has, err := readKeepers(now)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range lost(had, has) {
		t.Error(text)
	}
}
