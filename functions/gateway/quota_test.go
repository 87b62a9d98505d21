package gateway_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/pki"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// shop is an installation with a deployment whose one route counts requests, and a customer
// with a certificate, who has bought some. Its clock stands still unless it is moved.
type shop struct {
	*testing.T
	parts    installation.Parts
	now      atomic.Pointer[time.Time]
	client   *x509.Certificate
	admitted atomic.Int64
}

const shopName = "shop-main-0123abc"

func newShop(t *testing.T, units int64) *shop {
	t.Helper()
	s := &shop{T: t}
	s.now.Store(new(time.Date(2026, 1, 31, 10, 30, 0, 0, time.UTC)))
	clock := func() time.Time { return *s.now.Load() }
	w := functionstest.New(t)
	s.parts = w.Parts
	s.parts.Table, s.parts.Now = storetest.Over(t, w.Items, storetest.Clock(clock)), clock
	s.parts.Random, s.parts.IDs = rand.Reader, ids.NewSource(rand.Reader, clock)
	s.parts.Config.PrivateUpstreams = true
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.admitted.Add(1) }))
	t.Cleanup(up.Close)

	owner := auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: auth.Full()}}
	request := func() context.Context {
		return store.Decide(audit.With(t.Context(), &audit.Request{AccountID: "a-1", Action: "plan.create", Time: clock(), RequestID: s.parts.IDs.UUID()}))
	}
	ca := pkitest.CA(t, "CA", clock())
	s.client = ca.Client(t, "ada", clock()).Certificate
	_, err := certificates.Open(s.parts).Create(request(), owner, certificates.New{Name: "ca", Certificate: ca.PEM()})
	s.must(err)
	sold := metering.Open(s.parts)
	bucket, err := sold.CreateBucket(request(), owner)
	s.must(err)
	at := metering.BucketAt{Owner: owner, Bucket: bucket.ID}
	plan, err := sold.CreatePlan(request(), at, metering.Terms{Label: "plan", ExternalID: "plan_1", Meters: map[string]metering.Meter{"requests": {Max: units}}})
	s.must(err)
	_, err = sold.CreateSubscription(request(), at, metering.NewSubscription{
		PlanIDs: []string{plan.ID}, PlanExternalIDs: []string{plan.ExternalID}, Status: metering.Active, Renewal: meter.Monthly,
		Region: "us-east1", CustomerKey: pki.InfoOf(s.client).Subject, ExternalID: "sub_1", CustomerExternalID: "cus_1",
	})
	s.must(err)
	s.deploy(up.URL, bucket.ID)
	return s
}

// deploy serves a project of one route, which asks for a certificate and counts.
func (s *shop) deploy(upstream, bucketID string) {
	s.Helper()
	a := &project.Artifact{Policies: map[string]project.Policy{
		"who":   {Name: "who", Type: "mtls-auth-inbound", Handler: component(`{}`)},
		"quota": {Name: "quota", Type: "quota-inbound", Handler: component(`{"bucketId":"` + bucketID + `","meters":{"requests":1}}`)},
	}}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		r := route("/x", upstream)
		r.Method, r.Inbound = method, []string{"who", "quota"}
		a.Routes = append(a.Routes, r)
	}
	deploy(s, s.parts, "a-1", shopName, a)
}

func (s *shop) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shop) pass(d time.Duration) { s.now.Store(new(s.now.Load().Add(d))) }

// gateway starts another instance.
func (s *shop) gateway() *gateway.Service {
	s.Helper()
	g, err := gateway.New(s.parts, gateway.Options{})
	s.must(err)
	return g
}

// ask sends the customer's request to an instance.
func (s *shop) ask(g http.Handler, method, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(s.Context(), method, "https://"+shopName+".gateway.test/x", http.NoBody)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{s.client}}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer := httptest.NewRecorder()
	g.ServeHTTP(answer, r)
	return answer
}

// atOnce is how many requests are under way at once at most. A lease has seconds to be made, which thousands
// that wait for it would use up on a slow machine.
const atOnce = 160

// askAll sends requests, atOnce of them, in turns to the instances, and counts the answers by
// their statuses.
func (s *shop) askAll(n int, method, key string, to ...*gateway.Service) map[int]int {
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(atOnce)
	got := map[int]int{}
	for i := range n {
		all.Go(func() error {
			status := s.ask(to[i%len(to)], method, key).Code
			mu.Lock()
			defer mu.Unlock()
			got[status]++
			return nil
		})
	}
	_ = all.Wait() // they answer no errors
	return got
}

func (s *shop) wantAdmitted(want int64) {
	s.Helper()
	if got := s.admitted.Load(); got != want {
		s.Errorf("the upstream was asked %d times, want %d", got, want)
	}
}

// TestAQuotaIsExactOverInstances: and the next period has as many again.
func TestAQuotaIsExactOverInstances(t *testing.T) {
	s := newShop(t, 100)
	one, two := s.gateway(), s.gateway()
	if got := s.askAll(160, http.MethodGet, "", one, two); got[http.StatusOK] != 100 || got[http.StatusTooManyRequests] != 60 {
		t.Errorf("answered %v", got)
	}
	s.wantAdmitted(100)
	answer := s.ask(one, http.MethodGet, "")
	// The subscription's anchor is the last day of January: its period ends with February.
	if got := answer.Header().Get("Retry-After"); answer.Code != http.StatusTooManyRequests || got != "2381400" {
		t.Errorf("answered %d, to be repeated after %s s", answer.Code, got)
	}
	s.pass(2381399 * time.Second)
	if got := s.ask(two, http.MethodGet, "").Code; got != http.StatusTooManyRequests {
		t.Errorf("at the period's last second: %d", got)
	}
	s.pass(time.Second)
	if got := s.askAll(160, http.MethodGet, "", one, two); got[http.StatusOK] != 100 || got[http.StatusTooManyRequests] != 60 {
		t.Errorf("in the next period: %v", got)
	}
	s.wantAdmitted(200)
}

// TestARepeatCountsOnceOverInstances: also when nothing is left.
func TestARepeatCountsOnceOverInstances(t *testing.T) {
	s := newShop(t, 10)
	one, two := s.gateway(), s.gateway()
	if got := s.askAll(8, http.MethodPost, "order-1", one, two); got[http.StatusOK] != 8 {
		t.Errorf("repeats at once: %v", got)
	}
	if got := s.askAll(20, http.MethodPost, "", one, two); got[http.StatusOK] != 9 || got[http.StatusTooManyRequests] != 11 {
		t.Errorf("others: %v", got)
	}
	if got := s.ask(two, http.MethodPost, "order-1").Code; got != http.StatusOK {
		t.Errorf("a repeat when nothing is left: %d", got)
	}
	if got := s.ask(one, http.MethodPost, "order-2").Code; got != http.StatusTooManyRequests {
		t.Errorf("another order: %d", got)
	}
}

// TestWhatACrashedInstanceHeldComesBack: all but what it may have spent.
func TestWhatACrashedInstanceHeldComesBack(t *testing.T) {
	// What an instance begins at once follows from its rate, here 100 requests a second.
	const units, mayBeLost, pace = 3000, 64, 10 * time.Millisecond
	s := newShop(t, units)
	one, two := s.gateway(), s.gateway()
	for i := range 400 {
		s.pass(pace)
		if got := s.ask([]http.Handler{one, two}[i%2], http.MethodGet, "").Code; got != http.StatusOK {
			t.Fatalf("request %d: %d", i, got)
		}
	}
	// The first one is never asked again, and gives nothing back itself.
	for range 5 {
		s.pass(time.Minute)
		s.must(allowance.Reclaim(t.Context(), s.parts.Table, s.parts.Now()))
	}
	for range units {
		s.pass(pace)
		if s.ask(two, http.MethodGet, "").Code != http.StatusOK {
			break
		}
	}
	if got := s.admitted.Load(); got > units || got < units-mayBeLost {
		t.Errorf("%d of %d units were admitted", got, units)
	}
}

// TestADrainedGatewayKeepsNothing of a quota: what it had leased others have at once.
func TestADrainedGatewayKeepsNothing(t *testing.T) {
	s := newShop(t, 3000)
	one, two := s.gateway(), s.gateway()
	if got := s.askAll(200, http.MethodGet, "", one); got[http.StatusOK] != 200 {
		t.Errorf("answered %v", got)
	}
	s.must(one.Drain(t.Context()))
	if got := s.askAll(2810, http.MethodGet, "", two); got[http.StatusOK] != 2800 || got[http.StatusTooManyRequests] != 10 {
		t.Errorf("answered %v", got)
	}
}

// TestEveryStatusOfASubscriptionMayBeAllowed: and no other.
func TestEveryStatusOfASubscriptionMayBeAllowed(t *testing.T) {
	problems := func(status metering.Status) int {
		return len(policy.Check(project.Policy{Name: "p", Type: "quota-inbound", Handler: project.Component{
			Module: policy.RuntimeModule, Options: json.RawMessage(`{"bucketId":"mtr_1","meters":{"requests":1},"allowedStatuses":["` + string(status) + `"]}`),
		}}))
	}
	for _, status := range []metering.Status{
		metering.Active, metering.Inactive, metering.Incomplete, metering.IncompleteExpired, metering.Trialing,
		metering.PastDue, metering.Canceled, metering.Unpaid, metering.Paused,
	} {
		if problems(status) != 0 {
			t.Errorf("%s may not be allowed", status)
		}
	}
	if problems("expired") == 0 {
		t.Error("what is no status may be allowed")
	}
}
