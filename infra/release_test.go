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

// TestEverythingCallsTheAlias of a function, and nothing the function itself: but what publishes a
// version and leads the alias to it, and what only looks at the function's metrics.
func TestEverythingCallsTheAlias(t *testing.T) {
	mayNameIt := []string{"AWS::Lambda::Version", "AWS::Lambda::Alias", "AWS::CloudWatch::Alarm", "AWS::CloudWatch::Dashboard"}
	for _, emulator := range emulators {
		a := synthesise(t, needed(emulated[emulator]))
		functions := a.all("AWS::Lambda::Function")
		calling := map[string]int{}
		for file, stack := range a.stacks {
			for id, r := range stack.Resources {
				for _, name := range namesIn(r.Properties) {
					if functions[name].Type != "" && !slices.Contains(mayNameIt, r.Type) {
						t.Errorf("%s: %s of %s, an %s, calls %s and not its alias", emulator, id, file, r.Type, name)
					}
					if a.aliased(name) != "" {
						calling[r.Type]++
					}
				}
			}
		}
		for _, kind := range []string{
			"AWS::ApiGateway::Method", "AWS::Lambda::Permission", "AWS::Lambda::EventSourceMapping", "AWS::Scheduler::Schedule", "AWS::IAM::Role", "AWS::S3::Bucket",
		} {
			if calling[kind] == 0 {
				t.Errorf("%s: no %s names an alias", emulator, kind)
			}
		}
		// A name in a text is one too.
		for file, raw := range a.raw {
			if n := strings.Count(string(raw), ":function:gatewright-dev-"); n > 0 && !strings.Contains(file, "Releases") {
				t.Errorf("%s: %s names %d functions by texts", emulator, file, n)
			}
		}
	}
}

// TestOperatorsCallTheAlias by make, as everything else does.
func TestOperatorsCallTheAlias(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`--function-name (\S+)`).FindAllStringSubmatch(string(makefile), -1)
	for _, name := range names {
		if !strings.HasSuffix(name[1], ":"+live) {
			t.Errorf("make calls %s, and not its alias", name[1])
		}
	}
	if len(names) == 0 {
		t.Error("make calls no function")
	}
}

// ownSize are the functions with a memory of their own, which larger leaves as it is.
var ownSize = map[string]bool{"BuilderFunction": true, "McpdocsFunction": true, "OperationsFunction": true}

// TestCodeAndConfigurationAreOneVersion: another of either publishes another version, to which the alias
// leads, and of that function alone.
func TestCodeAndConfigurationAreOneVersion(t *testing.T) {
	versions := func(a assembly) map[string]string {
		out := map[string]string{}
		for id, alias := range a.all("AWS::Lambda::Alias") {
			version, _ := get(alias.Properties, "FunctionVersion", "Fn::GetAtt", 0).(string)
			function := unreferred(alias.Properties["FunctionName"])
			if of := unreferred(a.all("AWS::Lambda::Version")[version].Properties["FunctionName"]); of != function || alias.Properties["Name"] != live {
				t.Errorf("%s, the alias %v of %s, leads to %s, a version of %s", id, alias.Properties["Name"], function, version, of)
			}
			out[function] = version
		}
		return out
	}
	before := versions(synthesise(t, needed(nil)))
	hook := exported(releasecheck.Function.Name) + "Function" // which is called by its name
	if n := len(synthesise(t, needed(nil)).all("AWS::Lambda::Function")) - 1; len(before) != n || before[hook] != "" {
		t.Errorf("%d functions have an alias, want %d and not %s", len(before), n, hook)
	}
	all := slices.Sorted(maps.Keys(before))
	resized := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return ownSize[id] })
	s := settingsFor(t, needed(nil))
	if err := os.WriteFile(filepath.Join(s.asset("builder"), "bootstrap"), []byte("other code"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		is   assembly
		want []string // the functions of another version
	}{
		"another web ACL":     {synthesise(t, needed(unfenced)), nil}, // and so the same settings twice
		"other code":          {synthesiseOf(t, s, fewFunctions(s)), []string{"BuilderFunction"}},
		"another memory":      {synthesise(t, needed(larger)), resized},
		"what functions know": {synthesise(t, needed(told)), all},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for function, version := range versions(tc.is) {
				if before[function] != version {
					got = append(got, function)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("there are other versions of %v, want %v", got, tc.want)
			}
		})
	}
}

// TestReleasesAreCanariesThatAlarmsEnd: a version takes a tenth of the calls first, and none where the function
// fails or is refused. The context can do without, and an emulator does.
func TestReleasesAreCanariesThatAlarmsEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		context        map[string]string
		groups, canary bool
	}{
		"AWS":               {nil, true, true},
		"without a canary":  {unfenced, true, false},
		"an emulator of it": {map[string]string{"emulator": miniStack}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := synthesise(t, needed(tc.context))
			groups := map[string]resource{}
			for _, g := range a.all("AWS::CodeDeploy::DeploymentGroup") {
				groups[g.Properties["DeploymentGroupName"].(string)] = g
			}
			for _, f := range declaredFunctions(settingsFor(t, needed(tc.context))) {
				alias := a.find(exported(f.name) + "Live")
				policy := alias.UpdatePolicy["CodeDeployLambdaAliasUpdate"]
				if tc.canary != (get(policy, "DeploymentGroupName") == f.name && get(policy, "ApplicationName") == "gatewright-dev" &&
					get(policy, "BeforeAllowTrafficHook") == "gatewright-dev-releasecheck") {
					t.Errorf("%s is released by %v", f.name, policy)
				}
				group, ok := groups[f.name]
				if ok != tc.groups {
					t.Errorf("%s has a deployment group: %v", f.name, ok)
				}
				if !ok {
					continue
				}
				if !slices.ContainsFunc(alias.DependsOn, func(on string) bool { return strings.HasPrefix(on, "Releases") }) {
					t.Errorf("the alias of %s depends on %v, and not on what releases it", f.name, alias.DependsOn)
				}
				want := []string{exported(f.name) + "Errors", exported(f.name) + "Throttles"}
				if f.name == gateway {
					want = append(want, "GatewayFaults")
				}
				if len(f.routes) > 0 {
					for id, alarm := range a.all("AWS::CloudWatch::Alarm") {
						if alarm.Properties["MetricName"] == "5XXError" && get(alarm.Properties, "Dimensions", 0, "Value") == "gatewright-dev-api" {
							want = append(want, id)
						}
					}
				}
				p := group.Properties
				var alarms []string
				for _, alarm := range p["AlarmConfiguration"].(map[string]any)["Alarms"].([]any) {
					alarms = append(alarms, unreferred(get(alarm, "Name")))
				}
				slices.Sort(alarms)
				slices.Sort(want)
				if !slices.Equal(alarms, want) || get(p, "AlarmConfiguration", "Enabled") != true {
					t.Errorf("a release of %s ends with the alarms %v, want %v", f.name, alarms, want)
				}
				events := texts(get(p, "AutoRollbackConfiguration", "Events"))
				if get(p, "AutoRollbackConfiguration", "Enabled") != true || !slices.Contains(events, "DEPLOYMENT_STOP_ON_ALARM") || !slices.Contains(events, "DEPLOYMENT_FAILURE") {
					t.Errorf("a release of %s is taken back on %v", f.name, events)
				}
				if got := p["DeploymentConfigName"]; got != canary || get(p, "DeploymentStyle", "DeploymentOption") != "WITH_TRAFFIC_CONTROL" {
					t.Errorf("%s is released as %v", f.name, got)
				}
			}
		})
	}
}

// TestReleasesMoveTheirOwnAlias: each under a role that names no other, and may call the hook alone.
func TestReleasesMoveTheirOwnAlias(t *testing.T) {
	a := synthesise(t, needed(nil))
	for _, f := range declaredFunctions(settingsFor(t, needed(nil))) {
		role := exported(f.name) + "ReleaseRole"
		if got := get(a.find(exported(f.name)+"Release").Properties, "ServiceRoleArn", "Fn::GetAtt", 0); got != role {
			t.Errorf("%s is released under the role %v", f.name, got)
		}
		arn := "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:gatewright-dev-" + f.name
		for _, s := range a.grants()["${"+role+"}"] {
			want := []string{arn, arn + ":" + live}
			switch {
			case slices.Contains(s.actions, "lambda:UpdateAlias"):
			case slices.Contains(s.actions, "lambda:GetProvisionedConcurrencyConfig"):
				want = want[1:]
			case slices.Contains(s.actions, "lambda:InvokeFunction"):
				want = []string{"arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:gatewright-dev-releasecheck"}
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
