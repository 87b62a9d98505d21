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

// TestRestoredTableReplacesTheStackTable checks that functions and their triggers use the restored table, and that no
// resource refers to a table of the stack.
func TestRestoredTableReplacesTheStackTable(t *testing.T) {
	a := synthesize(t, minimalContext(map[string]string{"tableStream": restoredStream}))
	tables, eventSources := 0, 0
	for _, s := range a.stacks {
		for id, r := range s.Resources {
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, reference := range []string{`{"Ref":"Table"}`, `["Table","Arn"]`, `["Table","StreamArn"]`} {
				if strings.Contains(string(text), reference) {
					t.Errorf("%s contains %s, want no reference to a table of the stack", id, reference)
				}
			}
			switch r.Type {
			case "AWS::DynamoDB::Table":
				tables++
			case "AWS::Lambda::EventSourceMapping":
				eventSources++
				if r.Properties["EventSourceArn"] != restoredStream {
					t.Errorf("EventSourceArn of %s = %v, want %s", id, r.Properties["EventSourceArn"], restoredStream)
				}
			case "AWS::Lambda::Function":
				variables, _ := r.Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
				if variables["GATEWRIGHT_TABLE"] != restoredName {
					t.Errorf("GATEWRIGHT_TABLE of %s = %v, want %s", id, variables["GATEWRIGHT_TABLE"], restoredName)
				}
			}
		}
	}
	if tables != 0 || eventSources == 0 {
		t.Errorf("the stacks have %d tables and %d event source mappings, want no table and some mappings",
			tables, eventSources)
	}
	text := fmt.Sprint(a.stacks["gatewright-dev.template.json"].Outputs)
	if !strings.Contains(text, restoredStream) || !strings.Contains(text, restoredName) {
		t.Errorf("outputs = %s, want the restored table's name and stream", text)
	}
}

// TestInvalidTableStreamIsRefused checks the format of the ARN. Package removals reports a change to another stream.
func TestInvalidTableStreamIsRefused(t *testing.T) {
	for stream, want := range map[string]string{
		"":                   "",
		restoredStream:       "",
		restoredName:         "-c tableStream is the ARN of a restored table's stream",
		restoredARN:          "-c tableStream is the ARN of a restored table's stream",
		restoredStream + " ": "-c tableStream is the ARN of a restored table's stream",
	} {
		context := minimalContext(map[string]string{"tableStream": stream})
		_, err := settingsFromContext(func(name string) any {
			if v, ok := context[name]; ok {
				return v
			}
			return nil
		})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("settingsFromContext(tableStream = %q) error = %v, want %q, or none if it is empty", stream, err,
				want)
		}
	}
}

// TestObjectVersionsOutliveTableRecovery checks that old versions of objects are kept longer than the recovery period
// of the table, because a restored table can refer to them.
func TestObjectVersionsOutliveTableRecovery(t *testing.T) {
	days := map[string]float64{}
	period := 0.0
	for _, s := range synthesize(t, minimalContext(nil)).stacks {
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
			t.Errorf("old versions of %s expire after %v days, want more than %v, the recovery period of the table", prefix,
				days[prefix], period)
		}
	}
}
