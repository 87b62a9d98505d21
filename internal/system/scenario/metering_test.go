package scenario_test

import (
	"testing"
)

// TestPlanPurchase buys a plan for a customer, changes it and cancels it, and checks that the remaining quotas change
// immediately after each step. It also checks that a deleted bucket leaves nothing behind.
func TestPlanPurchase(t *testing.T) {
	t.Parallel()
	inst, name := installation, unique(t, "metering")
	s := &walkthrough{inst: inst, values: map[string]string{"name": name}}
	const bucket = "/v1/metering/{bucketId}"
	const plan, subscription = bucket + "/plans/{planId}", bucket + "/subscriptions/{subscriptionId}"
	s.ask(t, 200, "POST", "/v1/metering", "", "bucketId=id")
	s.ask(t, 200, "GET", bucket, "")
	if !hasItem(t, s.ask(t, 200, "GET", "/v1/metering", ""), "id", s.values["bucketId"]) {
		t.Error("GET /v1/metering lacks the new bucket, want it in the list")
	}
	s.ask(t, 200, "POST", bucket+"/plans", `{"label":"Pro","planExternalId":"pro","meters":{"requests":{"max":10}}}`,
		"planId=id")
	s.ask(t, 200, "POST", bucket+"/plans", `{"label":"Basic","planExternalId":"basic","meters":{"requests":{"max":3}}}`,
		"basicId=id")
	s.ask(t, 409, "POST", bucket+"/plans", `{"label":"Other","planExternalId":"basic","meters":{}}`)
	s.ask(t, 200, "PATCH", plan, `{"meters":{"requests":{"max":20}}}`)
	const bought = `{"planIds":["{planId}"],"planExternalIds":["pro"],"status":"active","type":"periodic",
		"renewalStrategy":"monthly","region":"us-east1","customerKey":"{name}","subscriptionExternalId":"sub_1","customerExternalId":"cus_1"}`
	s.ask(t, 200, "POST", bucket+"/subscriptions", bought, "subscriptionId=id")
	s.ask(t, 409, "POST", bucket+"/subscriptions", bought)
	if !hasItem(t, s.ask(t, 200, "GET", bucket+"/subscriptions", ""), "customerKey", name) {
		t.Error("GET …/subscriptions lacks the new subscription, want it in the list")
	}
	checkRemaining := func(want float64) {
		t.Helper()
		if got := s.ask(t, 200, "GET", subscription+"/quotas", "")["requests"]; got != want {
			t.Errorf("remaining requests = %v, want %v", got, want)
		}
	}
	checkRemaining(20)
	s.ask(t, 409, "DELETE", plan, "")
	s.ask(t, 200, "PATCH", subscription, `{"planExternalIds":["basic"],"prorate":0.5}`)
	checkRemaining(1)
	s.ask(t, 204, "DELETE", plan, "")
	s.ask(t, 404, "GET", plan, "")
	if got := s.ask(t, 200, "PATCH", subscription, `{"status":"canceled"}`).text("status"); got != "canceled" {
		t.Errorf("PATCH of the subscription: status is %s, want canceled", got)
	}
	s.ask(t, 404, "GET", subscription+"/quotas?period=1999-01-01T00:00:00Z", "")
	s.ask(t, 204, "DELETE", subscription, "")
	s.ask(t, 404, "GET", subscription, "")
	s.ask(t, 200, "POST", bucket+"/subscriptions",
		`{"planIds":["{basicId}"],"planExternalIds":["basic"],"status":"active","type":"periodic","renewalStrategy":"yearly",
		"region":"us-east1","customerKey":"{name}","subscriptionExternalId":"sub_1","customerExternalId":"cus_1"}`,
		"subscriptionId=id")
	s.ask(t, 204, "DELETE", bucket, "")
	for _, path := range []string{bucket, bucket + "/plans", bucket + "/subscriptions", subscription} {
		s.ask(t, 404, "GET", path, "")
	}
}
