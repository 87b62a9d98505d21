package deployments_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// noCertificates are those of builds that show none.
type noCertificates struct{ gone bool }

// Serving implements deployments.Certificates.
func (c noCertificates) Serving(context.Context, string, string, environment.Kind, []string) ([]store.Write, bool, error) {
	return nil, !c.gone, nil
}

// TestABuildWhoseCertificateIsGoneIsNotReturnedTo: it would show upstreams what its
// owner has taken away.
func TestABuildWhoseCertificateIsGoneIsNotReturnedTo(t *testing.T) {
	w := newWorld(t)
	w.served("1")
	second := w.served("2")
	_, err := w.Rollback(w.ctx(), at(second), "", noCertificates{gone: true})
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
	if r := w.record(second.Deployment); r.Served.BuildID != second.StatusID {
		t.Errorf("%s is served", r.Served.BuildID)
	}
}

// at is a deployment as its owner names it.
func at(in deployments.BuildInput) deployments.DeploymentAt {
	return deployments.DeploymentAt{Owner: full(), Deployment: in.Deployment}
}

// served builds and serves an upload of main.
func (w *world) served(body string) deployments.BuildInput {
	w.t.Helper()
	in := w.claim("shop", "main", body)
	w.serve(in)
	return in
}

func (w *world) rollback(in deployments.BuildInput, to string) {
	w.t.Helper()
	if _, err := w.Rollback(w.ctx(), at(in), to, noCertificates{}); err != nil {
		w.t.Fatal(err)
	}
}

// history is a deployment's, a line for each state.
func (w *world) history(in deployments.BuildInput) (ids map[deployments.BuildState][]string) {
	w.t.Helper()
	all, err := w.History(w.ctx(), at(in))
	if err != nil {
		w.t.Fatal(err)
	}
	ids = map[deployments.BuildState][]string{}
	for _, b := range all {
		ids[b.State] = append(ids[b.State], b.BuildID)
	}
	return ids
}

func TestRollbackServesTheBuildBeforeAndBackAgain(t *testing.T) {
	w := newWorld(t)
	first, second, third := w.served("1"), w.served("2"), w.served("3")
	want := func(live string, previous ...string) {
		t.Helper()
		r := w.record(first.Deployment)
		if r.Served.BuildID != live || r.Served.Artifact != first.Deployment+"/artifact-"+live || r.Source != r.Served.Source {
			t.Errorf("served is %+v, redeployed %s, want %s", r.Served, r.Source, live)
		}
		if h := w.history(first); h[deployments.Live][0] != live || !slices.Equal(h[deployments.Previous], previous) {
			t.Errorf("the history is %v", h)
		}
	}
	want(third.StatusID, second.StatusID, first.StatusID)
	w.rollback(first, "")
	want(second.StatusID, third.StatusID, first.StatusID)
	w.rollback(first, "")
	want(third.StatusID, second.StatusID, first.StatusID)
	w.rollback(first, first.StatusID)
	want(first.StatusID, third.StatusID, second.StatusID)
	if d, err := w.ReadDeployment(w.ctx(), at(first)); err != nil || d.State != deployments.Started || !d.UpdatedOn.Equal(w.now()) {
		t.Errorf("the deployment is %+v, %v", d, err)
	}
}

func TestRollbackToNothingIsRefused(t *testing.T) {
	w := newWorld(t)
	in := w.claim("shop", "main", "1")
	refused := func(to string, kind fault.Kind, text string) {
		t.Helper()
		_, err := w.Rollback(w.ctx(), at(in), to, noCertificates{})
		if !fault.Is(err, kind) || !strings.Contains(err.Error(), text) {
			t.Errorf("to %q: %v, want %q", to, err, text)
		}
	}
	refused("", fault.Conflict, "no earlier build")
	refused(in.StatusID, fault.NotFound, "build")
	w.serve(in)
	refused("", fault.Conflict, "no earlier build")
	refused(in.StatusID, fault.Conflict, "served already")
	for i := range 6 {
		w.served(fmt.Sprint(i))
	}
	refused(in.StatusID, fault.Conflict, "is gone")
	other := w.claim("shop", "other", "1")
	refused(other.StatusID, fault.NotFound, "build")
	gone := at(in)
	if err := w.DeleteDeployment(w.ctx(), gone); err != nil {
		t.Fatal(err)
	}
	refused("", fault.NotFound, "deployment")
}

// TestHistoryIsBounded: what is kept in the bucket, and what is told.
func TestHistoryIsBounded(t *testing.T) {
	w := newWorld(t)
	var all []deployments.BuildInput
	for i := range 30 {
		all = append(all, w.served(fmt.Sprint(i)))
	}
	h, r := w.history(all[0]), w.record(all[0].Deployment)
	if len(h[deployments.Live]) != 1 || len(h[deployments.Previous]) != 5 || len(h[deployments.Gone]) != 20 {
		t.Errorf("the history is %v", h)
	}
	for i, in := range all {
		artifact, source := in.Deployment+"/artifact-"+in.StatusID, in.Deployment+"/source-"+in.StatusID
		if kept := i >= len(all)-6; r.Needed(artifact) != kept || r.Needed(source) != kept {
			t.Errorf("build %d of %d: needed are artifact %v, sources %v", i+1, len(all), r.Needed(artifact), r.Needed(source))
		}
	}
}

// TestNewestDecisionWins has builds begin and end in any order, with rollbacks between
// them: what is served is the newest decision that has come to something, and what is
// redeployed are the sources of the newest that were accepted.
func TestNewestDecisionWins(t *testing.T) {
	w := newWorld(t)
	branch := 0
	rapid.Check(t, func(rt *rapid.T) {
		branch++
		name := fmt.Sprint("branch-", branch)
		var running []deployments.BuildInput
		var live, deployed string
		decided := int64(0)
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			switch what := rapid.SampledFrom([]string{"begin", "end", "fail", "roll back"}).Draw(rt, "what"); {
			case what == "begin":
				running = append(running, w.claim("shop", name, "x"))
				deployed = running[0].Deployment
			case what == "roll back" && deployed != "":
				before := w.record(deployed)
				d := deployments.DeploymentAt{Owner: full(), Deployment: deployed}
				if _, err := w.Rollback(w.ctx(), d, "", noCertificates{}); err == nil {
					live, decided = before.Before[0].BuildID, before.Latest+1
				} else if !fault.Is(err, fault.Conflict) || len(before.Before) > 0 {
					rt.Fatal(err)
				}
			case what == "end" && len(running) > 0:
				i := rapid.IntRange(0, len(running)-1).Draw(rt, "which")
				w.serve(running[i])
				if running[i].Number > decided {
					live, decided = running[i].StatusID, running[i].Number
				}
				running = slices.Delete(running, i, i+1)
			case what == "fail" && len(running) > 0:
				i := rapid.IntRange(0, len(running)-1).Draw(rt, "which")
				w.commit(deployments.Fail(t.Context(), w.table, running[i], w.now()))
				running = slices.Delete(running, i, i+1)
			}
			if deployed == "" {
				continue
			}
			r := w.record(deployed)
			got := ""
			if r.Served != nil {
				got = r.Served.BuildID
			}
			if got != live || live != "" && r.Source != deployed+"/source-"+live {
				rt.Fatalf("served is %q, redeployed %q, want %q", got, r.Source, live)
			}
			if r.Served != nil && (!r.Needed(r.Served.Artifact) || r.Running != int64(len(running))) {
				rt.Fatalf("%+v, and %d builds run", r, len(running))
			}
		}
		for _, in := range running { // all runs share an account, whose builds have a limit
			w.commit(deployments.Fail(t.Context(), w.table, in, w.now()))
		}
	})
}

// TestBuildOnItsWayDoesNotTakeARollbackBack, and one that is begun after it does.
func TestBuildOnItsWayDoesNotTakeARollbackBack(t *testing.T) {
	w := newWorld(t)
	first := w.served("1")
	w.served("2")
	onItsWay := w.claim("shop", "main", "3")
	w.rollback(first, "")
	later := w.claim("shop", "main", "4")
	w.serve(onItsWay)
	if r := w.record(first.Deployment); r.Served.BuildID != first.StatusID || r.Source != r.Served.Source {
		t.Errorf("served is %+v, redeployed %s", r.Served, r.Source)
	}
	w.serve(later)
	if r := w.record(first.Deployment); r.Served.BuildID != later.StatusID || r.Before[0].BuildID != first.StatusID {
		t.Errorf("served is %+v, before it %+v", r.Served, r.Before)
	}
}

// TestBuildThatEndsInTheMiddleOfARollback: the rollback is decided anew, and returns to
// what was served before that build.
func TestBuildThatEndsInTheMiddleOfARollback(t *testing.T) {
	w := newWorld(t)
	w.served("1")
	second := w.served("2")
	third := w.claim("shop", "main", "3")
	s := w.interrupted(&interrupted{beforeCommit: func() { w.serve(third) }})
	if _, err := s.Rollback(w.ctx(), at(third), "", noCertificates{}); err != nil {
		t.Fatal(err)
	}
	if r := w.record(third.Deployment); r.Served.BuildID != second.StatusID || r.Served.Number != 4 || len(r.Before) != 2 {
		t.Errorf("%+v", r)
	}
}

func TestHistoryNamesTheCommits(t *testing.T) {
	w := newWorld(t)
	u, err := w.IssueUpload(w.ctx(), deployments.UploadAt{Owner: full(), Project: "shop", Branch: "main", SHA: "9b6f8a2"})
	if err != nil {
		t.Fatal(err)
	}
	first := w.claimed(w.put(u, "1"))
	w.serve(first)
	w.served("2")
	w.rollback(first, "")
	id, err := w.Redeploy(w.ctx(), at(first))
	if err != nil {
		t.Fatal(err)
	}
	w.serve(w.input(id)) // of the sources that are served
	var got []string
	all, err := w.History(w.ctx(), at(first))
	for _, b := range all {
		got = append(got, b.SHA)
	}
	if want := []string{"9b6f8a2", "9b6f8a2", ""}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the commits are %q, %v", got, err)
	}
}
