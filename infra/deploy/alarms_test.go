package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// alarmTemplate returns a template with an alarm that notifies topics. file is the digest of the stage's file in the
// template's metadata, or "".
func alarmTemplate(file string, topics ...string) string {
	metadata := "{}"
	if file != "" {
		metadata = fmt.Sprintf(`{"gatewright:stage-file": %q}`, file)
	}
	actions := "[]"
	if len(topics) > 0 {
		actions = `["` + strings.Join(topics, `", "`) + `"]`
	}
	return `{"Metadata": ` + metadata +
		`, "Resources": {"A": {"Type": "AWS::CloudWatch::Alarm", "Properties": {"AlarmActions": ` + actions + `}}}}`
}

// TestProtectedStageRequiresAlarmRecipients checks that the first deployment of a protected stage requires a recipient
// of alarms. A deployed stage without a recipient needs one when its file changes.
func TestProtectedStageRequiresAlarmRecipients(t *testing.T) {
	const (
		topic  = "arn:aws:sns:eu-west-1:000000000000:alarms"
		advice = `add the line "alarmEmail": "you@example.com", with the address of a person or a team (or "alarmTopic" ` +
			`with the ARN of a topic of SNS)`
	)
	for name, tt := range map[string]struct {
		deployed, planned string
		failed            bool   // the creation of the deployed stack failed
		refused           string // a part of the error, "" if the deployment is not refused
		warned            bool   // the output warns that alarms notify nobody
	}{
		"first deployment": {
			"", alarmTemplate("one"), false,
			"infra/stages/dev.json is protected and names nobody who hears of alarms: " + advice, false,
		},
		"repeated first deployment": {
			"", alarmTemplate("one"), true,
			"infra/stages/dev.json is protected and names nobody who hears of alarms: " + advice, false,
		},
		"first deployment with a recipient": {"", alarmTemplate("one", topic), false, "", false},
		"unchanged file":                    {alarmTemplate("one"), alarmTemplate("one"), false, "", true},
		"changed file": {
			alarmTemplate("one"), alarmTemplate("two"), false,
			"infra/stages/dev.json is protected and has changed, and names nobody who hears of alarms: " + advice, false,
		},
		"changed file with a recipient": {alarmTemplate("one"), alarmTemplate("two", topic), false, "", false},
		"file of an earlier release":    {alarmTemplate(""), alarmTemplate("one"), false, "", true},
		"removed address": {
			alarmTemplate("one", topic), alarmTemplate("two"), false,
			"infra/stages/dev.json is protected, and alarms of gatewright-dev would no longer notify anybody: " + advice, false,
		},
		"address of the context removed": {
			alarmTemplate("one", topic), alarmTemplate("one"), false,
			"would no longer notify anybody", false,
		},
		"changed file with an unchanged recipient": {
			alarmTemplate("one", topic), alarmTemplate("two", topic), false, "",
			false,
		},
		"alarms that are new in this release": {withoutACL, alarmTemplate("one"), false, "", true},
		"installation without alarms":         {"", withoutACL, false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeAccount{template: tt.deployed}
			switch {
			case tt.failed:
				f.status = types.StackStatusRollbackComplete
			case tt.deployed != "":
				f.status = types.StackStatusUpdateComplete
			}
			steps, output, err := f.run(t, tt.planned, false)
			if tt.refused != "" {
				if !errors.Is(err, errRefused) || steps != "synth" || !strings.Contains(err.Error(), tt.refused) ||
					strings.Contains(err.Error(), "\n") {
					t.Errorf("deploy() = %v after %q, want a refusal after synth that says %q in one line", err, steps, tt.refused)
				}
				return
			}
			if err != nil || !strings.HasSuffix(steps, "deploy") {
				t.Errorf("deploy() = %v after %q, want a deployment", err, steps)
			}
			warning := "Alarms of gatewright-dev notify nobody, and make deploy will refuse the next change of " +
				"infra/stages/dev.json: " + advice + ".\n"
			if strings.Contains(output, warning) != tt.warned {
				t.Errorf("output = %q, want the warning: %v", output, tt.warned)
			}
		})
	}
}

// TestUnprotectedStageNeedsNoAlarmRecipients checks that a stage without protection is deployed without a message about
// recipients.
func TestUnprotectedStageNeedsNoAlarmRecipients(t *testing.T) {
	f := &fakeAccount{}
	change := func(d *deployment) {
		d.cdk = withoutProtection(t, d.output, d.cdk)
	}
	steps, output, err := f.run(t, alarmTemplate("one"), false, change)
	if err != nil || steps != "synth deploy" || strings.Contains(output, "alarmEmail") {
		t.Errorf("deploy() = %v, steps %q, output %q, want a deployment without the word alarmEmail", err, steps, output)
	}
}

// withoutProtection wraps the fake CDK command line cdk: the synthesized stack has no termination protection.
func withoutProtection(
	t *testing.T, dir string, cdk func(context.Context, ...string) error,
) func(context.Context, ...string) error {
	t.Helper()
	return func(ctx context.Context, args ...string) error {
		err := cdk(ctx, args...)
		if args[0] == "synth" {
			writeFile(t, dir, "manifest.json", `{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "t.json"}}}}`)
		}
		return err
	}
}
