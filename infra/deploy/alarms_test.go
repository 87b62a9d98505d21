package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// alarmed is a template with an alarm that notifies some topics, and the digest of a stage's file, "" for none.
func alarmed(file string, topics ...string) string {
	metadata := "{}"
	if file != "" {
		metadata = fmt.Sprintf(`{"gatewright:stage-file": %q}`, file)
	}
	actions := "[]"
	if len(topics) > 0 {
		actions = `["` + strings.Join(topics, `", "`) + `"]`
	}
	return `{"Metadata": ` + metadata + `, "Resources": {"A": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"AlarmActions": ` + actions + `}}}}`
}

// TestProtectedStageNamesWhoHearsOfAlarms from its first deployment on. A stage that is deployed without has to name somebody when its file
// changes next.
func TestProtectedStageNamesWhoHearsOfAlarms(t *testing.T) {
	const (
		topic = "arn:aws:sns:eu-west-1:000000000000:alarms"
		line  = `add the line "alarmEmail": "you@example.com", with the address of a person or a team (or "alarmTopic" with the ARN of a topic of SNS)`
	)
	for name, tt := range map[string]struct {
		deployed, planned string
		failed            bool   // the creation of the deployed stack failed
		refused           string // "" if the deployment goes on
		warned            bool
	}{
		"the first deployment":                         {"", alarmed("one"), false, "infra/stages/dev.json is protected and names nobody who hears of alarms: " + line, false},
		"the first one again, after a failure":         {"", alarmed("one"), true, "infra/stages/dev.json is protected and names nobody who hears of alarms: " + line, false},
		"the first deployment with somebody":           {"", alarmed("one", topic), false, "", false},
		"an unchanged file":                            {alarmed("one"), alarmed("one"), false, "", true},
		"a changed file":                               {alarmed("one"), alarmed("two"), false, "infra/stages/dev.json is protected and has changed, and names nobody who hears of alarms: " + line, false},
		"a changed file that names somebody":           {alarmed("one"), alarmed("two", topic), false, "", false},
		"a file of an earlier release":                 {alarmed(""), alarmed("one"), false, "", true},
		"an address that is removed":                   {alarmed("one", topic), alarmed("two"), false, "infra/stages/dev.json is protected, and alarms of gatewright-dev would no longer notify anybody: " + line, false},
		"an address of the context that is left out":   {alarmed("one", topic), alarmed("one"), false, "would no longer notify anybody", false},
		"a changed file, with somebody as it was":      {alarmed("one", topic), alarmed("two", topic), false, "", false},
		"alarms that an earlier release has not had":   {without, alarmed("one"), false, "", true},
		"an installation that has no alarms to notify": {"", without, false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{template: tt.deployed}
			switch {
			case tt.failed:
				f.status = types.StackStatusRollbackComplete
			case tt.deployed != "":
				f.status = types.StackStatusUpdateComplete
			}
			steps, said, err := f.run(t, tt.planned, false)
			if tt.refused != "" {
				if !errors.Is(err, errRefused) || steps != "synth" || !strings.Contains(err.Error(), tt.refused) || strings.Contains(err.Error(), "\n") {
					t.Errorf("deploy() = %v after %q, want a refusal after synth that says %q in one line", err, steps, tt.refused)
				}
				return
			}
			if err != nil || !strings.HasSuffix(steps, "deploy") {
				t.Errorf("deploy() = %v after %q, want a deployment", err, steps)
			}
			warning := "Alarms of gatewright-dev notify nobody, and make deploy will refuse the next change of infra/stages/dev.json: " + line + ".\n"
			if strings.Contains(said, warning) != tt.warned {
				t.Errorf("it says %q, want the warning: %v", said, tt.warned)
			}
		})
	}
}

// TestUnprotectedStageMayHaveAlarmsThatNobodyHears: it is there to try things with.
func TestUnprotectedStageMayHaveAlarmsThatNobodyHears(t *testing.T) {
	f := &fake{}
	change := func(d *deployment) {
		d.cdk = unprotected(t, d.output, d.cdk)
	}
	steps, said, err := f.run(t, alarmed("one"), false, change)
	if err != nil || steps != "synth deploy" || strings.Contains(said, "alarmEmail") {
		t.Errorf("deploy() = %v after %q, and says %q, want a deployment without a word of alarms", err, steps, said)
	}
}

// unprotected is the CDK's command line of a stack that may be deleted.
func unprotected(t *testing.T, dir string, cdk func(context.Context, ...string) error) func(context.Context, ...string) error {
	t.Helper()
	return func(ctx context.Context, args ...string) error {
		err := cdk(ctx, args...)
		if args[0] == "synth" {
			writeFile(t, dir, "manifest.json", `{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "t.json"}}}}`)
		}
		return err
	}
}
