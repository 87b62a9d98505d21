package deployments_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// setLimit sets the account's own value of a limit.
func (fx *fixture) setLimit(l limits.Limit, value int64) {
	fx.t.Helper()
	if err := counts.Open(fx.parts).Set(fx.requestContext(), account, l, value); err != nil {
		fx.t.Fatal(err)
	}
}

// requestUpload requests an upload address and checks the error: kind is the kind of the expected fault, 0 for no
// error.
func (fx *fixture) requestUpload(o auth.Owner, kind fault.Kind) deployments.Upload {
	fx.t.Helper()
	u, err := fx.IssueUpload(fx.requestContext(), deployments.UploadLocator{Owner: o, Project: "shop", Branch: "main"})
	if kind == 0 && err != nil || kind != 0 && !fault.Is(err, kind) {
		fx.t.Fatalf("IssueUpload() error = %v, want kind %v (0: no error)", err, kind)
	}
	return u
}

// TestConcurrentBuildsOfAccountAreLimited checks that an upload is counted until its build ends or its address expires.
// Builds end in four ways: they are served, are superseded, fail, or fail after the deletion of their deployment. The
// limit does not affect another account.
func TestConcurrentBuildsOfAccountAreLimited(t *testing.T) {
	fx := newFixture(t)
	fx.setLimit(limits.Builds, 2)
	first, second := fx.requestUpload(fullOwner(), 0), fx.requestUpload(fullOwner(), 0)
	_, err := fx.IssueUpload(fx.requestContext(), deployments.UploadLocator{
		Owner: fullOwner(), Project: "shop",
		Branch: "other",
	})
	const wantPublic = "The account has 2 builds and open upload addresses, and its limit builds is 2. " +
		"Repeat the request after the time in Retry-After."
	if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.Throttled {
		t.Errorf("third IssueUpload() error = %v, want %v", err, fault.Throttled)
	} else if f.RetryAfter != 10*time.Second || f.Public != wantPublic {
		t.Errorf("third IssueUpload() error = %q, Retry-After %s, want %q, 10s", f.Public, f.RetryAfter, wantPublic)
	}
	fx.requestUpload(otherOwner(), 0)

	a, b := fx.claimArrival(fx.uploadArchive(first, "first")), fx.claimArrival(fx.uploadArchive(second, "second"))
	fx.advance(59 * time.Minute) // longer than an upload address is valid
	fx.requestUpload(fullOwner(), fault.Throttled)
	fx.serve(b)
	third := fx.requestUpload(fullOwner(), 0)
	fx.requestUpload(fullOwner(), fault.Throttled)
	fx.commit(deployments.Superseded(t.Context(), fx.table, a, fx.now()))
	c := fx.claimArrival(fx.uploadArchive(third, "third"))
	fx.commit(deployments.Fail(t.Context(), fx.table, c, fx.now()))

	at := deployments.DeploymentLocator{Owner: fullOwner(), Deployment: b.Deployment}
	redeployed, err := fx.Redeploy(fx.requestContext(), at)
	if err != nil {
		t.Fatal(err)
	}
	fx.requestUpload(fullOwner(), 0) // this address stays unused
	if _, err := fx.Redeploy(fx.requestContext(), at); !fault.Is(err, fault.Throttled) {
		t.Errorf("Redeploy() during two builds: error = %v, want %v", err, fault.Throttled)
	}
	fx.advance(21 * time.Minute)
	fx.requestUpload(fullOwner(), 0)
	fx.requestUpload(fullOwner(), fault.Throttled)

	if err := fx.DeleteDeployment(fx.requestContext(), at); err != nil {
		t.Fatal(err)
	}
	fx.commit(deployments.Fail(t.Context(), fx.table, fx.input(redeployed), fx.now())) // its deployment was deleted
	fx.requestUpload(fullOwner(), 0)
	fx.requestUpload(fullOwner(), fault.Throttled)
}

// TestProjectAndEnvironmentLimitsAreExact creates projects and environments in each way: explicitly, by an upload, and
// again after the deletion of a branch's deployment.
func TestProjectAndEnvironmentLimitsAreExact(t *testing.T) {
	fx := newFixture(t)
	fx.setLimit(limits.Projects, 2)
	fx.setLimit(limits.Environments, 3)
	checkKind := func(err error, kind fault.Kind) {
		t.Helper()
		if kind == 0 && err != nil || kind != 0 && !fault.Is(err, kind) {
			t.Fatalf("error = %v, want kind %v (0: no error)", err, kind)
		}
	}
	createProject := func(name string) error {
		_, err := fx.CreateProject(fx.requestContext(), fullOwner(), name)
		return err
	}
	createEnvironment := func(project, branch string) error {
		_, err := fx.CreateEnvironment(fx.requestContext(), fullOwner(), project, branch, environment.ForBranch(branch))
		return err
	}
	upload := func(project, branch string) error {
		_, err := fx.IssueUpload(fx.requestContext(), deployments.UploadLocator{
			Owner: fullOwner(), Project: project,
			Branch: branch,
		})
		return err
	}
	checkKind(createProject("one"), 0)
	checkKind(upload("two", "main"), 0)
	checkKind(createProject("three"), fault.Forbidden)
	checkKind(upload("three", "main"), fault.Forbidden)
	checkKind(createProject("one"), fault.Forbidden) // the limit is checked before the name
	checkKind(createEnvironment("one", "main"), 0)
	checkKind(upload("one", "a"), 0)
	checkKind(upload("one", "b"), fault.Forbidden)
	checkKind(createEnvironment("two", "b"), fault.Forbidden)
	for n := range 2 { // the deletion of a deployment also deletes its environment
		in := fx.claimNew("one", []string{"a", "c0"}[n], fmt.Sprint("archive ", n))
		fx.serve(in)
		checkKind(fx.DeleteDeployment(fx.requestContext(),
			deployments.DeploymentLocator{Owner: fullOwner(), Deployment: in.Deployment}), 0)
		checkKind(upload("one", fmt.Sprint("c", n)), 0)
		checkKind(createEnvironment("two", "b"), fault.Forbidden)
	}
	fx.setLimit(limits.Environments, 1) // a lower limit does not delete environments
	checkKind(upload("two", "main"), 0)
	checkKind(upload("two", "b"), fault.Forbidden)
	if envs, err := fx.ListEnvironments(fx.requestContext(), fullOwner(), "one"); err != nil || len(envs) != 2 {
		t.Errorf("ListEnvironments(one) = %+v, %v, want 2 and no error", envs, err)
	}
}

// TestDailyDeploymentLimitIsExact checks that upload addresses and redeploys are counted, and that the Retry-After of a
// refusal ends with the day.
func TestDailyDeploymentLimitIsExact(t *testing.T) {
	fx := newFixture(t)
	fx.setLimit(limits.Deployments, 3)
	in := fx.claimArrival(fx.uploadArchive(fx.requestUpload(fullOwner(), 0), "first"))
	fx.serve(in)
	at := deployments.DeploymentLocator{Owner: fullOwner(), Deployment: in.Deployment}
	if _, err := fx.Redeploy(fx.requestContext(), at); err != nil {
		t.Fatal(err)
	}
	fx.requestUpload(fullOwner(), 0)
	fx.requestUpload(otherOwner(), 0)
	_, err := fx.Redeploy(fx.requestContext(), at)
	tomorrow := fx.now().Truncate(24 * time.Hour).Add(24 * time.Hour)
	if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.Throttled {
		t.Errorf("fourth deployment of the day: error = %v, want %v", err, fault.Throttled)
	} else if late := f.RetryAfter - tomorrow.Sub(fx.now()); late < 0 || late >= time.Second {
		t.Errorf("fourth deployment of the day: Retry-After = %s, want %s or less than a second more",
			f.RetryAfter, tomorrow.Sub(fx.now()))
	}
	fx.requestUpload(fullOwner(), fault.Throttled)
	fx.advance(tomorrow.Sub(fx.now()))
	fx.requestUpload(fullOwner(), 0)
}
