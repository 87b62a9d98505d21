package metering_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/metering"
	"github.com/gatewright/gatewright/shared/auth"
)

// sold is a world whose account acme has a bucket with plans, and another account with one.
type sold struct {
	*functionstest.World
	full, bucket string
	pro, basic   string // ids
	foreign      string // the id of a plan of another account
	evil         string // its key
	other        string // the id of a plan of another bucket
}

func sells(t *testing.T) sold {
	t.Helper()
	w := functionstest.New(t, metering.Bind)
	s := sold{World: w, full: w.Account("acme"), evil: w.Account("evil")}
	made := func(key, path, body string) string {
		return w.Call(key, "POST", path, body).Want(200).JSON().Text("id")
	}
	s.bucket = "/v1/metering/" + made(s.full, "/v1/metering", "")
	s.pro = made(s.full, s.bucket+"/plans", `{"label":"Pro","planExternalId":"pro","meters":{"requests":{"label":"Requests","max":10}}}`)
	s.basic = made(s.full, s.bucket+"/plans", `{"label":"Basic","planExternalId":"basic","meters":{"requests":{"max":1},"computeUnits":{"max":2}}}`)
	s.other = made(s.full, "/v1/metering/"+made(s.full, "/v1/metering", "{}")+"/plans", `{"label":"Pro","planExternalId":"pro","meters":{}}`)
	s.foreign = made(s.evil, "/v1/metering/"+made(s.evil, "/v1/metering", "")+"/plans", `{"label":"Pro","planExternalId":"pro","meters":{}}`)
	return s
}

// subscription is a good body, with other fields in place of its own.
func (s sold) subscription(others ...string) string {
	fields := map[string]string{
		"planIds": `["` + s.pro + `"]`, "planExternalIds": `["pro"]`, "status": `"active"`, "type": `"periodic"`, "renewalStrategy": `"monthly"`,
		"region": `"us-east1"`, "customerKey": `"ada"`, "subscriptionExternalId": `"sub_1"`, "customerExternalId": `"cus_1"`,
	}
	for _, other := range others {
		name, value, _ := strings.Cut(other, "=")
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

func TestBucketAnswers(t *testing.T) {
	s := sells(t)
	reader := s.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Metering.Read()} })
	own := s.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	s.Run(t, []functionstest.Case{
		{"one more", s.full, "POST", "/v1/metering", "", 200, `"accountName":"acme","createdOn":"2026-03-14T`},
		{"one with an empty object", s.full, "POST", "/v1/metering", "{}", 200, `"id":"mtr_`},
		{"one with what is read only", s.full, "POST", "/v1/metering", `{"id":"mtr_0","accountName":"evil"}`, 200, `"accountName":"acme"`},
		{"those of the account", reader, "GET", "/v1/metering", "", 200, `"limit":1000,"offset":0,"total":2`},
		{"one", reader, "GET", s.bucket, "", 200, `"accountName":"acme"`},
		{"another account's", s.evil, "GET", s.bucket, "", 404, "metering bucket does not exist"},
		{"another account's to delete", s.evil, "DELETE", s.bucket, "", 404, "metering bucket does not exist"},
		{"one without the scope", reader, "POST", "/v1/metering", "", 403, "metering:write"},
		{"one to delete without the scope", reader, "DELETE", s.bucket, "", 403, "metering:write"},
		{"those that a limited key sees", own, "GET", "/v1/metering", "", 200, `"total":0`},
		{"one by a limited key", own, "POST", "/v1/metering", "", 404, "limited"},
		{"one that a limited key sees", own, "GET", s.bucket, "", 404, "metering bucket"},
		{"a deletion", s.full, "DELETE", s.bucket, "", 204, ""},
	})
	s.Call(s.full, "DELETE", s.bucket, "").Want(204, "")
	for _, path := range []string{"", "/plans", "/plans/" + s.pro, "/subscriptions"} {
		s.Call(s.full, "GET", s.bucket+path, "").Want(404, "metering bucket")
	}
}

func TestPlanAnswers(t *testing.T) {
	s := sells(t)
	path, meters := s.bucket+"/plans", func(m string) string { return `{"label":"a","planExternalId":"a","meters":` + m + `}` }
	many := `{"m0":{"max":1}`
	for i := range 50 {
		many += `,"n` + string(rune('a'+i/10)) + string(rune('a'+i%10)) + `":{"max":1}`
	}
	s.Run(t, []functionstest.Case{
		{"a list", s.full, "GET", path, "", 200, `"planExternalId":"basic","meters":{"computeUnits":{"max":2},"requests":{"max":1}},"hasSubscriptions":false`},
		{"one", s.full, "GET", path + "/" + s.pro, "", 200, `"meters":{"requests":{"label":"Requests","max":10}}`},
		{"all of it", s.full, "POST", path, `{"label":"a","planExternalId":"a","meters":{},"trialDays":14,"trialEndStatus":"paused","isTrialCollectPayment":false}`, 200, `"trialDays":14,"trialEndStatus":"paused","isTrialCollectPayment":false`},
		{"nulls", s.full, "POST", path, `{"label":"a","planExternalId":"a","meters":{"m":{"label":null,"max":0}},"trialDays":null,"trialEndStatus":null,"isTrialCollectPayment":null}`, 200, `"meters":{"m":{"max":0}},"hasSubscriptions"`},
		{"the most units", s.full, "POST", path, meters(`{"m":{"max":9007199254740991}}`), 200, `"max":9007199254740991`},
		{"what is read only", s.full, "POST", path, `{"id":"x","hasSubscriptions":true,"label":"a","planExternalId":"a","meters":{"m":{"max":1,"available":7}}}`, 200, `"meters":{"m":{"max":1}},"hasSubscriptions":false`},
		{"no meters", s.full, "POST", path, `{"label":"a","planExternalId":"a"}`, 400, "property meters"},
		{"no max", s.full, "POST", path, meters(`{"m":{}}`), 400, "max"},
		{"a negative max", s.full, "POST", path, meters(`{"m":{"max":-1}}`), 400, "body.meters.m.max"},
		{"a fractional max", s.full, "POST", path, meters(`{"m":{"max":1.5}}`), 400, "body.meters.m.max"},
		{"a max as text", s.full, "POST", path, meters(`{"m":{"max":"1"}}`), 400, "body.meters.m.max"},
		{"a max that JSON does not keep", s.full, "POST", path, meters(`{"m":{"max":9007199254740992}}`), 400, "body.meters.m.max: expected number <= 9007199254740991"},
		{"a max that reads as another", s.full, "POST", path, meters(`{"m":{"max":9007199254740993}}`), 400, "body.meters.m.max"},
		{"a max beyond all", s.full, "POST", path, meters(`{"m":{"max":1e400}}`), 400, "body.meters.m.max"},
		{"a max beyond 64 bits", s.full, "POST", path, meters(`{"m":{"max":18446744073709551617}}`), 400, "body.meters.m.max"},
		{"a meter of nobody's name", s.full, "POST", path, meters(`{"a b":{"max":1}}`), 400, "body.meters: a key"},
		{"too many meters", s.full, "POST", path, meters(many + "}"), 400, "50"},
		{"a trial of half a day", s.full, "POST", path, `{"label":"a","planExternalId":"a","meters":{},"trialDays":0.5}`, 400, "body.trialDays"},
		{"a status that is none", s.full, "POST", path, `{"label":"a","planExternalId":"a","meters":{},"trialEndStatus":"active"}`, 400, "body.trialEndStatus"},
		{"an id that is taken", s.full, "POST", path, `{"label":"a","planExternalId":"pro","meters":{}}`, 409, "planExternalId"},
		{"in another account's bucket", s.evil, "POST", path, meters("{}"), 404, "metering bucket"},
		{"a change", s.full, "PATCH", path + "/" + s.pro, `{"meters":{"requests":{"label":null}},"trialDays":3}`, 200, `"meters":{"requests":{"max":10}},"trialDays":3`},
		{"a change of nothing", s.full, "PATCH", path + "/" + s.pro, `{}`, 200, `"label":"Pro","planExternalId":"pro","meters":{"requests":{"label":"Requests","max":10}}`},
		{"a change to nothing", s.full, "PATCH", path + "/" + s.pro, `{"label":null,"meters":null}`, 200, `"label":"Pro"`},
		{"a change to a negative max", s.full, "PATCH", path + "/" + s.pro, `{"meters":{"requests":{"max":-1}}}`, 400, "body.meters.requests.max"},
		{"a change to a fractional max", s.full, "PATCH", path + "/" + s.pro, `{"meters":{"requests":{"max":0.1}}}`, 400, "body.meters.requests.max"},
		{"a change to a new meter without max", s.full, "PATCH", path + "/" + s.pro, `{"meters":{"new":{}}}`, 400, "body.meters.new.max: is needed"},
		{"a change to an id that is taken", s.full, "PATCH", path + "/" + s.pro, `{"planExternalId":"basic"}`, 409, "planExternalId"},
		{"a change of another account's", s.evil, "PATCH", path + "/" + s.pro, `{}`, 404, "metering bucket"},
		{"one of another bucket", s.full, "GET", path + "/" + s.other, "", 404, "metering plan"},
		{"one of another account", s.full, "GET", path + "/" + s.foreign, "", 404, "metering plan"},
		{"a deletion", s.full, "DELETE", path + "/" + s.pro, "", 204, ""},
		{"a deletion of nothing", s.full, "DELETE", path + "/plan_0", "", 404, "metering plan"},
	})
	s.Call(s.full, "POST", s.bucket+"/subscriptions", s.subscription()).Want(200)
	s.Call(s.full, "GET", path+"/"+s.pro, "").Want(200, `"hasSubscriptions":true`)
	s.Call(s.full, "DELETE", path+"/"+s.pro, "").Want(409, "has subscriptions")
}

func TestSubscriptionAnswers(t *testing.T) {
	s := sells(t)
	path := s.bucket + "/subscriptions"
	id := s.Call(s.full, "POST", path, s.subscription("subscriptionExternalId=\"sub_0\"")).
		Want(200, `"status":"active","type":"periodic","renewalStrategy":"monthly","region":"us-east1"`, `"nextBillingCycle":"2026-04-14T00:00:00.000Z"`).JSON().Text("id")
	one := path + "/" + id
	both := []string{`planIds=["` + s.pro + `","` + s.basic + `"]`, `planExternalIds=["pro","basic"]`}
	s.Run(t, []functionstest.Case{
		{"a list", s.full, "GET", path, "", 200, `"planExternalIds":["pro"],"quotaResetAnchor":"2026-03-14T`},
		{"one", s.full, "GET", one, "", 200, `"subscriptionExternalId":"sub_0","customerExternalId":"cus_1","createdOn"`},
		{
			"all of it", s.full, "POST", path, s.subscription(append(both, `metadata={"a":[1,{"b":null}]}`, `trialStartDate="2026-01-01T00:00:00Z"`, `trialEndDate="2026-05-01T02:00:00+02:00"`, `trialEndStatus="active"`, `status="trialing"`, `productKey="p"`, `nextBillingCycle="1999-01-01T00:00:00Z"`, `quotaResetAnchor="2025-12-31T23:59:59Z"`)...), 200,
			`"productKey":"p","metadata":{"a":[1,{"b":null}]},"trialStartDate":"2026-01-01T00:00:00.000Z","trialEndDate":"2026-05-01T00:00:00.000Z","trialEndStatus":"active"`,
		},
		{"by the calendar", s.full, "POST", path, s.subscription(`quotaResetAnchor="2025-12-31T23:59:59Z"`), 200, `"nextBillingCycle":"2026-03-31T00:00:00.000Z"`},
		{"a leap day, yearly", s.full, "POST", path, s.subscription(`renewalStrategy="yearly"`, `quotaResetAnchor="2024-02-29T12:00:00Z"`), 200, `"nextBillingCycle":"2027-02-28T00:00:00.000Z"`},
		{"one that is unpaid", s.full, "POST", path, s.subscription(`status="unpaid"`), 200, `"status":"unpaid"`},
		{"one that is paused", s.full, "POST", path, s.subscription(`status="paused"`), 200, `"status":"paused"`},
		{"unpaired plans", s.full, "POST", path, s.subscription(both[0]), 400, "body.planExternalIds: has to have the planExternalId of each"},
		{"plans in another order", s.full, "POST", path, s.subscription(both[0], `planExternalIds=["basic","pro"]`), 400, "body.planExternalIds[0]"},
		{"an unknown plan", s.full, "POST", path, s.subscription(`planIds=["plan_0"]`), 400, "body.planIds[0]: is no plan"},
		{"a plan of another bucket", s.full, "POST", path, s.subscription(`planIds=["` + s.other + `"]`), 400, "body.planIds[0]: is no plan"},
		{"a plan of another account", s.full, "POST", path, s.subscription(`planIds=["` + s.foreign + `"]`), 400, "body.planIds[0]: is no plan"},
		{"no plans", s.full, "POST", path, s.subscription(`planIds=[]`, `planExternalIds=[]`), 400, "body.planIds"},
		{"an external id twice", s.full, "POST", path, s.subscription(`subscriptionExternalId="sub_0"`), 409, "subscriptionExternalId"},
		{"a status that is none", s.full, "POST", path, s.subscription(`status="gone"`), 400, "body.status"},
		{"a type that is none", s.full, "POST", path, s.subscription(`type="once"`), 400, "body.type"},
		{"a strategy that is none", s.full, "POST", path, s.subscription(`renewalStrategy="weekly"`), 400, "body.renewalStrategy"},
		{"a region that is none", s.full, "POST", path, s.subscription(`region="mars"`), 400, "body.region"},
		{"no customer", s.full, "POST", path, s.subscription(`customerKey=`), 400, "customerKey"},
		{"a day that is none", s.full, "POST", path, s.subscription(`quotaResetAnchor="2026-02-30T00:00:00Z"`), 400, "body.quotaResetAnchor"},
		{"metadata that is a list", s.full, "POST", path, s.subscription(`metadata=[]`), 400, "body.metadata"},
		{"much metadata", s.full, "POST", path, s.subscription(`metadata={"a":"` + strings.Repeat("a", 1020) + `"}`), 400, "body.metadata: has more than 1024 bytes"},
		{"a trial that ends before", s.full, "POST", path, s.subscription(`trialStartDate="2026-02-01T00:00:00Z"`, `trialEndDate="2026-01-01T00:00:00Z"`), 400, "body.trialEndDate"},
		{"in another account's bucket", s.evil, "POST", path, s.subscription(), 404, "metering bucket"},
		{"another account's", s.evil, "GET", one, "", 404, "metering bucket"},
		{"another account's to change", s.evil, "PATCH", one, `{"status":"canceled"}`, 404, "metering bucket"},
		{"another account's to delete", s.evil, "DELETE", one, "", 404, "metering bucket"},
		{"what is not there", s.full, "GET", path + "/sbsc_0", "", 404, "metering subscription"},
		{"another status", s.full, "PATCH", one, `{"status":"past-due"}`, 200, `"status":"past-due"`},
		{"what no update takes", s.full, "PATCH", one, `{"customerKey":"bob","planIds":["plan_0"],"renewalStrategy":"yearly","region":"mars","type":1,"subscriptionExternalId":"x"}`, 200, `"renewalStrategy":"monthly","region":"us-east1","customerKey":"ada","subscriptionExternalId":"sub_0"`},
		{"other plans", s.full, "PATCH", one, `{"planExternalIds":["basic","pro"],"prorate":0.75}`, 200, `"planIds":["` + s.basic + `","` + s.pro + `"],"planExternalIds":["basic","pro"]`},
		{"plans of nobody", s.full, "PATCH", one, `{"planExternalIds":["none"]}`, 400, "body.planExternalIds[0]: is the planExternalId of no plan"},
		{"no plans any more", s.full, "PATCH", one, `{"planExternalIds":[]}`, 400, "body.planExternalIds"},
		{"more than all", s.full, "PATCH", one, `{"prorate":1.5}`, 400, "body.prorate"},
		{"less than nothing", s.full, "PATCH", one, `{"prorate":-0.1}`, 400, "body.prorate"},
		{"nulls", s.full, "PATCH", one, `{"planExternalIds":null,"status":null,"prorate":null,"metadata":null,"trialEndDate":null}`, 200, `"status":"active"`},
		{"a deletion", s.full, "DELETE", one, "", 204, ""},
		{"a deletion of nothing", s.full, "DELETE", path + "/sbsc_0", "", 404, "metering subscription"},
		{"quotas", s.full, "GET", one + "/quotas", "", 200, `{"requests":10}`},
		{"quotas of a period", s.full, "GET", one + "/quotas?period=2026-04-01T00:00:00%2B02:00", "", 200, `{"requests":10}`},
		{"quotas of what was before", s.full, "GET", one + "/quotas?period=2026-03-13T23:59:59Z", "", 404, "no such period"},
		{"quotas of what is to come", s.full, "GET", one + "/quotas?period=2026-04-14T00:00:00Z", "", 404, "no such period"},
		{"quotas of no instant", s.full, "GET", one + "/quotas?period=yesterday", "", 400, "query.period"},
		{"quotas of a day", s.full, "GET", one + "/quotas?period=2026-03-14", "", 400, "query.period"},
		{"quotas of nobody", s.full, "GET", path + "/sbsc_0/quotas", "", 404, "metering subscription"},
		{"quotas of another account", s.evil, "GET", one + "/quotas", "", 404, "metering bucket"},
	})
}

// TestSubscriptionThroughTime: quotas begin anew, billing moves on and a trial ends as the clock goes.
func TestSubscriptionThroughTime(t *testing.T) {
	s := sells(t)
	id := s.Call(s.full, "POST", s.bucket+"/subscriptions", s.subscription(`quotaResetAnchor="2026-01-31T12:00:00Z"`, `status="trialing"`, `trialEndDate="2026-04-30T06:00:00Z"`)).Want(200).JSON().Text("id")
	one := s.bucket + "/subscriptions/" + id
	s.Call(s.full, "PATCH", one, `{"prorate":0.75}`).Want(200)
	for _, moment := range []struct{ now, billed, status, quotas, period string }{
		{"2026-03-30T23:59:59.999Z", "2026-03-31", "trialing", `{"requests":7}`, "2026-02-28T00:00:00Z/2026-03-31T00:00:00Z"},
		{"2026-03-31T00:00:00Z", "2026-04-30", "trialing", `{"requests":10}`, "2026-03-31T00:00:00Z/2026-04-30T00:00:00Z"},
		{"2026-04-30T00:00:00Z", "2026-05-31", "trialing", `{"requests":10}`, "2026-04-30T00:00:00Z/2026-05-31T00:00:00Z"},
		{"2026-04-30T06:00:00Z", "2026-05-31", "canceled", `{"requests":10}`, "2026-04-30T00:00:00Z/2026-05-31T00:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339Nano, moment.now)
		if err != nil {
			t.Fatal(err)
		}
		s.Now = at
		s.Call(s.full, "GET", one, "").Want(200, `"nextBillingCycle":"`+moment.billed+`T00:00:00.000Z","status":"`+moment.status+`"`)
		if got := s.Call(s.full, "GET", one+"/quotas", "").Want(200, moment.quotas).Header.Get("Gatewright-Period"); got != moment.period {
			t.Errorf("at %s the period is %q, want %s", moment.now, got, moment.period)
		}
	}
	past := s.Call(s.full, "GET", one+"/quotas?period=2026-03-15T00:00:00Z", "").Want(200, `{"requests":7}`)
	if got := past.Header.Get("Gatewright-Period"); got != "2026-02-28T00:00:00Z/2026-03-31T00:00:00Z" {
		t.Errorf("the period is %q", got)
	}
}
