package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/releasecheck"
)

// TestEverythingCallsTheAlias checks that resources refer to the alias of a function and not to the function itself.
// Versions, aliases, alarms and dashboards are exempt.
func TestEverythingCallsTheAlias(t *testing.T) {
	exempt := []string{
		"AWS::Lambda::Version", "AWS::Lambda::Alias", "AWS::CloudWatch::Alarm",
		"AWS::CloudWatch::Dashboard",
	}
	for _, emulator := range emulators {
		a := synthesize(t, minimalContext(emulatorContexts[emulator]))
		functions := a.all("AWS::Lambda::Function")
		references := map[string]int{}
		for file, stack := range a.stacks {
			for id, r := range stack.Resources {
				for _, name := range referencesIn(r.Properties) {
					if functions[name].Type != "" && !slices.Contains(exempt, r.Type) {
						t.Errorf("%s: %s of %s, a %s, refers to %s, want its alias", emulator, id, file, r.Type, name)
					}
					if a.aliasTarget(name) != "" {
						references[r.Type]++
					}
				}
			}
		}
		for _, kind := range []string{
			"AWS::ApiGateway::Method", "AWS::Lambda::Permission", "AWS::Lambda::EventSourceMapping", "AWS::Scheduler::Schedule",
			"AWS::IAM::Role", "AWS::S3::Bucket",
		} {
			if references[kind] == 0 {
				t.Errorf("%s: no %s refers to an alias, want at least one", emulator, kind)
			}
		}
		// The names of functions must not occur within texts either.
		for file, raw := range a.raw {
			if n := strings.Count(string(raw), ":function:gatewright-dev-"); n > 0 && !strings.Contains(file, "Releases") {
				t.Errorf("%s: %s has %d names of functions in texts, want references to aliases", emulator, file, n)
			}
		}
	}
}

// TestOperatorsCallTheAlias checks that the commands in the Makefile call aliases.
func TestOperatorsCallTheAlias(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`--function-name (\S+)`).FindAllStringSubmatch(string(makefile), -1)
	for _, name := range names {
		if !strings.HasSuffix(name[1], ":"+liveAlias) {
			t.Errorf("the Makefile calls %s, want its alias", name[1])
		}
	}
	if len(names) == 0 {
		t.Error("the Makefile calls no function, want at least one")
	}
}

// ownMemorySetting are the functions with their own memory setting, which largerContext does not change.
var ownMemorySetting = map[string]bool{"BuilderFunction": true, "McpdocsFunction": true, "OperationsFunction": true}

// TestCodeOrConfigurationChangePublishesAVersion checks that a change of a function's code or configuration publishes a
// new version of only that function, and that the alias points to it.
func TestCodeOrConfigurationChangePublishesAVersion(t *testing.T) {
	versions := func(a assembly) map[string]string {
		out := map[string]string{}
		for id, alias := range a.all("AWS::Lambda::Alias") {
			version, _ := get(alias.Properties, "FunctionVersion", "Fn::GetAtt", 0).(string)
			function := refID(alias.Properties["FunctionName"])
			versionFunction := refID(a.all("AWS::Lambda::Version")[version].Properties["FunctionName"])
			if versionFunction != function || alias.Properties["Name"] != liveAlias {
				t.Errorf("%s is the alias %v for a version of %s, want %s for a version of %s", id, alias.Properties["Name"],
					versionFunction, liveAlias, function)
			}
			out[function] = version
		}
		return out
	}
	before := versions(synthesize(t, minimalContext(nil)))
	hook := logicalID(releasecheck.Function.Name) + "Function" // CodeDeploy calls the hook by its name, without an alias
	if n := len(synthesize(t, minimalContext(nil)).all("AWS::Lambda::Function")) - 1; len(before) != n {
		t.Errorf("%d functions have an alias, want %d: all except %s", len(before), n, hook)
	}
	if before[hook] != "" {
		t.Errorf("%s has an alias for the version %s, want none", hook, before[hook])
	}
	all := slices.Sorted(maps.Keys(before))
	resized := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return ownMemorySetting[id] })
	s := settingsWithOwnAssets(t, minimalContext(nil))
	if err := os.WriteFile(filepath.Join(s.assetFolder("builder"), "bootstrap"), []byte("other code"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		changed assembly
		want    []string // the functions with a new version
	}{
		"settings that are not of functions": {synthesize(t, minimalContext(unreservedContext)), nil},
		"other code":                         {synthesizeWith(t, s, fewFunctions(s)), []string{"BuilderFunction"}},
		"another memory":                     {synthesize(t, minimalContext(largerContext)), resized},
		"other environment variables":        {synthesize(t, minimalContext(functionContext)), all},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for function, version := range versions(tc.changed) {
				if before[function] != version {
					got = append(got, function)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("functions with a new version = %v, want %v", got, tc.want)
			}
		})
	}
}

// TestReleasesAreCanariesStoppedByAlarms checks that a new version gets a tenth of the calls first, and that the
// release is rolled back if the function fails or is throttled. The canary is optional, and emulators have none.
func TestReleasesAreCanariesStoppedByAlarms(t *testing.T) {
	for name, tc := range map[string]struct {
		context        map[string]string
		groups, canary bool
	}{
		"AWS":       {nil, true, true},
		"no canary": {unreservedContext, true, false},
		"emulator":  {map[string]string{"emulator": miniStack}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := synthesize(t, minimalContext(tc.context))
			groups := map[string]resource{}
			for _, g := range a.all("AWS::CodeDeploy::DeploymentGroup") {
				groups[g.Properties["DeploymentGroupName"].(string)] = g
			}
			for _, f := range functionSpecs(settingsFor(t, minimalContext(tc.context))) {
				alias := a.find(logicalID(f.name) + "Live")
				policy := alias.UpdatePolicy["CodeDeployLambdaAliasUpdate"]
				if tc.canary != (get(policy, "DeploymentGroupName") == f.name &&
					get(policy, "ApplicationName") == "gatewright-dev" &&
					get(policy, "BeforeAllowTrafficHook") == "gatewright-dev-releasecheck") {
					t.Errorf("update policy of %s = %v, want a canary: %v", f.name, policy, tc.canary)
				}
				group, ok := groups[f.name]
				if ok != tc.groups {
					t.Errorf("%s has a deployment group: %v, want %v", f.name, ok, tc.groups)
				}
				if !ok {
					continue
				}
				if !slices.ContainsFunc(alias.DependsOn, func(dependency string) bool {
					return strings.HasPrefix(dependency, "Releases")
				}) {
					t.Errorf("dependencies of the alias of %s = %v, want the stack of its releases in them", f.name, alias.DependsOn)
				}
				want := []string{logicalID(f.name) + "Errors", logicalID(f.name) + "Throttles"}
				if f.name == gateway {
					want = append(want, "GatewayFaults")
				}
				if len(f.routes) > 0 {
					for id, alarm := range a.all("AWS::CloudWatch::Alarm") {
						if alarm.Properties["MetricName"] == "5XXError" && get(alarm.Properties, "Dimensions", 0,
							"Value") == "gatewright-dev-api" {
							want = append(want, id)
						}
					}
				}
				p := group.Properties
				var alarms []string
				for _, alarm := range p["AlarmConfiguration"].(map[string]any)["Alarms"].([]any) {
					alarms = append(alarms, refID(get(alarm, "Name")))
				}
				slices.Sort(alarms)
				slices.Sort(want)
				if !slices.Equal(alarms, want) || get(p, "AlarmConfiguration", "Enabled") != true {
					t.Errorf("a release of %s ends with the alarms %v, enabled: %v, want %v, enabled", f.name, alarms,
						get(p, "AlarmConfiguration", "Enabled"), want)
				}
				events := texts(get(p, "AutoRollbackConfiguration", "Events"))
				if get(p, "AutoRollbackConfiguration", "Enabled") != true || !slices.Contains(events, "DEPLOYMENT_STOP_ON_ALARM") ||
					!slices.Contains(events, "DEPLOYMENT_FAILURE") {
					t.Errorf("rollback events of %s = %v, want DEPLOYMENT_STOP_ON_ALARM and DEPLOYMENT_FAILURE, enabled",
						f.name, events)
				}
				if got := p["DeploymentConfigName"]; got != canaryConfig ||
					get(p, "DeploymentStyle", "DeploymentOption") != "WITH_TRAFFIC_CONTROL" {
					t.Errorf("deployment of %s = %v %v, want %s WITH_TRAFFIC_CONTROL", f.name, got,
						get(p, "DeploymentStyle", "DeploymentOption"), canaryConfig)
				}
			}
		})
	}
}

// TestReleasesMoveTheirOwnAlias checks that the role of each release can move only the alias of its function, can call
// only the hook, and can read alarms.
func TestReleasesMoveTheirOwnAlias(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	for _, f := range functionSpecs(settingsFor(t, minimalContext(nil))) {
		role := logicalID(f.name) + "ReleaseRole"
		if got := get(a.find(logicalID(f.name)+"Release").Properties, "ServiceRoleArn", "Fn::GetAtt", 0); got != role {
			t.Errorf("role for the releases of %s = %v, want %s", f.name, got, role)
		}
		arn := "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:gatewright-dev-" + f.name
		for _, s := range a.grants()["${"+role+"}"] {
			want := []string{arn, arn + ":" + liveAlias}
			switch {
			case slices.Contains(s.actions, "lambda:UpdateAlias"):
			case slices.Contains(s.actions, "lambda:GetProvisionedConcurrencyConfig"):
				want = want[1:]
			case slices.Contains(s.actions, "lambda:InvokeFunction"):
				want = []string{
					"arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:gatewright-dev-releasecheck",
				}
			default:
				want = []string{"arn:${AWS::Partition}:cloudwatch:${AWS::Region}:${AWS::AccountId}:alarm:*"}
			}
			if !slices.Equal(s.resources, want) {
				t.Errorf("%s may %v on %v, want %v", role, s.actions, s.resources, want)
			}
		}
		if n := len(a.grants()["${"+role+"}"]); n != 4 {
			t.Errorf("%s has %d statements, want 4", role, n)
		}
	}
}
