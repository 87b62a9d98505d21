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
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func hasLimit(d api.Declaration) bool { return d.Limit != (api.Limit{}) }

// TestKeyOperationsHaveTheirLimit: those on key buckets, consumers, managers and API keys,
// and no others.
func TestKeyOperationsHaveTheirLimit(t *testing.T) {
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if on := strings.Contains(d.Path, "/key-buckets"); on != (d.Limit == api.LimitOfKeys) {
				t.Errorf("%s has the limit %+v", d.ID, d.Limit)
			}
		}
	}
}

// withoutRates is a table without what counts requests.
func withoutRates(of table) table {
	out := maps.Clone(of)
	maps.DeleteFunc(out, func(key store.Key, _ store.Item) bool { return strings.HasPrefix(key.PK, "allowance#rate/") })
	return out
}

// TestLimitIsSharedAndToldOnEveryAnswer: when a key has asked as often as it may,
// each operation of the limit refuses it until the next second, and does and records
// nothing; another key is answered. Whatever is answered to a key tells the limit.
func TestLimitIsSharedAndToldOnEveryAnswer(t *testing.T) {
	p := newPopulated(t)
	told := func(t *testing.T, a functionstest.Answer, left int) {
		t.Helper()
		a.WantHeader("RateLimit-Policy", `"keys";q=100;w=1`).WantHeader("RateLimit", fmt.Sprintf(`"keys";r=%d;t=1`, left))
	}
	each(t, hasLimit, func(t *testing.T, d api.Declaration) {
		w := p.Copy(t).Asides()
		w.Now = w.Now.Truncate(time.Second).Add(300 * time.Millisecond)
		path, body := target(t, d, p.book.Request(d), p.names)
		read := "/v1/accounts/acme/key-buckets?limit=1"
		other := w.Key("acme", nil)
		for n := range 100 {
			told(t, w.Call(p.key, http.MethodGet, read, "").Want(http.StatusOK), 99-n)
		}
		before := withoutRates(w.Items.Snapshot())
		a := w.Call(p.key, d.Method, path, body).Want(http.StatusTooManyRequests, "100 times a second").WantHeader("Retry-After", "1")
		told(t, a, 0)
		unchanged(t, before, withoutRates(w.Items.Snapshot()))
		if records := recorded(w, before); len(records) > 0 {
			t.Errorf("the refusal is recorded: %+v", records)
		}
		told(t, w.Call(other, http.MethodGet, read, "").Want(http.StatusOK), 99)

		w.Now = w.Now.Add(700 * time.Millisecond)
		bare := w.Key("acme", func(p *auth.Permissions) { p.Scopes = nil })
		told(t, w.Call(bare, d.Method, path, body).Want(http.StatusForbidden), 99)
		told(t, w.Call(other, d.Method, strings.Replace(path, "acme", "globex", 1), body).Want(http.StatusNotFound), 99)
		told(t, w.Call(p.key, d.Method, path, body).Want(d.Status), 99)
		w.Call("", d.Method, path, body).Want(http.StatusUnauthorized).WantHeader("RateLimit", "")
	})
}

// TestRequestsOfAnAccountAreCountedTogether: its keys share the limit, whatever they ask in a group; a refusal names the
// limit, does nothing and is not recorded; another account is answered. The first request of a second is free.
func TestRequestsOfAnAccountAreCountedTogether(t *testing.T) {
	p := newPopulated(t)
	w := p.Copy(t).Asides()
	w.Now = w.Now.Truncate(time.Second).Add(300 * time.Millisecond)
	w.Limit("acme", limits.Requests, 5)
	keys := []string{p.key, w.Key("acme", nil)}
	const buckets = "/v1/accounts/acme/key-buckets"
	for n := range 6 {
		w.Call(keys[n%2], http.MethodGet, buckets, "").Want(http.StatusOK)
	}
	before := withoutRates(w.Items.Snapshot())
	for _, key := range keys {
		w.Call(key, http.MethodPost, buckets, `{"name":"one-too-many"}`).
			Want(http.StatusTooManyRequests, "its limit requests is 5").WantHeader("Retry-After", "1")
	}
	unchanged(t, before, withoutRates(w.Items.Snapshot()))
	w.Call(w.Account("initech"), http.MethodGet, "/v1/accounts/initech/key-buckets", "").Want(http.StatusOK)
	w.Now = w.Now.Add(700 * time.Millisecond)
	w.Call(p.key, http.MethodGet, buckets, "").Want(http.StatusOK)
}

// uncounted is a backend that loses the reply to what counts requests.
type uncounted struct{ store.Backend }

// Transact implements store.Backend.
func (u uncounted) Transact(ctx context.Context, token string, writes []store.Write) error {
	err := u.Backend.Transact(ctx, token, writes)
	if err == nil && strings.HasPrefix(writes[0].Key.PK, "allowance#rate/") {
		return fmt.Errorf("%w: %w", store.ErrRepeat, store.ErrLost)
	}
	return err
}

// TestRequestIsNotToldThatItMayHaveBeenDoneWhenItWasNotCounted: a lost reply to the count is no answer about the request.
// An account's own limit lets it pass; that of keys, which is exact, refuses it and says that nothing was done.
func TestRequestIsNotToldThatItMayHaveBeenDoneWhenItWasNotCounted(t *testing.T) {
	p := newPopulated(t)
	synctest.Test(t, func(t *testing.T) {
		w := p.Copy(t)
		w.Parts.Table = storetest.Over(t, uncounted{w.Items}, storetest.Clock(w.Parts.Now))
		w.Asides()
		for range 3 {
			w.Call(p.key, http.MethodGet, "/v1/projects", "").Want(http.StatusOK)
		}
		before := withoutRates(w.Items.Snapshot())
		w.Call(p.key, http.MethodPost, "/v1/accounts/acme/key-buckets", `{"name":"uncounted"}`).
			Want(http.StatusInternalServerError, "nothing was done")
		unchanged(t, before, withoutRates(w.Items.Snapshot()))
	})
}

// TestCreationAtTheLimitIsRefusedAndItsRepeatIsNot: 403 with what there is; the same request again is answered as
// before; a dry run is refused as the request would be.
func TestCreationAtTheLimitIsRefusedAndItsRepeatIsNot(t *testing.T) {
	p := newPopulated(t)
	w := p.Copy(t).Asides()
	const projects = "/v1/projects"
	made := w.Call(p.key, http.MethodPost, projects, `{"name":"the-last"}`, "Idempotency-Key", "order-17").Want(http.StatusOK)
	w.Limit("acme", limits.Projects, 1)
	again := w.Call(p.key, http.MethodPost, projects, `{"name":"the-last"}`, "Idempotency-Key", "order-17").Want(http.StatusOK)
	if made.Body != again.Body {
		t.Errorf("the repeat is answered %s, the request was %s", again.Body, made.Body)
	}
	w.Call(p.key, http.MethodPost, projects, `{"name":"one-too-many"}`).
		Want(http.StatusForbidden, "projects, and its limit projects is 1. Delete one that nobody uses any more")
	w.Within(dry(w.Context()), p.key, http.MethodPost, projects, `{"name":"one-too-many"}`).Want(http.StatusForbidden, "its limit projects is 1")
}

// TestEveryOperationOfAnAccountIsOfItsLimit: each is refused once the account has asked as often as it may in a second, by a
// status that its description has, and when to ask again; it does nothing then and records nothing. What clients poll
// takes no 429 for an answer. An account that has its own second is answered by all of them.
func TestEveryOperationOfAnAccountIsOfItsLimit(t *testing.T) {
	p := newPopulated(t)
	each(t, private, func(t *testing.T, d api.Declaration) {
		w := p.Copy(t).Asides()
		w.Now = w.Now.Truncate(time.Second).Add(300 * time.Millisecond)
		w.Limit("acme", limits.Requests, 1)
		path, body := target(t, d, p.book.Request(d), p.names)
		if a := w.Call(p.key, d.Method, path, body); a.Status == http.StatusTooManyRequests {
			t.Errorf("the first request of a second is answered %d %s", a.Status, a.Body)
		}
		w.Call(p.key, d.Method, path, body)
		before := withoutRates(w.Items.Snapshot())
		want := http.StatusTooManyRequests
		if d.Polled {
			want = http.StatusInternalServerError
		}
		w.Call(p.key, d.Method, path, body).Want(want, "its limit requests is 1").WantHeader("Retry-After", "1")
		if !slices.Contains(d.Errors, want) || d.Polled == slices.Contains(d.Errors, http.StatusTooManyRequests) {
			t.Errorf("%s declares %v", d.ID, d.Errors)
		}
		unchanged(t, before, withoutRates(w.Items.Snapshot()))
		if records := recorded(w, before); len(records) > 0 {
			t.Errorf("the refusal is recorded: %+v", records)
		}
		other := w.Account("initech")
		w.Limit("initech", limits.Requests, 1)
		if a := w.Call(other, d.Method, strings.Replace(path, "acme", "initech", 1), body); a.Status == http.StatusTooManyRequests {
			t.Errorf("another account is answered %d %s", a.Status, a.Body)
		}
	})
}

// makes is the operation that makes one of each limit's things.
func makes(l limits.Limit) string {
	return map[string]string{
		limits.AccountKeys.Name: "AccountKeysService_create", limits.Projects.Name: "ProjectsService_create",
		limits.Environments.Name: "EnvironmentsService_create", limits.KeyBuckets.Name: "ApiKeyBucketsService_create",
		limits.Consumers.Name: "ApiKeyConsumersService_create", limits.ConsumerKeys.Name: "ApiKeyKeysService_create",
		limits.CustomDomains.Name: "CustomDomainsService_create", limits.ClientCAs.Name: "ClientMtlsCaCertificatesService_create",
		limits.Tunnels.Name: "TunnelService_create", limits.MeteringBuckets.Name: "MeteringBucketsService_create",
		limits.Deployments.Name: "DeployService_sources", limits.Builds.Name: "DeployService_sources",
	}[l.Name]
}

// TestEachLimitIsAnAccountsOwn: at its own limit an account is refused one more of the things, by a problem that names the
// limit and what it is, after which nothing is another than before; one that has no limit of its own is answered
// meanwhile, and so is this one when its limit is gone.
func TestEachLimitIsAnAccountsOwn(t *testing.T) {
	p := newPopulated(t)
	declared := map[string]api.Declaration{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			declared[d.ID] = d
		}
	}
	group := only(t)
	for _, l := range limits.Own() {
		if l.Kind == limits.Second || l.Name == limits.TunnelServices.Name {
			continue // TestEveryOperationOfAnAccountIsOfItsLimit, TestAccountOverItsLimitTakesServicesAway
		}
		d, there := declared[makes(l)]
		if !there {
			t.Errorf("no operation makes %s", l.Things)
			continue
		}
		if group != "" {
			continue
		}
		t.Run(l.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := p.Copy(t)
				path, body := target(t, d, p.book.Request(d), p.names)
				w.Limit("acme", l, 1)
				status := http.StatusForbidden
				if l.Kind != limits.Kept {
					status = http.StatusTooManyRequests
					w.Call(p.key, d.Method, path, body) // one is there
				}
				before := w.Items.Snapshot()
				a := w.Call(p.key, d.Method, path, body).Want(status, "and its limit "+l.Name+" is 1.")
				if after := a.Header.Get("Retry-After"); (status == http.StatusTooManyRequests) != (after != "") {
					t.Errorf("Retry-After is %q", after)
				}
				unchanged(t, before, w.Items.Snapshot())
				if !slices.Contains(d.Errors, status) {
					t.Errorf("%s declares %v", d.ID, d.Errors)
				}
				other := strings.NewReplacer("acme", "initech").Replace
				if a := w.Call(w.Account("initech"), d.Method, other(path), other(body)); a.Status == status {
					t.Errorf("another account is answered %d %s", a.Status, a.Body)
				}
				w.Limit("acme", l, l.Most)
				w.Call(p.key, d.Method, path, body).Want(d.Status)
			})
		})
	}
}
