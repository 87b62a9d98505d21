package deployments_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
)

// own gives the account a limit of its own.
func (w *world) own(l limits.Limit, value int64) {
	w.t.Helper()
	if err := counts.Open(w.parts).Set(w.ctx(), account, l, value); err != nil {
		w.t.Fatal(err)
	}
}

// asks asks for an upload address, of which kind the fault is, 0 for none.
func (w *world) asks(o auth.Owner, kind fault.Kind) deployments.Upload {
	w.t.Helper()
	u, err := w.IssueUpload(w.ctx(), deployments.UploadAt{Owner: o, Project: "shop", Branch: "main"})
	if kind == 0 && err != nil || kind != 0 && !fault.Is(err, kind) {
		w.t.Fatalf("asked for an address: %v, want %v", err, kind)
	}
	return u
}

// TestBuildsOfAnAccountAtOnceAreBounded: what has begun counts until it has ended, however it ends: addresses that nobody
// uses, builds that are served, superseded, refused, or whose deployment is gone. Another account knows nothing of it.
func TestBuildsOfAnAccountAtOnceAreBounded(t *testing.T) {
	w := newWorld(t)
	w.own(limits.Builds, 2)
	first, second := w.asks(full(), 0), w.asks(full(), 0)
	_, err := w.IssueUpload(w.ctx(), deployments.UploadAt{Owner: full(), Project: "shop", Branch: "other"})
	if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.Throttled || f.RetryAfter != 10*time.Second ||
		f.Public != "The account has 2 builds and open upload addresses, and its limit builds is 2. Repeat the request after the time in Retry-After." {
		t.Errorf("a third is answered %v", err)
	}
	w.asks(foreign(), 0)

	a, b := w.claimed(w.put(first, "first")), w.claimed(w.put(second, "second"))
	w.sleep(59 * time.Minute) // longer than an address is open
	w.asks(full(), fault.Throttled)
	w.serve(b)
	third := w.asks(full(), 0)
	w.asks(full(), fault.Throttled)
	w.commit(deployments.Superseded(t.Context(), w.table, a, w.now()))
	c := w.claimed(w.put(third, "third"))
	w.commit(deployments.Fail(t.Context(), w.table, c, w.now()))

	at := deployments.DeploymentAt{Owner: full(), Deployment: b.Deployment}
	again, err := w.Redeploy(w.ctx(), at)
	if err != nil {
		t.Fatal(err)
	}
	w.asks(full(), 0) // which nobody uses
	if _, err := w.Redeploy(w.ctx(), at); !fault.Is(err, fault.Throttled) {
		t.Errorf("a redeploy beside two builds: %v", err)
	}
	w.sleep(21 * time.Minute)
	w.asks(full(), 0)
	w.asks(full(), fault.Throttled)

	if err := w.DeleteDeployment(w.ctx(), at); err != nil {
		t.Fatal(err)
	}
	w.commit(deployments.Fail(t.Context(), w.table, w.input(again), w.now())) // its deployment is gone
	w.asks(full(), 0)
	w.asks(full(), fault.Throttled)
}

// TestProjectsAndEnvironmentsOfAnAccountAreExact on each way that makes some: by name, by an upload of which some part is
// there, and back with the deployment of a branch.
func TestProjectsAndEnvironmentsOfAnAccountAreExact(t *testing.T) {
	w := newWorld(t)
	w.own(limits.Projects, 2)
	w.own(limits.Environments, 3)
	want := func(err error, kind fault.Kind) {
		t.Helper()
		if kind == 0 && err != nil || kind != 0 && !fault.Is(err, kind) {
			t.Fatalf("got %v, want %v", err, kind)
		}
	}
	project := func(name string) error { _, err := w.CreateProject(w.ctx(), full(), name); return err }
	branch := func(project, name string) error {
		_, err := w.CreateEnvironment(w.ctx(), full(), project, name, environment.OfBranch(name))
		return err
	}
	upload := func(project, branch string) error {
		_, err := w.IssueUpload(w.ctx(), deployments.UploadAt{Owner: full(), Project: project, Branch: branch})
		return err
	}
	want(project("one"), 0)
	want(upload("two", "main"), 0)
	want(project("three"), fault.Forbidden)
	want(upload("three", "main"), fault.Forbidden)
	want(project("one"), fault.Forbidden) // at the limit a name in use is no better
	want(branch("one", "main"), 0)
	want(upload("one", "a"), 0)
	want(upload("one", "b"), fault.Forbidden)
	want(branch("two", "b"), fault.Forbidden)
	for n := range 2 { // what is there is built, and goes with its deployment
		in := w.claim("one", []string{"a", "c0"}[n], fmt.Sprint("archive ", n))
		w.serve(in)
		want(w.DeleteDeployment(w.ctx(), deployments.DeploymentAt{Owner: full(), Deployment: in.Deployment}), 0)
		want(upload("one", fmt.Sprint("c", n)), 0)
		want(branch("two", "b"), fault.Forbidden)
	}
	w.own(limits.Environments, 1) // what there is stays
	want(upload("two", "main"), 0)
	want(upload("two", "b"), fault.Forbidden)
	if envs, err := w.ListEnvironments(w.ctx(), full(), "one"); err != nil || len(envs) != 2 {
		t.Errorf("%+v, %v", envs, err)
	}
}

// TestDeploymentsOfADayAreExact over addresses and builds of what is there; a refusal tells when the next day begins.
func TestDeploymentsOfADayAreExact(t *testing.T) {
	w := newWorld(t)
	w.own(limits.Deployments, 3)
	in := w.claimed(w.put(w.asks(full(), 0), "first"))
	w.serve(in)
	at := deployments.DeploymentAt{Owner: full(), Deployment: in.Deployment}
	if _, err := w.Redeploy(w.ctx(), at); err != nil {
		t.Fatal(err)
	}
	w.asks(full(), 0)
	w.asks(foreign(), 0)
	_, err := w.Redeploy(w.ctx(), at)
	tomorrow := w.now().Truncate(24 * time.Hour).Add(24 * time.Hour)
	if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.Throttled || f.RetryAfter-tomorrow.Sub(w.now()) < 0 || f.RetryAfter-tomorrow.Sub(w.now()) >= time.Second {
		t.Errorf("a fourth is answered %+v", err)
	}
	w.asks(full(), fault.Throttled)
	w.sleep(tomorrow.Sub(w.now()))
	w.asks(full(), 0)
}
