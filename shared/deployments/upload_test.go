package deployments_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
)

func locations(f *fault.Fault) []string {
	var out []string
	for _, d := range f.Details {
		out = append(out, d.Field)
	}
	return out
}

func TestBadUploadsAreRefused(t *testing.T) {
	w := newWorld(t)
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
		{"a bad project", "Lime", "main", fault.Invalid, "projectName"},
		{"no project", "", "main", fault.NotFound, ""},
	} {
		_, err := w.IssueUpload(w.ctx(), deployments.UploadAt{Owner: viewer(auth.Permissions{Projects: []string{"lime-fox", "Lime"}, Environments: environment.Kinds()}), Project: tt.project, Branch: tt.branch})
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != tt.want {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if field := strings.Join(locations(f), " "); field != tt.field {
			t.Errorf("%s: the field %q is named, want %q", tt.name, field, tt.field)
		}
	}
	preview := auth.Full()
	preview.Environments = []environment.Kind{environment.Preview}
	_, err := w.IssueUpload(w.ctx(), deployments.UploadAt{Owner: viewer(preview), Project: "lime-fox", Branch: "main"})
	wantKind(t, err, fault.NotFound)
	if items := w.memory.Items(); len(items) != 0 {
		t.Errorf("%d items were written", len(items))
	}
}

// TestConcurrentFirstUploadsMakeOneEnvironment races uploads of one branch.
func TestConcurrentFirstUploadsMakeOneEnvironment(t *testing.T) {
	w := newWorld(t)
	const n = 8
	var all sync.WaitGroup
	ids := make([]string, n)
	for i := range n {
		all.Go(func() {
			u, err := w.IssueUpload(w.ctx(), deployments.UploadAt{Owner: full(), Project: "lime-fox", Branch: "main"})
			if err != nil {
				t.Error(err)
			}
			ids[i] = u.StatusID
		})
	}
	all.Wait()
	names := map[string]bool{}
	for i, id := range ids {
		o := w.bucket.Upload(blob.UploadKey(id), fmt.Append(nil, i))
		names[w.claimed(deployments.Arrival{StatusID: id, ETag: o.ETag, On: w.now()}).Deployment] = true
	}
	if len(names) != 1 {
		t.Errorf("deployments %v, want one", names)
	}
}

func TestClaimTakesTheFirstArchiveAlone(t *testing.T) {
	w := newWorld(t)
	u := w.issue("lime-fox", "main")
	first := w.put(u, "first")
	in := w.claimed(first)
	if again := w.claimed(first); again != in {
		t.Errorf("the same event again: %+v, first %+v", again, in)
	}
	_, err := w.Claim(t.Context(), w.put(u, "second"))
	if !errors.Is(err, deployments.ErrUnclaimed) {
		t.Errorf("a second archive: %v", err)
	}
	_, err = w.Claim(t.Context(), deployments.Arrival{StatusID: w.ids.UUID(), ETag: "e", On: w.now()})
	if !errors.Is(err, deployments.ErrUnclaimed) {
		t.Errorf("an archive without an address: %v", err)
	}
	if latest := w.record(in.Deployment).Latest; latest != 1 {
		t.Errorf("%d builds were begun", latest)
	}
}

func TestClaimRefusesLateArchives(t *testing.T) {
	for _, tt := range []struct {
		name           string
		arrives, heard time.Duration
		claimed        bool
		want           deployments.BuildStatus
	}{
		{"in time", 15 * time.Minute, 15 * time.Minute, true, deployments.InProgress},
		{"in time, and heard of later", 14 * time.Minute, 19 * time.Minute, true, deployments.InProgress},
		{"too late", 15*time.Minute + time.Second, 15*time.Minute + time.Second, false, deployments.InProgress},
		{"in time, and heard of much later", 14 * time.Minute, 21 * time.Minute, false, deployments.Failure},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			u := w.issue("lime-fox", "main")
			w.sleep(tt.arrives)
			a := w.put(u, "x")
			w.sleep(tt.heard - tt.arrives)
			_, err := w.Claim(t.Context(), a)
			if (err == nil) != tt.claimed || err != nil && !errors.Is(err, deployments.ErrUnclaimed) {
				t.Errorf("error %v", err)
			}
			s, err := w.ReadStatus(w.ctx(), deployments.StatusAt{Owner: full(), Project: "lime-fox", StatusID: u.StatusID})
			if err != nil || s.Status != tt.want {
				t.Errorf("status %+v, error %v, want %s", s, err, tt.want)
			}
		})
	}
}

func TestConcurrentClaimsBeginOneBuild(t *testing.T) {
	w := newWorld(t)
	a := w.put(w.issue("lime-fox", "main"), "x")
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if id, err := w.Claim(t.Context(), a); err != nil || id != a.StatusID {
				t.Errorf("operation %q, error %v", id, err)
			}
		})
	}
	all.Wait()
	if latest := w.record(w.input(a.StatusID).Deployment).Latest; latest != 1 {
		t.Errorf("%d builds were begun", latest)
	}
}

func TestUnusedAddressEndsInError(t *testing.T) {
	w := newWorld(t)
	u := w.issue("lime-fox", "main")
	at := deployments.StatusAt{Owner: full(), Project: "lime-fox", StatusID: u.StatusID}
	s, err := w.ReadStatus(w.ctx(), at)
	if err != nil || s.Status != deployments.InProgress || s.URL != "" || s.BuildID != "" {
		t.Errorf("status %+v, error %v", s, err)
	}
	w.sleep(20*time.Minute + time.Second) // a claim may have begun a moment ago
	if s, err := w.ReadStatus(w.ctx(), at); err != nil || s.Status != deployments.InProgress {
		t.Errorf("status %+v, error %v", s, err)
	}
	w.sleep(time.Minute)
	s, err = w.ReadStatus(w.ctx(), at)
	if err != nil || s.Status != deployments.Failure || len(s.Errors) != 1 {
		t.Errorf("status %+v, error %v", s, err)
	}
	w.sleep(31 * 24 * time.Hour)
	_, err = w.ReadStatus(w.ctx(), at)
	wantKind(t, err, fault.NotFound)
}
