package deployments_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// interrupted has something happen in the middle of a change, once: goroutines
// over a table in memory seldom meet there.
type interrupted struct {
	store.Backend
	beforeCommit, beforeSecondRead func()
	reads                          int
}

// Read implements store.Backend.
func (i *interrupted) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if i.reads++; i.reads == 2 && i.beforeSecondRead != nil {
		i.beforeSecondRead()
	}
	return i.Backend.Read(ctx, keys)
}

// Transact implements store.Backend.
func (i *interrupted) Transact(ctx context.Context, token string, writes []store.Write) error {
	if do := i.beforeCommit; do != nil {
		i.beforeCommit = nil
		do()
	}
	return i.Backend.Transact(ctx, token, writes)
}

// interrupted is another process's service, whose next change is interrupted.
func (w *world) interrupted(by *interrupted) *deployments.Service {
	w.t.Helper()
	by.Backend = w.memory
	parts := w.parts
	parts.Table = storetest.Over(w.t, by, storetest.Clock(w.now))
	return deployments.Open(parts)
}

func TestBuildsOfOneBranchHaveNumbersOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	a, b := w.put(w.issue("lime-fox", "main"), "x"), w.put(w.issue("lime-fox", "main"), "y")
	id, err := w.interrupted(&interrupted{beforeCommit: func() { w.claimed(b) }}).Claim(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if first, late := w.input(b.StatusID).Number, w.input(id).Number; first != 1 || late != 2 {
		t.Errorf("the builds have the numbers %d and %d, want 1 and 2", first, late)
	}
}

// TestClaimMeanwhileIsTheOneThatCounts has an archive of the same address
// claimed after a claim has read the upload and before it reads the deployment:
// the deployment's number does not tell of it.
func TestClaimMeanwhileIsTheOneThatCounts(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       error
	}{
		{"the same archive", "first", nil},
		{"another one", "second", deployments.ErrUnclaimed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			u := w.issue("lime-fox", "main")
			a := w.put(u, "first")
			late := w.put(u, tt.body)
			_, err := w.interrupted(&interrupted{beforeSecondRead: func() { w.claimed(a) }}).Claim(t.Context(), late)
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if in := w.input(u.StatusID); in.ETag != a.ETag || w.record(in.Deployment).Latest != 1 {
				t.Errorf("build %+v, %d were begun", in, w.record(in.Deployment).Latest)
			}
		})
	}
}

func TestFirstUploadsOfABranchAtOnceAreOfOneDeployment(t *testing.T) {
	w := newWorld(t)
	w.issue("lime-fox", "main")
	var meanwhile deployments.Upload
	u, err := w.interrupted(&interrupted{beforeCommit: func() { meanwhile = w.issue("lime-fox", "next") }}).
		IssueUpload(w.ctx(), deployments.UploadAt{Owner: full(), Project: "lime-fox", Branch: "next"})
	if err != nil {
		t.Fatal(err)
	}
	first, second := w.claimed(w.put(meanwhile, "x")), w.claimed(w.put(u, "y"))
	if first.Deployment != second.Deployment {
		t.Errorf("the branch is deployed to %s and to %s", first.Deployment, second.Deployment)
	}
}

func TestUploadDuringADeletionIsOfANewDeployment(t *testing.T) {
	w := newWorld(t)
	in := w.claim("lime-fox", "main", "x")
	u, err := w.interrupted(&interrupted{beforeCommit: func() {
		if err := w.DeleteDeployment(w.ctx(), deployments.DeploymentAt{Owner: full(), Deployment: in.Deployment}); err != nil {
			t.Error(err)
		}
	}}).IssueUpload(w.ctx(), deployments.UploadAt{Owner: full(), Project: "lime-fox", Branch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	if next := w.claimed(w.put(u, "y")); next.Deployment == in.Deployment {
		t.Errorf("the name %s is used again", next.Deployment)
	}
}

// TestEndsOfBuildsAtOnceKeepTheNewest has the second of three builds end between
// what the first one reads and what it commits when it is to be served.
func TestEndsOfBuildsAtOnceKeepTheNewest(t *testing.T) {
	served := (*world).serve
	failed := func(w *world, in deployments.BuildInput) {
		w.t.Helper()
		w.commit(deployments.Fail(w.t.Context(), w.table, in, w.now()))
	}
	goesOn := func(*world, deployments.BuildInput) {}
	for _, tt := range []struct {
		name              string
		second, third     func(*world, deployments.BuildInput)
		wantServed, ended int64
	}{
		{"the second is served", served, goesOn, 2, 2},
		{"the second fails", failed, goesOn, 1, 2},
		{"the second is served and the third has failed", served, failed, 2, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			var builds []deployments.BuildInput
			for _, archive := range []string{"x", "y", "z"} {
				builds = append(builds, w.claim("lime-fox", "main", archive))
			}
			tt.third(w, builds[2])
			serve := func() ([]store.Write, error) {
				return deployments.Serve(t.Context(), w.table, builds[0], deployments.BuildData{}, w.now())
			}
			late, err := serve()
			if err != nil {
				t.Fatal(err)
			}
			tt.second(w, builds[1])
			if err := w.table.Commit(t.Context(), late...); !errors.Is(err, store.ErrStale) {
				t.Errorf("a commit of what was read before: %v", err)
			}
			w.commit(serve()) // as the operation's next attempt does
			r := w.record(builds[0].Deployment)
			if r.Served.Number != tt.wantServed || r.Ended != tt.ended {
				t.Errorf("build %d is served and %d has ended, want %d and %d", r.Served.Number, r.Ended, tt.wantServed, tt.ended)
			}
		})
	}
}

// TestAcceptedIsTheNewestArchiveThatWasAccepted has the archives of three builds
// accepted in any order, one not at all, and one between what another one reads
// and what it commits.
func TestAcceptedIsTheNewestArchiveThatWasAccepted(t *testing.T) {
	w := newWorld(t)
	var builds []deployments.BuildInput
	for _, archive := range []string{"x", "y", "z"} {
		builds = append(builds, w.claim("lime-fox", "main", archive))
	}
	name := builds[0].Deployment
	accept := func(n int) ([]store.Write, error) {
		return deployments.Accept(t.Context(), w.table, builds[n], name+"/"+builds[n].StatusID)
	}
	want := func(n int, when string) {
		t.Helper()
		if got := w.record(name).Source; got != name+"/"+builds[n].StatusID {
			t.Errorf("%s: kept is %s, want that of build %d", when, got, n+1)
		}
	}
	w.commit(accept(0))
	w.commit(deployments.Fail(t.Context(), w.table, builds[2], w.now())) // its archive was replaced
	late, err := accept(0)
	if err != nil {
		t.Fatal(err)
	}
	w.commit(accept(1))
	want(1, "the newest build's archive was refused")
	if err := w.table.Commit(t.Context(), late...); !errors.Is(err, store.ErrStale) {
		t.Errorf("a commit of what was read before: %v", err)
	}
	w.commit(accept(0)) // as the operation's next attempt does
	want(1, "an older one came later")
}

// TestRedeployDuringAnAcceptanceTakesWhatIsAccepted: the redeploy would be the
// newest build, of older sources.
func TestRedeployDuringAnAcceptanceTakesWhatIsAccepted(t *testing.T) {
	w := newWorld(t)
	w.serve(w.claim("lime-fox", "main", "x"))
	next := w.claim("lime-fox", "main", "y")
	source := next.Deployment + "/next"
	id, err := w.interrupted(&interrupted{beforeCommit: func() {
		w.commit(deployments.Accept(t.Context(), w.table, next, source))
	}}).Redeploy(w.ctx(), deployments.DeploymentAt{Owner: full(), Deployment: next.Deployment})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.input(id).Source; got != source {
		t.Errorf("built again is %s, accepted %s", got, source)
	}
}
