package deployments_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// interruptedBackend calls a function once in the middle of a change: before the second read, or before the commit.
// Concurrent goroutines would rarely meet there with a table in memory.
type interruptedBackend struct {
	store.Backend
	beforeCommit, beforeSecondRead func()
	reads                          int
}

// Read implements store.Backend.
func (i *interruptedBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if i.reads++; i.reads == 2 && i.beforeSecondRead != nil {
		i.beforeSecondRead()
	}
	return i.Backend.Read(ctx, keys)
}

// Transact implements store.Backend.
func (i *interruptedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if beforeCommit := i.beforeCommit; beforeCommit != nil {
		i.beforeCommit = nil
		beforeCommit()
	}
	return i.Backend.Transact(ctx, token, writes)
}

// interruptedService returns the service of another process with the same data. backend interrupts the next change of
// this service.
func (fx *fixture) interruptedService(backend *interruptedBackend) *deployments.Service {
	fx.t.Helper()
	backend.Backend = fx.memory
	parts := fx.parts
	parts.Table = storetest.NewWithBackend(fx.t, backend, storetest.Clock(fx.now))
	return deployments.Open(parts)
}

func TestConcurrentBuildsHaveUniqueNumbers(t *testing.T) {
	fx := newFixture(t)
	a, b := fx.uploadArchive(fx.issueUpload("lime-fox", "main"), "x"),
		fx.uploadArchive(fx.issueUpload("lime-fox", "main"), "y")
	id, err := fx.interruptedService(&interruptedBackend{beforeCommit: func() {
		fx.claimArrival(b)
	}}).Claim(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if first, second := fx.input(b.StatusID).Number, fx.input(id).Number; first != 1 || second != 2 {
		t.Errorf("numbers of the builds = %d and %d, want 1 and 2", first, second)
	}
}

// TestFirstOfConcurrentClaimsWins interrupts a claim after it has read the upload and before it reads the deployment.
// Meanwhile, the first archive of the same address is claimed. If the interrupted claim is for another archive, it must
// be refused, although it cannot see the conflict in the deployment's number.
func TestFirstOfConcurrentClaimsWins(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		want       error
	}{
		{"the same archive", "first", nil},
		{"another archive", "second", deployments.ErrUnclaimed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			u := fx.issueUpload("lime-fox", "main")
			a := fx.uploadArchive(u, "first")
			second := fx.uploadArchive(u, tt.body)
			_, err := fx.interruptedService(&interruptedBackend{beforeSecondRead: func() {
				fx.claimArrival(a)
			}}).Claim(t.Context(), second)
			if !errors.Is(err, tt.want) {
				t.Errorf("interrupted Claim() error = %v, want %v", err, tt.want)
			}
			if in := fx.input(u.StatusID); in.ETag != a.ETag || fx.record(in.Deployment).Latest != 1 {
				t.Errorf("claimed build = %+v, latest = %d, want ETag %s and latest 1",
					in, fx.record(in.Deployment).Latest, a.ETag)
			}
		})
	}
}

func TestConcurrentFirstUploadsShareOneDeployment(t *testing.T) {
	fx := newFixture(t)
	fx.issueUpload("lime-fox", "main")
	var concurrent deployments.Upload
	u, err := fx.interruptedService(&interruptedBackend{beforeCommit: func() {
		concurrent = fx.issueUpload("lime-fox", "next")
	}}).
		IssueUpload(fx.requestContext(), deployments.UploadLocator{Owner: fullOwner(), Project: "lime-fox", Branch: "next"})
	if err != nil {
		t.Fatal(err)
	}
	first, second := fx.claimArrival(fx.uploadArchive(concurrent, "x")), fx.claimArrival(fx.uploadArchive(u, "y"))
	if first.Deployment != second.Deployment {
		t.Errorf("deployments of one branch = %s and %s, want the same", first.Deployment, second.Deployment)
	}
}

func TestUploadDuringDeletionCreatesNewDeployment(t *testing.T) {
	fx := newFixture(t)
	in := fx.claimNew("lime-fox", "main", "x")
	u, err := fx.interruptedService(&interruptedBackend{beforeCommit: func() {
		if err := fx.DeleteDeployment(fx.requestContext(),
			deployments.DeploymentLocator{Owner: fullOwner(), Deployment: in.Deployment}); err != nil {
			t.Error(err)
		}
	}}).IssueUpload(fx.requestContext(), deployments.UploadLocator{
		Owner: fullOwner(), Project: "lime-fox", Branch: "main",
	})
	if err != nil {
		t.Fatal(err)
	}
	if next := fx.claimArrival(fx.uploadArchive(u, "y")); next.Deployment == in.Deployment {
		t.Errorf("name of the next deployment = %s, want another name than before", next.Deployment)
	}
}

// TestConcurrentBuildEndsServeNewest ends the second of three builds between the read and the commit of the first
// build's end.
func TestConcurrentBuildEndsServeNewest(t *testing.T) {
	served := (*fixture).serve
	failed := func(fx *fixture, in deployments.BuildInput) {
		fx.t.Helper()
		fx.commit(deployments.Fail(fx.t.Context(), fx.table, in, fx.now()))
	}
	keepRunning := func(*fixture, deployments.BuildInput) {}
	for _, tt := range []struct {
		name                  string
		second, third         func(*fixture, deployments.BuildInput)
		wantServed, wantEnded int64
	}{
		{"the second is served", served, keepRunning, 2, 2},
		{"the second fails", failed, keepRunning, 1, 2},
		{"the second is served and the third has failed", served, failed, 2, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			var builds []deployments.BuildInput
			for _, archive := range []string{"x", "y", "z"} {
				builds = append(builds, fx.claimNew("lime-fox", "main", archive))
			}
			tt.third(fx, builds[2])
			serve := func() ([]store.Write, error) {
				return deployments.Serve(t.Context(), fx.table, builds[0], deployments.BuildData{}, fx.now())
			}
			staleWrites, err := serve()
			if err != nil {
				t.Fatal(err)
			}
			tt.second(fx, builds[1])
			if err := fx.table.Commit(t.Context(), staleWrites...); !errors.Is(err, store.ErrStale) {
				t.Errorf("Commit(stale writes) error = %v, want %v", err, store.ErrStale)
			}
			fx.commit(serve()) // the operation's next attempt
			r := fx.record(builds[0].Deployment)
			if r.Served.Number != tt.wantServed || r.LatestEnded != tt.wantEnded {
				t.Errorf("served build = %d, latest ended = %d, want %d and %d",
					r.Served.Number, r.LatestEnded, tt.wantServed, tt.wantEnded)
			}
		})
	}
}

// TestNewestAcceptedArchiveIsKept accepts the archives of the first two builds, while the third build fails without an
// accepted archive. The second archive is accepted between the read and the commit of a repeated acceptance of the
// first.
func TestNewestAcceptedArchiveIsKept(t *testing.T) {
	fx := newFixture(t)
	var builds []deployments.BuildInput
	for _, archive := range []string{"x", "y", "z"} {
		builds = append(builds, fx.claimNew("lime-fox", "main", archive))
	}
	name := builds[0].Deployment
	accept := func(n int) ([]store.Write, error) {
		return deployments.Accept(t.Context(), fx.table, builds[n], name+"/"+builds[n].StatusID)
	}
	checkSource := func(n int, when string) {
		t.Helper()
		if got := fx.record(name).Source; got != name+"/"+builds[n].StatusID {
			t.Errorf("after %s: Source = %s, want the archive of build %d", when, got, n+1)
		}
	}
	fx.commit(accept(0))
	fx.commit(deployments.Fail(t.Context(), fx.table, builds[2], fx.now())) // its archive was refused
	staleWrites, err := accept(0)
	if err != nil {
		t.Fatal(err)
	}
	fx.commit(accept(1))
	checkSource(1, "a refusal of the newest build's archive")
	if err := fx.table.Commit(t.Context(), staleWrites...); !errors.Is(err, store.ErrStale) {
		t.Errorf("Commit(stale writes) error = %v, want %v", err, store.ErrStale)
	}
	fx.commit(accept(0)) // the operation's next attempt
	checkSource(1, "a repeated acceptance of an older archive")
}

// TestRedeployUsesConcurrentlyAcceptedArchive accepts an archive just before a redeploy is committed. The redeploy must
// build this archive: otherwise the newest build would have older sources.
func TestRedeployUsesConcurrentlyAcceptedArchive(t *testing.T) {
	fx := newFixture(t)
	fx.serve(fx.claimNew("lime-fox", "main", "x"))
	next := fx.claimNew("lime-fox", "main", "y")
	source := next.Deployment + "/next"
	id, err := fx.interruptedService(&interruptedBackend{beforeCommit: func() {
		fx.commit(deployments.Accept(t.Context(), fx.table, next, source))
	}}).Redeploy(fx.requestContext(), deployments.DeploymentLocator{Owner: fullOwner(), Deployment: next.Deployment})
	if err != nil {
		t.Fatal(err)
	}
	if got := fx.input(id).Source; got != source {
		t.Errorf("source of the redeploy = %s, want %s", got, source)
	}
}
