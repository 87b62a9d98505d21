package metering_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/metering"
	"github.com/gatewright/gatewright/shared/core/auth"
)

// fixture is a functionstest.Fixture. The account acme has two metering buckets with plans, and another account has
// one.
type fixture struct {
	*functionstest.Fixture
	fullKey, bucketPath string
	proPlan, basicPlan  string // ids
	foreignPlan         string // the id of a plan of another account
	foreignKey          string // the key of the other account
	otherPlan           string // the id of a plan of another bucket
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	fx := functionstest.New(t, metering.Bind)
	s := fixture{Fixture: fx, fullKey: fx.CreateAccount("acme"), foreignKey: fx.CreateAccount("evil")}
	create := func(key, path, body string) string {
		return fx.Call(key, "POST", path, body).Want(200).JSON().Text("id")
	}
	s.bucketPath = "/v1/metering/" + create(s.fullKey, "/v1/metering", "")
	s.proPlan = create(s.fullKey, s.bucketPath+"/plans",
		`{"label":"Pro","planExternalId":"pro","meters":{"requests":{"label":"Requests","max":10}}}`)
	s.basicPlan = create(s.fullKey, s.bucketPath+"/plans",
		`{"label":"Basic","planExternalId":"basic","meters":{"requests":{"max":1},"computeUnits":{"max":2}}}`)
	s.otherPlan = create(s.fullKey, "/v1/metering/"+create(s.fullKey, "/v1/metering", "{}")+"/plans",
		`{"label":"Pro","planExternalId":"pro","meters":{}}`)
	s.foreignPlan = create(s.foreignKey, "/v1/metering/"+create(s.foreignKey, "/v1/metering", "")+"/plans",
		`{"label":"Pro","planExternalId":"pro","meters":{}}`)
	return s
}

// subscription returns a valid body of a request that creates a subscription, with replacements. Each replacement has
// the form NAME=VALUE: it sets a field, or removes the field if VALUE is empty.
func (fx fixture) subscription(replacements ...string) string {
	fields := map[string]string{
		"planIds": `["` + fx.proPlan + `"]`, "planExternalIds": `["pro"]`, "status": `"active"`, "type": `"periodic"`,
		"renewalStrategy": `"monthly"`,
		"region":          `"us-east1"`, "customerKey": `"ada"`, "subscriptionExternalId": `"sub_1"`,
		"customerExternalId": `"cus_1"`,
	}
	for _, replacement := range replacements {
		name, value, _ := strings.Cut(replacement, "=")
		fields[name] = value
	}
	var out []string
	for name, value := range fields {
		if value != "" {
			out = append(out, `"`+name+`":`+value)
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

func TestBucketResponses(t *testing.T) {
	s := newFixture(t)
	readerKey := s.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Metering.Read()} })
	shopKey := s.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	s.Run(t, []functionstest.Case{
		{"second bucket", s.fullKey, "POST", "/v1/metering", "", 200, `"accountName":"acme","createdOn":"2026-03-14T`},
		{"bucket with an empty object", s.fullKey, "POST", "/v1/metering", "{}", 200, `"id":"mtr_`},
		{
			"bucket with read-only fields", s.fullKey, "POST", "/v1/metering", `{"id":"mtr_0","accountName":"evil"}`, 200,
			`"accountName":"acme"`,
		},
		{"list", readerKey, "GET", "/v1/metering", "", 200, `"limit":1000,"offset":0,"total":2`},
		{"bucket", readerKey, "GET", s.bucketPath, "", 200, `"accountName":"acme"`},
		{"bucket of another account", s.foreignKey, "GET", s.bucketPath, "", 404, "metering bucket does not exist"},
		{
			"deletion of another account's bucket", s.foreignKey, "DELETE", s.bucketPath, "", 404,
			"metering bucket does not exist",
		},
		{"creation without the scope", readerKey, "POST", "/v1/metering", "", 403, "metering:write"},
		{"deletion without the scope", readerKey, "DELETE", s.bucketPath, "", 403, "metering:write"},
		{"list of a limited key", shopKey, "GET", "/v1/metering", "", 200, `"total":0`},
		{"creation with a limited key", shopKey, "POST", "/v1/metering", "", 404, "limited"},
		{"bucket by a limited key", shopKey, "GET", s.bucketPath, "", 404, "metering bucket"},
		{"a deletion", s.fullKey, "DELETE", s.bucketPath, "", 204, ""},
	})
	s.Call(s.fullKey, "DELETE", s.bucketPath, "").Want(204, "")
	for _, path := range []string{"", "/plans", "/plans/" + s.proPlan, "/subscriptions"} {
		s.Call(s.fullKey, "GET", s.bucketPath+path, "").Want(404, "metering bucket")
	}
}

func TestPlanResponses(t *testing.T) {
	s := newFixture(t)
	path := s.bucketPath + "/plans"
	planWithMeters := func(m string) string { return `{"label":"a","planExternalId":"a","meters":` + m + `}` }
	tooManyMeters := `{"m0":{"max":1}`
	for i := range 50 {
		tooManyMeters += `,"n` + string(rune('a'+i/10)) + string(rune('a'+i%10)) + `":{"max":1}`
	}
	post := func(name, body string, status int, want string) functionstest.Case {
		return functionstest.Case{name, s.fullKey, "POST", path, body, status, want}
	}
	create := func(name, meters string, status int, want string) functionstest.Case {
		return post(name, planWithMeters(meters), status, want)
	}
	patch := func(name, body string, status int, want string) functionstest.Case {
		return functionstest.Case{name, s.fullKey, "PATCH", path + "/" + s.proPlan, body, status, want}
	}
	s.Run(t, []functionstest.Case{
		{
			"a list", s.fullKey, "GET", path, "", 200,
			`"planExternalId":"basic","meters":{"computeUnits":{"max":2},"requests":{"max":1}},"hasSubscriptions":false`,
		},
		{"plan", s.fullKey, "GET", path + "/" + s.proPlan, "", 200, `"meters":{"requests":{"label":"Requests","max":10}}`},
		post("all fields",
			`{"label":"a","planExternalId":"a","meters":{},"trialDays":14,"trialEndStatus":"paused",`+
				`"isTrialCollectPayment":false}`,
			200, `"trialDays":14,"trialEndStatus":"paused","isTrialCollectPayment":false`),
		post("null in optional fields",
			`{"label":"a","planExternalId":"a","meters":{"m":{"label":null,"max":0}},"trialDays":null,"trialEndStatus":null,`+
				`"isTrialCollectPayment":null}`,
			200, `"meters":{"m":{"max":0}},"hasSubscriptions"`),
		create("maximum units", `{"m":{"max":9007199254740991}}`, 200, `"max":9007199254740991`),
		post("read-only fields",
			`{"id":"x","hasSubscriptions":true,"label":"a","planExternalId":"a","meters":{"m":{"max":1,"available":7}}}`, 200,
			`"meters":{"m":{"max":1}},"hasSubscriptions":false`),
		post("no meters", `{"label":"a","planExternalId":"a"}`, 400, "property meters"),
		create("no max", `{"m":{}}`, 400, "max"),
		create("a negative max", `{"m":{"max":-1}}`, 400, "body.meters.m.max"),
		create("a fractional max", `{"m":{"max":1.5}}`, 400, "body.meters.m.max"),
		create("a max as text", `{"m":{"max":"1"}}`, 400, "body.meters.m.max"),
		create("max beyond exact integers", `{"m":{"max":9007199254740992}}`, 400,
			"body.meters.m.max: expected number <= 9007199254740991"),
		create("max that is rounded", `{"m":{"max":9007199254740993}}`, 400, "body.meters.m.max"),
		create("max beyond floating point", `{"m":{"max":1e400}}`, 400, "body.meters.m.max"),
		create("a max beyond 64 bits", `{"m":{"max":18446744073709551617}}`, 400, "body.meters.m.max"),
		create("invalid name of a meter", `{"a b":{"max":1}}`, 400, "body.meters: a key"),
		create("too many meters", tooManyMeters+"}", 400, "50"),
		post("a trial of half a day", `{"label":"a","planExternalId":"a","meters":{},"trialDays":0.5}`, 400,
			"body.trialDays"),
		post("unknown status", `{"label":"a","planExternalId":"a","meters":{},"trialEndStatus":"active"}`, 400,
			"body.trialEndStatus"),
		post("id in use", `{"label":"a","planExternalId":"pro","meters":{}}`, 409, "planExternalId"),
		{"bucket of another account", s.foreignKey, "POST", path, planWithMeters("{}"), 404, "metering bucket"},
		patch("a change", `{"meters":{"requests":{"label":null}},"trialDays":3}`, 200,
			`"meters":{"requests":{"max":10}},"trialDays":3`),
		patch("empty change", `{}`, 200,
			`"label":"Pro","planExternalId":"pro","meters":{"requests":{"label":"Requests","max":10}}`),
		patch("change to null", `{"label":null,"meters":null}`, 200, `"label":"Pro"`),
		patch("a change to a negative max", `{"meters":{"requests":{"max":-1}}}`, 400, "body.meters.requests.max"),
		patch("a change to a fractional max", `{"meters":{"requests":{"max":0.1}}}`, 400, "body.meters.requests.max"),
		patch("a change to a new meter without max", `{"meters":{"new":{}}}`, 400, "body.meters.new.max: is needed"),
		patch("change to an id in use", `{"planExternalId":"basic"}`, 409, "planExternalId"),
		{"change of another account's plan", s.foreignKey, "PATCH", path + "/" + s.proPlan, `{}`, 404, "metering bucket"},
		{"plan of another bucket", s.fullKey, "GET", path + "/" + s.otherPlan, "", 404, "metering plan"},
		{"plan of another account", s.fullKey, "GET", path + "/" + s.foreignPlan, "", 404, "metering plan"},
		{"a deletion", s.fullKey, "DELETE", path + "/" + s.proPlan, "", 204, ""},
		{"deletion of a missing plan", s.fullKey, "DELETE", path + "/plan_0", "", 404, "metering plan"},
	})
	s.Call(s.fullKey, "POST", s.bucketPath+"/subscriptions", s.subscription()).Want(200)
	s.Call(s.fullKey, "GET", path+"/"+s.proPlan, "").Want(200, `"hasSubscriptions":true`)
	s.Call(s.fullKey, "DELETE", path+"/"+s.proPlan, "").Want(409, "has subscriptions")
}

func TestSubscriptionResponses(t *testing.T) {
	s := newFixture(t)
	path := s.bucketPath + "/subscriptions"
	subscriptionURL := s.createSubscription()
	twoPlans := []string{`planIds=["` + s.proPlan + `","` + s.basicPlan + `"]`, `planExternalIds=["pro","basic"]`}
	create := func(name, body string, status int, want string) functionstest.Case {
		return functionstest.Case{name, s.fullKey, "POST", path, body, status, want}
	}
	patch := func(name, body string, status int, want string) functionstest.Case {
		return functionstest.Case{name, s.fullKey, "PATCH", subscriptionURL, body, status, want}
	}
	get := func(name, path string, status int, want string) functionstest.Case {
		return functionstest.Case{name, s.fullKey, "GET", path, "", status, want}
	}
	s.Run(t, []functionstest.Case{
		get("a list", path, 200, `"planExternalIds":["pro"],"quotaResetAnchor":"2026-03-14T`),
		get("subscription", subscriptionURL, 200,
			`"subscriptionExternalId":"sub_0","customerExternalId":"cus_1","createdOn"`),
		create("all fields",
			s.subscription(append(twoPlans, `metadata={"a":[1,{"b":null}]}`, `trialStartDate="2026-01-01T00:00:00Z"`,
				`trialEndDate="2026-05-01T02:00:00+02:00"`, `trialEndStatus="active"`, `status="trialing"`, `productKey="p"`,
				`nextBillingCycle="1999-01-01T00:00:00Z"`, `quotaResetAnchor="2025-12-31T23:59:59Z"`)...), 200,
			`"productKey":"p","metadata":{"a":[1,{"b":null}]},"trialStartDate":"2026-01-01T00:00:00.000Z",`+
				`"trialEndDate":"2026-05-01T00:00:00.000Z","trialEndStatus":"active"`),
		create("anchor at the end of a month", s.subscription(`quotaResetAnchor="2025-12-31T23:59:59Z"`), 200,
			`"nextBillingCycle":"2026-03-31T00:00:00.000Z"`),
		create("yearly renewal on a leap day",
			s.subscription(`renewalStrategy="yearly"`, `quotaResetAnchor="2024-02-29T12:00:00Z"`), 200,
			`"nextBillingCycle":"2027-02-28T00:00:00.000Z"`),
		create("unpaid subscription", s.subscription(`status="unpaid"`), 200, `"status":"unpaid"`),
		create("paused subscription", s.subscription(`status="paused"`), 200, `"status":"paused"`),
		create("plan ids without external ids", s.subscription(twoPlans[0]), 400,
			"body.planExternalIds: has to have the planExternalId of each"),
		create("plans in another order", s.subscription(twoPlans[0], `planExternalIds=["basic","pro"]`), 400,
			"body.planExternalIds[0]"),
		create("an unknown plan", s.subscription(`planIds=["plan_0"]`), 400, "body.planIds[0]: is no plan"),
		create("a plan of another bucket", s.subscription(`planIds=["`+s.otherPlan+`"]`), 400,
			"body.planIds[0]: is no plan"),
		create("a plan of another account", s.subscription(`planIds=["`+s.foreignPlan+`"]`), 400,
			"body.planIds[0]: is no plan"),
		create("no plans", s.subscription(`planIds=[]`, `planExternalIds=[]`), 400, "body.planIds"),
		create("an external id twice", s.subscription(`subscriptionExternalId="sub_0"`), 409, "subscriptionExternalId"),
		create("unknown status", s.subscription(`status="gone"`), 400, "body.status"),
		create("unknown type", s.subscription(`type="once"`), 400, "body.type"),
		create("unknown renewal strategy", s.subscription(`renewalStrategy="weekly"`), 400, "body.renewalStrategy"),
		create("unknown region", s.subscription(`region="mars"`), 400, "body.region"),
		create("no customer", s.subscription(`customerKey=`), 400, "customerKey"),
		create("invalid day", s.subscription(`quotaResetAnchor="2026-02-30T00:00:00Z"`), 400, "body.quotaResetAnchor"),
		create("list as metadata", s.subscription(`metadata=[]`), 400, "body.metadata"),
		create("too large metadata", s.subscription(`metadata={"a":"`+strings.Repeat("a", 1020)+`"}`), 400,
			"body.metadata: has more than 1024 bytes"),
		create("trial that ends before its start",
			s.subscription(`trialStartDate="2026-02-01T00:00:00Z"`, `trialEndDate="2026-01-01T00:00:00Z"`), 400,
			"body.trialEndDate"),
		{"bucket of another account", s.foreignKey, "POST", path, s.subscription(), 404, "metering bucket"},
		{"subscription of another account", s.foreignKey, "GET", subscriptionURL, "", 404, "metering bucket"},
		{
			"change of another account's subscription", s.foreignKey, "PATCH", subscriptionURL, `{"status":"canceled"}`, 404,
			"metering bucket",
		},
		{"deletion of another account's subscription", s.foreignKey, "DELETE", subscriptionURL, "", 404, "metering bucket"},
		get("missing subscription", path+"/sbsc_0", 404, "metering subscription"),
		patch("another status", `{"status":"past-due"}`, 200, `"status":"past-due"`),
		patch("fields that no update changes",
			`{"customerKey":"bob","planIds":["plan_0"],"renewalStrategy":"yearly","region":"mars","type":1,`+
				`"subscriptionExternalId":"x"}`,
			200, `"renewalStrategy":"monthly","region":"us-east1","customerKey":"ada","subscriptionExternalId":"sub_0"`),
		patch("other plans", `{"planExternalIds":["basic","pro"],"prorate":0.75}`, 200,
			`"planIds":["`+s.basicPlan+`","`+s.proPlan+`"],"planExternalIds":["basic","pro"]`),
		patch("change to an unknown plan", `{"planExternalIds":["none"]}`, 400,
			"body.planExternalIds[0]: is the planExternalId of no plan"),
		patch("change to no plans", `{"planExternalIds":[]}`, 400, "body.planExternalIds"),
		patch("proration above 1", `{"prorate":1.5}`, 400, "body.prorate"),
		patch("negative proration", `{"prorate":-0.1}`, 400, "body.prorate"),
		patch("null in all fields",
			`{"planExternalIds":null,"status":null,"prorate":null,"metadata":null,"trialEndDate":null}`, 200,
			`"status":"active"`),
		{"a deletion", s.fullKey, "DELETE", subscriptionURL, "", 204, ""},
		{"deletion of a missing subscription", s.fullKey, "DELETE", path + "/sbsc_0", "", 404, "metering subscription"},
	})
}

// createSubscription creates the subscription sub_0 and returns its path.
func (fx fixture) createSubscription() string {
	path := fx.bucketPath + "/subscriptions"
	id := fx.Call(fx.fullKey, "POST", path, fx.subscription(`subscriptionExternalId="sub_0"`)).
		Want(200, `"status":"active","type":"periodic","renewalStrategy":"monthly","region":"us-east1"`,
			`"nextBillingCycle":"2026-04-14T00:00:00.000Z"`).JSON().Text("id")
	return path + "/" + id
}

func TestQuotaResponses(t *testing.T) {
	s := newFixture(t)
	quotasPath := s.createSubscription() + "/quotas"
	get := func(name, path string, status int, want string) functionstest.Case {
		return functionstest.Case{name, s.fullKey, "GET", path, "", status, want}
	}
	s.Run(t, []functionstest.Case{
		get("current period", quotasPath, 200, `{"requests":10}`),
		get("named period", quotasPath+"?period=2026-04-01T00:00:00%2B02:00", 200, `{"requests":10}`),
		get("period before the subscription", quotasPath+"?period=2026-03-13T23:59:59Z", 404, "no such period"),
		get("period in the future", quotasPath+"?period=2026-04-14T00:00:00Z", 404, "no such period"),
		get("invalid time", quotasPath+"?period=yesterday", 400, "query.period"),
		get("date without a time", quotasPath+"?period=2026-03-14", 400, "query.period"),
		get("missing subscription", s.bucketPath+"/subscriptions/sbsc_0/quotas", 404, "metering subscription"),
		{"subscription of another account", s.foreignKey, "GET", quotasPath, "", 404, "metering bucket"},
	})
}

// TestSubscriptionOverTime advances the clock, and checks that quotas begin again, that the billing period changes, and
// that a trial ends.
func TestSubscriptionOverTime(t *testing.T) {
	s := newFixture(t)
	id := s.Call(s.fullKey, "POST", s.bucketPath+"/subscriptions",
		s.subscription(`quotaResetAnchor="2026-01-31T12:00:00Z"`, `status="trialing"`,
			`trialEndDate="2026-04-30T06:00:00Z"`)).Want(200).JSON().Text("id")
	subscriptionURL := s.bucketPath + "/subscriptions/" + id
	s.Call(s.fullKey, "PATCH", subscriptionURL, `{"prorate":0.75}`).Want(200)
	for _, tt := range []struct{ now, nextBilling, status, quotas, period string }{
		{"2026-03-30T23:59:59.999Z", "2026-03-31", "trialing", `{"requests":7}`, "2026-02-28T00:00:00Z/2026-03-31T00:00:00Z"},
		{"2026-03-31T00:00:00Z", "2026-04-30", "trialing", `{"requests":10}`, "2026-03-31T00:00:00Z/2026-04-30T00:00:00Z"},
		{"2026-04-30T00:00:00Z", "2026-05-31", "trialing", `{"requests":10}`, "2026-04-30T00:00:00Z/2026-05-31T00:00:00Z"},
		{"2026-04-30T06:00:00Z", "2026-05-31", "canceled", `{"requests":10}`, "2026-04-30T00:00:00Z/2026-05-31T00:00:00Z"},
	} {
		instant, err := time.Parse(time.RFC3339Nano, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		s.Now = instant
		s.Call(s.fullKey, "GET", subscriptionURL, "").
			Want(200, `"nextBillingCycle":"`+tt.nextBilling+`T00:00:00.000Z","status":"`+tt.status+`"`)
		if got := s.Call(s.fullKey, "GET", subscriptionURL+"/quotas", "").
			Want(200, tt.quotas).Header.Get("Gatewright-Period"); got != tt.period {
			t.Errorf("Gatewright-Period at %s = %q, want %s", tt.now, got, tt.period)
		}
	}
	pastQuotas := s.Call(s.fullKey, "GET", subscriptionURL+"/quotas?period=2026-03-15T00:00:00Z", "").
		Want(200, `{"requests":7}`)
	if got := pastQuotas.Header.Get("Gatewright-Period"); got != "2026-02-28T00:00:00Z/2026-03-31T00:00:00Z" {
		t.Errorf("Gatewright-Period = %q, want 2026-02-28T00:00:00Z/2026-03-31T00:00:00Z", got)
	}
}
