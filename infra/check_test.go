package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"

	"github.com/gatewright/gatewright/functions/syntheticcheck"
	"github.com/gatewright/gatewright/infra/removals"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

const (
	checkRegion = "eu-central-1"
	checkTopic  = "arn:aws:sns:eu-central-1:123456789012:alarms"
	checkFile   = "gatewright-dev-check.template.json"
)

// synthesizeCheck returns the stack of the check, without the installation. Its alarms notify an email address.
func synthesizeCheck(t *testing.T, overrides map[string]string) assembly {
	t.Helper()
	context := minimalContext(map[string]string{"checkRegion": checkRegion, "alarmEmail": email})
	maps.Copy(context, overrides)
	s := settingsFor(t, context)
	return assemble(t, func(app awscdk.App) { newCheck(app, s, nil) })
}

// TestCheckSummaryMatchesGolden compares a summary of the check's stack with a golden file: its function with the
// function's callers and permissions, its alarms, and the number of its resources.
func TestCheckSummaryMatchesGolden(t *testing.T) {
	a := synthesizeCheck(t, nil)
	var out strings.Builder
	p := a.find("SyntheticcheckFunction").Properties
	fmt.Fprintf(&out, "SyntheticcheckFunction %s %s, %v MB, %v s\n", p["Runtime"], texts(p["Architectures"])[0],
		p["MemorySize"], p["Timeout"])
	for id, r := range a.all("AWS::Scheduler::Schedule") {
		out.WriteString(id + ": " + render(r.Properties["ScheduleExpression"]) + " " +
			render(get(r.Properties, "Target", "Input")) + "\n")
	}
	variables, _ := get(a.only(t, "AWS::Lambda::Function").Properties, "Environment", "Variables").(map[string]any)
	out.WriteString("\nenvironment\n")
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		out.WriteString("    " + name + "=" + render(variables[name]) + "\n")
	}
	all := func(string) bool { return true }
	a.listGrants(&out, all, nil)
	out.WriteString("\nalarms\n")
	a.listAlarms(&out, all, nil)
	out.WriteString("\nresources\n")
	a.countResources(&out, all, nil)
	golden.Equal(t, "testdata/check.txt", out.String())
}

// TestCheckRoleReadsOnlyItsKey checks that the roles of the check's function and of its schedule allow only reading the
// key, writing the log, and calling the function, without wildcards. The check calls the installation like any client
// with a key.
func TestCheckRoleReadsOnlyItsKey(t *testing.T) {
	for role, statements := range synthesizeCheck(t, nil).grants() {
		for _, s := range statements {
			for _, action := range s.actions {
				for _, arn := range s.resources {
					if strings.Contains(action+arn, "*") {
						t.Errorf("%s may %s on %s, want an action and a resource without a wildcard", role, action, arn)
					}
					if strings.HasPrefix(action, "ssm:") &&
						arn != "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/gatewright/dev/check-key" {
						t.Errorf("%s may %s on %s, want the parameter with the key", role, action, arn)
					}
					if !slices.Contains([]string{
						"ssm:GetParameter", "logs:CreateLogStream", "logs:PutLogEvents", "lambda:InvokeFunction",
					}, action) {
						t.Errorf("%s may %s, want only GetParameter, CreateLogStream, PutLogEvents and InvokeFunction", role, action)
					}
				}
			}
		}
	}
}

// TestCheckUsesPublicAddresses checks which addresses the check calls: the domain names, the address of a proxy, or the
// address of API Gateway, which is a parameter of the stack.
func TestCheckUsesPublicAddresses(t *testing.T) {
	for name, tt := range map[string]struct {
		context      map[string]string
		api, gateway string
	}{
		"domain": {
			map[string]string{"apiDomain": "api.example.com"},
			"https://api.example.com",
			"https://check-0000000.apis.example.com",
		},
		"address of a proxy": {
			map[string]string{
				"apiUrl":     "https://edge.example.com/api/",
				"gatewayUrl": "https://{deployment}.edge.example.com",
			},
			"https://edge.example.com/api",
			"https://check-0000000.edge.example.com",
		},
		"address of API Gateway": {nil, "${ApiAddress}", "https://check-0000000.apis.example.com"},
	} {
		a := synthesizeCheck(t, tt.context)
		variables := get(a.only(t, "AWS::Lambda::Function").Properties, "Environment", "Variables")
		api, gateway := render(get(variables, syntheticcheck.VarAPI)), render(get(variables, syntheticcheck.VarGateway))
		if api != tt.api || gateway != tt.gateway {
			t.Errorf("%s: the check calls %s and %s, want %s and %s", name, api, gateway, tt.api, tt.gateway)
		}
		if _, isParameter := a.stacks[checkFile].Parameters[removals.APIAddress]; isParameter != strings.Contains(tt.api,
			"$") {
			t.Errorf("%s: the stack has a parameter for the API's address: %v, want %v", name, isParameter, !isParameter)
		}
	}
}

// TestCheckStackIsInCheckRegion checks the region of the check's stack, that this stack is deployed after the
// installation, and that the installation's template records the region. An installation without checkRegion has no
// stack for a check and records no region.
func TestCheckStackIsInCheckRegion(t *testing.T) {
	s := settingsFor(t, minimalContext(map[string]string{"checkRegion": checkRegion, "alarmEmail": email}))
	a := assemble(t, func(app awscdk.App) {
		newCheck(app, s, newInstallation(app, s, fewFunctions(s), nil))
	})
	var manifest struct {
		Artifacts map[string]struct {
			Environment  string
			Dependencies []string
		}
	}
	text, err := os.ReadFile(filepath.Join(a.dir, "manifest.json"))
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
	check := manifest.Artifacts[removals.CheckStackName("dev")]
	if !strings.HasSuffix(check.Environment, "/"+checkRegion) || !slices.Contains(check.Dependencies, "gatewright-dev") {
		t.Errorf("the check's stack is in %s after %v, want %s after gatewright-dev", check.Environment,
			check.Dependencies, checkRegion)
	}
	if environment := manifest.Artifacts["gatewright-dev"].Environment; !strings.HasSuffix(environment,
		"/unknown-region") {
		t.Errorf("environment of the installation = %s, want no region: the credentials determine it", environment)
	}
	var template removals.Template
	if err := json.Unmarshal(a.raw["gatewright-dev.template.json"], &template); err != nil {
		t.Fatal(err)
	}
	if got := (removals.Stack{Templates: map[string]removals.Template{"": template}}).CheckRegion(); got != checkRegion {
		t.Errorf("the installation records the region %q of its check, want %s", got, checkRegion)
	}
	withoutCheck := settingsFor(t, minimalContext(nil))
	for file, raw := range assemble(t, func(app awscdk.App) {
		newCheck(app, withoutCheck, newInstallation(app, withoutCheck, fewFunctions(withoutCheck), nil))
	}).raw {
		if strings.Contains(file, "check") {
			t.Errorf("the installation without checkRegion has the template %s, want no template of a check", file)
		}
		if strings.Contains(string(raw), removals.CheckRegionKey) {
			t.Errorf("%s has %s, want none without checkRegion", file, removals.CheckRegionKey)
		}
	}
}

// TestCheckFollowsCreationRules checks the check's stack with the creation rules that apply to its resources.
func TestCheckFollowsCreationRules(t *testing.T) {
	applied := 0
	for _, rule := range slices.Concat(creationRules, apiCreationRules) {
		violations, checked := rule.violations(newCreationOrder(t, synthesizeCheck(t, nil)))
		if strings.Contains(rule.name, "the KMS key of the root key") {
			continue // the stack has no such resource
		}
		for _, address := range violations {
			t.Errorf("%s violates the rule %q (%s), want no violation", address, rule.name, rule.source)
		}
		applied += min(checked, 1)
	}
	if applied < 4 {
		t.Errorf("%d creation rules apply to the stack of the check, want at least 4", applied)
	}
}

// TestCheckAlarmsNotifyTopicsInCheckRegion checks that the check's alarms notify topics in the check's region, and that
// the alarms on ChecksPassed ring if no check runs.
func TestCheckAlarmsNotifyTopicsInCheckRegion(t *testing.T) {
	for name, tt := range map[string]struct {
		context map[string]string
		topics  []string
	}{
		"email address": {map[string]string{"alarmTopic": topicARN}, []string{"${AlarmTopic}"}},
		"topic": {
			map[string]string{"alarmTopic": topicARN, "alarmEmail": "", "checkTopic": checkTopic},
			[]string{checkTopic},
		},
		"email address and topic": {
			map[string]string{"checkTopic": checkTopic, "monthlyBudget": "10"},
			[]string{checkTopic, "${AlarmTopic}"},
		},
	} {
		a := synthesizeCheck(t, tt.context)
		alarms, checkAlarms := a.all("AWS::CloudWatch::Alarm"), 0
		for id, r := range alarms {
			for _, property := range []string{"AlarmActions", "OKActions"} {
				if got := texts(r.Properties[property]); !slices.Equal(got, tt.topics) {
					t.Errorf("%s: %s of %s are %q, want %q", name, property, id, got, tt.topics)
				}
			}
			if r.Properties["MetricName"] != telemetry.ChecksPassed {
				continue
			}
			checkAlarms++
			if r.Properties["TreatMissingData"] != "breaching" || r.Properties["EvaluationPeriods"] != 3.0 {
				t.Errorf("%s: alarm %s = %v, want missing data to be breaching, and 3 evaluation periods", name, id, r.Properties)
			}
		}
		if len(alarms) != 3 || checkAlarms != 2 {
			t.Errorf("%s: %d alarms, %d of them on ChecksPassed, want 3 and 2", name, len(alarms), checkAlarms)
		}
		if strings.Contains(string(a.raw[checkFile]), topicARN) {
			t.Errorf("%s: the template of the check contains %s, want no topic of the installation's region", name, topicARN)
		}
	}
}

// TestInvalidCheckSettingsAreRefused checks the error of each invalid setting of the check, and that valid settings are
// accepted.
func TestInvalidCheckSettingsAreRefused(t *testing.T) {
	const region = `, "checkRegion": "eu-central-1"`
	for name, tt := range map[string]struct{ file, want string }{
		"invalid region": {`, "checkRegion": "Frankfurt"`, "checkRegion is a region such as eu-central-1"},
		"region of the installation": {
			`, "alarmEmail": "` + email + `", "checkRegion": "eu-west-1"`,
			"checkRegion is eu-west-1, the region of certificateArn and of the installation: name another region",
		},
		"region of alarmTopic": {
			`, "alarmTopic": "` + checkTopic + `", "alarmEmail": "` + email + `"` + region,
			"checkRegion is eu-central-1, the region of alarmTopic",
		},
		"no recipients": {
			region,
			"checkRegion notifies nobody without alarmEmail or checkTopic, a topic of SNS in eu-central-1",
		},
		"alarmTopic without alarmEmail": {
			`, "alarmTopic": "` + topicARN + `"` + region,
			"checkRegion notifies nobody without alarmEmail or checkTopic",
		},
		"checkTopic in a third region": {
			`, "checkTopic": "arn:aws:sns:us-east-1:123456789012:alarms"` + region,
			"checkTopic is of us-east-1, and checkRegion is eu-central-1",
		},
		"checkTopic without checkRegion": {
			`, "checkTopic": "` + checkTopic + `"`,
			"checkTopic is for alarms in another region",
		},
		"API address without TLS": {
			`, "checkTopic": "` + checkTopic + `", "apiUrl": "http://api.example.com"` + region,
			"which has to begin with https://",
		},
	} {
		if _, err := loadTestStage(`{`+validSettings+tt.file+`}`, nil); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: loadTestStage() error = %v, want one that contains %q", name, err, tt.want)
		}
	}
	if s, err := loadTestStage(`{`+validSettings+region+`, "checkTopic": "`+checkTopic+`"}`, nil); err != nil ||
		s.CheckRegion != checkRegion || s.CheckTopic != checkTopic {
		t.Errorf("loadTestStage(valid check) = %+v, %v, want the region %s, the topic %s and no error", s, err,
			checkRegion, checkTopic)
	}
	if _, err := settingsFromContext(func(name string) any {
		return map[string]any{
			"emulator": miniStack, "gatewayUrl": "http://{deployment}.apis.example.com",
			"checkRegion": checkRegion,
		}[name]
	}); err == nil || !strings.Contains(err.Error(), "checkRegion is not for emulators") {
		t.Errorf("settingsFromContext(emulator with a check) error = %v, want \"checkRegion is not for emulators\"",
			err)
	}
}
