package functions_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
)

func hasRateLimit(d api.Declaration) bool { return d.Limit != (api.Limit{}) }

// TestKeyOperationsHaveTheirLimit checks that the limit for key operations applies to operations on key buckets,
// consumers, managers and API keys, and to no others.
func TestKeyOperationsHaveTheirLimit(t *testing.T) {
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if hasKeyPath := strings.Contains(d.Path, "/key-buckets"); hasKeyPath != (d.Limit == api.KeysLimit) {
				t.Errorf("%s: limit = %+v, want KeysLimit exactly for /key-buckets", d.ID, d.Limit)
			}
		}
	}
}

// withoutRateCounters returns a table without the items that count requests.
func withoutRateCounters(items table) table {
	out := maps.Clone(items)
	maps.DeleteFunc(out, func(key store.Key, _ store.Item) bool { return strings.HasPrefix(key.PK, "allowance#rate/") })
	return out
}

// TestRateLimitIsSharedAndReportedOnEveryResponse uses up a key's rate limit. Until the next second, every operation
// with this limit must refuse the key, without any effect or audit record. Other keys must still be served. Every
// response to a request with a valid key must report the limit.
func TestRateLimitIsSharedAndReportedOnEveryResponse(t *testing.T) {
	p := newPopulatedFixture(t)
	checkRateLimit := func(t *testing.T, resp functionstest.Response, remaining int) {
		t.Helper()
		resp.WantHeader("RateLimit-Policy", `"keys";q=100;w=1`).WantHeader("RateLimit", fmt.Sprintf(`"keys";r=%d;t=1`,
			remaining))
	}
	forEachOperation(t, hasRateLimit, func(t *testing.T, d api.Declaration) {
		fx := p.Copy(t).EnableBackground()
		fx.Now = fx.Now.Truncate(time.Second).Add(300 * time.Millisecond)
		path, body := requestTarget(t, d, p.sampleSet.Request(d), p.values)
		listPath := "/v1/accounts/acme/key-buckets?limit=1"
		otherKey := fx.CreateKey("acme", nil)
		for n := range 100 {
			checkRateLimit(t, fx.Call(p.key, http.MethodGet, listPath, "").Want(http.StatusOK), 99-n)
		}
		before := withoutRateCounters(fx.Items.Snapshot())
		resp := fx.Call(p.key, d.Method, path, body).Want(http.StatusTooManyRequests,
			"100 times a second").WantHeader("Retry-After", "1")
		checkRateLimit(t, resp, 0)
		assertUnchanged(t, before, withoutRateCounters(fx.Items.Snapshot()))
		if records := newAuditRecords(fx, before); len(records) > 0 {
			t.Errorf("audit records of the refusal = %+v, want none", records)
		}
		checkRateLimit(t, fx.Call(otherKey, http.MethodGet, listPath, "").Want(http.StatusOK), 99)

		fx.Now = fx.Now.Add(700 * time.Millisecond)
		noScopeKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = nil })
		checkRateLimit(t, fx.Call(noScopeKey, d.Method, path, body).Want(http.StatusForbidden), 99)
		checkRateLimit(t, fx.Call(otherKey, d.Method, strings.Replace(path, "acme", "globex", 1), body).
			Want(http.StatusNotFound), 99)
		checkRateLimit(t, fx.Call(p.key, d.Method, path, body).Want(d.Status), 99)
		fx.Call("", d.Method, path, body).Want(http.StatusUnauthorized).WantHeader("RateLimit", "")
	})
}

// TestRequestsOfAnAccountAreCountedTogether checks that all keys of an account share the account's limit of requests
// for all operations of a group. A refusal must name the limit, and must have no effect and no audit record. Another
// account must still be served. The first request of a second is not counted, so six requests are possible with a limit
// of 5.
func TestRequestsOfAnAccountAreCountedTogether(t *testing.T) {
	p := newPopulatedFixture(t)
	fx := p.Copy(t).EnableBackground()
	fx.Now = fx.Now.Truncate(time.Second).Add(300 * time.Millisecond)
	fx.SetLimit("acme", limits.Requests, 5)
	keys := []string{p.key, fx.CreateKey("acme", nil)}
	const bucketsPath = "/v1/accounts/acme/key-buckets"
	for n := range 6 {
		fx.Call(keys[n%2], http.MethodGet, bucketsPath, "").Want(http.StatusOK)
	}
	before := withoutRateCounters(fx.Items.Snapshot())
	for _, key := range keys {
		fx.Call(key, http.MethodPost, bucketsPath, `{"name":"one-too-many"}`).
			Want(http.StatusTooManyRequests, "its limit requests is 5").WantHeader("Retry-After", "1")
	}
	assertUnchanged(t, before, withoutRateCounters(fx.Items.Snapshot()))
	if records := newAuditRecords(fx, before); len(records) > 0 {
		t.Errorf("audit records of the refusals = %+v, want none", records)
	}
	fx.Call(fx.CreateAccount("initech"), http.MethodGet, "/v1/accounts/initech/key-buckets", "").Want(http.StatusOK)
	fx.Now = fx.Now.Add(700 * time.Millisecond)
	fx.Call(p.key, http.MethodGet, bucketsPath, "").Want(http.StatusOK)
}

// lostCountBackend is a backend that loses the response to each write that counts requests.
type lostCountBackend struct{ store.Backend }

// Transact implements store.Backend.
func (b lostCountBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	err := b.Backend.Transact(ctx, token, writes)
	if err == nil && strings.HasPrefix(writes[0].Key.PK, "allowance#rate/") {
		return fmt.Errorf("%w: %w", store.ErrRetryable, store.ErrOutcomeUnknown)
	}
	return err
}

// TestLostRateCountReportsNothingWasDone loses the response to the write that counts a request. The account's limit of
// requests must then allow the request. The limit for key operations, which is exact, must refuse it, and the response
// must say that nothing was done.
func TestLostRateCountReportsNothingWasDone(t *testing.T) {
	p := newPopulatedFixture(t)
	synctest.Test(t, func(t *testing.T) {
		fx := p.Copy(t)
		fx.Parts.Table = storetest.NewWithBackend(t, lostCountBackend{fx.Items}, storetest.Clock(fx.Parts.Now))
		fx.EnableBackground()
		for range 3 {
			fx.Call(p.key, http.MethodGet, "/v1/projects", "").Want(http.StatusOK)
		}
		before := withoutRateCounters(fx.Items.Snapshot())
		fx.Call(p.key, http.MethodPost, "/v1/accounts/acme/key-buckets", `{"name":"uncounted"}`).
			Want(http.StatusInternalServerError, "nothing was done")
		assertUnchanged(t, before, withoutRateCounters(fx.Items.Snapshot()))
	})
}

// TestCreationAtLimitIsRefusedButRepeatIsNot checks that the response to a creation at the account's limit is 403 and
// names the limit. A repeat of an earlier creation must get the earlier response. A dry run must be refused like the
// request.
func TestCreationAtLimitIsRefusedButRepeatIsNot(t *testing.T) {
	p := newPopulatedFixture(t)
	fx := p.Copy(t).EnableBackground()
	const projectsPath = "/v1/projects"
	first := fx.Call(p.key, http.MethodPost, projectsPath, `{"name":"the-last"}`, "Idempotency-Key",
		"order-17").Want(http.StatusOK)
	fx.SetLimit("acme", limits.Projects, 1)
	repeated := fx.Call(p.key, http.MethodPost, projectsPath, `{"name":"the-last"}`, "Idempotency-Key",
		"order-17").Want(http.StatusOK)
	if first.Body != repeated.Body {
		t.Errorf("repeated response = %s, want %s", repeated.Body, first.Body)
	}
	fx.Call(p.key, http.MethodPost, projectsPath, `{"name":"one-too-many"}`).
		Want(http.StatusForbidden, "projects, and its limit projects is 1. Delete one that nobody uses any more")
	fx.CallContext(withDryRun(fx.Context()), p.key, http.MethodPost, projectsPath,
		`{"name":"one-too-many"}`).Want(http.StatusForbidden, "its limit projects is 1")
}

// TestRequestLimitAppliesToEveryOperation uses up an account's requests of a second. Every operation must then refuse
// the account with a declared status and Retry-After, without any effect or audit record. Operations that clients poll
// use another status, because those clients do not accept 429. Another account must not get a 429.
func TestRequestLimitAppliesToEveryOperation(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, needsKey, func(t *testing.T, d api.Declaration) {
		fx := p.Copy(t).EnableBackground()
		fx.Now = fx.Now.Truncate(time.Second).Add(300 * time.Millisecond)
		fx.SetLimit("acme", limits.Requests, 1)
		path, body := requestTarget(t, d, p.sampleSet.Request(d), p.values)
		if resp := fx.Call(p.key, d.Method, path, body); resp.Status == http.StatusTooManyRequests {
			t.Errorf("first request of a second = %d %s, want no 429", resp.Status, resp.Body)
		}
		fx.Call(p.key, d.Method, path, body)
		before := withoutRateCounters(fx.Items.Snapshot())
		want := http.StatusTooManyRequests
		if d.Polled {
			want = http.StatusInternalServerError
		}
		fx.Call(p.key, d.Method, path, body).Want(want, "its limit requests is 1").WantHeader("Retry-After", "1")
		if !slices.Contains(d.Errors, want) || d.Polled == slices.Contains(d.Errors, http.StatusTooManyRequests) {
			t.Errorf("%s: Errors = %v, want %d in them, and 429 exactly if it is not polled", d.ID, d.Errors, want)
		}
		assertUnchanged(t, before, withoutRateCounters(fx.Items.Snapshot()))
		if records := newAuditRecords(fx, before); len(records) > 0 {
			t.Errorf("audit records of the refusal = %+v, want none", records)
		}
		otherAccountKey := fx.CreateAccount("initech")
		fx.SetLimit("initech", limits.Requests, 1)
		if resp := fx.Call(otherAccountKey, d.Method, strings.Replace(path, "acme", "initech", 1),
			body); resp.Status == http.StatusTooManyRequests {
			t.Errorf("request of another account = %d %s, want no 429", resp.Status, resp.Body)
		}
	})
}

// createOperation returns the ID of the operation that creates an object for which the limit applies.
func createOperation(l limits.Limit) string {
	return map[string]string{
		limits.AccountKeys.Name: "AccountKeysService_create", limits.Projects.Name: "ProjectsService_create",
		limits.Environments.Name: "EnvironmentsService_create", limits.KeyBuckets.Name: "ApiKeyBucketsService_create",
		limits.Consumers.Name: "ApiKeyConsumersService_create", limits.ConsumerKeys.Name: "ApiKeyKeysService_create",
		limits.CustomDomains.Name: "CustomDomainsService_create",
		limits.ClientCAs.Name:     "ClientMtlsCaCertificatesService_create",
		limits.Tunnels.Name:       "TunnelService_create", limits.MeteringBuckets.Name: "MeteringBucketsService_create",
		limits.Deployments.Name: "DeployService_sources", limits.Builds.Name: "DeployService_sources",
	}[l.Name]
}

// TestEachLimitAppliesToItsAccount sets each limit of an account to 1, which is the current number of objects. The
// account must not be able to create another object, and the problem must name the limit and its value. Another account
// must not be refused with the same status. This account must be served again after its limit was raised.
func TestEachLimitAppliesToItsAccount(t *testing.T) {
	p := newPopulatedFixture(t)
	declared := map[string]api.Declaration{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			declared[d.ID] = d
		}
	}
	group := onlyGroup(t)
	for _, l := range limits.PerAccount() {
		if l.Kind == limits.PerSecond || l.Name == limits.TunnelServices.Name {
			continue // TestRequestLimitAppliesToEveryOperation, TestAccountOverLimitCanRemoveServices
		}
		d, found := declared[createOperation(l)]
		if !found {
			t.Errorf("no operation creates %s, want one", l.Plural)
			continue
		}
		if group != "" {
			continue
		}
		t.Run(l.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := p.Copy(t)
				path, body := requestTarget(t, d, p.sampleSet.Request(d), p.values)
				fx.SetLimit("acme", l, 1)
				status := http.StatusForbidden
				if l.Kind != limits.Total {
					status = http.StatusTooManyRequests
					fx.Call(p.key, d.Method, path, body) // so that one object exists
				}
				before := fx.Items.Snapshot()
				resp := fx.Call(p.key, d.Method, path, body).Want(status, "and its limit "+l.Name+" is 1.")
				if retryAfter := resp.Header.Get("Retry-After"); (status == http.StatusTooManyRequests) != (retryAfter != "") {
					t.Errorf("Retry-After of a %d = %q, want one exactly with 429", status, retryAfter)
				}
				assertUnchanged(t, before, fx.Items.Snapshot())
				if !slices.Contains(d.Errors, status) {
					t.Errorf("%s: Errors = %v, want %d in them", d.ID, d.Errors, status)
				}
				renameAccount := strings.NewReplacer("acme", "initech").Replace
				if resp := fx.Call(fx.CreateAccount("initech"), d.Method, renameAccount(path),
					renameAccount(body)); resp.Status == status {
					t.Errorf("request of another account = %d %s, want no refusal", resp.Status, resp.Body)
				}
				fx.SetLimit("acme", l, l.Max)
				fx.Call(p.key, d.Method, path, body).Want(d.Status)
			})
		})
	}
}
