package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/infra/removals"
)

// email is an email address that alarms notify.
const email = "operations@example.com"

// TestAlarmsNotifyTheEmailAddress checks that all alarms and event rules notify the email address, and also the
// operator's topic if there is one.
func TestAlarmsNotifyTheEmailAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		a          assembly
		topics     []string
		recipients string
	}{
		"email address": {
			synthesize(t, fullContext()),
			[]string{"${AlarmTopic}"},
			"the address of alarmEmail, once its owner has confirmed the subscription",
		},
		"email address and topic": {
			synthesizeFew(t,
				servicesContext(map[string]string{"alarmEmail": email, "alarmTopic": topicARN})),
			[]string{topicARN, "${AlarmTopic}"},
			topicARN + ", and the address of alarmEmail, once",
		},
	} {
		t.Run(name, func(t *testing.T) {
			alarms, rules := 0, 0
			for _, stack := range tt.a.stacks { // alarms of different services have the same logical ids
				for id, r := range stack.Resources {
					switch r.Type {
					case "AWS::CloudWatch::Alarm":
						alarms++
						for _, property := range []string{"AlarmActions", "OKActions"} {
							if got := texts(r.Properties[property]); !slices.Equal(got, tt.topics) {
								t.Errorf("%s of %s are %q, want %q", property, id, got, tt.topics)
							}
						}
					case "AWS::Events::Rule":
						rules++
						var got, ids []string
						targets, _ := r.Properties["Targets"].([]any)
						for _, target := range targets {
							got, ids = append(got, render(get(target, "Arn"))), append(ids, render(get(target, "Id")))
						}
						if !slices.Equal(got, tt.topics) {
							t.Errorf("targets of %s are %q, want %q", id, got, tt.topics)
						}
						if len(slices.Compact(slices.Sorted(slices.Values(ids)))) != len(ids) {
							t.Errorf("targets of %s have the ids %q, want different ones", id, ids)
						}
					}
				}
				if o, ok := stack.Outputs["AlarmsTell"]; ok && !strings.HasPrefix(render(o.Value), tt.recipients) {
					t.Errorf("output AlarmsTell = %q, want %q…", render(o.Value), tt.recipients)
				}
			}
			if alarms < 20 || rules != 3 {
				t.Errorf("%d alarms and %d rules, want 20 alarms and more, and 3 rules", alarms, rules)
			}
			subscription := tt.a.only(t, "AWS::SNS::Subscription").Properties
			if subscription["Protocol"] != "email" || subscription["Endpoint"] != email ||
				render(subscription["TopicArn"]) != "${AlarmTopic}" {
				t.Errorf("subscription = %v, want the address %s by email at the topic of the stack", subscription, email)
			}
		})
	}
}

// TestEmailAddressIsOnlyInTheSubscription checks that the templates contain the address, which is personal data, only
// once. TestAlarmsNotifyTheEmailAddress finds it in the subscription. Many people can read outputs, descriptions and
// variables of functions.
func TestEmailAddressIsOnlyInTheSubscription(t *testing.T) {
	found := 0
	for name, raw := range synthesize(t, fullContext()).raw {
		if n := strings.Count(string(raw), email); n > 0 {
			found += n
			t.Logf("%s has the address %d times", name, n)
		}
	}
	if found != 1 {
		t.Errorf("the address is in the templates %d times, want once: in the subscription", found)
	}
}

// TestChangedEmailAddressCreatesANewSubscription checks that two addresses have subscriptions with different logical
// ids, so that the diff of a deployment contains neither address.
func TestChangedEmailAddressCreatesANewSubscription(t *testing.T) {
	ids := map[string]bool{}
	for _, address := range []string{email, "others@example.com"} {
		for id := range synthesizeFew(t, minimalContext(map[string]string{"alarmEmail": address})).all(
			"AWS::SNS::Subscription") {
			ids[id] = true
		}
	}
	if len(ids) != 2 {
		t.Errorf("the subscriptions of two addresses are %v, want two logical ids", ids)
	}
}

// TestErrorsDoNotContainTheEmailAddress checks that the errors for invalid addresses do not contain the address.
func TestErrorsDoNotContainTheEmailAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		file    string
		context map[string]string
		want    string
	}{
		"invalid address": {
			`{` + validSettings + `, "alarmEmail": "someone"}`, nil,
			"alarmEmail is an email address in lower case, such as you@example.com",
		},
		"address with a display name": {
			`{` + validSettings + `, "alarmEmail": "Some One <someone@example.org>"}`, nil,
			"alarmEmail is an email address",
		},
		"two addresses": {
			`{` + validSettings + `, "alarmEmail": "someone@example.org,you@example.org"}`, nil,
			"alarmEmail is an email address",
		},
		"reference of CloudFormation": {
			`{` + validSettings + `, "alarmEmail": "${AWS::AccountId}@example.org"}`, nil,
			"alarmEmail is an email address",
		},
		"another address in the context": {
			`{` + validSettings + `, "alarmEmail": "someone@example.org"}`,
			map[string]string{"alarmEmail": "someone.else@example.org"},
			"infra/stages/team.json says another alarmEmail than -c alarmEmail",
		},
		"invalid context": {
			`{` + validSettings + `}`,
			map[string]string{"alarmEmail": "someone"},
			"alarmEmail is an email address",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadTestStage(tt.file, tt.context)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "someone") ||
				strings.Contains(err.Error(), "example.org") {
				t.Errorf("loadTestStage() error = %v, want %q in it without the address", err, tt.want)
			}
		})
	}
	s, err := loadTestStage(`{`+validSettings+`, "alarmEmail": "someone@example.org"}`,
		map[string]string{"alarmEmail": "someone@example.org"})
	if err != nil || s.AlarmEmail != "someone@example.org" {
		t.Errorf("loadTestStage(same address in file and context) = address %q, error %v, want someone@example.org "+
			"and no error", s.AlarmEmail, err)
	}
	if _, err := settingsFromContext(func(name string) any {
		return map[string]any{
			"emulator": miniStack, "gatewayUrl": "http://{deployment}.apis.example.com",
			"alarmEmail": email,
		}[name]
	}); err == nil || !strings.Contains(err.Error(), "alarmEmail is not for emulators") ||
		strings.Contains(err.Error(), email) {
		t.Errorf("settingsFromContext(emulator with an address) error = %v, want \"alarmEmail is not for emulators\" "+
			"without the address", err)
	}
}

// TestTemplateRecordsTheStageFile checks that the template has the digest of the file's settings. The order of the
// settings, spaces, the schema and the context do not change the digest, but a setting does.
func TestTemplateRecordsTheStageFile(t *testing.T) {
	digest := func(file string, context map[string]string) string {
		s, err := loadTestStage(file, context)
		if err != nil {
			t.Fatal(err)
		}
		return s.FileDigest
	}
	want := digest(`{`+validSettings+`, "waf": true}`, nil)
	if got := digest(`{"$schema": "schema.json", "waf":true,`+validSettings+`}`,
		map[string]string{"logDays": "90"}); got != want {
		t.Errorf("digest of the same settings = %s, want %s", got, want)
	}
	if got := digest(`{`+validSettings+`, "waf": false}`, nil); got == want {
		t.Errorf("digest of other settings = %s, want another digest", got)
	}
	s := settingsFor(t, minimalContext(nil))
	if s.FileDigest != "" {
		t.Errorf("digest without a file = %q, want none", s.FileDigest)
	}
	s.FileDigest = want
	root := synthesizeWith(t, s, fewFunctions(s)).raw["gatewright-dev.template.json"]
	var template removals.Template
	if err := json.Unmarshal(root, &template); err != nil {
		t.Fatal(err)
	}
	if got := (removals.Stack{Templates: map[string]removals.Template{"": template}}).StageFileDigest(); got != want {
		t.Errorf("the template records %q, want %q", got, want)
	}
}
