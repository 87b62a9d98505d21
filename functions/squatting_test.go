package functions_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// caller is an account key of acme's.
type caller struct {
	name, key string
	sees      auth.Principal
}

// squatters are account keys that do anything in any order, in an account whose
// projects have names that look like each other's buckets.
type squatters struct {
	*functionstest.World
	random  *rand.Rand
	callers []caller
	// made says who made the API key of a text.
	made    map[string]caller
	history []string
	// accepted counts the gateways' answers to keys of who sees them.
	accepted int
}

var (
	rivals = []string{"shop", "victim", "shop-preview"}
	places = []string{
		`{}`, `{"project":"shop","environmentType":"PREVIEW"}`, `{"project":"shop","environmentType":"PRODUCTION"}`, `{"project":"shop"}`,
		`{"project":"victim","environmentType":"PRODUCTION"}`, `{"project":"victim","environmentType":"PREVIEW"}`,
		`{"project":"shop-preview","environmentType":"PRODUCTION"}`, `{"environmentType":"PREVIEW"}`,
	}
)

func newSquatters(t *testing.T, seed uint64) *squatters {
	t.Helper()
	s := &squatters{World: newWorld(t), random: rand.New(rand.NewPCG(seed, 1)), made: map[string]caller{}}
	full := s.Account("acme")
	s.callers = []caller{{"full", full, auth.Principal{Permissions: auth.Full()}}}
	add := func(name string, projects []string, kinds ...environment.Kind) {
		limit := func(p *auth.Permissions) { p.Projects, p.Environments = projects, kinds }
		s.callers = append(s.callers, caller{name, s.Key("acme", limit), auth.Principal{Permissions: functionstest.Limited(limit)}})
	}
	add("shop", []string{"shop"}, environment.Kinds()...)
	add("shop's previews", []string{"shop"}, environment.Preview)
	add("victim", []string{"victim"}, environment.Kinds()...)
	add("shop-preview", []string{"shop-preview", "shop"}, environment.Kinds()...)
	add("previews", []string{auth.AllProjects}, environment.Preview)
	return s
}

func one[T any](s *squatters, of []T) T { return of[s.random.IntN(len(of))] }

func (s *squatters) bucketName() string {
	if s.random.IntN(2) == 0 {
		return one(s, []string{"partners", "common", "orders"})
	}
	return one(s, rivals) + "-" + one(s, environment.Kinds()).Slug()
}

// bucket is what a request or a project calls one, mostly one that there is.
func (s *squatters) bucket(by string) string {
	there := s.Call(s.callers[0].key, "GET", "/v1/accounts/acme/key-buckets", "").JSON().Texts("data", by)
	if len(there) == 0 || s.random.IntN(8) == 0 {
		return s.bucketName()
	}
	return one(s, there)
}

// do makes a request, whatever it is answered.
func (s *squatters) do(c caller, method, path, body string) functionstest.Answer {
	a := s.Call(c.key, method, path, body)
	s.history = append(s.history, fmt.Sprintf("%s: %s %s %s -> %d", c.name, method, path, body, a.Status))
	return a
}

// keep notes who made the API keys that an answer shows for the first time.
func (s *squatters) keep(c caller, a functionstest.Answer) {
	if a.Status != http.StatusOK {
		return
	}
	answer := a.JSON()
	for _, text := range append(append(answer.Texts("data", "key"), answer.Texts("apiKeys", "key")...), answer.Text("key")) {
		if _, known := s.made[text]; !known && text != "" {
			s.made[text] = c
		}
	}
}

// step is something that some caller does.
func (s *squatters) step() {
	const account = "/v1/accounts/acme"
	c := one(s, s.callers)
	bucket := account + "/key-buckets/" + s.bucket(one(s, []string{"name", "id"}))
	consumer := bucket + "/consumers/alice"
	switch s.random.IntN(20) {
	case 0, 1:
		s.do(c, "POST", "/v1/projects", `{"name":"`+one(s, rivals)+`"}`)
	case 2, 3, 4:
		s.do(c, "POST", account+"/key-buckets", `{"name":"`+s.bucketName()+`","tags":`+one(s, places)+`}`)
	case 5:
		s.do(c, "DELETE", bucket, "")
	case 6:
		s.do(c, "PATCH", bucket, `{"tags":`+one(s, places)+`}`)
	case 7, 8, 16, 17:
		s.keep(c, s.do(c, "POST", bucket+"/consumers?with-api-key=true", `{"name":"alice"}`))
	case 9:
		s.keep(c, s.do(c, "POST", consumer+"/keys", fmt.Sprintf(`{"key":"a-text-of-its-own-%d"}`, len(s.history))))
	case 10:
		s.keep(c, s.do(c, "POST", consumer+"/keys/$bulk", `[{},{}]`))
	case 11:
		s.do(c, "POST", consumer+"/roll-key", `{"expiresOn":"2099-01-01T00:00:00Z"}`)
		s.keep(c, s.Call(c.key, "GET", consumer+"/keys?key-format=visible", ""))
	case 12:
		if s.random.IntN(3) == 0 {
			s.do(c, "DELETE", consumer, "")
		}
	case 13, 14, 18, 19:
		s.deploy(c)
	case 15:
		project := one(s, rivals)
		names := s.Call(c.key, "GET", account+"/projects/"+project+"/deployments", "").JSON().Texts("data", "name")
		switch {
		case len(names) == 0:
		case s.random.IntN(6) == 0:
			s.do(c, "DELETE", "/v1/deployments/"+one(s, names), "")
		default:
			if a := s.do(c, "POST", "/v1/deployments/"+one(s, names)+"/deploy", ""); a.Status == http.StatusOK {
				s.Finish(a.JSON().Text("deploymentId"))
			}
		}
	}
}

// deploy has a caller deploy a project whose routes ask for a key of its own
// bucket, or of one that it names.
func (s *squatters) deploy(c caller) {
	s.Helper()
	options := `{}`
	switch s.random.IntN(3) {
	case 1:
		options = `{"bucketName":"` + s.bucket("name") + `"}`
	case 2:
		options = `{"bucketId":"` + s.bucket("id") + `"}`
	}
	a := s.do(c, "POST", "/v1/deployments/sources", `{"accountName":"acme","projectName":"`+one(s, rivals)+`","branchName":"`+one(s, []string{"main", "next"})+`"}`)
	if a.Status != http.StatusOK {
		return
	}
	archive, err := functionstest.Pack(keyed(options))
	if err != nil {
		s.Fatal(err)
	}
	s.Upload(a.JSON().Text("uploadUrl"), archive)
	s.history = append(s.history, c.name+" deploys that with "+options)
}

// keyed is a project whose route asks for a key.
func keyed(options string) map[string]string {
	files := functionstest.Project("http://127.0.0.1:1") // which no project may reach
	files["config/policies.json"] = `{"policies":[{"name":"key","policyType":"api-key-inbound",
		"handler":{"export":"ApiKeyInboundPolicy","module":"$import(@gatewright/runtime)","options":` + options + `}}],"corsPolicies":[]}`
	files["config/routes.oas.json"] = strings.Replace(files["config/routes.oas.json"], `"inbound":[]`, `"inbound":["key"]`, 1)
	return files
}

// check asks every gateway with every key that was made.
func (s *squatters) check(t *testing.T) {
	t.Helper()
	parts := s.Parts
	parts.Log = slog.New(slog.DiscardHandler) // an upstream that is not reached is a warning
	g, err := gateway.New(parts, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, project := range rivals {
		a := s.Call(s.callers[0].key, "GET", "/v1/accounts/acme/projects/"+project+"/deployments", "")
		if a.Status != http.StatusOK {
			continue
		}
		for i := range a.JSON().Len("data") {
			at := a.JSON().At(fmt.Sprintf("data.%d", i))
			if at.Text("state") != "STARTED" {
				continue
			}
			for text, by := range s.made {
				r := httptest.NewRequestWithContext(t.Context(), "GET", at.Text("url")+"/a", nil)
				r.Header.Set("Authorization", "Bearer "+text)
				out := httptest.NewRecorder()
				g.ServeHTTP(out, r)
				switch {
				case out.Code == http.StatusUnauthorized:
				case out.Code != http.StatusBadGateway: // of the upstream's
					t.Fatalf("the gateway answers %d %s", out.Code, out.Body)
				case !by.sees.MaySee(project, at.Text("environmentType")):
					t.Fatalf("the gateway of %s in %s, which the key %q does not see, accepts an API key that it made:\n%s",
						project, at.Text("environmentType"), by.name, strings.Join(s.history, "\n"))
				default:
					s.accepted++
				}
			}
		}
	}
}

// squat has a bucket of an earlier release, which any key could give any name.
func (s *squatters) squat(c caller, name, tags string) {
	s.Helper()
	buckets := "/v1/accounts/acme/key-buckets"
	s.do(c, "POST", buckets, `{"name":"free-name","tags":`+tags+`}`).Want(http.StatusOK)
	for key := range s.Items.Snapshot() {
		if !strings.HasPrefix(key.PK, "buckets#") || !strings.HasSuffix(key.SK, "free-name") {
			continue
		}
		record := map[string]any{}
		if err := s.Parts.Table.Get(s.Context(), key, &record); err != nil {
			s.Fatal(err)
		}
		record["name"] = name
		moved := store.Key{PK: key.PK, SK: strings.Replace(key.SK, "free-name", name, 1)}
		if err := s.Parts.Table.Commit(s.Context(), store.Put(moved, record), store.Delete(key)); err != nil {
			s.Fatal(err)
		}
	}
	s.keep(c, s.do(c, "POST", buckets+"/"+name+"/consumers?with-api-key=true", `{"name":"alice"}`).Want(http.StatusOK))
}

// TestNoGatewayOpensToKeysOfWhoDoesNotSeeIt has limited account keys do anything
// in any order. An API key opens only gateways of projects and environments that
// its maker sees.
func TestNoGatewayOpensToKeysOfWhoDoesNotSeeIt(t *testing.T) {
	together(t)
	accepted := 0
	for seed := range simulations.Runs(12) {
		synctest.Test(t, func(t *testing.T) {
			s := newSquatters(t, uint64(seed))
			if seed%2 == 1 {
				s.squat(s.callers[1], "victim-production", `{"project":"shop","environmentType":"PRODUCTION"}`)
			}
			for n := range 120 {
				s.step()
				if n%10 == 9 {
					s.check(t)
				}
			}
			accepted += s.accepted
		})
	}
	if accepted == 0 {
		t.Error("no gateway accepts any key: the test has looked at nothing")
	}
	t.Logf("%d times a key was accepted", accepted)
}

// TestNamesOfDefaultBucketsBelongToTheirProjects: neither does who may make
// a bucket of such a name depend on what exists, nor what is answered.
func TestNamesOfDefaultBucketsBelongToTheirProjects(t *testing.T) {
	w := newWorld(t)
	full := w.Account("acme")
	shop := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	const buckets = "/v1/accounts/acme/key-buckets"
	body := func(name, project, kind string) string {
		return `{"name":"` + name + `","tags":{"project":"` + project + `","environmentType":"` + kind + `"}}`
	}
	ask := func(key, body string) string { return w.Copy(t).Call(key, "POST", buckets, body).Whole }
	refused := []struct{ name, key, body string }{
		{"placed at its own project", shop, body("victim-production", "shop", "PRODUCTION")},
		{"placed at the project", shop, body("victim-production", "victim", "PRODUCTION")},
		{"placed nowhere by full access", full, `{"name":"victim-production"}`},
		{"placed at another project by full access", full, body("victim-preview", "shop", "PREVIEW")},
		{"placed at another kind", full, body("victim-preview", "victim", "PRODUCTION")},
		{"placed at no kind", full, `{"name":"victim-preview","tags":{"project":"victim"}}`},
		{"of a project that is called as a bucket", shop, body("shop-preview-production", "shop", "PRODUCTION")},
	}
	var absent []string
	for _, r := range refused {
		a := w.Copy(t).Call(r.key, "POST", buckets, r.body)
		if a.Status != http.StatusBadRequest && a.Status != http.StatusForbidden {
			t.Errorf("%s: %s", r.name, a.Whole)
		}
		absent = append(absent, ask(r.key, r.body))
	}
	own := body("shop-production", "shop", "PRODUCTION")
	w.Copy(t).Call(shop, "POST", buckets, own).Want(http.StatusOK)
	w.Call(full, "POST", "/v1/projects", `{"name":"victim"}`).Want(http.StatusOK)
	w.Call(full, "POST", "/v1/projects", `{"name":"shop"}`).Want(http.StatusOK)
	for i, r := range refused {
		if got := ask(r.key, r.body); got != absent[i] {
			t.Errorf("%s: the answer tells whether the project exists:\n%s\n%s", r.name, got, absent[i])
		}
	}
	// Its own bucket can be made anew.
	w.Call(shop, "DELETE", buckets+"/shop-production", "").Want(http.StatusNoContent)
	w.Call(shop, "POST", buckets, own).Want(http.StatusOK)
}

// TestProjectOverAForeignBucketIsAConflict for buckets of earlier releases.
func TestProjectOverAForeignBucketIsAConflict(t *testing.T) {
	for _, request := range []struct{ path, body string }{
		{"/v1/projects", `{"name":"victim"}`},
		{"/v1/deployments/sources", `{"accountName":"acme","projectName":"victim","branchName":"main"}`},
	} {
		s := newSquatters(t, 0)
		full, shop, victim := s.callers[0], s.callers[1], s.callers[3]
		s.squat(shop, "victim-production", `{"project":"shop","environmentType":"PRODUCTION"}`)
		for _, c := range []caller{full, victim} {
			s.do(c, "POST", request.path, request.body).Want(http.StatusConflict, "victim-production", "deleted", "another name")
		}
		s.Call(full.key, "GET", "/v1/projects", "").Want(http.StatusOK, `"total":0`)
		s.do(shop, "DELETE", "/v1/accounts/acme/key-buckets/victim-production", "").Want(http.StatusNoContent)
		s.do(victim, "POST", request.path, request.body).Want(http.StatusOK)
		s.Call(victim.key, "GET", "/v1/accounts/acme/key-buckets/victim-production", "").Want(http.StatusOK, `"project":"victim"`)
	}
}

// TestDeploymentNamesBucketsThatItsDeployerSees, and that serve where it is
// deployed.
func TestDeploymentNamesBucketsThatItsDeployerSees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSquatters(t, 0)
		full, shop, previews := s.callers[0], s.callers[1], s.callers[2]
		const buckets = "/v1/accounts/acme/key-buckets"
		for name, tags := range map[string]string{
			"of-the-account": `{}`, "of-shop": `{"project":"shop"}`, "of-previews": `{"project":"shop","environmentType":"PREVIEW"}`,
			"of-victim": `{"project":"victim","environmentType":"PREVIEW"}`,
		} {
			s.do(full, "POST", buckets, `{"name":"`+name+`","tags":`+tags+`}`).Want(http.StatusOK)
		}
		build := func(c caller, bucket, branch string) string {
			made := s.do(c, "POST", "/v1/deployments/sources", `{"accountName":"acme","projectName":"shop","branchName":"`+branch+`"}`).Want(http.StatusOK).JSON()
			archive, err := functionstest.Pack(keyed(`{"bucketName":"` + bucket + `"}`))
			if err != nil {
				t.Fatal(err)
			}
			s.Upload(made.Text("uploadUrl"), archive)
			return s.Call(c.key, "GET", "/v1/accounts/acme/projects/shop/deployment-status/"+made.Text("deploymentId"), "").Body
		}
		var refusals []string
		for _, c := range []struct {
			caller caller
			bucket string
			branch string
			served bool
		}{
			{full, "of-the-account", "main", true},
			{full, "of-shop", "main", true},
			{full, "of-previews", "main", false},
			{full, "of-previews", "next", true},
			{full, "of-victim", "next", false},
			{full, "of-nobody", "next", false},
			{shop, "of-the-account", "main", false},
			{shop, "of-shop", "main", true},
			{shop, "of-victim", "next", false},
			{previews, "of-shop", "next", false},
			{previews, "of-previews", "next", true},
			{previews, "shop-preview", "next", true},
		} {
			status := build(c.caller, c.bucket, c.branch)
			if strings.HasPrefix(status, `{"status":"SUCCESS"`) != c.served || !c.served && !(strings.Contains(status, `No key bucket \"`+c.bucket+`\"`) && strings.Contains(status, `"path":"/policies/0/handler/options/bucketName"`)) {
				t.Errorf("%s deploys %s with the bucket %s, want served %v: %s", c.caller.name, c.branch, c.bucket, c.served, status)
			}
			if _, errs, ok := strings.Cut(status, `"errors":`); ok && !c.served {
				refusals = append(refusals, strings.NewReplacer(c.bucket, "BUCKET", "production environments", "KIND", "preview environments", "KIND").Replace(errs))
			}
		}
		if slices.Sort(refusals); len(slices.Compact(refusals)) != 1 {
			t.Errorf("what is not seen, not there and not served is told apart: %q", refusals)
		}
	})
}

// TestBucketMadeAnewOpensNothingUntilTheNextDeploy: the gateway knows the bucket by
// its id.
func TestBucketMadeAnewOpensNothingUntilTheNextDeploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSquatters(t, 0)
		shop := s.callers[1]
		const bucket = "/v1/accounts/acme/key-buckets/shop-production"
		address := s.do(shop, "POST", "/v1/deployments/sources", `{"accountName":"acme","projectName":"shop","branchName":"main"}`).Want(http.StatusOK).JSON().Text("uploadUrl")
		archive, err := functionstest.Pack(keyed(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		s.Upload(address, archive)
		open := func() bool {
			before := s.accepted
			s.check(t)
			return s.accepted > before
		}
		mint := func() {
			s.keep(shop, s.do(shop, "POST", bucket+"/consumers?with-api-key=true", `{"name":"alice"}`).Want(http.StatusOK))
		}
		mint()
		if !open() {
			t.Error("the first bucket's key is refused")
		}
		s.do(shop, "DELETE", bucket, "").Want(http.StatusNoContent)
		s.do(shop, "POST", "/v1/accounts/acme/key-buckets", `{"name":"shop-production","tags":{"project":"shop","environmentType":"PRODUCTION"}}`).Want(http.StatusOK)
		mint()
		if open() {
			t.Error("a later bucket's key is accepted")
		}
		name := s.Call(shop.key, "GET", "/v1/accounts/acme/projects/shop/deployments", "").JSON().Text("data.0.name")
		s.Finish(s.do(shop, "POST", "/v1/deployments/"+name+"/deploy", "").Want(http.StatusOK).JSON().Text("deploymentId"))
		if !open() {
			t.Error("after a redeploy the later bucket's key is refused")
		}
	})
}
