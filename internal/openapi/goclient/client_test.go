// Package goclient_test is a client of the management API as a user would write it, with the code that oapi-codegen generates. `make
// clients` generates the code, and runs this test against an installation.
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
		t.Fatalf("GATEWRIGHT_API = %q, want the API's address; GATEWRIGHT_KEY is set = %v, want an account key", address,
			key != "")
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
		t.Fatalf("GET /openapi: status %s, error %v, want a description with \"openapi\": \"3.1.0\"", description.Status(),
			err)
	}
	caller, err := client.V1WhoAmIWithResponse(t.Context(), nil)
	if err != nil || caller.JSON200 == nil {
		t.Fatalf("GET /v1/who-am-i = %s, error %v, want 200", caller.Body, err)
	}
	account := *caller.JSON200.Account

	const bucket = "go-client"
	made, err := client.ApiKeyBucketsServiceCreateWithResponse(t.Context(), account,
		&gatewright.ApiKeyBucketsServiceCreateParams{IdempotencyKey: new("first")}, gatewright.KeyBucketsCreate{
			Name: bucket, Tags: &map[string]string{"team": "core"},
		})
	if err != nil || made.JSON200 == nil || made.JSON200.Name != bucket || (*made.JSON200.Tags)["team"] != "core" {
		t.Fatalf("create the bucket %s = %s, error %v, want it with the tag \"team\": \"core\"", bucket, made.Body, err)
	}
	consumer, err := client.ApiKeyConsumersServiceCreateWithResponse(t.Context(), account, bucket,
		&gatewright.ApiKeyConsumersServiceCreateParams{WithApiKey: new(true)},
		gatewright.ConsumersCreate{
			Name: "ada", Tags: &map[string]string{"plan": "gold"},
			Metadata: &map[string]any{"plan": "gold"},
		})
	if err != nil || consumer.JSON200 == nil || len(*consumer.JSON200.ApiKeys) != 1 {
		t.Fatalf("create a consumer = %s, error %v, want it with one key", consumer.Body, err)
	}
	list, err := client.ApiKeyConsumersServiceListWithResponse(t.Context(), account, bucket,
		&gatewright.ApiKeyConsumersServiceListParams{Limit: new(int64(10))})
	if err != nil || list.JSON200 == nil || list.JSON200.Total != 1 || list.JSON200.Data[0].Name != "ada" {
		t.Fatalf("list consumers = %s, error %v, want ada alone", list.Body, err)
	}
	for plan, want := range map[string]int64{"gold": 1, "silver": 0} {
		tagged, err := client.ApiKeyConsumersServiceListWithResponse(t.Context(), account, bucket,
			&gatewright.ApiKeyConsumersServiceListParams{Tag: &map[string]string{"tag.plan": plan}})
		if err != nil || tagged.JSON200 == nil || tagged.JSON200.Total != want {
			t.Errorf("list consumers with the tag plan=%s = %s, error %v, want %d", plan, tagged.Body, err, want)
		}
	}
	missing, err := client.ApiKeyBucketsServiceReadWithResponse(t.Context(), account, "no-such-bucket", nil)
	if err != nil || missing.ApplicationproblemJSON404 == nil {
		t.Fatalf("read a bucket that does not exist = %s, error %v, want 404", missing.Body, err)
	}
	if p := missing.ApplicationproblemJSON404; p.Status != http.StatusNotFound || p.Title != "Not Found" ||
		p.Trace == nil {
		t.Errorf("read a bucket that does not exist = %+v, want status 404, title \"Not Found\" and a trace", p)
	}
	removed, err := client.ApiKeyBucketsServiceDeleteWithResponse(t.Context(), account, bucket, nil)
	if err != nil || removed.StatusCode() != http.StatusNoContent {
		t.Errorf("delete the bucket = %s, error %v, want 204", removed.Body, err)
	}
}
