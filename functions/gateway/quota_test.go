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
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/pki"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/clientcas"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// quotaFixture is an installation with a deployment and a customer. The deployment's routes count requests in one
// quota. The customer presents a certificate, and has a subscription that allows a number of requests per month.
// admitted is the number of requests that have reached the upstream. The clock does not advance unless a test calls
// advance.
type quotaFixture struct {
	*testing.T
	parts    installation.Parts
	now      atomic.Pointer[time.Time]
	client   *x509.Certificate
	admitted atomic.Int64
}

const shopName = "shop-main-0123abc"

func newQuotaFixture(t *testing.T, units int64) *quotaFixture {
	t.Helper()
	s := &quotaFixture{T: t}
	s.now.Store(new(time.Date(2026, 1, 31, 10, 30, 0, 0, time.UTC)))
	clock := func() time.Time { return *s.now.Load() }
	fx := functionstest.New(t)
	s.parts = fx.Parts
	s.parts.Table, s.parts.Now = storetest.NewWithBackend(t, fx.Items, storetest.Clock(clock)), clock
	s.parts.Random, s.parts.IDs = rand.Reader, ids.NewSource(rand.Reader, clock)
	s.parts.Config.PrivateUpstreams = true
	upstreamServer := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.admitted.Add(1) }))
	t.Cleanup(upstreamServer.Close)

	owner := auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: auth.Full()}}
	requestCtx := func() context.Context {
		return store.WithReadSet(audit.WithRequest(t.Context(), &audit.Request{
			AccountID: "a-1", Action: "plan.create",
			Time: clock(), RequestID: s.parts.IDs.UUID(),
		}))
	}
	ca := pkitest.CA(t, "CA", clock())
	s.client = ca.Client(t, "ada", clock()).Certificate
	_, err := clientcas.Open(s.parts).Create(requestCtx(), owner, clientcas.CreateInput{Name: "ca", Certificate: ca.PEM()})
	s.must(err)
	meteringService := metering.Open(s.parts)
	bucket, err := meteringService.CreateBucket(requestCtx(), owner)
	s.must(err)
	bucketLocator := metering.BucketLocator{Owner: owner, Bucket: bucket.ID}
	plan, err := meteringService.CreatePlan(requestCtx(), bucketLocator,
		metering.Terms{Label: "plan", ExternalID: "plan_1", Meters: map[string]metering.Meter{"requests": {Max: units}}})
	s.must(err)
	_, err = meteringService.CreateSubscription(requestCtx(), bucketLocator, metering.NewSubscription{
		PlanIDs: []string{plan.ID}, PlanExternalIDs: []string{plan.ExternalID}, Status: metering.Active,
		Renewal: meter.Monthly,
		Region:  "us-east1", CustomerKey: pki.NewInfo(s.client).Subject, ExternalID: "sub_1", CustomerExternalID: "cus_1",
	})
	s.must(err)
	s.deploy(upstreamServer.URL, bucket.ID)
	return s
}

// deploy makes gateways serve an artifact with the routes GET /x and POST /x, which require a client certificate and
// count requests.
func (fx *quotaFixture) deploy(upstream, bucketID string) {
	fx.Helper()
	a := &project.Artifact{Policies: map[string]project.Policy{
		"who": {Name: "who", Type: "mtls-auth-inbound", Handler: component(`{}`)},
		"quota": {
			Name: "quota", Type: "quota-inbound",
			Handler: component(`{"bucketId":"` + bucketID + `","meters":{"requests":1}}`),
		},
	}}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		r := route("/x", upstream)
		r.Method, r.Inbound = method, []string{"who", "quota"}
		a.Routes = append(a.Routes, r)
	}
	deploy(fx, fx.parts, "a-1", shopName, a)
}

func (fx *quotaFixture) must(err error) {
	fx.Helper()
	if err != nil {
		fx.Fatal(err)
	}
}

func (fx *quotaFixture) advance(d time.Duration) { fx.now.Store(new(fx.now.Load().Add(d))) }

// gateway creates another gateway instance.
func (fx *quotaFixture) gateway() *gateway.Service {
	fx.Helper()
	g, err := gateway.New(fx.parts, gateway.Options{})
	fx.must(err)
	return g
}

// send sends a request of the customer to a gateway. key is its idempotency key, "" for none.
func (fx *quotaFixture) send(g http.Handler, method, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(fx.Context(), method, "https://"+shopName+".gateway.test/x", http.NoBody)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{fx.client}}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp := httptest.NewRecorder()
	g.ServeHTTP(resp, r)
	return resp
}

// maxConcurrent is the maximum number of concurrent requests. With thousands of them, a lease could exceed its time
// limit of some seconds on a slow machine.
const maxConcurrent = 160

// sendAll sends n requests to the instances in turn, at most maxConcurrent at a time. It returns the number of
// responses by status.
func (fx *quotaFixture) sendAll(n int, method, key string, instances ...*gateway.Service) map[int]int {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(maxConcurrent)
	got := map[int]int{}
	for i := range n {
		group.Go(func() error {
			status := fx.send(instances[i%len(instances)], method, key).Code
			mu.Lock()
			defer mu.Unlock()
			got[status]++
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	return got
}

func (fx *quotaFixture) assertAdmitted(want int64) {
	fx.Helper()
	if got := fx.admitted.Load(); got != want {
		fx.Errorf("requests at the upstream = %d, want %d", got, want)
	}
}

// TestQuotaIsExactAcrossInstances checks that two instances together admit exactly as many requests as the quota
// allows, and again as many in the next period.
func TestQuotaIsExactAcrossInstances(t *testing.T) {
	s := newQuotaFixture(t, 100)
	first, second := s.gateway(), s.gateway()
	if got := s.sendAll(160, http.MethodGet, "", first, second); got[http.StatusOK] != 100 ||
		got[http.StatusTooManyRequests] != 60 {
		t.Errorf("statuses of 160 requests = %v, want 100 of 200 and 60 of 429", got)
	}
	s.assertAdmitted(100)
	resp := s.send(first, http.MethodGet, "")
	// The subscription began on the last day of January, so its first period ends with February.
	if got := resp.Header().Get("Retry-After"); resp.Code != http.StatusTooManyRequests || got != "2381400" {
		t.Errorf("response = %d with Retry-After %s, want 429 with 2381400", resp.Code, got)
	}
	s.advance(2381399 * time.Second)
	if got := s.send(second, http.MethodGet, "").Code; got != http.StatusTooManyRequests {
		t.Errorf("status at the last second of the period = %d, want 429", got)
	}
	s.advance(time.Second)
	if got := s.sendAll(160, http.MethodGet, "", first, second); got[http.StatusOK] != 100 ||
		got[http.StatusTooManyRequests] != 60 {
		t.Errorf("statuses of 160 requests in the next period = %v, want 100 of 200 and 60 of 429", got)
	}
	s.assertAdmitted(200)
}

// TestRepeatCountsOnceAcrossInstances checks that a request and its repeats count only once, even at different
// instances. A repeat must be admitted even if no units are left.
func TestRepeatCountsOnceAcrossInstances(t *testing.T) {
	s := newQuotaFixture(t, 10)
	first, second := s.gateway(), s.gateway()
	if got := s.sendAll(8, http.MethodPost, "order-1", first, second); got[http.StatusOK] != 8 {
		t.Errorf("statuses of 8 repeats = %v, want 8 of 200", got)
	}
	if got := s.sendAll(20, http.MethodPost, "", first, second); got[http.StatusOK] != 9 ||
		got[http.StatusTooManyRequests] != 11 {
		t.Errorf("statuses of 20 other requests = %v, want 9 of 200 and 11 of 429", got)
	}
	if got := s.send(second, http.MethodPost, "order-1").Code; got != http.StatusOK {
		t.Errorf("status of a repeat after the quota is used = %d, want 200", got)
	}
	if got := s.send(first, http.MethodPost, "order-2").Code; got != http.StatusTooManyRequests {
		t.Errorf("status of another request after the quota is used = %d, want 429", got)
	}
}

// TestLeasesOfCrashedInstanceAreReclaimed checks that other instances get the units that a crashed instance had leased,
// except those that it may have spent.
func TestLeasesOfCrashedInstanceAreReclaimed(t *testing.T) {
	// The size of an instance's leases depends on its rate: here 50 requests per second while both instances get requests.
	const units, maxLost, interval = 3000, 64, 10 * time.Millisecond
	s := newQuotaFixture(t, units)
	first, second := s.gateway(), s.gateway()
	for i := range 400 {
		s.advance(interval)
		if got := s.send([]http.Handler{first, second}[i%2], http.MethodGet, "").Code; got != http.StatusOK {
			t.Fatalf("status of request %d = %d, want 200", i, got)
		}
	}
	// The first instance has crashed: it gets no more requests and returns no units.
	for range 5 {
		s.advance(time.Minute)
		s.must(allowance.Reclaim(t.Context(), s.parts.Table, s.parts.Now()))
	}
	for range units {
		s.advance(interval)
		if s.send(second, http.MethodGet, "").Code != http.StatusOK {
			break
		}
	}
	if got := s.admitted.Load(); got > units || got < units-maxLost {
		t.Errorf("admitted units = %d, want %d to %d", got, units-maxLost, units)
	}
}

// TestDrainReturnsAllLeases checks that other instances can use the units of a drained instance immediately.
func TestDrainReturnsAllLeases(t *testing.T) {
	s := newQuotaFixture(t, 3000)
	first, second := s.gateway(), s.gateway()
	if got := s.sendAll(200, http.MethodGet, "", first); got[http.StatusOK] != 200 {
		t.Errorf("statuses of 200 requests = %v, want 200 of 200", got)
	}
	s.must(first.Drain(t.Context()))
	if got := s.sendAll(2810, http.MethodGet, "", second); got[http.StatusOK] != 2800 ||
		got[http.StatusTooManyRequests] != 10 {
		t.Errorf("statuses of 2810 requests = %v, want 2800 of 200 and 10 of 429", got)
	}
}

// TestEverySubscriptionStatusCanBeAllowed checks that a policy can allow every status of a subscription, and that a
// policy with any other status is refused.
func TestEverySubscriptionStatusCanBeAllowed(t *testing.T) {
	problems := func(status metering.Status) int {
		return len(policy.Check(project.Policy{Name: "p", Type: "quota-inbound", Handler: project.Component{
			Module: policy.RuntimeModule,
			Options: json.RawMessage(`{"bucketId":"mtr_1","meters":{"requests":1},"allowedStatuses":["` +
				string(status) + `"]}`),
		}}))
	}
	for _, status := range []metering.Status{
		metering.Active, metering.Inactive, metering.Incomplete, metering.IncompleteExpired, metering.Trialing,
		metering.PastDue, metering.Canceled, metering.Unpaid, metering.Paused,
	} {
		if n := problems(status); n != 0 {
			t.Errorf("problems(%s) = %d, want 0", status, n)
		}
	}
	if problems("expired") == 0 {
		t.Error("problems(expired) = 0, want 1 or more")
	}
}
