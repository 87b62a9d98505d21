package mcp_test

import (
	"encoding/json"
	"testing"
)

// TestWholeNumbersAreTakenHoweverTheyAreWritten, wherever they stand, and others are as they are: schemas take 5.0 for an
// integer, and some clients send no other.
func TestWholeNumbersAreTakenHoweverTheyAreWritten(t *testing.T) {
	w := newWorld(t)
	bucket := w.done("MeteringBucketsService_create", map[string]any{}).Text("id")
	for _, five := range []string{"5", "5.0", "5e0", "0.5e1", "50e-1"} {
		number := json.RawMessage(five)
		list := w.done("MeteringBucketsService_list", map[string]any{"limit": number})
		plan := w.done("MeteringPlansService_create", map[string]any{
			"bucketId": bucket, "label": "1.0 é", "planExternalId": "of " + five, "meters": map[string]any{"requests": map[string]any{"max": number}},
		})
		if list.Number("limit") != 5 || plan.Number("meters.requests.max") != 5 || plan.Text("label") != "1.0 é" || plan.Text("planExternalId") != "of "+five {
			t.Errorf("of %s it makes %s and %s", five, list, plan)
		}
	}
	w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "numbers"})
	const own = `{"a":[0.5,-2.50,12345678901234567890123],"b":{"c":9007199254740993}}`
	w.done("ApiKeyConsumersService_create", map[string]any{"accountName": "acme", "bucketName": "numbers", "name": "somebody", "metadata": json.RawMessage(own)})
	read := w.call("ApiKeyConsumersService_read", map[string]any{"accountName": "acme", "bucketName": "numbers", "consumerName": "somebody"})
	var got struct{ Metadata json.RawMessage }
	if err := json.Unmarshal(read.Result.StructuredContent, &got); err != nil || string(got.Metadata) != own {
		t.Errorf("metadata becomes %s: %v", got.Metadata, err)
	}
	if r := w.call("ApiKeyBucketsService_list", map[string]any{"accountName": "acme", "limit": json.RawMessage("1.5")}); !r.Result.IsError && r.Error == nil {
		t.Error("a limit of 1.5 is taken")
	}
}
