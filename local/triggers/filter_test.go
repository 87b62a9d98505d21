package triggers

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/operations"
	"github.com/gatewright/gatewright/shared/core/store/stream"
)

func parseRecord(t *testing.T, text string) events.DynamoDBEventRecord {
	t.Helper()
	var r events.DynamoDBEventRecord
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOperationsFilterMatchesUnclaimedOperations checks which records
// match the filter pattern of the function for durable operations.
func TestOperationsFilterMatchesUnclaimedOperations(t *testing.T) {
	for _, e := range operations.Function.Events {
		if !e.FromStream {
			continue
		}
		f, err := stream.ParseFilter(e.FilterPattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			key, image string
			want       bool
		}{
			{"operation#kop_1", `{"lease": {"M": {}}}`, true},
			{"operation#kop_1", `{"kind": {"S": "build"}}`, true},
			{"operation#kop_1", `{"lease": {"M": {"owner": {"S": "w1"}}}}`, false},
			{"consumers#b", `{"name": {"S": "acme"}}`, false},
		} {
			text := `{"dynamodb": {"Keys": {"pk": {"S": "` + c.key + `"}}, "NewImage": ` + c.image + `}}`
			if got := f.Matches(parseRecord(t, text)); got != c.want {
				t.Errorf("Matches(%s) = %v, want %v", text, got, c.want)
			}
		}
		return
	}
	t.Error("no event of the function is for stream records, want one")
}
