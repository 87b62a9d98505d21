package stream_test

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/core/store/stream"
)

func recordOf(t *testing.T, text string) events.DynamoDBEventRecord {
	t.Helper()
	var r events.DynamoDBEventRecord
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFilterMatches(t *testing.T) {
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
		// Filter does not support anything-but, so the condition matches every record.
		{`{"eventName": [{"anything-but": ["INSERT"]}]}`, true},
	} {
		f, err := stream.ParseFilter(tc.pattern)
		if err != nil {
			t.Fatalf("ParseFilter(%s) = %v, want success", tc.pattern, err)
		}
		if got := f.Matches(recordOf(t, record)); got != tc.want {
			t.Errorf("ParseFilter(%s).Matches() = %t, want %t", tc.pattern, got, tc.want)
		}
	}
	if f, err := stream.ParseFilter(`{`); err == nil || f != nil {
		t.Errorf("ParseFilter({) = %v, %v, want an error", f, err)
	}
}
