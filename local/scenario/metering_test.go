package scenario_test

import (
	"testing"
)

// TestPlansAreSold has a customer buy, change plans, and leave: what is left of its quotas follows
// each step at once, and nothing is left of a bucket that is deleted.
func TestPlansAreSold(t *testing.T) {
	t.Parallel()
	in, name := installation, unique(t, "metering")
	s := &story{in: in, values: map[string]string{"name": name}}
	const bucket = "/v1/metering/{bucketId}"
	const plan, subscription = bucket + "/plans/{planId}", bucket + "/subscriptions/{subscriptionId}"
	s.ask(t, 200, "POST", "/v1/metering", "", "bucketId=id")
	s.ask(t, 200, "GET", bucket, "")
	if !has(t, s.ask(t, 200, "GET", "/v1/metering", ""), "id", s.values["bucketId"]) {
		t.Error("the bucket is not listed")
	}
	s.ask(t, 200, "POST", bucket+"/plans", `{"label":"Pro","planExternalId":"pro","meters":{"requests":{"max":10}}}`, "planId=id")
	s.ask(t, 200, "POST", bucket+"/plans", `{"label":"Basic","planExternalId":"basic","meters":{"requests":{"max":3}}}`, "basicId=id")
	s.ask(t, 409, "POST", bucket+"/plans", `{"label":"Other","planExternalId":"basic","meters":{}}`)
	s.ask(t, 200, "PATCH", plan, `{"meters":{"requests":{"max":20}}}`)
	const bought = `{"planIds":["{planId}"],"planExternalIds":["pro"],"status":"active","type":"periodic","renewalStrategy":"monthly","region":"us-east1",
		"customerKey":"{name}","subscriptionExternalId":"sub_1","customerExternalId":"cus_1"}`
	s.ask(t, 200, "POST", bucket+"/subscriptions", bought, "subscriptionId=id")
	s.ask(t, 409, "POST", bucket+"/subscriptions", bought)
	if !has(t, s.ask(t, 200, "GET", bucket+"/subscriptions", ""), "customerKey", name) {
		t.Error("the subscription is not listed")
	}
	left := func(want float64) {
		t.Helper()
		if got := s.ask(t, 200, "GET", subscription+"/quotas", "")["requests"]; got != want {
			t.Errorf("%v requests are left, want %v", got, want)
		}
	}
	left(20)
	s.ask(t, 409, "DELETE", plan, "")
	s.ask(t, 200, "PATCH", subscription, `{"planExternalIds":["basic"],"prorate":0.5}`)
	left(1)
	s.ask(t, 204, "DELETE", plan, "")
	s.ask(t, 404, "GET", plan, "")
	if got := s.ask(t, 200, "PATCH", subscription, `{"status":"canceled"}`).text("status"); got != "canceled" {
		t.Errorf("the subscription is %s", got)
	}
	s.ask(t, 404, "GET", subscription+"/quotas?period=1999-01-01T00:00:00Z", "")
	s.ask(t, 204, "DELETE", subscription, "")
	s.ask(t, 404, "GET", subscription, "")
	s.ask(t, 200, "POST", bucket+"/subscriptions", `{"planIds":["{basicId}"],"planExternalIds":["basic"],"status":"active","type":"periodic","renewalStrategy":"yearly",
		"region":"us-east1","customerKey":"{name}","subscriptionExternalId":"sub_1","customerExternalId":"cus_1"}`, "subscriptionId=id")
	s.ask(t, 204, "DELETE", bucket, "")
	for _, path := range []string{bucket, bucket + "/plans", bucket + "/subscriptions", subscription} {
		s.ask(t, 404, "GET", path, "")
	}
}
