package deployments_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

func fieldNames(f *fault.Fault) []string {
	var out []string
	for _, d := range f.Details {
		out = append(out, d.Field)
	}
	return out
}

func TestInvalidUploadsAreRefused(t *testing.T) {
	fx := newFixture(t)
	for _, tt := range []struct {
		name            string
		project, branch string
		want            fault.Kind
		field           string
	}{
		{"no branch", "lime-fox", "", fault.Invalid, "branchName"},
		{"a long branch", "lime-fox", strings.Repeat("b", 256), fault.Invalid, "branchName"},
		{"a branch with NUL", "lime-fox", "a\x00b", fault.Invalid, "branchName"},
		{"a branch that is no UTF-8", "lime-fox", "a\xffb", fault.Invalid, "branchName"},
		{"an invalid project name", "Lime", "main", fault.Invalid, "projectName"},
		{"no project", "", "main", fault.NotFound, ""},
	} {
		_, err := fx.IssueUpload(fx.requestContext(),
			deployments.UploadLocator{Owner: ownerWith(auth.Permissions{
				Projects:     []string{"lime-fox", "Lime"},
				Environments: environment.Kinds(),
			}), Project: tt.project, Branch: tt.branch})
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != tt.want {
			t.Errorf("IssueUpload(%s) error = %v, want %v", tt.name, err, tt.want)
			continue
		}
		if field := strings.Join(fieldNames(f), " "); field != tt.field {
			t.Errorf("IssueUpload(%s) refuses the field %q, want %q", tt.name, field, tt.field)
		}
	}
	preview := auth.Full()
	preview.Environments = []environment.Kind{environment.Preview}
	_, err := fx.IssueUpload(fx.requestContext(), deployments.UploadLocator{
		Owner: ownerWith(preview), Project: "lime-fox",
		Branch: "main",
	})
	wantKind(t, err, fault.NotFound)
	if items := fx.memory.Items(); len(items) != 0 {
		t.Errorf("refused IssueUpload() writes %d items, want 0", len(items))
	}
}

// TestConcurrentFirstUploadsCreateOneDeployment requests the first upload addresses of a branch concurrently, and
// checks that all of them belong to one deployment.
func TestConcurrentFirstUploadsCreateOneDeployment(t *testing.T) {
	fx := newFixture(t)
	const n = 8
	var wg sync.WaitGroup
	ids := make([]string, n)
	for i := range n {
		wg.Go(func() {
			u, err := fx.IssueUpload(fx.requestContext(), deployments.UploadLocator{
				Owner: fullOwner(), Project: "lime-fox",
				Branch: "main",
			})
			if err != nil {
				t.Errorf("concurrent IssueUpload() error = %v, want none", err)
			}
			ids[i] = u.StatusID
		})
	}
	wg.Wait()
	names := map[string]bool{}
	for i, id := range ids {
		o := fx.bucket.Upload(blob.UploadKey(id), fmt.Append(nil, i))
		names[fx.claimArrival(deployments.Arrival{StatusID: id, ETag: o.ETag, UploadedOn: fx.now()}).Deployment] = true
	}
	if len(names) != 1 {
		t.Errorf("deployments of the uploads = %v, want one", names)
	}
}

func TestClaimAcceptsOnlyFirstArchive(t *testing.T) {
	fx := newFixture(t)
	u := fx.issueUpload("lime-fox", "main")
	first := fx.uploadArchive(u, "first")
	in := fx.claimArrival(first)
	if repeated := fx.claimArrival(first); repeated != in {
		t.Errorf("Claim(same event again) = %+v, want %+v", repeated, in)
	}
	_, err := fx.Claim(t.Context(), fx.uploadArchive(u, "second"))
	if !errors.Is(err, deployments.ErrUnclaimed) {
		t.Errorf("Claim(second archive) error = %v, want %v", err, deployments.ErrUnclaimed)
	}
	_, err = fx.Claim(t.Context(), deployments.Arrival{StatusID: fx.ids.UUID(), ETag: "e", UploadedOn: fx.now()})
	if !errors.Is(err, deployments.ErrUnclaimed) {
		t.Errorf("Claim(archive without an upload) error = %v, want %v", err, deployments.ErrUnclaimed)
	}
	if latest := fx.record(in.Deployment).Latest; latest != 1 {
		t.Errorf("latest build = %d, want 1", latest)
	}
}

func TestClaimRefusesLateArchives(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		uploadedAfter, eventAfter time.Duration
		claimed                   bool
		want                      deployments.BuildStatus
	}{
		{"an upload in time", 15 * time.Minute, 15 * time.Minute, true, deployments.InProgress},
		{"an upload in time, and a late event", 14 * time.Minute, 19 * time.Minute, true, deployments.InProgress},
		{"a late upload", 15*time.Minute + time.Second, 15*time.Minute + time.Second, false, deployments.InProgress},
		{"an upload in time, and a very late event", 14 * time.Minute, 21 * time.Minute, false, deployments.Failure},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			u := fx.issueUpload("lime-fox", "main")
			fx.advance(tt.uploadedAfter)
			a := fx.uploadArchive(u, "x")
			fx.advance(tt.eventAfter - tt.uploadedAfter)
			_, err := fx.Claim(t.Context(), a)
			if (err == nil) != tt.claimed || err != nil && !errors.Is(err, deployments.ErrUnclaimed) {
				t.Errorf("Claim() error = %v, want an error: %t, and only %v", err, !tt.claimed, deployments.ErrUnclaimed)
			}
			s, err := fx.ReadStatus(fx.requestContext(), deployments.StatusLocator{
				Owner: fullOwner(), Project: "lime-fox",
				StatusID: u.StatusID,
			})
			if err != nil || s.Status != tt.want {
				t.Errorf("ReadStatus() = %+v, %v, want %s and no error", s, err, tt.want)
			}
		})
	}
}

func TestConcurrentClaimsBeginOneBuild(t *testing.T) {
	fx := newFixture(t)
	a := fx.uploadArchive(fx.issueUpload("lime-fox", "main"), "x")
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if id, err := fx.Claim(t.Context(), a); err != nil || id != a.StatusID {
				t.Errorf("Claim() = %q, %v, want %q and no error", id, err, a.StatusID)
			}
		})
	}
	wg.Wait()
	if latest := fx.record(fx.input(a.StatusID).Deployment).Latest; latest != 1 {
		t.Errorf("latest build = %d, want 1", latest)
	}
}

func TestUnusedUploadURLExpiresWithError(t *testing.T) {
	fx := newFixture(t)
	u := fx.issueUpload("lime-fox", "main")
	at := deployments.StatusLocator{Owner: fullOwner(), Project: "lime-fox", StatusID: u.StatusID}
	s, err := fx.ReadStatus(fx.requestContext(), at)
	if err != nil || s.Status != deployments.InProgress || s.URL != "" || s.BuildID != "" {
		t.Errorf("ReadStatus(new upload) = %+v, %v, want %s without URL and build", s, err, deployments.InProgress)
	}
	fx.advance(20*time.Minute + time.Second) // within claimMargin, a claim may still be in progress
	if s, err := fx.ReadStatus(fx.requestContext(), at); err != nil || s.Status != deployments.InProgress {
		t.Errorf("ReadStatus(expired upload) within claimMargin = %+v, %v, want %s", s, err, deployments.InProgress)
	}
	fx.advance(time.Minute)
	s, err = fx.ReadStatus(fx.requestContext(), at)
	if err != nil || s.Status != deployments.Failure || len(s.Errors) != 1 {
		t.Errorf("ReadStatus(expired upload) = %+v, %v, want %s with 1 error", s, err, deployments.Failure)
	}
	fx.advance(31 * 24 * time.Hour)
	_, err = fx.ReadStatus(fx.requestContext(), at)
	wantKind(t, err, fault.NotFound)
}
