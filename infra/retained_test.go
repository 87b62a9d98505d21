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

	"github.com/gatewright/gatewright/shared/testing/golden"
	"github.com/gatewright/gatewright/shared/testing/released"
)

// retainedFile is the file with the resources that installations must not lose in an update.
const retainedFile = "testdata/kept.txt"

const retainedHeader = `# The resources that an update must not remove or replace, because they hold data, or have an
# address or a name. Each line has the stack, the logical ID, the type, and the values of the create-only properties: if
# one of these changes, CloudFormation replaces the resource. TestRetainedResourcesAreUpdatedInPlace fails, also with
# -update, if an update would lose one of these resources. To remove a resource on purpose, write "gone " before its
# line, and explain in the commit how operators move its data.
`

// createOnlyProperties has, for each type of resource, the properties that an update must not change: CloudFormation
// would replace the resource, or refuse the update. They are the create-only properties of CloudFormation's schemas
// ("Update requires: Replacement") that our templates could set, and a few other properties that comments explain.
var createOnlyProperties = map[string][]string{
	// A change of StreamSpecification creates another stream, which would replace the event source mappings.
	"AWS::DynamoDB::Table": {
		"TableName", "ImportSourceSpecification", "KeySchema", "LocalSecondaryIndexes",
		"StreamSpecification",
	},
	"AWS::DynamoDB::GlobalTable": {
		"TableName", "GlobalTableSourceArn", "KeySchema", "LocalSecondaryIndexes",
		"StreamSpecification",
	},
	"AWS::S3::Bucket":                 {"BucketName", "BucketNamePrefix", "BucketNamespace"},
	"AWS::KMS::Key":                   {"KeySpec", "KeyUsage", "MultiRegion", "Origin"},
	"AWS::SQS::Queue":                 {"QueueName", "FifoQueue"},
	"AWS::SNS::Topic":                 {"TopicName", "FifoTopic"},
	"AWS::SNS::Subscription":          {"TopicArn", "Protocol", "Endpoint"}, // a new subscription needs a new confirmation
	"AWS::Logs::LogGroup":             {"LogGroupName"},
	"AWS::Lambda::Function":           {"FunctionName", "PackageType", "TenancyConfig", "DurableConfig"},
	"AWS::Lambda::Alias":              {"FunctionName", "Name"},
	"AWS::Lambda::EventSourceMapping": {"EventSourceArn", "StartingPosition", "StartingPositionTimestamp"},
	"AWS::Scheduler::Schedule":        {"Name"},
	"AWS::IAM::Role":                  {"RoleName", "Path"},
	// apiLockFile has further rules for the resources of API Gateway.
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
	"AWS::ElasticLoadBalancingV2::TargetGroup": {
		"Name", "TargetType", "Protocol", "ProtocolVersion", "Port", "VpcId",
		"IpAddressType",
	},
	// No property of the listener may change: ECS changes the listener's target in each release, and CloudFormation
	// resets the target with any change.
	"AWS::ElasticLoadBalancingV2::Listener": {
		"LoadBalancerArn", "Port", "Protocol", "DefaultActions",
		"ListenerAttributes",
	},
	"AWS::Route53::RecordSet": {"HostedZoneId", "HostedZoneName", "Name", "SetIdentifier", "Type"},
}

// replaceableTypes are the types of resources whose replacement loses nothing: each release replaces them, or the new
// resource has the same effect.
var replaceableTypes = []string{
	"AWS::Budgets::Budget", "AWS::CDK::Metadata", "AWS::CloudFormation::Stack", "AWS::CloudWatch::Alarm",
	"AWS::CloudWatch::CompositeAlarm", "AWS::CloudWatch::Dashboard", "AWS::Events::Rule", "AWS::Logs::MetricFilter",
	"AWS::Lambda::Version", "AWS::Lambda::Permission", "AWS::Lambda::EventInvokeConfig",
	"AWS::ApiGateway::Deployment", "AWS::ApiGateway::Method", "AWS::ApiGateway::Resource",
	"AWS::ApiGateway::GatewayResponse",
	"AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::S3::BucketPolicy", "AWS::SQS::QueuePolicy",
	"AWS::SNS::TopicPolicy",
	"AWS::WAFv2::WebACLAssociation", "AWS::ECS::TaskDefinition",
	"AWS::EC2::InternetGateway", "AWS::EC2::Route", "AWS::EC2::RouteTable", "AWS::EC2::SecurityGroup",
	"AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress",
	"AWS::EC2::SubnetRouteTableAssociation", "AWS::EC2::VPCEndpoint", "AWS::EC2::VPCGatewayAttachment",
	"AWS::ApplicationAutoScaling::ScalableTarget", "AWS::ApplicationAutoScaling::ScalingPolicy",
}

// retainedResource is a resource that updates must not remove or replace.
type retainedResource struct {
	stack, id, kind string
	createOnly      string // the create-only properties that are set, with their values, as JSON
	// deleted says that the resource was removed on purpose: its line begins with "gone".
	deleted bool
}

// String returns a description that can begin a sentence, so it ends with a comma.
func (r retainedResource) String() string {
	return fmt.Sprintf("%s of %s, an %s,", r.id, r.stack, r.kind)
}

// line returns the resource's line in retainedFile.
func (r retainedResource) line() string {
	line := strings.Join([]string{r.stack, r.id, r.kind, r.createOnly}, " ")
	if r.deleted {
		line = "gone " + line
	}
	return line + "\n"
}

// sameAs reports whether r and other are the same resource. Their create-only properties can differ.
func (r retainedResource) sameAs(other retainedResource) bool {
	return r.stack == other.stack && r.id == other.id && r.kind == other.kind
}

func (r retainedResource) compare(other retainedResource) int {
	return cmp.Or(cmp.Compare(r.stack, other.stack), cmp.Compare(r.kind, other.kind), cmp.Compare(r.id, other.id))
}

// fullContext returns the context of an installation with every possible resource.
func fullContext() map[string]string {
	return servicesContext(map[string]string{
		"waf": "true", "apiDomain": "api.example.com",
		"hostedZone": "Z0123456789ABCDEFGHIJ", "gatewayContainerWeight": "10", "alarmEmail": email, "monthlyBudget": "100",
	})
}

// TestRetainedResourcesAreUpdatedInPlace checks that each retained resource keeps its stack, its logical id and its
// create-only properties. With -update it accepts additions.
func TestRetainedResourcesAreUpdatedInPlace(t *testing.T) {
	text, err := os.ReadFile(retainedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	before, err := parseRetained(string(text))
	if err != nil {
		t.Fatal(err)
	}
	after := append(synthesize(t, fullContext()).retainedResources(t),
		synthesizeCheck(t, fullContext()).retainedResources(t)...)
	for _, text := range lostResources(before, after) {
		t.Error(text)
	}
	if !t.Failed() {
		golden.Equal(t, retainedFile, retainedHeader+formatRetained(before, after))
	}
}

// retainedResources returns the retained resources of all stacks, sorted.
func (a assembly) retainedResources(t *testing.T) (out []retainedResource) {
	t.Helper()
	stackIDs := a.stackIDs()
	stackIDs[checkFile] = "check"
	for file, stack := range a.stacks {
		for id, r := range stack.Resources {
			properties, ok := createOnlyProperties[r.Type]
			if !ok {
				if !slices.Contains(replaceableTypes, r.Type) {
					t.Errorf("%s has the type %s, want one of createOnlyProperties or replaceableTypes (retained_test.go)", id, r.Type)
				}
				continue
			}
			values := map[string]any{}
			for _, name := range properties {
				if v, ok := r.Properties[name]; ok {
					values[name] = v
				}
			}
			createOnly, err := json.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, retainedResource{
				stack: cmp.Or(stackIDs[file], "installation"), id: id, kind: r.Type,
				createOnly: string(createOnly),
			})
		}
	}
	slices.SortFunc(out, retainedResource.compare)
	return out
}

// lostResources returns a line for each resource that an update would lose. Deleted resources in before are not lost.
func lostResources(before, after []retainedResource) (out []string) {
	for _, r := range before {
		i := slices.IndexFunc(after, r.sameAs)
		switch {
		case r.deleted:
		case i < 0:
			out = append(out, fmt.Sprintf("%s would be removed by an update, with its data and its name: keep its stack "+
				`and its logical ID, or write "gone " before its line in %s`, r, retainedFile))
		case after[i].createOnly != r.createOnly:
			out = append(out, fmt.Sprintf("%s would be replaced by an update, or CloudFormation would refuse the update: "+
				"create-only properties = %s, want %s. To change them, add a resource with another logical ID, and move the data",
				r, after[i].createOnly, r.createOnly))
		}
	}
	return out
}

// formatRetained returns the lines of the file: the resources in after, and the deleted resources in before.
func formatRetained(before, after []retainedResource) string {
	all := slices.Clone(after)
	for _, r := range before {
		if r.deleted && !slices.ContainsFunc(after, r.sameAs) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, retainedResource.compare)
	var out strings.Builder
	for _, r := range all {
		out.WriteString(r.line())
	}
	return out.String()
}

// parseRetained parses the lines of retainedFile.
func parseRetained(text string) (out []retainedResource, err error) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		entry, deleted := strings.CutPrefix(strings.TrimSpace(line), "gone ")
		fields := strings.SplitN(entry, " ", 4)
		if len(fields) != 4 || !json.Valid([]byte(fields[3])) {
			return nil, fmt.Errorf("%s: invalid line %q: restore the file from the last commit", retainedFile, line)
		}
		out = append(out, retainedResource{
			stack: fields[0], id: fields[1], kind: fields[2], createOnly: fields[3],
			deleted: deleted,
		})
	}
	return out, nil
}

// TestUpdatesThatLoseResourcesAreReported checks that lostResources reports updates that would lose a resource, and no
// other updates.
func TestUpdatesThatLoseResourcesAreReported(t *testing.T) {
	const baseline = `installation Table AWS::DynamoDB::Table {"KeySchema":["PK","SK"]}
installation OneLive AWS::Lambda::Alias {"FunctionName":{"Ref":"One"},"Name":"live"}
gone installation Queue AWS::SQS::Queue {}
Relay Balancer AWS::ElasticLoadBalancingV2::LoadBalancer {"Name":"relay"}
`
	for name, tc := range map[string]struct {
		// The update replaces the first occurrence of old in baseline with the text of replacement. An empty old stands for
		// the beginning of baseline.
		old, replacement string
		want             string // "" for accepted updates
	}{
		"no change":                    {"", "", ""},
		"resource added":               {"", "installation Two AWS::Lambda::Alias {}\n", ""},
		"removed resource added again": {"", "installation Queue AWS::SQS::Queue {}\n", ""},
		"table removed": {
			`installation Table AWS::DynamoDB::Table {"KeySchema":["PK","SK"]}` + "\n", "",
			"Table of installation, an AWS::DynamoDB::Table, would be removed",
		},
		"alias removed": {
			`installation OneLive AWS::Lambda::Alias {"FunctionName":{"Ref":"One"},"Name":"live"}` + "\n", "",
			"OneLive of installation, an AWS::Lambda::Alias, would be removed",
		},
		"logical ID changed": {
			"installation Table", "installation TableV2",
			"Table of installation, an AWS::DynamoDB::Table, would be removed",
		},
		"resource moved to a new stack": {
			"Relay Balancer", "Network Balancer",
			"Balancer of Relay, an AWS::ElasticLoadBalancingV2::LoadBalancer, would be removed",
		},
		"resource type changed": {
			"AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable",
			"Table of installation, an AWS::DynamoDB::Table, would be removed",
		},
		"table key changed": {
			`"SK"`, `"Sort"`,
			`Table of installation, an AWS::DynamoDB::Table, would be replaced by an update, or CloudFormation would ` +
				`refuse the update: create-only properties = {"KeySchema":["PK","Sort"]}, want {"KeySchema":["PK","SK"]}.`,
		},
		"alias renamed": {`"live"`, `"next"`, "OneLive of installation"},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := parseRetained(baseline)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(baseline, tc.old, tc.replacement, 1)
			after, err := parseRetained(text)
			if err != nil {
				t.Fatal(err)
			}
			after = slices.DeleteFunc(after, func(r retainedResource) bool { return r.deleted })
			got := lostResources(before, after)
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want) ||
				strings.Contains(got[0], "\n")) {
				t.Errorf("lostResources() = %q, want one line with %q, or none if it is empty", got, tc.want)
			}
			if tc.want == "" && !strings.Contains(formatRetained(before, after), "installation Queue AWS::SQS::Queue") {
				t.Errorf("formatRetained() = %q, want a line for Queue", formatRetained(before, after))
			}
		})
	}
	if _, err := parseRetained("<<<<<<< ours\n"); err == nil || !strings.Contains(err.Error(), retainedFile) {
		t.Errorf("parseRetained(a conflict marker) error = %v, want an error that names %s", err, retainedFile)
	}
}

// TestSettingsMoveNoRetainedResource checks that an installation with few settings loses no retained resource if all
// settings of fullContext are added.
func TestSettingsMoveNoRetainedResource(t *testing.T) {
	all := synthesize(t, fullContext()).retainedResources(t)
	for name, context := range map[string]map[string]string{
		"minimal settings": minimalContext(nil), "a web ACL and no canary": minimalContext(unreservedContext),
		"Lambda and container gateways": alarmTopicContext,
		"container gateway only":        minimalContext(map[string]string{"gateway": "container"}),
	} {
		for _, text := range lostResources(synthesize(t, context).retainedResources(t), all) {
			t.Errorf("%s: %s, want no retained resource lost", name, text)
		}
	}
	if kinds := typesOf(all); len(kinds) < 20 {
		t.Errorf("an installation with every setting retains the types %v, want at least 20", kinds)
	}
}

// typesOf returns the types of resources, sorted and without duplicates.
func typesOf(all []retainedResource) []string {
	kinds := map[string]bool{}
	for _, r := range all {
		kinds[r.kind] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}

// TestLastReleaseCanBeUpdated checks that an installation of the last release can be updated to this version. It
// compares apiLockFile and retainedFile with the files of that release, because both files may have been edited by hand
// since then.
func TestLastReleaseCanBeUpdated(t *testing.T) {
	commit, err := released.Commit("..")
	if err != nil {
		t.Fatal(err)
	}
	if !released.HasCommit(t.Context(), "..", commit) {
		if released.HasFullHistory(t.Context(), "..") {
			t.Fatalf("the checkout has its full history without the last release %s, want it in the history", commit)
		}
		t.Skip("this checkout is a shallow one, without the last release")
	}
	// If the last release does not have the file, before is empty. Then retainedFile is not compared until the next
	// release, but for apiLockFile the test fails.
	readVersions := func(name string) (before, now string) {
		raw, err := released.ReadFile(t.Context(), "..", commit, "infra/"+name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		current, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw), string(current)
	}
	before, now := readVersions(apiLockFile)
	previous, err := parseAPIResources(before)
	if err != nil || len(previous) == 0 {
		t.Fatalf("parseAPIResources(last release) = %d resources, %v, want some and no error", len(previous), err)
	}
	current, err := parseAPIResources(now)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range refusedChanges(previous, current) {
		t.Error(text)
	}
	before, now = readVersions(retainedFile)
	previousRetained, err := parseRetained(before)
	if err != nil {
		t.Fatal(err)
	}
	currentRetained, err := parseRetained(now)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range lostResources(previousRetained, currentRetained) {
		t.Error(text)
	}
}
