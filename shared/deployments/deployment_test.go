package deployments_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

func TestDeploymentIsShownOnceABuildHasBegun(t *testing.T) {
	w := newWorld(t)
	u := w.issue("lime-fox", "main")
	list := func() []deployments.Deployment {
		t.Helper()
		out, err := w.ListDeployments(w.ctx(), full(), "lime-fox")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := list(); len(got) != 0 {
		t.Errorf("before an archive: %+v", got)
	}
	in := w.claimed(w.put(u, "x"))
	if got := list(); len(got) != 1 || got[0].State != deployments.Building {
		t.Errorf("during the first build: %+v", got)
	}
	w.commit(deployments.Fail(t.Context(), w.table, in, w.now()))
	if got := list(); len(got) != 1 || got[0].State != deployments.Failed {
		t.Errorf("after a failed first build: %+v", got)
	}
	second := w.claim("lime-fox", "main", "y")
	if got := list(); got[0].State != deployments.Building {
		t.Errorf("during the second build: %+v", got)
	}
	w.serve(second)
	got := list()[0]
	digits := got.Name[len(got.Name)-7:]
	want := deployments.Deployment{
		Name: in.Deployment, URL: "https://" + in.Deployment + ".example.com", Label: "main",
		LoggingID: "demo::lime-fox::main::main::" + digits, Account: "demo", Project: "lime-fox", Branch: "main",
		Kind: environment.Production, State: deployments.Started, CreatedOn: got.CreatedOn, UpdatedOn: got.UpdatedOn,
	}
	if got != want {
		t.Errorf("deployment %+v, want %+v", got, want)
	}
	third := w.claim("lime-fox", "main", "z")
	w.commit(deployments.Fail(t.Context(), w.table, third, w.now()))
	if got := list(); got[0].State != deployments.Started {
		t.Errorf("after a failed build of a served one: %+v", got)
	}
	if served := w.record(in.Deployment).Served; served.BuildID != second.StatusID {
		t.Errorf("served %+v, want build %s", served, second.StatusID)
	}
}

func TestDeploymentsAreListedProductionFirstThenTheNewest(t *testing.T) {
	w := newWorld(t)
	var want []string
	for _, branch := range []string{"one", "two", "main", "three"} {
		want = append(want, w.claim("lime-fox", branch, branch).Deployment)
		w.sleep(time.Minute)
	}
	want = []string{want[2], want[3], want[1], want[0]}
	list, err := w.ListDeployments(w.ctx(), full(), "lime-fox")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range list {
		got = append(got, d.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestForeignDeploymentsReadAsAbsentOnes(t *testing.T) {
	w := newWorld(t)
	in := w.claim("lime-fox", "main", "x")
	w.serve(in)
	preview := auth.Full()
	preview.Environments = []environment.Kind{environment.Preview}
	other := auth.Full()
	other.Projects = []string{"other"}
	for name, at := range map[string]deployments.DeploymentAt{
		"another account":     {Owner: foreign(), Deployment: in.Deployment},
		"another environment": {Owner: viewer(preview), Deployment: in.Deployment},
		"another project":     {Owner: viewer(other), Deployment: in.Deployment},
		"the wrong project":   {Owner: full(), Deployment: in.Deployment, Project: "other"},
		"absent":              {Owner: full(), Deployment: "lime-fox-main-0000000"},
		"no name":             {Owner: full(), Deployment: "Lime#Fox"},
	} {
		t.Run(name, func(t *testing.T) {
			_, read := w.ReadDeployment(w.ctx(), at)
			_, redeploy := w.Redeploy(w.ctx(), at)
			for what, err := range map[string]error{"read": read, "delete": w.DeleteDeployment(w.ctx(), at), "redeploy": redeploy} {
				if !fault.Is(err, fault.NotFound) || err.Error() != "This deployment does not exist, or this key cannot see it." {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	if _, err := w.ListDeployments(w.ctx(), foreign(), "lime-fox"); !fault.Is(err, fault.NotFound) {
		t.Errorf("list of another account: %v", err)
	}
	if list, err := w.ListDeployments(w.ctx(), viewer(preview), "lime-fox"); err != nil || len(list) != 0 {
		t.Errorf("list of another environment: %v, %v", list, err)
	}
	_, err := w.ReadStatus(w.ctx(), deployments.StatusAt{Owner: foreign(), Project: "lime-fox", StatusID: in.StatusID})
	wantKind(t, err, fault.NotFound)
	_, err = w.ReadStatus(w.ctx(), deployments.StatusAt{Owner: full(), Project: "other", StatusID: in.StatusID})
	wantKind(t, err, fault.NotFound)
}

func TestDeletedDeploymentIsGoneForEveryReader(t *testing.T) {
	w := newWorld(t)
	in := w.claim("lime-fox", "main", "x")
	w.serve(in)
	open := w.issue("lime-fox", "main")
	running := w.claim("lime-fox", "main", "y")
	at := deployments.DeploymentAt{Owner: full(), Deployment: in.Deployment, Project: "lime-fox"}
	if err := w.DeleteDeployment(w.ctx(), at); err != nil {
		t.Fatal(err)
	}
	if err := w.DeleteDeployment(w.ctx(), at); !fault.Is(err, fault.NotFound) {
		t.Errorf("the second deletion: %v", err)
	}
	if _, err := w.ReadDeployment(w.ctx(), at); !fault.Is(err, fault.NotFound) {
		t.Errorf("read: %v", err)
	}
	if list, err := w.ListDeployments(w.ctx(), full(), "lime-fox"); err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	if _, err := deployments.Read(t.Context(), w.table, in.Deployment); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the gateway reads: %v", err)
	}
	if _, err := w.Claim(t.Context(), w.put(open, "z")); !errors.Is(err, deployments.ErrUnclaimed) {
		t.Errorf("an upload of the deleted one is claimed: %v", err)
	}
	if _, err := deployments.Serve(t.Context(), w.table, running, deployments.BuildData{}, w.now()); !fault.Is(err, fault.NotFound) {
		t.Errorf("a build of the deleted one is served: %v", err)
	}
	if next := w.claim("lime-fox", "main", "new"); next.Deployment == in.Deployment {
		t.Errorf("the name %s is used again", next.Deployment)
	}
	var clean operation.Record
	if err := w.table.Get(t.Context(), operation.Key("clean-"+in.Deployment+"-all"), &clean); err != nil {
		t.Errorf("nothing cleans up: %v", err)
	}
}

func TestRedeployBuildsTheNewestAcceptedSources(t *testing.T) {
	w := newWorld(t)
	in := w.claim("lime-fox", "main", "x")
	at := deployments.DeploymentAt{Owner: full(), Deployment: in.Deployment}
	_, err := w.Redeploy(w.ctx(), at)
	wantKind(t, err, fault.Conflict)
	w.commit(deployments.Accept(t.Context(), w.table, in, in.Deployment+"/first"))
	w.commit(deployments.Fail(t.Context(), w.table, in, w.now()))
	redeploy := func() deployments.BuildInput {
		t.Helper()
		id, err := w.Redeploy(w.ctx(), at)
		if err != nil {
			t.Fatal(err)
		}
		s, err := w.ReadStatus(w.ctx(), deployments.StatusAt{Owner: full(), Project: "lime-fox", StatusID: id})
		if err != nil || s.Status != deployments.InProgress {
			t.Errorf("status %+v, error %v", s, err)
		}
		return w.input(id)
	}
	if got := redeploy(); got.Source != in.Deployment+"/first" || got.Number != 2 || got.ETag != "" {
		t.Errorf("redeploy of a failed one: %+v", got)
	}
	w.serve(w.claim("lime-fox", "main", "good"))
	if got, want := redeploy(), w.record(in.Deployment).Served.Source; got.Source != want {
		t.Errorf("redeploy builds %s, served is %s", got.Source, want)
	}
	newer := w.claim("lime-fox", "main", "newer")
	w.commit(deployments.Accept(t.Context(), w.table, newer, in.Deployment+"/newer"))
	got := redeploy()
	if got.Source != in.Deployment+"/newer" {
		t.Errorf("a redeploy beside the build of a newer upload builds %s, and takes the upload back", got.Source)
	}
	if _, err := w.Claim(t.Context(), deployments.Arrival{StatusID: got.StatusID, On: w.now()}); !errors.Is(err, deployments.ErrUnclaimed) {
		t.Errorf("an archive at a redeploy's place is claimed: %v", err)
	}
}

// TestFailedIsShownOnceNoBuildRuns ends builds in any order: nothing that is shown
// as failed starts without a new build.
func TestFailedIsShownOnceNoBuildRuns(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		builds := make([]deployments.BuildInput, rapid.IntRange(2, 5).Draw(rt, "builds"))
		for i := range builds {
			builds[i] = w.claim("lime-fox", "main", fmt.Sprint(i))
		}
		served := false
		for i, in := range rapid.Permutation(builds).Draw(rt, "order") {
			if rapid.Bool().Draw(rt, fmt.Sprintf("fails %d", i)) {
				w.commit(deployments.Fail(t.Context(), w.table, in, w.now()))
			} else {
				w.serve(in)
				served = true
			}
			want := deployments.Failed
			switch {
			case served:
				want = deployments.Started
			case i+1 < len(builds):
				want = deployments.Building
			}
			d, err := w.ReadDeployment(w.ctx(), deployments.DeploymentAt{Owner: full(), Deployment: in.Deployment})
			if err != nil || d.State != want {
				rt.Fatalf("state %s (%v) when %d of %d builds have ended, want %s", d.State, err, i+1, len(builds), want)
			}
		}
		if r := w.record(builds[0].Deployment); r.Running != 0 || r.Ended != r.Latest {
			rt.Fatalf("%d builds run, %d of %d have ended, when all have", r.Running, r.Ended, r.Latest)
		}
	})
}

// TestOlderBuildNeverReplacesANewerOne ends builds in any order, some without
// success.
func TestOlderBuildNeverReplacesANewerOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		n := rapid.IntRange(1, 8).Draw(rt, "builds")
		builds := make([]deployments.BuildInput, n)
		for i := range builds {
			builds[i] = w.claim("lime-fox", "main", fmt.Sprint(i))
		}
		order := rapid.Permutation(builds).Draw(rt, "order")
		var newest int64
		for i, in := range order {
			if rapid.Bool().Draw(rt, fmt.Sprintf("fails %d", i)) {
				w.commit(deployments.Fail(t.Context(), w.table, in, w.now()))
			} else {
				w.serve(in)
				newest = max(newest, in.Number)
			}
			r := w.record(in.Deployment)
			if newest == 0 != (r.Served == nil) || r.Served != nil && r.Served.Number != newest {
				rt.Fatalf("served %+v, want build %d", r.Served, newest)
			}
			if len(r.Before) > 5 {
				rt.Fatalf("%d earlier builds are kept", len(r.Before))
			}
			for _, b := range r.Before {
				if !r.Needed(b.Source) || !r.Needed(b.Artifact) {
					rt.Fatalf("%+v can be returned to and is not needed", b)
				}
			}
		}
	})
}

// TestChangesCostOneReadAndOneTransaction is the ledger of this package.
func TestChangesCostOneReadAndOneTransaction(t *testing.T) {
	w := newWorld(t)
	in := w.claim("lime-fox", "main", "x")
	w.serve(in)
	at := deployments.DeploymentAt{Owner: full(), Deployment: in.Deployment}
	var meter *store.Meter
	for _, tt := range []struct {
		name string
		do   func() error
		want store.Usage
	}{
		{"a project", func() error {
			_, err := w.CreateProject(store.WithMeter(w.ctx(), meter), full(), "new")
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"an upload of a known branch", func() error {
			_, err := w.IssueUpload(store.WithMeter(w.ctx(), meter), deployments.UploadAt{Owner: full(), Project: "lime-fox", Branch: "main"})
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"an upload of a new branch", func() error {
			_, err := w.IssueUpload(store.WithMeter(w.ctx(), meter), deployments.UploadAt{Owner: full(), Project: "lime-fox", Branch: "new"})
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"an upload of a new project", func() error {
			_, err := w.IssueUpload(store.WithMeter(w.ctx(), meter), deployments.UploadAt{Owner: full(), Project: "newer", Branch: "new"})
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"a status", func() error {
			_, err := w.ReadStatus(store.WithMeter(w.ctx(), meter), deployments.StatusAt{Owner: full(), Project: "lime-fox", StatusID: in.StatusID})
			return err
		}, store.Usage{Reads: 1}},
		{"a redeploy", func() error {
			_, err := w.Redeploy(store.WithMeter(w.ctx(), meter), at)
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"a list", func() error {
			_, err := w.ListDeployments(store.WithMeter(w.ctx(), meter), full(), "lime-fox")
			return err
		}, store.Usage{Reads: 1, Queries: 1}},
		{"a deletion", func() error {
			return w.DeleteDeployment(store.WithMeter(w.ctx(), meter), at)
		}, store.Usage{Reads: 1, Commits: 1}},
	} {
		meter = &store.Meter{}
		if err := tt.do(); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		got := meter.Usage()
		got.ReadUnits, got.WriteUnits = 0, 0
		if got != tt.want {
			t.Errorf("%s costs %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
