// Package goclient_test is a client of the management API as a user would write
// it, over what oapi-codegen generates. `make clients` generates it, and runs this
// against an installation.
package goclient_test

import (
	"context"
	"net/http"
	"os"
	"testing"

	"github.com/gatewright/gatewright/internal/openapi/goclient/dist/gatewright"
)

func TestClient(t *testing.T) {
	address, key := os.Getenv("GATEWRIGHT_API"), os.Getenv("GATEWRIGHT_KEY")
	if address == "" || key == "" {
		t.Fatal("GATEWRIGHT_API and GATEWRIGHT_KEY say where and as whom")
	}
	client, err := gatewright.NewClientWithResponses(address, gatewright.WithRequestEditorFn(
		func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+key)
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	description, err := client.OpenApiWithResponse(t.Context(), nil)
	if err != nil || description.JSON200 == nil || (*description.JSON200)["openapi"] != "3.1.0" {
		t.Fatalf("describe: %v %s", err, description.Status())
	}
	caller, err := client.V1WhoAmIWithResponse(t.Context(), nil)
	if err != nil || caller.JSON200 == nil {
		t.Fatalf("who am I: %v %s", err, caller.Body)
	}
	account := *caller.JSON200.Account

	const bucket = "go-client"
	made, err := client.ApiKeyBucketsServiceCreateWithResponse(t.Context(), account, &gatewright.ApiKeyBucketsServiceCreateParams{IdempotencyKey: new("first")}, gatewright.KeyBucketsCreate{
		Name: bucket, Tags: &map[string]string{"team": "core"},
	})
	if err != nil || made.JSON200 == nil || made.JSON200.Name != bucket || (*made.JSON200.Tags)["team"] != "core" {
		t.Fatalf("create a bucket: %v %s", err, made.Body)
	}
	consumer, err := client.ApiKeyConsumersServiceCreateWithResponse(t.Context(), account, bucket,
		&gatewright.ApiKeyConsumersServiceCreateParams{WithApiKey: new(true)},
		gatewright.ConsumersCreate{Name: "ada", Tags: &map[string]string{"plan": "gold"}, Metadata: &map[string]any{"plan": "gold"}})
	if err != nil || consumer.JSON200 == nil || len(*consumer.JSON200.ApiKeys) != 1 {
		t.Fatalf("create a consumer: %v %s", err, consumer.Body)
	}
	list, err := client.ApiKeyConsumersServiceListWithResponse(t.Context(), account, bucket,
		&gatewright.ApiKeyConsumersServiceListParams{Limit: new(int64(10))})
	if err != nil || list.JSON200 == nil || list.JSON200.Total != 1 || list.JSON200.Data[0].Name != "ada" {
		t.Fatalf("list consumers: %v %s", err, list.Body)
	}
	for plan, want := range map[string]int64{"gold": 1, "silver": 0} {
		tagged, err := client.ApiKeyConsumersServiceListWithResponse(t.Context(), account, bucket,
			&gatewright.ApiKeyConsumersServiceListParams{Tag: &map[string]string{"tag.plan": plan}})
		if err != nil || tagged.JSON200 == nil || tagged.JSON200.Total != want {
			t.Errorf("list consumers with the plan %s: %v %s", plan, err, tagged.Body)
		}
	}
	missing, err := client.ApiKeyBucketsServiceReadWithResponse(t.Context(), account, "no-such-bucket", nil)
	if err != nil || missing.ApplicationproblemJSON404 == nil {
		t.Fatalf("read a bucket that does not exist: %v %s", err, missing.Body)
	}
	if p := missing.ApplicationproblemJSON404; p.Status != http.StatusNotFound || p.Title != "Not Found" || p.Trace == nil {
		t.Errorf("the problem is %+v", p)
	}
	removed, err := client.ApiKeyBucketsServiceDeleteWithResponse(t.Context(), account, bucket, nil)
	if err != nil || removed.StatusCode() != http.StatusNoContent {
		t.Errorf("delete the bucket: %v %s", err, removed.Body)
	}
}
