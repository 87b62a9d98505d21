package deployments_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

func TestProjectIsMadeWithItsThreeBuckets(t *testing.T) {
	w := newWorld(t)
	p, err := w.CreateProject(w.ctx(), full(), "lime-fox")
	if err != nil || p.Name != "lime-fox" || p.Account != "demo" || len(p.ID) != 36 {
		t.Fatalf("project %+v, error %v", p, err)
	}
	buckets, _, err := w.keys.ListBuckets(w.ctx(), auth.Owner{AccountID: account, Viewer: full().Viewer}, store.Page{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range buckets {
		names = append(names, b.Name)
	}
	if want := []string{"lime-fox-preview", "lime-fox-production", "lime-fox-working-copy"}; !slices.Equal(names, want) {
		t.Errorf("buckets %q, want %q", names, want)
	}
}

func TestProjectNameInUseOrNotAllowedIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	if _, err := w.CreateProject(w.ctx(), full(), "lime-fox"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lime-fox", "", "-a", "a-", "A", "a_b", "a.b", "é", "a b", strings.Repeat("a", 64), "a\n"} {
		_, err := w.CreateProject(w.ctx(), full(), name)
		wantKind(t, err, fault.Unprocessable)
	}
	for _, name := range []string{"a", "0", "a-b", strings.Repeat("a", 63)} {
		if _, err := w.CreateProject(w.ctx(), full(), name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := w.CreateProject(w.ctx(), foreign(), "lime-fox"); err != nil {
		t.Errorf("another account's project of the same name: %v", err)
	}
}

func TestProjectsAreListedAsFarAsTheyAreSeen(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"b", "a", "c"} {
		if _, err := w.CreateProject(w.ctx(), full(), name); err != nil {
			t.Fatal(err)
		}
	}
	limited := auth.Full()
	limited.Projects = []string{"b", "c", "d"}
	for _, tt := range []struct {
		name  string
		owner auth.Owner
		want  string
	}{
		{"all", full(), "a b c"},
		{"a limited key", viewer(limited), "b c"},
		{"another account", foreign(), ""},
	} {
		projects, err := w.ListProjects(w.ctx(), tt.owner)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range projects {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	_, err := w.CreateProject(w.ctx(), viewer(limited), "e")
	wantKind(t, err, fault.Forbidden)
	if _, err := w.CreateProject(w.ctx(), viewer(limited), "d"); err != nil {
		t.Errorf("a project within the key's: %v", err)
	}
}

func TestFirstUploadMakesProjectEnvironmentAndBuckets(t *testing.T) {
	w := newWorld(t)
	u := w.issue("lime-fox", "feature/auth")
	if want := w.now().Add(15 * time.Minute); !u.ExpiresOn.Equal(want) {
		t.Errorf("expires on %v, want %v", u.ExpiresOn, want)
	}
	projects, err := w.ListProjects(w.ctx(), full())
	if err != nil || len(projects) != 1 {
		t.Fatalf("projects %v, error %v", projects, err)
	}
	_, total, err := w.keys.ListBuckets(w.ctx(), auth.Owner{AccountID: account, Viewer: full().Viewer}, store.Page{Limit: 10})
	if err != nil || total != 3 {
		t.Errorf("%d buckets, error %v", total, err)
	}
	in := w.claimed(w.put(u, "x"))
	if !regexp.MustCompile(`^lime-fox-feature-au-[0-9a-f]{7}$`).MatchString(in.Deployment) {
		t.Errorf("deployment %q", in.Deployment)
	}
	if in.Kind != environment.Preview || in.Number != 1 || in.Branch != "feature/auth" {
		t.Errorf("input %+v", in)
	}
	again := w.claim("lime-fox", "feature/auth", "y")
	if again.Deployment != in.Deployment || again.Number != 2 {
		t.Errorf("the second upload of the branch is for %s, build %d", again.Deployment, again.Number)
	}
	if other := w.claim("lime-fox", "main", "z"); other.Deployment == in.Deployment || other.Kind != environment.Production {
		t.Errorf("another branch is built as %+v", other)
	}
}
