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
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/blob"
	sharedinstallation "github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/metering"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

func TestUploadedExampleIsServed(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		fx.createBucket()
		u := fx.issueUpload("main")
		if s := fx.status(u.StatusID); s.Status != deployments.InProgress || s.URL != "" {
			fx.Errorf("status before the upload = %+v, want %v without a URL", s, deployments.InProgress)
		}
		fx.upload(u.StatusID, pack(fx, exampleProject(fx)))
		s := fx.status(u.StatusID)
		if s.Status != deployments.Success || len(s.Errors)+len(s.Warnings) > 0 || s.BuildID != u.StatusID {
			fx.Fatalf("status = %+v, want %v of build %s without findings", s, deployments.Success, u.StatusID)
		}
		for _, step := range []string{"download", "validate", "build", "deploy"} {
			if got := s.Steps[step]; got.Status != deployments.Success || got.FinishedOn == nil || got.StartedOn.IsZero() {
				fx.Errorf("step %s = %+v, want %v with both times", step, got, deployments.Success)
			}
		}
		if len(s.Steps) != 4 {
			fx.Errorf("number of steps = %d, want 4", len(s.Steps))
		}
		a, err := fx.served(s.URL)
		if err != nil {
			fx.Fatal(err)
		}
		if len(a.Routes) != 3 || a.Identity.BuildID != u.StatusID || a.Identity.Environment != "production" ||
			a.Identity.Project != "hello" {
			fx.Errorf("artifact = %+v with %d routes, want build %s of hello in production with 3",
				a.Identity, len(a.Routes), u.StatusID)
		}
		if _, err := fx.Objects.Head(fx.Context(), blob.UploadKey(u.StatusID)); err == nil {
			fx.Errorf("Head(upload of %s) error = none, want an error", u.StatusID)
		}
	})
}

// TestSuccessfulBuildIsServed calls the gateway's resolver every 10 ms while builds run. Each call must succeed. As
// soon as the status of a build is SUCCESS, the resolver must return this build.
func TestSuccessfulBuildIsServed(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		first := fx.deploy("main", pack(fx, simpleProject("https://one.example.com")))
		done := make(chan struct{})
		ctx, stop := context.WithCancel(fx.Context())
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				if _, err := fx.served(first.URL); err != nil {
					fx.Errorf("served(%s) during builds: error = %v, want none", first.URL, err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		for n := range 5 {
			s := fx.deploy("main", pack(fx, simpleProject(fmt.Sprintf("https://n%d.example.com", n))))
			a, err := fx.served(s.URL)
			if err != nil || a.Identity.BuildID != s.BuildID {
				fx.Errorf("served(%s) = %+v, %v, want build %s", s.URL, a, err, s.BuildID)
			}
			time.Sleep(time.Duration(n) * 170 * time.Millisecond)
		}
		stop()
		<-done
	})
}

func TestFailedBuildKeepsServedDeployment(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		servedStatus := fx.deploy("main", pack(fx, simpleProject("https://one.example.com")))
		for name, body := range map[string][]byte{
			"not gzip":    []byte("text"),
			"truncated":   pack(fx, simpleProject("https://one.example.com"))[:60],
			"no routes":   pack(fx, map[string]string{"package.json": "{}"}),
			"bad JSON":    pack(fx, map[string]string{"config/routes.oas.json": "{"}),
			"bad OpenAPI": pack(fx, map[string]string{"config/routes.oas.json": "{}"}),
			"bad handler": pack(fx,
				map[string]string{"config/routes.oas.json": strings.ReplaceAll(simpleProject("x")["config/routes.oas.json"],
					"urlForwardHandler", "nothing")}),
			"bad option": pack(fx,
				map[string]string{"config/routes.oas.json": strings.ReplaceAll(simpleProject("x")["config/routes.oas.json"],
					"baseUrl", "baseURL")}),
			"unset variable": pack(fx, simpleProject("$env(UPSTREAM)")),
		} {
			start := time.Now()
			s := fx.deploy("main", body)
			if s.Status != deployments.Failure || len(s.Errors) == 0 || s.URL != "" {
				fx.Errorf("%s: status = %+v, want %v with errors and no URL", name, s, deployments.Failure)
			}
			if elapsed := time.Since(start); elapsed > 10*time.Second {
				fx.Errorf("%s: duration of the build = %v, want at most 10s", name, elapsed)
			}
			if name == "unset variable" && !strings.Contains(s.Errors[0].Message, "UPSTREAM") {
				fx.Errorf("%s: errors = %+v, want UPSTREAM in the first", name, s.Errors)
			}
			a, err := fx.served(servedStatus.URL)
			if err != nil || a.Identity.BuildID != servedStatus.BuildID {
				fx.Errorf("%s: served(%s) = %+v, %v, want build %s", name, servedStatus.URL, a, err, servedStatus.BuildID)
			}
		}
		list, err := fx.service.ListDeployments(fx.ctx(), fx.owner, "hello")
		if err != nil || len(list) != 1 || list[0].State != deployments.Started {
			fx.Errorf("ListDeployments() = %+v, %v, want 1 in state %v", list, err, deployments.Started)
		}
	})
}

func TestSecondAndExpiredUploadsAreIgnored(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		u := fx.issueUpload("main")
		fx.upload(u.StatusID, pack(fx, simpleProject("https://one.example.com")))
		before := fx.status(u.StatusID)
		fx.upload(u.StatusID, pack(fx, simpleProject("https://two.example.com")))
		expired := fx.issueUpload("main")
		time.Sleep(15*time.Minute + time.Second)
		fx.upload(expired.StatusID, pack(fx, simpleProject("https://three.example.com")))
		fx.upload(fx.Parts.IDs.UUID(), []byte("without an address"))
		if after := fx.status(u.StatusID); after.Status != before.Status || after.URL != before.URL {
			fx.Errorf("status after more uploads = %+v, want %+v", after, before)
		}
		a, err := fx.served(before.URL)
		if err != nil || !strings.Contains(string(a.Routes[0].Handler.Options), "one.example.com") {
			fx.Errorf("served(%s) = %+v, %v, want the artifact for one.example.com", before.URL, a, err)
		}
		for o := range fx.Objects.List(fx.Context(), blob.UploadKey("")) {
			fx.Errorf("the upload %s exists, want none", o.Key)
		}
	})
}

// TestEventOfOtherObjectKeepsClaimedUpload claims the second of two uploads to one address, and then delivers the
// events of both. The build must use the claimed upload.
func TestEventOfOtherObjectKeepsClaimedUpload(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		u := fx.issueUpload("main")
		first := fx.Objects.Upload(blob.UploadKey(u.StatusID), []byte("first"))
		second := fx.Objects.Upload(blob.UploadKey(u.StatusID), pack(fx, simpleProject("https://two.example.com")))
		if _, err := fx.service.Claim(fx.Context(), deployments.Arrival{
			StatusID: u.StatusID, ETag: second.ETag,
			UploadedOn: time.Now(),
		}); err != nil {
			fx.Fatal(err)
		}
		fx.notify(first)
		fx.notify(second)
		if s := fx.status(u.StatusID); s.Status != deployments.Success {
			fx.Errorf("status = %+v, want %v", s, deployments.Success)
		}
	})
}

func TestRedeployUsesNewVariables(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		body := pack(fx, simpleProject("$env(UPSTREAM)"))
		firstStatus := fx.deploy("main", body)
		fx.setVariable("UPSTREAM", "https://set.example.com")
		list, err := fx.service.ListDeployments(fx.ctx(), fx.owner, "hello")
		if err != nil || len(list) != 1 || list[0].State != deployments.Failed {
			fx.Fatalf("ListDeployments() after %+v = %+v, %v, want 1 in state %v",
				firstStatus, list, err, deployments.Failed)
		}
		deployment := deployments.DeploymentLocator{Owner: fx.owner, Deployment: list[0].Name}
		for _, value := range []string{"https://set.example.com", "https://other.example.com"} {
			fx.setVariable("UPSTREAM", value)
			id, err := fx.service.Redeploy(fx.ctx(), deployment)
			if err != nil {
				fx.Fatal(err)
			}
			if r, err := fx.engine.Run(fx.Context(), id); err != nil || r.Status != operation.Success {
				fx.Fatalf("Run(%s) = %+v, %v, want %v", id, r, err, operation.Success)
			}
			s := fx.status(id)
			a, err := fx.served(s.URL)
			if err != nil || !strings.Contains(string(a.Routes[0].Handler.Options), value) || a.Identity.BuildID != id {
				fx.Errorf("served(%s) = %+v, %v, want build %s with %s", s.URL, a, err, id, value)
			}
		}
	})
}

func TestDeletedDeploymentIsRemoved(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		s := fx.deploy("main", pack(fx, simpleProject("https://one.example.com")))
		otherStatus := fx.deploy("other", pack(fx, simpleProject("https://one.example.com")))
		a, err := fx.served(s.URL)
		if err != nil {
			fx.Fatal(err)
		}
		if err := fx.service.DeleteDeployment(fx.ctx(), deployments.DeploymentLocator{
			Owner:      fx.owner,
			Deployment: a.Identity.Deployment,
		}); err != nil {
			fx.Fatal(err)
		}
		time.Sleep(deployments.Staleness)
		if _, err := fx.served(s.URL); !fault.Is(err, fault.NotFound) {
			fx.Errorf("served(%s) after the deletion: error = %v, want NotFound", s.URL, err)
		}
		time.Sleep(time.Hour)
		if err := fx.engine.Sweep(fx.Context()); err != nil {
			fx.Fatal(err)
		}
		remaining := 0
		for o := range fx.Objects.List(fx.Context(), "") {
			remaining++
			if strings.Contains(o.Key, a.Identity.Deployment) {
				fx.Errorf("object %s exists, want none of %s", o.Key, a.Identity.Deployment)
			}
		}
		if remaining != 2 {
			fx.Errorf("%d objects are left, want the other deployment's source and artifact", remaining)
		}
		if _, err := fx.served(otherStatus.URL); err != nil {
			fx.Errorf("served artifact of the other deployment: error = %v, want none", err)
		}
	})
}

// TestOldBuildsAreRemovedFromTheBucket deploys more builds than a rollback can choose, and checks that the objects of
// the oldest builds are removed.
func TestOldBuildsAreRemovedFromTheBucket(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		var last deployments.Status
		for n := range 9 {
			last = fx.deploy("main", pack(fx, simpleProject(fmt.Sprintf("https://n%d.example.com", n))))
			time.Sleep(13 * time.Hour)
			if err := fx.engine.Sweep(fx.Context()); err != nil {
				fx.Fatal(err)
			}
		}
		count := func(prefix string) (n int) {
			for range fx.Objects.List(fx.Context(), prefix) {
				n++
			}
			return n
		}
		// The served build and the five builds before it stay.
		if sources, artifacts := count("sources/"), count("artifacts/"); sources != 6 || artifacts != 6 {
			fx.Errorf("%d sources and %d artifacts are left, want 6 each", sources, artifacts)
		}
		if _, err := fx.served(last.URL); err != nil {
			fx.Errorf("served(%s) error = %v, want the last build", last.URL, err)
		}
	})
}

// TestFailedBuildsAreCleanedUp checks that sweeps remove the objects of failed builds, but not those of the served
// build, and not the newest accepted sources, which a redeploy builds.
func TestFailedBuildsAreCleanedUp(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		servedStatus := fx.deploy("main", pack(fx, simpleProject("https://one.example.com")))
		time.Sleep(3 * time.Hour) // the cleaner after the successful build runs too early to remove the failed builds
		for n := range 3 {
			fx.deploy("main", pack(fx, simpleProject(fmt.Sprintf("$env(UNSET_%d)", n))))
		}
		for range 25 {
			time.Sleep(time.Hour)
			if err := fx.engine.Sweep(fx.Context()); err != nil {
				fx.Fatal(err)
			}
		}
		var remaining []string
		for o := range fx.Objects.List(fx.Context(), "") {
			remaining = append(remaining, o.Key)
		}
		if len(remaining) != 3 {
			fx.Errorf("remaining objects = %q, want two sources and an artifact", remaining)
		}
		if _, err := fx.served(servedStatus.URL); err != nil {
			fx.Errorf("served(%s) error = %v, want the successful build", servedStatus.URL, err)
		}
	})
}

// cleaningBucket runs the cleaner each time after sources were stored.
type cleaningBucket struct {
	sharedinstallation.Bucket
	clean func()
}

func (c cleaningBucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	err := c.Bucket.Put(ctx, key, body)
	if strings.HasPrefix(key, blob.SourceKey("")) {
		c.clean()
	}
	return err
}

// TestReuploadedSourcesAreNotCleaned uploads an archive again whose sources are still in the bucket from an old build.
// It runs the cleaner before a record names the sources again. The cleaner must keep them.
func TestReuploadedSourcesAreNotCleaned(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		archive := pack(fx, simpleProject("$env(UPSTREAM)"))
		fx.deploy("main", archive)
		fx.deploy("main", pack(fx, simpleProject("$env(OTHER)")))
		list, err := fx.service.ListDeployments(fx.ctx(), fx.owner, "hello")
		if err != nil {
			fx.Fatal(err)
		}
		fx.setVariable("UPSTREAM", "https://set.example.com")
		time.Sleep(25*time.Hour - 10*time.Minute)
		cleanings := 0
		parts := fx.Parts
		parts.Bucket = cleaningBucket{fx.Parts.Bucket, func() {
			cleanings++
			id := fmt.Sprintf("clean-%d", cleanings)
			err := fx.Parts.Table.Commit(fx.Context(), operation.Create(operation.Start{
				ID: id, Kind: deployments.Clean, Input: deployments.CleanInput{Deployment: list[0].Name},
			}, time.Now()))
			if err != nil {
				fx.Error(err)
			}
			if _, err := fx.engine.Run(fx.Context(), id); err != nil {
				fx.Error(err)
			}
		}}
		handler, err := builder.New(parts)
		if err != nil {
			fx.Fatal(err)
		}
		fx.handle = handler.Handle
		if s := fx.deploy("main", archive); s.Status != deployments.Success || cleanings == 0 {
			fx.Errorf("status = %+v after %d cleanings, want %v after 1 or more", s, cleanings, deployments.Success)
		}
	})
}

// TestFindingsContainNoVariableValues builds with values of variables that options refuse. The findings must not
// contain the values, because more people can read findings than variables.
func TestFindingsContainNoVariableValues(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		fx.issueUpload("main") // to create the project
		for _, value := range []string{
			"ftp://very-secret.example.com", "very-secret", "http://very-secret:99999999",
			"https://user:very-secret@example.com",
			"https://${very-secret}/", "http://very-secret.example.com/\x01", "https://very-secret.example.com?x=${env.}", " ",
		} {
			fx.setVariable("UPSTREAM", value)
			for _, project := range []map[string]string{
				simpleProject("$env(UPSTREAM)"), simpleProject("https://${env.UPSTREAM}/"), simpleProject("${env.UPSTREAM}"),
				withPolicy(`"allowUnauthenticatedRequests": "$env(UPSTREAM)", "cacheTtlSeconds": "$env(UPSTREAM)", ` +
					`"authScheme": ["$env(UPSTREAM)"], "bucketName": "$env(UPSTREAM)"`),
				withPolicy(`"bucketName": "$env(UPSTREAM)"`), withPolicy(`"bucketId": "of-$env(UPSTREAM)"`),
				withMetering("mtr_$env(UPSTREAM)"), withMetering("$env(UPSTREAM)"), simpleProject("service://$env(UPSTREAM)"),
				simpleProject("service://${env.UPSTREAM}"),
			} {
				s := fx.deploy("main", pack(fx, project))
				text, err := json.Marshal([]any{s.Errors, s.Warnings, s.Steps})
				if err != nil {
					fx.Fatal(err)
				}
				if strings.Contains(string(text), "very-secret") {
					fx.Errorf("findings = %s, want no value of UPSTREAM", text)
				}
			}
		}
	})
}

// withPolicy returns a project whose only route requires API keys, with these options for the policy.
func withPolicy(options string) map[string]string {
	files := simpleProject("https://one.example.com")
	files["config/routes.oas.json"] = strings.Replace(files["config/routes.oas.json"], `{"handler"`,
		`{"policies": {"inbound": ["key"]}, "handler"`, 1)
	files["config/policies.json"] = `{"policies": [{"name": "key", "policyType": "api-key-inbound", ` +
		`"handler": {"export": "ApiKeyInboundPolicy", "module": "$import(@gatewright/runtime)", ` +
		`"options": {` + options + `}}}]}`
	return files
}

// withMetering returns a project whose only route counts requests in a metering bucket.
func withMetering(bucket string) map[string]string {
	return replaceInPolicies(withPolicy(`"bucketId": "`+bucket+`", "meters": {"requests": 1}`), "api-key-inbound",
		"quota-inbound")
}

// replaceInPolicies replaces a text in a project's policies.
func replaceInPolicies(files map[string]string, old, replacement string) map[string]string {
	files["config/policies.json"] = strings.ReplaceAll(files["config/policies.json"], old, replacement)
	return files
}

// TestBuildNeedsItsMeteringBucket checks that a build fails if a metering bucket that it names does not exist.
// Otherwise the gateway would refuse every request.
func TestBuildNeedsItsMeteringBucket(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		s := fx.deploy("main", pack(fx, withMetering("mtr_none")))
		if s.Status == deployments.Success || len(s.Errors) != 1 {
			fx.Fatalf("status = %+v, want a failure with 1 error", s)
		}
		if e := s.Errors[0]; !strings.Contains(e.Message, `no metering bucket "mtr_none"`) || e.Line == 0 || e.Column == 0 {
			fx.Errorf("error = %+v, want no metering bucket \"mtr_none\" with a line and a column", e)
		}
		b, err := metering.Open(fx.Parts).CreateBucket(store.WithReadSet(fx.ctx()), fx.owner)
		if err != nil {
			fx.Fatal(err)
		}
		if s := fx.deploy("main", pack(fx, withMetering(b.ID))); s.Status != deployments.Success {
			fx.Errorf("status with the bucket %s = %+v, want %v", b.ID, s, deployments.Success)
		}
	})
}

// TestGitHubDescriptionIsDeployed builds GitHub's OpenAPI description, a very large one, with a route for each of its
// operations.
func TestGitHubDescriptionIsDeployed(t *testing.T) {
	simulations.SkipUnderRace(t)
	data, err := os.ReadFile("../../local/dev/node_modules/@octokit/openapi/generated/api.github.com.json")
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the GitHub description is not there: npm ci --prefix local/dev installs it")
	}
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	route := map[string]any{
		"handler": map[string]any{
			"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)",
			"options": map[string]any{"baseUrl": "http://127.0.0.1:9002"},
		},
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
	body := pack(t, map[string]string{
		"config/routes.oas.json": string(data),
		"config/policies.json":   exampleProject(t)["config/policies.json"],
	})
	start := time.Now()
	inBubble(t, func(fx *fixture) {
		fx.createBucket()
		s := fx.deploy("main", body)
		if s.Status != deployments.Success {
			fx.Fatalf("status = %+v, want %v", s, deployments.Success)
		}
		a, err := fx.served(s.URL)
		if err != nil || len(a.Routes) != 1223 {
			fx.Fatalf("served(%s) = %v, %v, want 1223 routes", s.URL, a, err)
		}
	})
	t.Logf("built %d MB (%d kB packed) in %v of work", len(data)>>20, len(body)>>10,
		time.Since(start).Round(time.Millisecond))
}

func TestEventsOfOtherKeysAreIgnored(t *testing.T) {
	inBubble(t, func(fx *fixture) {
		o := fx.Objects.Upload("sources/x", []byte("x"))
		fx.notify(o)
		fx.notify(blob.Object{Key: "uploads/%zz", ETag: "x"})
		if err := fx.handle(fx.Context(),
			events.S3Event{Records: []events.S3EventRecord{{
				EventName: "ObjectCreated:Put",
				S3:        events.S3Entity{Object: events.S3Object{Key: "%zz"}},
			}}}); err != nil {
			fx.Errorf("Handle(event with the key %%zz) error = %v, want none", err)
		}
		if _, err := fx.Objects.Head(fx.Context(), o.Key); err != nil {
			fx.Errorf("Head(sources) error = %v, want none", err)
		}
	})
}
