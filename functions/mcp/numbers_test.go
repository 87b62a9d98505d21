package mcp_test

import (
	"encoding/json"
	"testing"
)

// TestWholeNumbersAreAcceptedInAnyNotation checks that a call accepts whole numbers in any notation and at any depth.
// It must not change other numbers, or whole numbers that do not fit into an int64. Schemas accept 5.0 as an integer,
// and some clients send only this form.
func TestWholeNumbersAreAcceptedInAnyNotation(t *testing.T) {
	fx := newFixture(t)
	bucket := fx.mustCall("MeteringBucketsService_create", map[string]any{}).Text("id")
	for _, five := range []string{"5", "5.0", "5e0", "0.5e1", "50e-1"} {
		number := json.RawMessage(five)
		list := fx.mustCall("MeteringBucketsService_list", map[string]any{"limit": number})
		plan := fx.mustCall("MeteringPlansService_create", map[string]any{
			"bucketId": bucket, "label": "1.0 é", "planExternalId": "of " + five,
			"meters": map[string]any{"requests": map[string]any{"max": number}},
		})
		if list.Number("limit") != 5 || plan.Number("meters.requests.max") != 5 || plan.Text("label") != "1.0 é" ||
			plan.Text("planExternalId") != "of "+five {
			t.Errorf("list and plan with %s = %s and %s, want a limit and a max of 5", five, list, plan)
		}
	}
	fx.mustCall("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "numbers"})
	const (
		sent     = `{"a":[0.5,-2.50,12345678901234567890123,-1e18,1e19],"b":{"c":9007199254740993}}`
		metadata = `{"a":[0.5,-2.50,12345678901234567890123,-1000000000000000000,1e19],"b":{"c":9007199254740993}}`
	)
	fx.mustCall("ApiKeyConsumersService_create", map[string]any{
		"accountName": "acme", "bucketName": "numbers",
		"name": "somebody", "metadata": json.RawMessage(sent),
	})
	read := fx.call("ApiKeyConsumersService_read", map[string]any{
		"accountName": "acme", "bucketName": "numbers",
		"consumerName": "somebody",
	})
	var got struct{ Metadata json.RawMessage }
	if err := json.Unmarshal(read.Result.StructuredContent, &got); err != nil || string(got.Metadata) != metadata {
		t.Errorf("metadata = %s, %v, want %s", got.Metadata, err, metadata)
	}
	r := fx.call("ApiKeyBucketsService_list", map[string]any{"accountName": "acme", "limit": json.RawMessage("1.5")})
	if !r.Result.IsError && r.Error == nil {
		t.Errorf("ApiKeyBucketsService_list with limit 1.5 = %s, want an error", r.text())
	}
}
