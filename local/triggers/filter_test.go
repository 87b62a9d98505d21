package triggers

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/operations"
)

func recordOf(t *testing.T, text string) events.DynamoDBEventRecord {
	t.Helper()
	var r events.DynamoDBEventRecord
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFilterLetsPassWhatMatches(t *testing.T) {
	const record = `{"eventName": "INSERT", "dynamodb": {"Keys": {"pk": {"S": "a#1"}, "sk": {"S": "."}},
		"NewImage": {"n": {"N": "7"}, "flag": {"BOOL": true}, "lease": {"M": {"owner": {"S": "w"}}}}}}`
	for _, tc := range []struct {
		pattern string
		want    bool
	}{
		{``, true},
		{`{}`, true},
		{`{"eventName": ["INSERT"]}`, true},
		{`{"eventName": ["REMOVE"]}`, false},
		{`{"eventName": ["REMOVE", "INSERT"]}`, true},
		{`{"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "a#"}]}}}}`, true},
		{`{"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "b#"}]}}}}`, false},
		{`{"dynamodb": {"Keys": {"other": {"S": [{"prefix": ""}]}}}}`, false},
		{`{"dynamodb": {"Keys": {"pk": {"N": ["a#1"]}}}}`, false},
		{`{"dynamodb": {"NewImage": {"n": {"N": ["7"]}}}}`, true},
		{`{"dynamodb": {"NewImage": {"n": {"N": ["8"]}}}}`, false},
		{`{"dynamodb": {"NewImage": {"lease": {"M": {"owner": {"S": [{"exists": true}]}}}}}}`, true},
		{`{"dynamodb": {"NewImage": {"lease": {"M": {"owner": {"S": [{"exists": false}]}}}}}}`, false},
		{`{"dynamodb": {"OldImage": {"lease": {"M": {"owner": {"S": [{"exists": false}]}}}}}}`, true},
		{`{"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "a#"}]}}, "NewImage": {"n": {"N": ["8"]}}}}`, false},
		{`{"eventName": [{"anything-but": ["INSERT"]}]}`, true}, // not known here: the function looks for itself
	} {
		f, err := filterOf(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(f.of([]events.DynamoDBEventRecord{recordOf(t, record)})) == 1; got != tc.want {
			t.Errorf("%s: passes %v, want %v", tc.pattern, got, tc.want)
		}
	}
	if f, err := filterOf(`{`); err == nil || f != nil {
		t.Errorf("a pattern that is none: %v, %v", f, err)
	}
}

// What the function of durable operations asks for is what it is called with.
func TestOperationsAreCalledForWhatNobodyWorksOn(t *testing.T) {
	for _, on := range operations.Function.On {
		if !on.StreamRecords {
			continue
		}
		f, err := filterOf(on.FilterPattern)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]bool{
			`{"dynamodb": {"Keys": {"pk": {"S": "operation#kop_1"}}, "NewImage": {"lease": {"M": {}}}}}`:                     true,
			`{"dynamodb": {"Keys": {"pk": {"S": "operation#kop_1"}}, "NewImage": {"kind": {"S": "build"}}}}`:                 true,
			`{"dynamodb": {"Keys": {"pk": {"S": "operation#kop_1"}}, "NewImage": {"lease": {"M": {"owner": {"S": "w1"}}}}}}`: false,
			`{"dynamodb": {"Keys": {"pk": {"S": "consumers#b"}}, "NewImage": {"name": {"S": "acme"}}}}`:                      false,
		} {
			if got := len(f.of([]events.DynamoDBEventRecord{recordOf(t, text)})) == 1; got != want {
				t.Errorf("%s: passes %v, want %v", text, got, want)
			}
		}
		return
	}
	t.Error("the stream does not call the function")
}
