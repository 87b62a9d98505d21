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
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/telemetry"
)

const (
	checkRegion = "eu-central-1"
	checkTopic  = "arn:aws:sns:eu-central-1:123456789012:alarms"
	checkFile   = "gatewright-dev-check.template.json"
)

// synthesiseCheck returns the stack of the check of an installation that sends its alarms to an address, without the installation.
func synthesiseCheck(t *testing.T, more map[string]string) assembly {
	t.Helper()
	context := needed(map[string]string{"checkRegion": checkRegion, "alarmEmail": email})
	maps.Copy(context, more)
	s := settingsFor(t, context)
	return assemble(t, func(app awscdk.App) { newCheck(app, s, nil) })
}

// TestCheckIsSummarised: what the second stack has, what calls its function, what that may do, and what is reported of it.
func TestCheckIsSummarised(t *testing.T) {
	a := synthesiseCheck(t, nil)
	var out strings.Builder
	p := a.find("SyntheticcheckFunction").Properties
	fmt.Fprintf(&out, "SyntheticcheckFunction %s %s, %v MB, %v s\n", p["Runtime"], texts(p["Architectures"])[0], p["MemorySize"], p["Timeout"])
	for id, r := range a.all("AWS::Scheduler::Schedule") {
		out.WriteString(id + ": " + render(r.Properties["ScheduleExpression"]) + " " + render(get(r.Properties, "Target", "Input")) + "\n")
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

// TestCheckMayReadItsKeyAlone, and write its log: it asks the installation as a stranger with a key does.
func TestCheckMayReadItsKeyAlone(t *testing.T) {
	for role, statements := range synthesiseCheck(t, nil).grants() {
		for _, s := range statements {
			for _, action := range s.actions {
				for _, on := range s.resources {
					if strings.Contains(action+on, "*") {
						t.Errorf("%s may %s on %s, want one resource", role, action, on)
					}
					if strings.HasPrefix(action, "ssm:") && on != "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/gatewright/dev/check-key" {
						t.Errorf("%s may %s on %s, want the parameter with the key", role, action, on)
					}
					if service, _, _ := strings.Cut(action, ":"); !slices.Contains([]string{"ssm", "logs", "lambda"}, service) {
						t.Errorf("%s may %s, want parameter, log and the call of the schedule alone", role, action)
					}
				}
			}
		}
	}
}

// TestCheckAsksWhatClientsAsk: the domain names, or the address that is in front of them, or that of API Gateway, which is known later.
func TestCheckAsksWhatClientsAsk(t *testing.T) {
	for name, tt := range map[string]struct {
		context      map[string]string
		api, gateway string
	}{
		"a domain":          {map[string]string{"apiDomain": "api.example.com"}, "https://api.example.com", "https://check-0000000.apis.example.com"},
		"an address before": {map[string]string{"apiUrl": "https://edge.example.com/api/", "gatewayUrl": "https://{deployment}.edge.example.com"}, "https://edge.example.com/api", "https://check-0000000.edge.example.com"},
		"API Gateway's":     {nil, "${ApiAddress}", "https://check-0000000.apis.example.com"},
	} {
		a := synthesiseCheck(t, tt.context)
		variables := get(a.only(t, "AWS::Lambda::Function").Properties, "Environment", "Variables")
		api, gateway := render(get(variables, syntheticcheck.VarAPI)), render(get(variables, syntheticcheck.VarGateway))
		if api != tt.api || gateway != tt.gateway {
			t.Errorf("%s: it asks %s and %s, want %s and %s", name, api, gateway, tt.api, tt.gateway)
		}
		if _, given := a.stacks[checkFile].Parameters[removals.APIAddress]; given != strings.Contains(tt.api, "$") {
			t.Errorf("%s: the address is a parameter of the stack: %v", name, given)
		}
	}
}

// TestCheckIsInItsRegion, and comes after the installation, whose template says where it is. An installation without one says nothing.
func TestCheckIsInItsRegion(t *testing.T) {
	s := settingsFor(t, needed(map[string]string{"checkRegion": checkRegion, "alarmEmail": email}))
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
	check := manifest.Artifacts[removals.CheckStack("dev")]
	if !strings.HasSuffix(check.Environment, "/"+checkRegion) || !slices.Contains(check.Dependencies, "gatewright-dev") {
		t.Errorf("the check is of %s after %v, want %s after gatewright-dev", check.Environment, check.Dependencies, checkRegion)
	}
	if own := manifest.Artifacts["gatewright-dev"].Environment; !strings.HasSuffix(own, "/unknown-region") {
		t.Errorf("the installation is of %s, want no region: it goes where the credentials lead", own)
	}
	var template removals.Template
	if err := json.Unmarshal(a.raw["gatewright-dev.template.json"], &template); err != nil {
		t.Fatal(err)
	}
	if got := (removals.Stack{Templates: map[string]removals.Template{"": template}}).CheckRegion(); got != checkRegion {
		t.Errorf("the installation records the region %q of its check, want %s", got, checkRegion)
	}
	without := settingsFor(t, needed(nil))
	for file, raw := range assemble(t, func(app awscdk.App) {
		newCheck(app, without, newInstallation(app, without, fewFunctions(without), nil))
	}).raw {
		if strings.Contains(file, "check") || strings.Contains(string(raw), removals.CheckRegionKey) {
			t.Errorf("%s is of a check, want none without checkRegion", file)
		}
	}
}

// TestCheckKeepsTheRulesOfItsCreation that are about something in its stack.
func TestCheckKeepsTheRulesOfItsCreation(t *testing.T) {
	kept := 0
	for _, rule := range creationRules {
		broken, looked := rule.broken(newCreation(t, synthesiseCheck(t, nil)))
		if strings.Contains(rule.name, "the key of the root key") {
			continue // it has none
		}
		for _, at := range broken {
			t.Errorf("%s breaks the rule that %s (%s)", at, rule.name, rule.source)
		}
		kept += min(looked, 1)
	}
	if kept < 4 {
		t.Errorf("%d rules are about the stack of the check, want 4 at least", kept)
	}
}

// TestCheckAlarmsReachSomebodyInItsRegion, and ring where no check runs. A topic of another region hears nothing.
func TestCheckAlarmsReachSomebodyInItsRegion(t *testing.T) {
	for name, tt := range map[string]struct {
		context map[string]string
		topics  []string
	}{
		"an address":             {map[string]string{"alarmTopic": topic}, []string{"${AlarmTopic}"}},
		"a topic":                {map[string]string{"alarmTopic": topic, "alarmEmail": "", "checkTopic": checkTopic}, []string{checkTopic}},
		"an address and a topic": {map[string]string{"checkTopic": checkTopic, "monthlyBudget": "10"}, []string{checkTopic, "${AlarmTopic}"}},
	} {
		a := synthesiseCheck(t, tt.context)
		alarms := a.all("AWS::CloudWatch::Alarm")
		for id, r := range alarms {
			for _, when := range []string{"AlarmActions", "OKActions"} {
				if got := texts(r.Properties[when]); !slices.Equal(got, tt.topics) {
					t.Errorf("%s: %s of %s are %q, want %q", name, when, id, got, tt.topics)
				}
			}
			if r.Properties["MetricName"] == telemetry.ChecksPassed && (r.Properties["TreatMissingData"] != "breaching" || r.Properties["EvaluationPeriods"] != 3.0) {
				t.Errorf("%s: %s does not ring after three minutes without a check: %v", name, id, r.Properties)
			}
		}
		if len(alarms) != 3 {
			t.Errorf("%s: %d alarms, want 3", name, len(alarms))
		}
		if strings.Contains(string(a.raw[checkFile]), topic) {
			t.Errorf("%s: the template names the topic of the installation's region", name)
		}
	}
}

// TestWrongSettingsOfTheCheckAreRefused in a line that says what to do.
func TestWrongSettingsOfTheCheckAreRefused(t *testing.T) {
	const region = `, "checkRegion": "eu-central-1"`
	for name, tt := range map[string]struct{ file, want string }{
		"no region":                    {`, "checkRegion": "Frankfurt"`, "checkRegion is a region such as eu-central-1"},
		"the installation's region":    {`, "alarmEmail": "` + email + `", "checkRegion": "eu-west-1"`, "checkRegion is eu-west-1, the region of certificateArn and of the installation: name another region"},
		"that of its topic":            {`, "alarmTopic": "` + checkTopic + `", "alarmEmail": "` + email + `"` + region, "checkRegion is eu-central-1, the region of alarmTopic"},
		"nobody who hears":             {region, "checkRegion notifies nobody without alarmEmail or checkTopic, a topic of SNS in eu-central-1"},
		"a topic of the other region":  {`, "alarmTopic": "` + topic + `"` + region, "checkRegion notifies nobody without alarmEmail or checkTopic"},
		"a topic of a third region":    {`, "checkTopic": "arn:aws:sns:us-east-1:123456789012:alarms"` + region, "checkTopic is of us-east-1, and checkRegion is eu-central-1"},
		"a topic without a check":      {`, "checkTopic": "` + checkTopic + `"`, "checkTopic is for alarms in another region"},
		"an address that sends no key": {`, "checkTopic": "` + checkTopic + `", "apiUrl": "http://api.example.com"` + region, "which has to begin with https://"},
	} {
		if _, err := stage(`{`+said+tt.file+`}`, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
	if s, err := stage(`{`+said+region+`, "checkTopic": "`+checkTopic+`"}`, nil); err != nil || s.CheckRegion != checkRegion || s.CheckTopic != checkTopic {
		t.Errorf("a good one: settings %+v, error %v", s, err)
	}
	if _, err := settingsOf(func(name string) any {
		return map[string]any{"emulator": miniStack, "gatewayUrl": "http://{deployment}.apis.example.com", "checkRegion": checkRegion}[name]
	}); err == nil || !strings.Contains(err.Error(), "checkRegion is not for emulators") {
		t.Errorf("an emulator: error %v, want that checkRegion is not for emulators", err)
	}
}
