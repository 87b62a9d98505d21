package builder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/builder"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	sharedinstallation "github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

func TestUploadedExampleIsServed(t *testing.T) {
	bubble(t, func(i *installation) {
		i.bucket()
		u := i.issue("main")
		if s := i.status(u.StatusID); s.Status != deployments.InProgress || s.URL != "" {
			i.Errorf("before the upload: %+v", s)
		}
		i.upload(u.StatusID, pack(i, example(i)))
		s := i.status(u.StatusID)
		if s.Status != deployments.Success || len(s.Errors)+len(s.Warnings) > 0 || s.BuildID != u.StatusID {
			i.Fatalf("status %+v", s)
		}
		for _, step := range []string{"download", "validate", "build", "deploy"} {
			if got := s.Steps[step]; got.Status != deployments.Success || got.FinishedOn == nil || got.StartedOn.IsZero() {
				i.Errorf("step %s: %+v", step, got)
			}
		}
		if len(s.Steps) != 4 {
			i.Errorf("%d steps", len(s.Steps))
		}
		a, err := i.served(s.URL)
		if err != nil {
			i.Fatal(err)
		}
		if len(a.Routes) != 3 || a.Identity.BuildID != u.StatusID || a.Identity.Environment != "production" || a.Identity.Project != "hello" {
			i.Errorf("artifact of %+v with %d routes", a.Identity, len(a.Routes))
		}
		if _, err := i.Objects.Head(i.Context(), blob.UploadKey(u.StatusID)); err == nil {
			i.Error("the upload is still there")
		}
	})
}

// TestSuccessMeansServed asks the gateway's resolver all the time: from the
// first moment of SUCCESS on it has to give what was deployed.
func TestSuccessMeansServed(t *testing.T) {
	bubble(t, func(i *installation) {
		first := i.deploy("main", pack(i, simple("https://one.example.com")))
		asked := make(chan struct{})
		ctx, stop := context.WithCancel(i.Context())
		go func() {
			defer close(asked)
			for ctx.Err() == nil {
				if _, err := i.served(first.URL); err != nil {
					i.Error(err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		for n := range 5 {
			s := i.deploy("main", pack(i, simple(fmt.Sprintf("https://n%d.example.com", n))))
			a, err := i.served(s.URL)
			if err != nil || a.Identity.BuildID != s.BuildID {
				i.Errorf("after SUCCESS of %s, %+v is served (%v)", s.BuildID, a, err)
			}
			time.Sleep(time.Duration(n) * 170 * time.Millisecond)
		}
		stop()
		<-asked
	})
}

func TestBadProjectKeepsWhatWasServed(t *testing.T) {
	bubble(t, func(i *installation) {
		good := i.deploy("main", pack(i, simple("https://one.example.com")))
		for name, body := range map[string][]byte{
			"not gzip":    []byte("text"),
			"truncated":   pack(i, simple("https://one.example.com"))[:60],
			"no routes":   pack(i, map[string]string{"package.json": "{}"}),
			"bad JSON":    pack(i, map[string]string{"config/routes.oas.json": "{"}),
			"bad OpenAPI": pack(i, map[string]string{"config/routes.oas.json": "{}"}),
			"bad handler": pack(i, map[string]string{"config/routes.oas.json": strings.ReplaceAll(simple("x")["config/routes.oas.json"], "urlForwardHandler", "nothing")}),
			"bad option":  pack(i, map[string]string{"config/routes.oas.json": strings.ReplaceAll(simple("x")["config/routes.oas.json"], "baseUrl", "baseURL")}),
			"unset":       pack(i, simple("$env(UPSTREAM)")),
		} {
			begun := time.Now()
			s := i.deploy("main", body)
			if s.Status != deployments.Failure || len(s.Errors) == 0 || s.URL != "" {
				i.Errorf("%s: %+v", name, s)
			}
			if took := time.Since(begun); took > 10*time.Second {
				i.Errorf("%s took %v of waiting", name, took)
			}
			if name == "unset" && !strings.Contains(s.Errors[0].Message, "UPSTREAM") {
				i.Errorf("%s: %+v", name, s.Errors)
			}
			a, err := i.served(good.URL)
			if err != nil || a.Identity.BuildID != good.BuildID {
				i.Errorf("%s: served is %+v (%v)", name, a, err)
			}
		}
		list, err := i.service.ListDeployments(i.ctx(), i.owner, "hello")
		if err != nil || len(list) != 1 || list[0].State != deployments.Started {
			i.Errorf("deployments %+v, error %v", list, err)
		}
	})
}

func TestSecondAndLateUploadsChangeNothing(t *testing.T) {
	bubble(t, func(i *installation) {
		u := i.issue("main")
		i.upload(u.StatusID, pack(i, simple("https://one.example.com")))
		before := i.status(u.StatusID)
		i.upload(u.StatusID, pack(i, simple("https://two.example.com")))
		late := i.issue("main")
		time.Sleep(15*time.Minute + time.Second)
		i.upload(late.StatusID, pack(i, simple("https://three.example.com")))
		i.upload(i.Parts.IDs.UUID(), []byte("without an address"))
		if after := i.status(u.StatusID); after.Status != before.Status || after.URL != before.URL {
			i.Errorf("status %+v, before %+v", after, before)
		}
		a, err := i.served(before.URL)
		if err != nil || !strings.Contains(string(a.Routes[0].Handler.Options), "one.example.com") {
			i.Errorf("served is %+v (%v)", a, err)
		}
		for o := range i.Objects.List(i.Context(), blob.UploadKey("")) {
			i.Errorf("%s is still there", o.Key)
		}
	})
}

// TestOtherObjectsEventLeavesTheClaimedOne has the events of two uploads to one
// address come in the wrong order: the one heard of first is built.
func TestOtherObjectsEventLeavesTheClaimedOne(t *testing.T) {
	bubble(t, func(i *installation) {
		u := i.issue("main")
		first := i.Objects.Upload(blob.UploadKey(u.StatusID), []byte("first"))
		second := i.Objects.Upload(blob.UploadKey(u.StatusID), pack(i, simple("https://two.example.com")))
		if _, err := i.service.Claim(i.Context(), deployments.Arrival{StatusID: u.StatusID, ETag: second.ETag, On: time.Now()}); err != nil {
			i.Fatal(err)
		}
		i.tell(first)
		i.tell(second)
		if s := i.status(u.StatusID); s.Status != deployments.Success {
			i.Errorf("status %+v", s)
		}
	})
}

func TestRedeployTakesNewVariables(t *testing.T) {
	bubble(t, func(i *installation) {
		body := pack(i, simple("$env(UPSTREAM)"))
		failed := i.deploy("main", body)
		i.set("UPSTREAM", "https://set.example.com")
		list, err := i.service.ListDeployments(i.ctx(), i.owner, "hello")
		if err != nil || len(list) != 1 || list[0].State != deployments.Failed {
			i.Fatalf("after %+v: deployments %+v, error %v", failed, list, err)
		}
		at := deployments.DeploymentAt{Owner: i.owner, Deployment: list[0].Name}
		for _, value := range []string{"https://set.example.com", "https://other.example.com"} {
			i.set("UPSTREAM", value)
			id, err := i.service.Redeploy(i.ctx(), at)
			if err != nil {
				i.Fatal(err)
			}
			if r, err := i.engine.Run(i.Context(), id); err != nil || r.Status != operation.Success {
				i.Fatalf("operation %+v, error %v", r, err)
			}
			s := i.status(id)
			a, err := i.served(s.URL)
			if err != nil || !strings.Contains(string(a.Routes[0].Handler.Options), value) || a.Identity.BuildID != id {
				i.Errorf("served is %+v (%v)", a, err)
			}
		}
	})
}

func TestDeletedDeploymentIsNotServedAndEmptied(t *testing.T) {
	bubble(t, func(i *installation) {
		s := i.deploy("main", pack(i, simple("https://one.example.com")))
		other := i.deploy("other", pack(i, simple("https://one.example.com")))
		a, err := i.served(s.URL)
		if err != nil {
			i.Fatal(err)
		}
		if err := i.service.DeleteDeployment(i.ctx(), deployments.DeploymentAt{Owner: i.owner, Deployment: a.Identity.Deployment}); err != nil {
			i.Fatal(err)
		}
		time.Sleep(deployments.Staleness)
		if _, err := i.served(s.URL); !fault.Is(err, fault.NotFound) {
			i.Errorf("the deleted deployment resolves: %v", err)
		}
		time.Sleep(time.Hour)
		if err := i.engine.Sweep(i.Context()); err != nil {
			i.Fatal(err)
		}
		left := 0
		for o := range i.Objects.List(i.Context(), "") {
			left++
			if strings.Contains(o.Key, a.Identity.Deployment) {
				i.Errorf("%s is still there", o.Key)
			}
		}
		if left != 2 {
			i.Errorf("%d objects are left, want the other deployment's source and artifact", left)
		}
		if _, err := i.served(other.URL); err != nil {
			i.Errorf("the other deployment: %v", err)
		}
	})
}

// TestOldBuildsAreRemovedFromTheBucket deploys often enough that the first
// builds can no longer be returned to.
func TestOldBuildsAreRemovedFromTheBucket(t *testing.T) {
	bubble(t, func(i *installation) {
		var last deployments.Status
		for n := range 9 {
			last = i.deploy("main", pack(i, simple(fmt.Sprintf("https://n%d.example.com", n))))
			time.Sleep(13 * time.Hour)
			if err := i.engine.Sweep(i.Context()); err != nil {
				i.Fatal(err)
			}
		}
		count := func(prefix string) (n int) {
			for range i.Objects.List(i.Context(), prefix) {
				n++
			}
			return n
		}
		// The served one and the five before it.
		if sources, artifacts := count("sources/"), count("artifacts/"); sources != 6 || artifacts != 6 {
			i.Errorf("%d sources and %d artifacts are left, want 6 each", sources, artifacts)
		}
		if _, err := i.served(last.URL); err != nil {
			i.Error(err)
		}
	})
}

// TestFailedBuildsAreCleanedUpAfter leaves what is served and the newest accepted
// sources, which a redeploy builds.
func TestFailedBuildsAreCleanedUpAfter(t *testing.T) {
	bubble(t, func(i *installation) {
		good := i.deploy("main", pack(i, simple("https://one.example.com")))
		time.Sleep(3 * time.Hour) // what cleans up after the good one comes too early
		for n := range 3 {
			i.deploy("main", pack(i, simple(fmt.Sprintf("$env(UNSET_%d)", n))))
		}
		for range 25 {
			time.Sleep(time.Hour)
			if err := i.engine.Sweep(i.Context()); err != nil {
				i.Fatal(err)
			}
		}
		var left []string
		for o := range i.Objects.List(i.Context(), "") {
			left = append(left, o.Key)
		}
		if len(left) != 3 {
			i.Errorf("left are %q, want two sources and an artifact", left)
		}
		if _, err := i.served(good.URL); err != nil {
			i.Error(err)
		}
	})
}

// cleaning has the cleaner pass whenever sources were stored.
type cleaning struct {
	sharedinstallation.Bucket
	pass func()
}

func (c cleaning) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	err := c.Bucket.Put(ctx, key, body)
	if strings.HasPrefix(key, blob.SourceKey("")) {
		c.pass()
	}
	return err
}

// TestSourcesUploadedAgainAreSparedByTheCleaner uploads an archive that an old
// build left behind, and has the cleaner pass before any record names it again.
func TestSourcesUploadedAgainAreSparedByTheCleaner(t *testing.T) {
	bubble(t, func(i *installation) {
		archive := pack(i, simple("$env(UPSTREAM)"))
		i.deploy("main", archive)
		i.deploy("main", pack(i, simple("$env(OTHER)")))
		list, err := i.service.ListDeployments(i.ctx(), i.owner, "hello")
		if err != nil {
			i.Fatal(err)
		}
		i.set("UPSTREAM", "https://set.example.com")
		time.Sleep(25*time.Hour - 10*time.Minute)
		passed := 0
		parts := i.Parts
		parts.Bucket = cleaning{i.Parts.Bucket, func() {
			passed++
			id := fmt.Sprintf("clean-%d", passed)
			err := i.Parts.Table.Commit(i.Context(), operation.Begin(operation.Start{
				ID: id, Kind: deployments.Clean, Input: deployments.CleanInput{Deployment: list[0].Name},
			}, time.Now()))
			if err != nil {
				i.Error(err)
			}
			if _, err := i.engine.Run(i.Context(), id); err != nil {
				i.Error(err)
			}
		}}
		handler, err := builder.New(parts)
		if err != nil {
			i.Fatal(err)
		}
		i.handle = handler.Handle
		if s := i.deploy("main", archive); s.Status != deployments.Success || passed == 0 {
			i.Errorf("status %+v, the cleaner has passed %d times", s, passed)
		}
	})
}

// TestFindingsRepeatNoVariable builds with values that no option takes: what is
// said about them is read by more people than the values are.
func TestFindingsRepeatNoVariable(t *testing.T) {
	bubble(t, func(i *installation) {
		i.issue("main") // which makes the project
		for _, value := range []string{
			"ftp://very-secret.example.com", "very-secret", "http://very-secret:99999999", "https://user:very-secret@example.com",
			"https://${very-secret}/", "http://very-secret.example.com/\x01", "https://very-secret.example.com?x=${env.}", " ",
		} {
			i.set("UPSTREAM", value)
			for _, project := range []map[string]string{
				simple("$env(UPSTREAM)"), simple("https://${env.UPSTREAM}/"), simple("${env.UPSTREAM}"),
				withPolicy(`"allowUnauthenticatedRequests": "$env(UPSTREAM)", "cacheTtlSeconds": "$env(UPSTREAM)", "authScheme": ["$env(UPSTREAM)"], "bucketName": "$env(UPSTREAM)"`),
				withPolicy(`"bucketName": "$env(UPSTREAM)"`), withPolicy(`"bucketId": "of-$env(UPSTREAM)"`),
				metered("mtr_$env(UPSTREAM)"), metered("$env(UPSTREAM)"), simple("service://$env(UPSTREAM)"), simple("service://${env.UPSTREAM}"),
			} {
				s := i.deploy("main", pack(i, project))
				told, err := json.Marshal([]any{s.Errors, s.Warnings, s.Steps})
				if err != nil {
					i.Fatal(err)
				}
				if strings.Contains(string(told), "very-secret") {
					i.Errorf("the value of UPSTREAM is told: %s", told)
				}
			}
		}
	})
}

// withPolicy is a project whose only route asks for keys with the options.
func withPolicy(options string) map[string]string {
	files := simple("https://one.example.com")
	files["config/routes.oas.json"] = strings.Replace(files["config/routes.oas.json"], `{"handler"`, `{"policies": {"inbound": ["key"]}, "handler"`, 1)
	files["config/policies.json"] = `{"policies": [{"name": "key", "policyType": "api-key-inbound", "handler": {"export": "ApiKeyInboundPolicy", "module": "$import(@gatewright/runtime)", "options": {` + options + `}}}]}`
	return files
}

// metered is a project whose only route counts in a metering bucket.
func metered(bucket string) map[string]string {
	return replacing(withPolicy(`"bucketId": "`+bucket+`", "meters": {"requests": 1}`), "api-key-inbound", "quota-inbound")
}

// replacing replaces a text in a project's policies.
func replacing(files map[string]string, old, with string) map[string]string {
	files["config/policies.json"] = strings.ReplaceAll(files["config/policies.json"], old, with)
	return files
}

// TestBuildNeedsTheMeteringBucketThatItCountsIn: without it, each request would be refused.
func TestBuildNeedsTheMeteringBucketThatItCountsIn(t *testing.T) {
	bubble(t, func(i *installation) {
		s := i.deploy("main", pack(i, metered("mtr_none")))
		if s.Status == deployments.Success || len(s.Errors) != 1 || !strings.Contains(s.Errors[0].Message, `no metering bucket "mtr_none"`) || s.Errors[0].Line == 0 || s.Errors[0].Column == 0 {
			i.Errorf("status %+v", s)
		}
		b, err := metering.Open(i.Parts).CreateBucket(store.Decide(i.ctx()), i.owner)
		if err != nil {
			i.Fatal(err)
		}
		if s := i.deploy("main", pack(i, metered(b.ID))); s.Status != deployments.Success {
			i.Errorf("status %+v", s)
		}
	})
}

// TestGitHubDescriptionIsDeployed builds the largest public description, with a
// route for each of its operations.
func TestGitHubDescriptionIsDeployed(t *testing.T) {
	simulations.Sequential(t)
	data, err := os.ReadFile("../../local/node_modules/@octokit/openapi/generated/api.github.com.json")
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the GitHub description is not there: npm ci --prefix local installs it")
	}
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	route := map[string]any{
		"handler":  map[string]any{"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": map[string]any{"baseUrl": "http://127.0.0.1:9002"}},
		"policies": map[string]any{"inbound": []string{"api-key"}},
	}
	paths, _ := doc["paths"].(map[string]any)
	for _, item := range paths {
		operations, _ := item.(map[string]any)
		for method, operation := range operations {
			if o, ok := operation.(map[string]any); ok && method != "parameters" {
				o["x-gateway-route"] = route
			}
		}
	}
	if data, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	body := pack(t, map[string]string{"config/routes.oas.json": string(data), "config/policies.json": example(t)["config/policies.json"]})
	begun := time.Now()
	bubble(t, func(i *installation) {
		i.bucket()
		s := i.deploy("main", body)
		if s.Status != deployments.Success {
			i.Fatalf("status %+v", s)
		}
		a, err := i.served(s.URL)
		if err != nil || len(a.Routes) != 1223 {
			i.Fatalf("artifact %v, error %v", a, err)
		}
	})
	t.Logf("built %d MB (%d kB packed) in %v of work", len(data)>>20, len(body)>>10, time.Since(begun).Round(time.Millisecond))
}

func TestEventsOfOtherKeysAreIgnored(t *testing.T) {
	bubble(t, func(i *installation) {
		o := i.Objects.Upload("sources/x", []byte("x"))
		i.tell(o)
		i.tell(blob.Object{Key: "uploads/%zz", ETag: "x"})
		if err := i.handle(i.Context(), events.S3Event{Records: []events.S3EventRecord{{EventName: "ObjectCreated:Put", S3: events.S3Entity{Object: events.S3Object{Key: "%zz"}}}}}); err != nil {
			i.Error(err)
		}
		if _, err := i.Objects.Head(i.Context(), o.Key); err != nil {
			i.Errorf("a source was removed: %v", err)
		}
	})
}
