package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/infra/removals"
)

// email is an address that hears of alarms.
const email = "operations@example.com"

// TestAlarmsReachTheAddress and a topic of the operator's beside it: all alarms, and all notices of releases.
func TestAlarmsReachTheAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		a      assembly
		topics []string
		tell   string
	}{
		"an address":             {synthesise(t, everything()), []string{"${AlarmTopic}"}, "the address of alarmEmail, once its owner has confirmed the subscription"},
		"an address and a topic": {synthesiseFew(t, serving(map[string]string{"alarmEmail": email, "alarmTopic": topic})), []string{topic, "${AlarmTopic}"}, topic + ", and the address of alarmEmail, once"},
	} {
		t.Run(name, func(t *testing.T) {
			alarms, rules := 0, 0
			for _, stack := range tt.a.stacks { // services' alarms have the same names
				for id, r := range stack.Resources {
					switch r.Type {
					case "AWS::CloudWatch::Alarm":
						alarms++
						for _, when := range []string{"AlarmActions", "OKActions"} {
							if got := texts(r.Properties[when]); !slices.Equal(got, tt.topics) {
								t.Errorf("%s of %s are %q, want %q", when, id, got, tt.topics)
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
				if o, is := stack.Outputs["AlarmsTell"]; is && !strings.HasPrefix(render(o.Value), tt.tell) {
					t.Errorf("output AlarmsTell = %q, want %q…", render(o.Value), tt.tell)
				}
			}
			if alarms < 20 || rules != 3 {
				t.Errorf("%d alarms and %d rules, want 20 alarms and more, and 3 rules", alarms, rules)
			}
			subscription := tt.a.only(t, "AWS::SNS::Subscription").Properties
			if subscription["Protocol"] != "email" || subscription["Endpoint"] != email || render(subscription["TopicArn"]) != "${AlarmTopic}" {
				t.Errorf("subscription = %v, want the address %s by email at the topic of the stack", subscription, email)
			}
		})
	}
}

// TestAddressIsInTheSubscriptionAlone: it is about a person, and outputs, descriptions and variables of functions are read by many.
func TestAddressIsInTheSubscriptionAlone(t *testing.T) {
	found := 0
	for name, raw := range synthesise(t, everything()).raw {
		if n := strings.Count(string(raw), email); n > 0 {
			found += n
			t.Logf("%s has the address %d times", name, n)
		}
	}
	if found != 1 {
		t.Errorf("the address is in the templates %d times, want once: in the subscription", found)
	}
}

// TestAnotherAddressIsAnotherSubscription, whose difference shows neither of the two.
func TestAnotherAddressIsAnotherSubscription(t *testing.T) {
	ids := map[string]bool{}
	for _, address := range []string{email, "others@example.com"} {
		for id := range synthesiseFew(t, needed(map[string]string{"alarmEmail": address})).all("AWS::SNS::Subscription") {
			ids[id] = true
		}
	}
	if len(ids) != 2 {
		t.Errorf("the subscriptions of two addresses are %v, want two logical ids", ids)
	}
}

// TestErrorsDoNotContainTheAddress that somebody has mistyped.
func TestErrorsDoNotContainTheAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		file    string
		context map[string]string
		want    string
	}{
		"no address":         {`{` + said + `, "alarmEmail": "someone"}`, nil, "alarmEmail is an email address in lower case, such as you@example.com"},
		"a name before it":   {`{` + said + `, "alarmEmail": "Some One <someone@example.org>"}`, nil, "alarmEmail is an email address"},
		"two addresses":      {`{` + said + `, "alarmEmail": "someone@example.org,you@example.org"}`, nil, "alarmEmail is an email address"},
		"CloudFormation's":   {`{` + said + `, "alarmEmail": "${AWS::AccountId}@example.org"}`, nil, "alarmEmail is an email address"},
		"another of context": {`{` + said + `, "alarmEmail": "someone@example.org"}`, map[string]string{"alarmEmail": "someone.else@example.org"}, "infra/stages/team.json says another alarmEmail than -c alarmEmail"},
		"a wrong context":    {`{` + said + `}`, map[string]string{"alarmEmail": "someone"}, "alarmEmail is an email address"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := stage(tt.file, tt.context)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "someone") {
				t.Errorf("error %v, want %q without the address", err, tt.want)
			}
		})
	}
	s, err := stage(`{`+said+`, "alarmEmail": "someone@example.org"}`, map[string]string{"alarmEmail": "someone@example.org"})
	if err != nil || s.AlarmEmail != "someone@example.org" {
		t.Errorf("the same address twice: error %v, want none", err)
	}
	if _, err := settingsOf(func(name string) any {
		return map[string]any{"emulator": miniStack, "gatewayUrl": "http://{deployment}.apis.example.com", "alarmEmail": email}[name]
	}); err == nil || !strings.Contains(err.Error(), "alarmEmail is not for emulators") || strings.Contains(err.Error(), email) {
		t.Errorf("an emulator: error %v, want that alarmEmail is not for emulators", err)
	}
}

// TestTemplateRecordsTheStageFile by a digest of its words: order, spaces, the schema and the context do not change it, and a word does.
func TestTemplateRecordsTheStageFile(t *testing.T) {
	digest := func(file string, context map[string]string) string {
		s, err := stage(file, context)
		if err != nil {
			t.Fatal(err)
		}
		return s.FileDigest
	}
	was := digest(`{`+said+`, "waf": true}`, nil)
	if got := digest(`{"$schema": "schema.json", "waf":true,`+said+`}`, map[string]string{"logDays": "90"}); got != was {
		t.Errorf("digest of the same words = %s, want %s", got, was)
	}
	if got := digest(`{`+said+`, "waf": false}`, nil); got == was {
		t.Errorf("digest of other words = %s, want another one", got)
	}
	s := settingsFor(t, needed(nil))
	if s.FileDigest != "" {
		t.Errorf("digest without a file = %q, want none", s.FileDigest)
	}
	s.FileDigest = was
	root := synthesiseOf(t, s, fewFunctions(s)).raw["gatewright-dev.template.json"]
	var template removals.Template
	if err := json.Unmarshal(root, &template); err != nil {
		t.Fatal(err)
	}
	if got := (removals.Stack{Templates: map[string]removals.Template{"": template}}).StageFile(); got != was {
		t.Errorf("the template records %q, want %q", got, was)
	}
}
