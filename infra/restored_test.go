package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const (
	restoredName   = "gatewright-dev-20261125T140200Z"
	restoredARN    = "arn:aws:dynamodb:eu-west-1:000000000000:table/" + restoredName
	restoredStream = restoredARN + "/stream/2026-11-25T15:00:00.000"
)

// TestEverythingGoesOnWithTheRestoredTable: functions, what calls them, what they may do, alarms and the dashboard;
// and of a table of the stack's own nothing is left.
func TestEverythingGoesOnWithTheRestoredTable(t *testing.T) {
	a := synthesise(t, needed(map[string]string{"tableStream": restoredStream}))
	tables, told := 0, 0
	for _, s := range a.stacks {
		for id, r := range s.Resources {
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, left := range []string{`{"Ref":"Table"}`, `["Table","Arn"]`, `["Table","StreamArn"]`} {
				if strings.Contains(string(text), left) {
					t.Errorf("%s still asks for a table of the stack's own", id)
				}
			}
			switch r.Type {
			case "AWS::DynamoDB::Table":
				tables++
			case "AWS::Lambda::EventSourceMapping":
				told++
				if r.Properties["EventSourceArn"] != restoredStream {
					t.Errorf("%s is told by %v", id, r.Properties["EventSourceArn"])
				}
			case "AWS::Lambda::Function":
				variables, _ := r.Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
				if variables["GATEWRIGHT_TABLE"] != restoredName {
					t.Errorf("%s works on the table %v", id, variables["GATEWRIGHT_TABLE"])
				}
			}
		}
	}
	if tables != 0 || told == 0 {
		t.Errorf("it has %d tables of its own, and %d functions are told of changes", tables, told)
	}
	text := fmt.Sprint(a.stacks["gatewright-dev.template.json"].Outputs)
	if !strings.Contains(text, restoredStream) || !strings.Contains(text, restoredName) {
		t.Errorf("the stack says of its table %s", text)
	}
}

// TestStreamThatIsNoneIsRefused. One that would be left for another is package removals' to tell.
func TestStreamThatIsNoneIsRefused(t *testing.T) {
	for stream, want := range map[string]string{
		"":                   "",
		restoredStream:       "",
		restoredName:         "-c tableStream is the ARN of a restored table's stream",
		restoredARN:          "-c tableStream is the ARN of a restored table's stream",
		restoredStream + " ": "-c tableStream is the ARN of a restored table's stream",
	} {
		context := needed(map[string]string{"tableStream": stream})
		_, err := settingsOf(func(name string) any {
			if v, ok := context[name]; ok {
				return v
			}
			return nil
		})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q is answered with %v, want %q", stream, err, want)
		}
	}
}

// TestObjectsOutliveTheMomentsOfTheTable: what a restored table names comes back as long as one can be restored.
func TestObjectsOutliveTheMomentsOfTheTable(t *testing.T) {
	days := map[string]float64{}
	period := 0.0
	for _, s := range synthesise(t, needed(nil)).stacks {
		for _, r := range s.Resources {
			switch r.Type {
			case "AWS::DynamoDB::Table":
				period, _ = r.Properties["PointInTimeRecoverySpecification"].(map[string]any)["RecoveryPeriodInDays"].(float64)
			case "AWS::S3::Bucket":
				for _, rule := range r.Properties["LifecycleConfiguration"].(map[string]any)["Rules"].([]any) {
					rule, _ := rule.(map[string]any)
					prefix, _ := rule["Prefix"].(string)
					days[prefix], _ = rule["NoncurrentVersionExpiration"].(map[string]any)["NoncurrentDays"].(float64)
				}
			}
		}
	}
	for _, prefix := range []string{"sources/", "artifacts/", "truststores/"} {
		if period == 0 || days[prefix] <= period {
			t.Errorf("old versions of %s stay for %v days, and the table can be restored for %v", prefix, days[prefix], period)
		}
	}
}
