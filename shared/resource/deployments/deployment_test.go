package deployments_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

func TestDeploymentIsVisibleAfterFirstBuildStarts(t *testing.T) {
	fx := newFixture(t)
	u := fx.issueUpload("lime-fox", "main")
	listDeployments := func() []deployments.Deployment {
		t.Helper()
		out, err := fx.ListDeployments(fx.requestContext(), fullOwner(), "lime-fox")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := listDeployments(); len(got) != 0 {
		t.Errorf("deployments before the upload = %+v, want none", got)
	}
	in := fx.claimArrival(fx.uploadArchive(u, "x"))
	if got := listDeployments(); len(got) != 1 || got[0].State != deployments.Building {
		t.Errorf("deployments during the first build = %+v, want one %s", got, deployments.Building)
	}
	fx.commit(deployments.Fail(t.Context(), fx.table, in, fx.now()))
	if got := listDeployments(); len(got) != 1 || got[0].State != deployments.Failed {
		t.Errorf("deployments after a failed first build = %+v, want one %s", got, deployments.Failed)
	}
	second := fx.claimNew("lime-fox", "main", "y")
	if got := listDeployments(); got[0].State != deployments.Building {
		t.Errorf("deployments during the second build = %+v, want state %s", got, deployments.Building)
	}
	fx.serve(second)
	got := listDeployments()[0]
	digits := got.Name[len(got.Name)-7:]
	want := deployments.Deployment{
		Name: in.Deployment, URL: "https://" + in.Deployment + ".example.com", Label: "main",
		LoggingID: "demo::lime-fox::main::main::" + digits, Account: "demo", Project: "lime-fox", Branch: "main",
		Kind: environment.Production, State: deployments.Started, CreatedOn: got.CreatedOn, UpdatedOn: got.UpdatedOn,
	}
	if got != want {
		t.Errorf("deployment after the second build = %+v, want %+v", got, want)
	}
	third := fx.claimNew("lime-fox", "main", "z")
	fx.commit(deployments.Fail(t.Context(), fx.table, third, fx.now()))
	if got := listDeployments(); got[0].State != deployments.Started {
		t.Errorf("deployments after a failed third build = %+v, want state %s", got, deployments.Started)
	}
	if served := fx.record(in.Deployment).Served; served.BuildID != second.StatusID {
		t.Errorf("served %+v, want build %s", served, second.StatusID)
	}
}

// TestListDeploymentsOrder checks that ListDeployments returns the production deployment first, and then the other
// deployments, the newest first.
func TestListDeploymentsOrder(t *testing.T) {
	fx := newFixture(t)
	var want []string
	for _, branch := range []string{"one", "two", "main", "three"} {
		want = append(want, fx.claimNew("lime-fox", branch, branch).Deployment)
		fx.advance(time.Minute)
	}
	want = []string{want[2], want[3], want[1], want[0]}
	list, err := fx.ListDeployments(fx.requestContext(), fullOwner(), "lime-fox")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range list {
		got = append(got, d.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("ListDeployments() = %q, want %q", got, want)
	}
}

func TestInvisibleDeploymentsAreNotFound(t *testing.T) {
	fx := newFixture(t)
	in := fx.claimNew("lime-fox", "main", "x")
	fx.serve(in)
	preview := auth.Full()
	preview.Environments = []environment.Kind{environment.Preview}
	other := auth.Full()
	other.Projects = []string{"other"}
	for name, at := range map[string]deployments.DeploymentLocator{
		"another account":     {Owner: otherOwner(), Deployment: in.Deployment},
		"another environment": {Owner: ownerWith(preview), Deployment: in.Deployment},
		"another project":     {Owner: ownerWith(other), Deployment: in.Deployment},
		"the wrong project":   {Owner: fullOwner(), Deployment: in.Deployment, Project: "other"},
		"absent":              {Owner: fullOwner(), Deployment: "lime-fox-main-0000000"},
		"an invalid name":     {Owner: fullOwner(), Deployment: "Lime#Fox"},
	} {
		t.Run(name, func(t *testing.T) {
			_, read := fx.ReadDeployment(fx.requestContext(), at)
			_, redeploy := fx.Redeploy(fx.requestContext(), at)
			for call, err := range map[string]error{
				"read": read, "delete": fx.DeleteDeployment(fx.requestContext(), at),
				"redeploy": redeploy,
			} {
				const want = "This deployment does not exist, or this key cannot see it."
				if !fault.Is(err, fault.NotFound) || err.Error() != want {
					t.Errorf("%s of an invisible deployment: error = %v, want %v with the text %q", call, err, fault.NotFound, want)
				}
			}
		})
	}
	if _, err := fx.ListDeployments(fx.requestContext(), otherOwner(), "lime-fox"); !fault.Is(err, fault.NotFound) {
		t.Errorf("ListDeployments() of another account: error = %v, want %v", err, fault.NotFound)
	}
	if list, err := fx.ListDeployments(fx.requestContext(), ownerWith(preview), "lime-fox"); err != nil || len(list) != 0 {
		t.Errorf("ListDeployments() of another environment = %v, %v, want none and no error", list, err)
	}
	_, err := fx.ReadStatus(fx.requestContext(), deployments.StatusLocator{
		Owner: otherOwner(), Project: "lime-fox",
		StatusID: in.StatusID,
	})
	wantKind(t, err, fault.NotFound)
	_, err = fx.ReadStatus(fx.requestContext(), deployments.StatusLocator{
		Owner: fullOwner(), Project: "other",
		StatusID: in.StatusID,
	})
	wantKind(t, err, fault.NotFound)
}

func TestDeletedDeploymentIsNotFound(t *testing.T) {
	fx := newFixture(t)
	in := fx.claimNew("lime-fox", "main", "x")
	fx.serve(in)
	pendingUpload := fx.issueUpload("lime-fox", "main")
	running := fx.claimNew("lime-fox", "main", "y")
	at := deployments.DeploymentLocator{Owner: fullOwner(), Deployment: in.Deployment, Project: "lime-fox"}
	if err := fx.DeleteDeployment(fx.requestContext(), at); err != nil {
		t.Fatal(err)
	}
	if err := fx.DeleteDeployment(fx.requestContext(), at); !fault.Is(err, fault.NotFound) {
		t.Errorf("second DeleteDeployment() error = %v, want %v", err, fault.NotFound)
	}
	if _, err := fx.ReadDeployment(fx.requestContext(), at); !fault.Is(err, fault.NotFound) {
		t.Errorf("ReadDeployment() error = %v, want %v", err, fault.NotFound)
	}
	if list, err := fx.ListDeployments(fx.requestContext(), fullOwner(), "lime-fox"); err != nil || len(list) != 0 {
		t.Errorf("ListDeployments() = %v, %v, want none and no error", list, err)
	}
	if _, err := deployments.Read(t.Context(), fx.table, in.Deployment); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Read() of the gateway: error = %v, want %v", err, store.ErrNotFound)
	}
	if _, err := fx.Claim(t.Context(), fx.uploadArchive(pendingUpload, "z")); !errors.Is(err, deployments.ErrUnclaimed) {
		t.Errorf("Claim(upload of the deleted deployment) error = %v, want %v", err, deployments.ErrUnclaimed)
	}
	if _, err := deployments.Serve(t.Context(), fx.table, running, deployments.BuildData{},
		fx.now()); !fault.Is(err, fault.NotFound) {
		t.Errorf("Serve(build of the deleted deployment) error = %v, want %v", err, fault.NotFound)
	}
	if next := fx.claimNew("lime-fox", "main", "new"); next.Deployment == in.Deployment {
		t.Errorf("name of the next deployment = %s, want another name than before", next.Deployment)
	}
	var clean operation.Record
	if err := fx.table.Get(t.Context(), operation.Key("clean-"+in.Deployment+"-all"), &clean); err != nil {
		t.Errorf("Get(operation that cleans up) error = %v, want none", err)
	}
}

func TestRedeployBuildsNewestAcceptedSources(t *testing.T) {
	fx := newFixture(t)
	in := fx.claimNew("lime-fox", "main", "x")
	at := deployments.DeploymentLocator{Owner: fullOwner(), Deployment: in.Deployment}
	_, err := fx.Redeploy(fx.requestContext(), at)
	wantKind(t, err, fault.Conflict)
	fx.commit(deployments.Accept(t.Context(), fx.table, in, in.Deployment+"/first"))
	fx.commit(deployments.Fail(t.Context(), fx.table, in, fx.now()))
	redeploy := func() deployments.BuildInput {
		t.Helper()
		id, err := fx.Redeploy(fx.requestContext(), at)
		if err != nil {
			t.Fatal(err)
		}
		s, err := fx.ReadStatus(fx.requestContext(), deployments.StatusLocator{
			Owner: fullOwner(), Project: "lime-fox",
			StatusID: id,
		})
		if err != nil || s.Status != deployments.InProgress {
			t.Errorf("ReadStatus() after Redeploy() = %+v, %v, want %s and no error", s, err, deployments.InProgress)
		}
		return fx.input(id)
	}
	if got := redeploy(); got.Source != in.Deployment+"/first" || got.Number != 2 || got.ETag != "" {
		t.Errorf("Redeploy() of a failed build = %+v, want build 2 of %s/first without ETag", got, in.Deployment)
	}
	fx.serve(fx.claimNew("lime-fox", "main", "good"))
	if got, want := redeploy(), fx.record(in.Deployment).Served.Source; got.Source != want {
		t.Errorf("source of Redeploy() = %s, want %s", got.Source, want)
	}
	newer := fx.claimNew("lime-fox", "main", "newer")
	fx.commit(deployments.Accept(t.Context(), fx.table, newer, in.Deployment+"/newer"))
	got := redeploy()
	if got.Source != in.Deployment+"/newer" {
		t.Errorf("Redeploy() during the build of a newer upload: source = %s, want %s/newer", got.Source, in.Deployment)
	}
	if _, err := fx.Claim(t.Context(), deployments.Arrival{StatusID: got.StatusID, UploadedOn: fx.now()}); !errors.Is(err,
		deployments.ErrUnclaimed) {
		t.Errorf("Claim(archive with the ID of a redeploy) error = %v, want %v", err, deployments.ErrUnclaimed)
	}
}

// TestFailedIsShownOnlyWhenNoBuildRuns ends builds in any order, successfully or not. A deployment may be Failed only
// when all its builds have failed.
func TestFailedIsShownOnlyWhenNoBuildRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fx := newFixture(t)
		builds := make([]deployments.BuildInput, rapid.IntRange(2, 5).Draw(rt, "builds"))
		for i := range builds {
			builds[i] = fx.claimNew("lime-fox", "main", fmt.Sprint(i))
		}
		served := false
		for i, in := range rapid.Permutation(builds).Draw(rt, "order") {
			if rapid.Bool().Draw(rt, fmt.Sprintf("fails %d", i)) {
				fx.commit(deployments.Fail(t.Context(), fx.table, in, fx.now()))
			} else {
				fx.serve(in)
				served = true
			}
			want := deployments.Failed
			switch {
			case served:
				want = deployments.Started
			case i+1 < len(builds):
				want = deployments.Building
			}
			d, err := fx.ReadDeployment(fx.requestContext(),
				deployments.DeploymentLocator{Owner: fullOwner(), Deployment: in.Deployment})
			if err != nil || d.State != want {
				rt.Fatalf("ReadDeployment() = state %s, error %v, when %d of %d builds have ended, want state %s",
					d.State, err, i+1, len(builds), want)
			}
		}
		if r := fx.record(builds[0].Deployment); r.Running != 0 || r.LatestEnded != r.Latest {
			rt.Fatalf("after all builds: %d running, latest ended %d, want 0 and %d", r.Running, r.LatestEnded, r.Latest)
		}
	})
}

// TestOlderBuildNeverReplacesNewerBuild ends builds in any order, successfully or not. The served build must always be
// the newest one that has succeeded.
func TestOlderBuildNeverReplacesNewerBuild(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fx := newFixture(t)
		n := rapid.IntRange(1, 8).Draw(rt, "builds")
		builds := make([]deployments.BuildInput, n)
		for i := range builds {
			builds[i] = fx.claimNew("lime-fox", "main", fmt.Sprint(i))
		}
		order := rapid.Permutation(builds).Draw(rt, "order")
		var newest int64
		for i, in := range order {
			if rapid.Bool().Draw(rt, fmt.Sprintf("fails %d", i)) {
				fx.commit(deployments.Fail(t.Context(), fx.table, in, fx.now()))
			} else {
				fx.serve(in)
				newest = max(newest, in.Number)
			}
			r := fx.record(in.Deployment)
			if newest == 0 != (r.Served == nil) || r.Served != nil && r.Served.Number != newest {
				rt.Fatalf("served build = %+v, want build %d (0: none)", r.Served, newest)
			}
			if len(r.Previous) > 5 {
				rt.Fatalf("%d previous builds, want at most 5", len(r.Previous))
			}
			for _, b := range r.Previous {
				if !r.Needed(b.Source) || !r.Needed(b.Artifact) {
					rt.Fatalf("previous build %+v: sources needed %t, artifact needed %t, want both needed",
						b, r.Needed(b.Source), r.Needed(b.Artifact))
				}
			}
		}
	})
}

// TestChangesNeedOneReadAndOneTransaction checks how many reads, queries and commits an operation needs.
func TestChangesNeedOneReadAndOneTransaction(t *testing.T) {
	fx := newFixture(t)
	in := fx.claimNew("lime-fox", "main", "x")
	fx.serve(in)
	at := deployments.DeploymentLocator{Owner: fullOwner(), Deployment: in.Deployment}
	var meter *store.Meter
	for _, tt := range []struct {
		name string
		call func() error
		want store.Usage
	}{
		{"a project", func() error {
			_, err := fx.CreateProject(store.WithMeter(fx.requestContext(), meter), fullOwner(), "new")
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"an upload of a known branch", func() error {
			_, err := fx.IssueUpload(store.WithMeter(fx.requestContext(), meter),
				deployments.UploadLocator{Owner: fullOwner(), Project: "lime-fox", Branch: "main"})
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"an upload of a new branch", func() error {
			_, err := fx.IssueUpload(store.WithMeter(fx.requestContext(), meter),
				deployments.UploadLocator{Owner: fullOwner(), Project: "lime-fox", Branch: "new"})
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"an upload of a new project", func() error {
			_, err := fx.IssueUpload(store.WithMeter(fx.requestContext(), meter),
				deployments.UploadLocator{Owner: fullOwner(), Project: "newer", Branch: "new"})
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"a status", func() error {
			_, err := fx.ReadStatus(store.WithMeter(fx.requestContext(), meter),
				deployments.StatusLocator{Owner: fullOwner(), Project: "lime-fox", StatusID: in.StatusID})
			return err
		}, store.Usage{Reads: 1}},
		{"a redeploy", func() error {
			_, err := fx.Redeploy(store.WithMeter(fx.requestContext(), meter), at)
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"a list", func() error {
			_, err := fx.ListDeployments(store.WithMeter(fx.requestContext(), meter), fullOwner(), "lime-fox")
			return err
		}, store.Usage{Reads: 1, Queries: 1}},
		{"a deletion", func() error {
			return fx.DeleteDeployment(store.WithMeter(fx.requestContext(), meter), at)
		}, store.Usage{Reads: 1, Commits: 1}},
	} {
		meter = &store.Meter{}
		if err := tt.call(); err != nil {
			t.Fatalf("%s: error = %v, want none", tt.name, err)
		}
		got := meter.Usage()
		got.ReadUnits, got.WriteUnits = 0, 0
		if got != tt.want {
			t.Errorf("%s costs %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
