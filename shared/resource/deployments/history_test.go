package deployments_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// fakeCertificates implements deployments.Certificates for builds without certificates. If deleted is true, it reports
// a deleted certificate.
type fakeCertificates struct{ deleted bool }

// ServingWrites implements deployments.Certificates.
func (c fakeCertificates) ServingWrites(
	context.Context, string, string, environment.Kind, []string,
) ([]store.Write, bool, error) {
	return nil, !c.deleted, nil
}

// TestRollbackToDeletedCertificateIsRefused checks that a rollback is refused if a certificate of the earlier build
// was deleted. Otherwise the build would present a certificate to upstreams that its owner has deleted.
func TestRollbackToDeletedCertificateIsRefused(t *testing.T) {
	fx := newFixture(t)
	fx.buildAndServe("1")
	second := fx.buildAndServe("2")
	_, err := fx.Rollback(fx.requestContext(), deploymentAt(second), "", fakeCertificates{deleted: true})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("Rollback() to a deleted certificate: error = %v, want %v that mentions the certificate",
			err, fault.Conflict)
	}
	if r := fx.record(second.Deployment); r.Served.BuildID != second.StatusID {
		t.Errorf("served build = %s, want %s", r.Served.BuildID, second.StatusID)
	}
}

// deploymentAt identifies the deployment of a build, for the owner of the deployment.
func deploymentAt(in deployments.BuildInput) deployments.DeploymentLocator {
	return deployments.DeploymentLocator{Owner: fullOwner(), Deployment: in.Deployment}
}

// buildAndServe uploads an archive to the branch main of the project shop, builds it and serves the build.
func (fx *fixture) buildAndServe(body string) deployments.BuildInput {
	fx.t.Helper()
	in := fx.claimNew("shop", "main", body)
	fx.serve(in)
	return in
}

func (fx *fixture) rollback(in deployments.BuildInput, buildID string) {
	fx.t.Helper()
	if _, err := fx.Rollback(fx.requestContext(), deploymentAt(in), buildID, fakeCertificates{}); err != nil {
		fx.t.Fatal(err)
	}
}

// history returns the ids of the builds in a deployment's history, by state.
func (fx *fixture) history(in deployments.BuildInput) (ids map[deployments.BuildState][]string) {
	fx.t.Helper()
	all, err := fx.History(fx.requestContext(), deploymentAt(in))
	if err != nil {
		fx.t.Fatal(err)
	}
	ids = map[deployments.BuildState][]string{}
	for _, b := range all {
		ids[b.State] = append(ids[b.State], b.BuildID)
	}
	return ids
}

func TestRollbackServesPreviousBuild(t *testing.T) {
	fx := newFixture(t)
	first, second, third := fx.buildAndServe("1"), fx.buildAndServe("2"), fx.buildAndServe("3")
	checkHistory := func(live string, previous ...string) {
		t.Helper()
		r := fx.record(first.Deployment)
		if r.Served.BuildID != live || r.Served.Artifact != first.Deployment+"/artifact-"+live ||
			r.Source != r.Served.Source {
			t.Errorf("served = %+v, source = %s, want build %s with its artifact, and its source", r.Served, r.Source, live)
		}
		if h := fx.history(first); h[deployments.Live][0] != live || !slices.Equal(h[deployments.Previous], previous) {
			t.Errorf("history = %v, want live %s and previous %v", h, live, previous)
		}
	}
	checkHistory(third.StatusID, second.StatusID, first.StatusID)
	fx.rollback(first, "")
	checkHistory(second.StatusID, third.StatusID, first.StatusID)
	fx.rollback(first, "")
	checkHistory(third.StatusID, second.StatusID, first.StatusID)
	fx.rollback(first, first.StatusID)
	checkHistory(first.StatusID, third.StatusID, second.StatusID)
	if d, err := fx.ReadDeployment(fx.requestContext(), deploymentAt(first)); err != nil ||
		d.State != deployments.Started || !d.UpdatedOn.Equal(fx.now()) {
		t.Errorf("ReadDeployment() = %+v, %v, want %s, updated on %s", d, err, deployments.Started, fx.now())
	}
}

func TestInvalidRollbacksAreRefused(t *testing.T) {
	fx := newFixture(t)
	in := fx.claimNew("shop", "main", "1")
	checkRefused := func(buildID string, kind fault.Kind, text string) {
		t.Helper()
		_, err := fx.Rollback(fx.requestContext(), deploymentAt(in), buildID, fakeCertificates{})
		if !fault.Is(err, kind) || !strings.Contains(err.Error(), text) {
			t.Errorf("Rollback(%q) error = %v, want %v with the text %q", buildID, err, kind, text)
		}
	}
	checkRefused("", fault.Conflict, "no earlier build")
	checkRefused(in.StatusID, fault.NotFound, "build")
	fx.serve(in)
	checkRefused("", fault.Conflict, "no earlier build")
	checkRefused(in.StatusID, fault.Conflict, "served already")
	for i := range 6 {
		fx.buildAndServe(fmt.Sprint(i))
	}
	checkRefused(in.StatusID, fault.Conflict, "is gone")
	other := fx.claimNew("shop", "other", "1")
	checkRefused(other.StatusID, fault.NotFound, "build")
	deleted := deploymentAt(in)
	if err := fx.DeleteDeployment(fx.requestContext(), deleted); err != nil {
		t.Fatal(err)
	}
	checkRefused("", fault.NotFound, "deployment")
}

// TestHistoryIsBounded checks how many builds the history lists, and that only the objects of the live and previous
// builds are needed.
func TestHistoryIsBounded(t *testing.T) {
	fx := newFixture(t)
	var all []deployments.BuildInput
	for i := range 30 {
		all = append(all, fx.buildAndServe(fmt.Sprint(i)))
	}
	h, r := fx.history(all[0]), fx.record(all[0].Deployment)
	if len(h[deployments.Live]) != 1 || len(h[deployments.Previous]) != 5 || len(h[deployments.Gone]) != 20 {
		t.Errorf("history = %v, want 1 live, 5 previous and 20 gone builds", h)
	}
	for i, in := range all {
		artifact, source := in.Deployment+"/artifact-"+in.StatusID, in.Deployment+"/source-"+in.StatusID
		if retained := i >= len(all)-6; r.Needed(artifact) != retained || r.Needed(source) != retained {
			t.Errorf("build %d of %d: artifact needed %t, sources needed %t, want %t",
				i+1, len(all), r.Needed(artifact), r.Needed(source), retained)
		}
	}
}

// TestNewestBuildOrRollbackIsServed begins, ends and rolls back builds in any order. The served build must be that of
// the newest decision (a build that has succeeded, or a rollback). The Source of the deployment, which a redeploy
// builds, must be its sources.
func TestNewestBuildOrRollbackIsServed(t *testing.T) {
	fx := newFixture(t)
	branch := 0
	rapid.Check(t, func(rt *rapid.T) {
		branch++
		name := fmt.Sprint("branch-", branch)
		var running []deployments.BuildInput
		var live, deployed string
		newest := int64(0)
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			switch action := rapid.SampledFrom([]string{"begin", "end", "fail", "roll back"}).Draw(rt, "action"); {
			case action == "begin":
				running = append(running, fx.claimNew("shop", name, "x"))
				deployed = running[0].Deployment
			case action == "roll back" && deployed != "":
				before := fx.record(deployed)
				d := deployments.DeploymentLocator{Owner: fullOwner(), Deployment: deployed}
				if _, err := fx.Rollback(fx.requestContext(), d, "", fakeCertificates{}); err == nil {
					live, newest = before.Previous[0].BuildID, before.Latest+1
				} else if !fault.Is(err, fault.Conflict) || len(before.Previous) > 0 {
					rt.Fatalf("Rollback() with %d previous builds: error = %v, want none, or %v without previous builds",
						len(before.Previous), err, fault.Conflict)
				}
			case action == "end" && len(running) > 0:
				i := rapid.IntRange(0, len(running)-1).Draw(rt, "served build")
				fx.serve(running[i])
				if running[i].Number > newest {
					live, newest = running[i].StatusID, running[i].Number
				}
				running = slices.Delete(running, i, i+1)
			case action == "fail" && len(running) > 0:
				i := rapid.IntRange(0, len(running)-1).Draw(rt, "failed build")
				fx.commit(deployments.Fail(t.Context(), fx.table, running[i], fx.now()))
				running = slices.Delete(running, i, i+1)
			}
			if deployed == "" {
				continue
			}
			r := fx.record(deployed)
			got := ""
			if r.Served != nil {
				got = r.Served.BuildID
			}
			if got != live || live != "" && r.Source != deployed+"/source-"+live {
				rt.Fatalf("served build = %q, source = %q, want build %q and its source", got, r.Source, live)
			}
			if r.Served != nil && !r.Needed(r.Served.Artifact) {
				rt.Fatalf("Needed(served artifact %s) = false, want true", r.Served.Artifact)
			}
			if r.Served != nil && r.Running != int64(len(running)) {
				rt.Fatalf("%d builds running, want %d", r.Running, len(running))
			}
		}
		for _, in := range running { // all runs share an account, which may only have a limited number of running builds
			fx.commit(deployments.Fail(t.Context(), fx.table, in, fx.now()))
		}
	})
}

// TestBuildInProgressDoesNotRevertRollback ends a build after a rollback that happened during the build. It also checks
// that a build that begins after the rollback is served.
func TestBuildInProgressDoesNotRevertRollback(t *testing.T) {
	fx := newFixture(t)
	first := fx.buildAndServe("1")
	fx.buildAndServe("2")
	inProgress := fx.claimNew("shop", "main", "3")
	fx.rollback(first, "")
	afterRollback := fx.claimNew("shop", "main", "4")
	fx.serve(inProgress)
	if r := fx.record(first.Deployment); r.Served.BuildID != first.StatusID || r.Source != r.Served.Source {
		t.Errorf("served = %+v, source = %s, want build %s and its source", r.Served, r.Source, first.StatusID)
	}
	fx.serve(afterRollback)
	if r := fx.record(first.Deployment); r.Served.BuildID != afterRollback.StatusID ||
		r.Previous[0].BuildID != first.StatusID {
		t.Errorf("served = %+v, previous = %+v, want builds %s and %s",
			r.Served, r.Previous, afterRollback.StatusID, first.StatusID)
	}
}

// TestRollbackRetriesAfterConcurrentBuild serves another build just before the rollback is committed. The retried
// rollback must return to the build that was served before this one.
func TestRollbackRetriesAfterConcurrentBuild(t *testing.T) {
	fx := newFixture(t)
	fx.buildAndServe("1")
	second := fx.buildAndServe("2")
	third := fx.claimNew("shop", "main", "3")
	s := fx.interruptedService(&interruptedBackend{beforeCommit: func() { fx.serve(third) }})
	if _, err := s.Rollback(fx.requestContext(), deploymentAt(third), "", fakeCertificates{}); err != nil {
		t.Fatal(err)
	}
	if r := fx.record(third.Deployment); r.Served.BuildID != second.StatusID || r.Served.Number != 4 ||
		len(r.Previous) != 2 {
		t.Errorf("served build = %s as number %d, %d previous builds, want %s as number 4, 2 previous builds",
			r.Served.BuildID, r.Served.Number, len(r.Previous), second.StatusID)
	}
}

func TestHistoryContainsCommits(t *testing.T) {
	fx := newFixture(t)
	u, err := fx.IssueUpload(fx.requestContext(), deployments.UploadLocator{
		Owner: fullOwner(), Project: "shop", Branch: "main",
		SHA: "9b6f8a2",
	})
	if err != nil {
		t.Fatal(err)
	}
	first := fx.claimArrival(fx.uploadArchive(u, "1"))
	fx.serve(first)
	fx.buildAndServe("2")
	fx.rollback(first, "")
	id, err := fx.Redeploy(fx.requestContext(), deploymentAt(first))
	if err != nil {
		t.Fatal(err)
	}
	fx.serve(fx.input(id)) // a redeploy of the sources of first
	var got []string
	all, err := fx.History(fx.requestContext(), deploymentAt(first))
	for _, b := range all {
		got = append(got, b.SHA)
	}
	if want := []string{"9b6f8a2", "9b6f8a2", ""}; err != nil || !slices.Equal(got, want) {
		t.Errorf("commits of the history = %q, %v, want %q and no error", got, err, want)
	}
}
