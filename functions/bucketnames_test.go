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
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// caller is an account key of acme.
type caller struct {
	name, key string
	principal auth.Principal
}

// squatterTest has account keys that make random changes, in an account whose projects and buckets have confusable
// names.
type squatterTest struct {
	*functionstest.Fixture
	random  *rand.Rand
	callers []caller
	// creators has the creator of each API key, by the text of the key.
	creators map[string]caller
	history  []string
	// accepted counts how often a gateway accepted a key.
	accepted int
}

var (
	projectNames = []string{"shop", "victim", "shop-preview"}
	bucketTags   = []string{
		`{}`, `{"project":"shop","environmentType":"PREVIEW"}`, `{"project":"shop","environmentType":"PRODUCTION"}`,
		`{"project":"shop"}`,
		`{"project":"victim","environmentType":"PRODUCTION"}`, `{"project":"victim","environmentType":"PREVIEW"}`,
		`{"project":"shop-preview","environmentType":"PRODUCTION"}`, `{"environmentType":"PREVIEW"}`,
	}
)

func newSquatterTest(t *testing.T, seed uint64) *squatterTest {
	t.Helper()
	s := &squatterTest{Fixture: newFixture(t), random: rand.New(rand.NewPCG(seed, 1)), creators: map[string]caller{}}
	fullKey := s.CreateAccount("acme")
	s.callers = []caller{{"full", fullKey, auth.Principal{Permissions: auth.Full()}}}
	add := func(name string, projects []string, kinds ...environment.Kind) {
		limit := func(p *auth.Permissions) { p.Projects, p.Environments = projects, kinds }
		s.callers = append(s.callers, caller{
			name, s.CreateKey("acme", limit),
			auth.Principal{Permissions: functionstest.LimitedPermissions(limit)},
		})
	}
	add("shop", []string{"shop"}, environment.Kinds()...)
	add("shop's previews", []string{"shop"}, environment.Preview)
	add("victim", []string{"victim"}, environment.Kinds()...)
	add("shop-preview", []string{"shop-preview", "shop"}, environment.Kinds()...)
	add("previews", []string{auth.AllProjects}, environment.Preview)
	return s
}

func choose[T any](s *squatterTest, items []T) T { return items[s.random.IntN(len(items))] }

func (s *squatterTest) bucketName() string {
	if s.random.IntN(2) == 0 {
		return choose(s, []string{"partners", "common", "orders"})
	}
	return choose(s, projectNames) + "-" + choose(s, environment.Kinds()).Slug()
}

// bucket returns a random name of a bucket, in most cases of an existing one.
func (s *squatterTest) bucket(field string) string {
	existing := s.Call(s.callers[0].key, "GET", "/v1/accounts/acme/key-buckets", "").JSON().Texts("data", field)
	if len(existing) == 0 || s.random.IntN(8) == 0 {
		return s.bucketName()
	}
	return choose(s, existing)
}

// call sends a request as a caller. The response may be a refusal.
func (s *squatterTest) call(c caller, method, path, body string) functionstest.Response {
	resp := s.Call(c.key, method, path, body)
	s.history = append(s.history, fmt.Sprintf("%s: %s %s %s -> %d", c.name, method, path, body, resp.Status))
	return resp
}

// recordKeys records the creators of the API keys that a response shows for the first time.
func (s *squatterTest) recordKeys(c caller, resp functionstest.Response) {
	if resp.Status != http.StatusOK {
		return
	}
	body := resp.JSON()
	for _, text := range append(append(body.Texts("data", "key"), body.Texts("apiKeys", "key")...), body.Text("key")) {
		if _, ok := s.creators[text]; !ok && text != "" {
			s.creators[text] = c
		}
	}
}

// step requests a random change as a random caller.
func (s *squatterTest) step() {
	const account = "/v1/accounts/acme"
	c := choose(s, s.callers)
	bucket := account + "/key-buckets/" + s.bucket(choose(s, []string{"name", "id"}))
	consumer := bucket + "/consumers/alice"
	switch s.random.IntN(20) {
	case 0, 1:
		s.call(c, "POST", "/v1/projects", `{"name":"`+choose(s, projectNames)+`"}`)
	case 2, 3, 4:
		s.call(c, "POST", account+"/key-buckets", `{"name":"`+s.bucketName()+`","tags":`+choose(s, bucketTags)+`}`)
	case 5:
		s.call(c, "DELETE", bucket, "")
	case 6:
		s.call(c, "PATCH", bucket, `{"tags":`+choose(s, bucketTags)+`}`)
	case 7, 8, 16, 17:
		s.recordKeys(c, s.call(c, "POST", bucket+"/consumers?with-api-key=true", `{"name":"alice"}`))
	case 9:
		s.recordKeys(c, s.call(c, "POST", consumer+"/keys", fmt.Sprintf(`{"key":"a-text-of-its-own-%d"}`, len(s.history))))
	case 10:
		s.recordKeys(c, s.call(c, "POST", consumer+"/keys/$bulk", `[{},{}]`))
	case 11:
		s.call(c, "POST", consumer+"/roll-key", `{"expiresOn":"2099-01-01T00:00:00Z"}`)
		s.recordKeys(c, s.Call(c.key, "GET", consumer+"/keys?key-format=visible", ""))
	case 12:
		if s.random.IntN(3) == 0 {
			s.call(c, "DELETE", consumer, "")
		}
	case 13, 14, 18, 19:
		s.deploy(c)
	case 15:
		project := choose(s, projectNames)
		names := s.Call(c.key, "GET", account+"/projects/"+project+"/deployments", "").JSON().Texts("data", "name")
		switch {
		case len(names) == 0:
		case s.random.IntN(6) == 0:
			s.call(c, "DELETE", "/v1/deployments/"+choose(s, names), "")
		default:
			if resp := s.call(c, "POST", "/v1/deployments/"+choose(s, names)+"/deploy", ""); resp.Status == http.StatusOK {
				s.Finish(resp.JSON().Text("deploymentId"))
			}
		}
	}
}

// deploy deploys a project as a caller. The project's routes require keys of its default bucket, or of a named bucket.
func (s *squatterTest) deploy(c caller) {
	s.Helper()
	options := `{}`
	switch s.random.IntN(3) {
	case 1:
		options = `{"bucketName":"` + s.bucket("name") + `"}`
	case 2:
		options = `{"bucketId":"` + s.bucket("id") + `"}`
	}
	resp := s.call(c, "POST", "/v1/deployments/sources", `{"accountName":"acme","projectName":"`+
		choose(s, projectNames)+`","branchName":"`+choose(s, []string{"main", "next"})+`"}`)
	if resp.Status != http.StatusOK {
		return
	}
	archive, err := functionstest.Pack(keyProject(options))
	if err != nil {
		s.Fatal(err)
	}
	s.Upload(resp.JSON().Text("uploadUrl"), archive)
	s.history = append(s.history, c.name+" deploys that with "+options)
}

// keyProject returns a project whose route requires an API key, with these options for the policy.
func keyProject(options string) map[string]string {
	files := functionstest.Project("http://127.0.0.1:1") // no project can reach this upstream
	files["config/policies.json"] = `{"policies":[{"name":"key","policyType":"api-key-inbound",
		"handler":{"export":"ApiKeyInboundPolicy","module":"$import(@gatewright/runtime)","options":` + options + `}}],"corsPolicies":[]}`
	files["config/routes.oas.json"] = strings.Replace(files["config/routes.oas.json"], `"inbound":[]`, `"inbound":["key"]`,
		1)
	return files
}

// check sends a request to each started deployment with each key that was created. A key may only be accepted if its
// creator can see the deployment.
func (s *squatterTest) check(t *testing.T) {
	t.Helper()
	parts := s.Parts
	parts.Log = slog.New(slog.DiscardHandler) // do not log that upstreams are unreachable
	g, err := gateway.New(parts, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, project := range projectNames {
		resp := s.Call(s.callers[0].key, "GET", "/v1/accounts/acme/projects/"+project+"/deployments", "")
		if resp.Status != http.StatusOK {
			continue
		}
		for i := range resp.JSON().Len("data") {
			deployment := resp.JSON().At(fmt.Sprintf("data.%d", i))
			if deployment.Text("state") != "STARTED" {
				continue
			}
			for text, creator := range s.creators {
				r := httptest.NewRequestWithContext(t.Context(), "GET", deployment.Text("url")+"/a", nil)
				r.Header.Set("Authorization", "Bearer "+text)
				recorder := httptest.NewRecorder()
				g.ServeHTTP(recorder, r)
				switch {
				case recorder.Code == http.StatusUnauthorized:
				case recorder.Code != http.StatusBadGateway: // the gateway has accepted the key, and cannot reach the upstream
					t.Fatalf("gateway of %s with a key: response = %d %s, want 401 or 502", project, recorder.Code, recorder.Body)
				case !creator.principal.CanSee(project, deployment.Text("environmentType")):
					t.Fatalf("gateway of %s (%s) = 502 with a consumer key of %q, want 401 since its creator cannot see the "+
						"deployment:\n%s", project, deployment.Text("environmentType"), creator.name, strings.Join(s.history, "\n"))
				default:
					s.accepted++
				}
			}
		}
	}
}

// createLegacyBucket creates a bucket as earlier releases did. Those releases let any account key use any name.
func (s *squatterTest) createLegacyBucket(c caller, name, tags string) {
	s.Helper()
	buckets := "/v1/accounts/acme/key-buckets"
	s.call(c, "POST", buckets, `{"name":"free-name","tags":`+tags+`}`).Want(http.StatusOK)
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
	s.recordKeys(c, s.call(c, "POST", buckets+"/"+name+"/consumers?with-api-key=true",
		`{"name":"alice"}`).Want(http.StatusOK))
}

// TestGatewayRefusesKeysOfCreatorsWithoutAccess lets limited account keys make any changes in any order. A gateway must
// only accept an API key if the key's creator can see the gateway's project and environment.
func TestGatewayRefusesKeysOfCreatorsWithoutAccess(t *testing.T) {
	skipIfSingleGroup(t)
	accepted := 0
	for seed := range simulations.Runs(12) {
		synctest.Test(t, func(t *testing.T) {
			s := newSquatterTest(t, uint64(seed))
			if seed%2 == 1 {
				s.createLegacyBucket(s.callers[1], "victim-production", `{"project":"shop","environmentType":"PRODUCTION"}`)
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
		t.Error("accepted consumer keys = 0, want 1 or more")
	}
	t.Logf("%d times a key was accepted", accepted)
}

// TestDefaultBucketNamesAreReserved checks that the creation of a bucket with a reserved name is refused with the same
// response, whether or not the project or bucket exists.
func TestDefaultBucketNamesAreReserved(t *testing.T) {
	fx := newFixture(t)
	fullKey := fx.CreateAccount("acme")
	shopKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	const bucketsPath = "/v1/accounts/acme/key-buckets"
	body := func(name, project, kind string) string {
		return `{"name":"` + name + `","tags":{"project":"` + project + `","environmentType":"` + kind + `"}}`
	}
	createBucket := func(key, body string) string { return fx.Copy(t).Call(key, "POST", bucketsPath, body).Dump }
	refused := []struct{ name, key, body string }{
		{"name of another project", shopKey, body("victim-production", "shop", "PRODUCTION")},
		{"name and tags of another project", shopKey, body("victim-production", "victim", "PRODUCTION")},
		{"full access, no tags", fullKey, `{"name":"victim-production"}`},
		{"full access, tags of another project", fullKey, body("victim-preview", "shop", "PREVIEW")},
		{"full access, another environment type", fullKey, body("victim-preview", "victim", "PRODUCTION")},
		{"full access, no environment type", fullKey, `{"name":"victim-preview","tags":{"project":"victim"}}`},
		{"project named like a bucket", shopKey, body("shop-preview-production", "shop", "PRODUCTION")},
	}
	var withoutProjects []string
	for _, r := range refused {
		resp := fx.Copy(t).Call(r.key, "POST", bucketsPath, r.body)
		if resp.Status != http.StatusBadRequest && resp.Status != http.StatusForbidden {
			t.Errorf("POST %s, %s = %s, want 400 or 403", bucketsPath, r.name, resp.Dump)
		}
		withoutProjects = append(withoutProjects, createBucket(r.key, r.body))
	}
	shopBucket := body("shop-production", "shop", "PRODUCTION")
	fx.Copy(t).Call(shopKey, "POST", bucketsPath, shopBucket).Want(http.StatusOK)
	fx.Call(fullKey, "POST", "/v1/projects", `{"name":"victim"}`).Want(http.StatusOK)
	fx.Call(fullKey, "POST", "/v1/projects", `{"name":"shop"}`).Want(http.StatusOK)
	for i, r := range refused {
		if got := createBucket(r.key, r.body); got != withoutProjects[i] {
			t.Errorf("%s: response if the project exists =\n%s\nwant as if it does not\n%s",
				r.name, got, withoutProjects[i])
		}
	}
	// A project's default bucket can be created again.
	fx.Call(shopKey, "DELETE", bucketsPath+"/shop-production", "").Want(http.StatusNoContent)
	fx.Call(shopKey, "POST", bucketsPath, shopBucket).Want(http.StatusOK)
}

// TestProjectWithForeignBucketIsAConflict creates a project while another project's bucket has the name of its default
// bucket. Earlier releases could create such buckets. The creation must be a conflict until that bucket is deleted.
func TestProjectWithForeignBucketIsAConflict(t *testing.T) {
	for _, request := range []struct{ path, body string }{
		{"/v1/projects", `{"name":"victim"}`},
		{"/v1/deployments/sources", `{"accountName":"acme","projectName":"victim","branchName":"main"}`},
	} {
		s := newSquatterTest(t, 0)
		full, shop, victim := s.callers[0], s.callers[1], s.callers[3]
		s.createLegacyBucket(shop, "victim-production", `{"project":"shop","environmentType":"PRODUCTION"}`)
		for _, c := range []caller{full, victim} {
			s.call(c, "POST", request.path, request.body).Want(http.StatusConflict, "victim-production",
				"deleted", "another name")
		}
		s.Call(full.key, "GET", "/v1/projects", "").Want(http.StatusOK, `"total":0`)
		s.call(shop, "DELETE", "/v1/accounts/acme/key-buckets/victim-production", "").Want(http.StatusNoContent)
		s.call(victim, "POST", request.path, request.body).Want(http.StatusOK)
		s.Call(victim.key, "GET", "/v1/accounts/acme/key-buckets/victim-production", "").Want(http.StatusOK,
			`"project":"victim"`)
	}
}

// TestDeploymentUsesOnlyBucketsVisibleToDeployer checks that a build fails if its deployer cannot see a bucket that it
// names, or if the bucket does not serve the environment of the deployment.
func TestDeploymentUsesOnlyBucketsVisibleToDeployer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSquatterTest(t, 0)
		full, shop, previews := s.callers[0], s.callers[1], s.callers[2]
		const bucketsPath = "/v1/accounts/acme/key-buckets"
		for name, tags := range map[string]string{
			"of-the-account": `{}`, "of-shop": `{"project":"shop"}`,
			"of-previews": `{"project":"shop","environmentType":"PREVIEW"}`,
			"of-victim":   `{"project":"victim","environmentType":"PREVIEW"}`,
		} {
			s.call(full, "POST", bucketsPath, `{"name":"`+name+`","tags":`+tags+`}`).Want(http.StatusOK)
		}
		build := func(c caller, bucket, branch string) string {
			upload := s.call(c, "POST", "/v1/deployments/sources", `{"accountName":"acme","projectName":"shop","branchName":"`+
				branch+`"}`).Want(http.StatusOK).JSON()
			archive, err := functionstest.Pack(keyProject(`{"bucketName":"` + bucket + `"}`))
			if err != nil {
				t.Fatal(err)
			}
			s.Upload(upload.Text("uploadUrl"), archive)
			return s.Call(c.key, "GET", "/v1/accounts/acme/projects/shop/deployment-status/"+upload.Text("deploymentId"),
				"").Body
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
			if strings.HasPrefix(status, `{"status":"SUCCESS"`) != c.served ||
				!c.served && !(strings.Contains(status, `No key bucket \"`+c.bucket+`\"`) &&
					strings.Contains(status, `"path":"/policies/0/handler/options/bucketName"`)) {
				t.Errorf("%s deploys %s with the bucket %s, want served %v: %s", c.caller.name, c.branch, c.bucket,
					c.served, status)
			}
			if _, findings, ok := strings.Cut(status, `"errors":`); ok && !c.served {
				refusals = append(refusals, strings.NewReplacer(c.bucket, "BUCKET", "production environments", "KIND",
					"preview environments", "KIND").Replace(findings))
			}
		}
		if slices.Sort(refusals); len(slices.Compact(refusals)) != 1 {
			t.Errorf("refusals for hidden, missing and unserved buckets = %q, want one text", refusals)
		}
	})
}

// TestRecreatedBucketTakesEffectAtNextDeploy checks that keys of a recreated bucket are accepted only after the next
// deploy, because gateways identify buckets by their ids.
func TestRecreatedBucketTakesEffectAtNextDeploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSquatterTest(t, 0)
		shop := s.callers[1]
		const bucket = "/v1/accounts/acme/key-buckets/shop-production"
		address := s.call(shop, "POST", "/v1/deployments/sources",
			`{"accountName":"acme","projectName":"shop","branchName":"main"}`).Want(http.StatusOK).JSON().Text("uploadUrl")
		archive, err := functionstest.Pack(keyProject(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		s.Upload(address, archive)
		keyAccepted := func() bool {
			before := s.accepted
			s.check(t)
			return s.accepted > before
		}
		createKey := func() {
			s.recordKeys(shop, s.call(shop, "POST", bucket+"/consumers?with-api-key=true",
				`{"name":"alice"}`).Want(http.StatusOK))
		}
		createKey()
		if !keyAccepted() {
			t.Error("keyAccepted() for a key of the first bucket = false, want true")
		}
		s.call(shop, "DELETE", bucket, "").Want(http.StatusNoContent)
		s.call(shop, "POST", "/v1/accounts/acme/key-buckets",
			`{"name":"shop-production","tags":{"project":"shop","environmentType":"PRODUCTION"}}`).Want(http.StatusOK)
		createKey()
		if keyAccepted() {
			t.Error("keyAccepted() for a key of the recreated bucket = true before a deploy, want false")
		}
		name := s.Call(shop.key, "GET", "/v1/accounts/acme/projects/shop/deployments", "").JSON().Text("data.0.name")
		s.Finish(s.call(shop, "POST", "/v1/deployments/"+name+"/deploy", "").Want(http.StatusOK).JSON().Text("deploymentId"))
		if !keyAccepted() {
			t.Error("keyAccepted() for a key of the recreated bucket = false after a deploy, want true")
		}
	})
}
