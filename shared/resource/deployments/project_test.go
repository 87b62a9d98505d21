package deployments_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

func TestProjectHasThreeBuckets(t *testing.T) {
	fx := newFixture(t)
	p, err := fx.CreateProject(fx.requestContext(), fullOwner(), "lime-fox")
	if err != nil || p.Name != "lime-fox" || p.Account != "demo" || len(p.ID) != 36 {
		t.Fatalf("CreateProject(lime-fox) = %+v, %v, want lime-fox of account demo with an ID of 36 characters", p, err)
	}
	buckets, _, err := fx.keys.ListBuckets(fx.requestContext(), auth.Owner{AccountID: account, Viewer: fullOwner().Viewer},
		store.Page{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range buckets {
		names = append(names, b.Name)
	}
	if want := []string{"lime-fox-preview", "lime-fox-production", "lime-fox-working-copy"}; !slices.Equal(names, want) {
		t.Errorf("ListBuckets() = %q, want %q", names, want)
	}
}

func TestInvalidProjectNameIsUnprocessable(t *testing.T) {
	fx := newFixture(t)
	if _, err := fx.CreateProject(fx.requestContext(), fullOwner(), "lime-fox"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"lime-fox", "", "-a", "a-", "A", "a_b", "a.b", "é", "a b", strings.Repeat("a", 64),
		"a\n",
	} {
		if _, err := fx.CreateProject(fx.requestContext(), fullOwner(), name); !fault.Is(err, fault.Unprocessable) {
			t.Errorf("CreateProject(%q) error = %v, want %v", name, err, fault.Unprocessable)
		}
	}
	for _, name := range []string{"a", "0", "a-b", strings.Repeat("a", 63)} {
		if _, err := fx.CreateProject(fx.requestContext(), fullOwner(), name); err != nil {
			t.Errorf("CreateProject(%q) error = %v, want none", name, err)
		}
	}
	if _, err := fx.CreateProject(fx.requestContext(), otherOwner(), "lime-fox"); err != nil {
		t.Errorf("CreateProject() in another account, with the same name: error = %v, want none", err)
	}
}

func TestListProjectsReturnsVisibleProjects(t *testing.T) {
	fx := newFixture(t)
	for _, name := range []string{"b", "a", "c"} {
		if _, err := fx.CreateProject(fx.requestContext(), fullOwner(), name); err != nil {
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
		{"a full key", fullOwner(), "a b c"},
		{"a limited key", ownerWith(limited), "b c"},
		{"another account", otherOwner(), ""},
	} {
		projects, err := fx.ListProjects(fx.requestContext(), tt.owner)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range projects {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("ListProjects(%s) = %q, want %q", tt.name, got, tt.want)
		}
	}
	_, err := fx.CreateProject(fx.requestContext(), ownerWith(limited), "e")
	wantKind(t, err, fault.Forbidden)
	if _, err := fx.CreateProject(fx.requestContext(), ownerWith(limited), "d"); err != nil {
		t.Errorf("CreateProject(d) with a key for d: error = %v, want none", err)
	}
}

func TestFirstUploadCreatesProject(t *testing.T) {
	fx := newFixture(t)
	u := fx.issueUpload("lime-fox", "feature/auth")
	if want := fx.now().Add(15 * time.Minute); !u.ExpiresOn.Equal(want) {
		t.Errorf("IssueUpload() ExpiresOn = %v, want %v", u.ExpiresOn, want)
	}
	projects, err := fx.ListProjects(fx.requestContext(), fullOwner())
	if err != nil || len(projects) != 1 {
		t.Fatalf("ListProjects() = %v, %v, want 1 project and no error", projects, err)
	}
	_, total, err := fx.keys.ListBuckets(fx.requestContext(), auth.Owner{AccountID: account, Viewer: fullOwner().Viewer},
		store.Page{Limit: 10})
	if err != nil || total != 3 {
		t.Errorf("ListBuckets() = %d buckets, %v, want 3 and no error", total, err)
	}
	in := fx.claimArrival(fx.uploadArchive(u, "x"))
	if !regexp.MustCompile(`^lime-fox-feature-au-[0-9a-f]{7}$`).MatchString(in.Deployment) {
		t.Errorf("deployment = %q, want lime-fox-feature-au- and 7 hex digits", in.Deployment)
	}
	if in.Kind != environment.Preview || in.Number != 1 || in.Branch != "feature/auth" {
		t.Errorf("input = %+v, want build 1 of branch feature/auth in %s", in, environment.Preview)
	}
	second := fx.claimNew("lime-fox", "feature/auth", "y")
	if second.Deployment != in.Deployment || second.Number != 2 {
		t.Errorf("second upload of the branch = %s, build %d, want %s, build 2",
			second.Deployment, second.Number, in.Deployment)
	}
	if other := fx.claimNew("lime-fox", "main", "z"); other.Deployment == in.Deployment ||
		other.Kind != environment.Production {
		t.Errorf("upload of another branch = %+v, want another deployment in %s", other, environment.Production)
	}
}
