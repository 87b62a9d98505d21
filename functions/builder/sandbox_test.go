package builder_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/builds"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// sandbox is a Sandbox whose first runs end with the errors errs, one after the other. Later runs compile the project.
type sandbox struct {
	errs []error
	runs int
}

func (s *sandbox) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	s.runs++
	if len(s.errs) == 0 {
		return builds.ServeBuild(ctx, bufio.NewReader(in), out)
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return err
}

// TestBuildExceedingSandboxLimitsFails ends the process of a build before it returns a result. A build that needs too
// much memory must fail immediately. A build that takes too long must fail the second time. An internal failure must be
// retried, but not forever.
func TestBuildExceedingSandboxLimitsFails(t *testing.T) {
	crash := errors.New("exit status 2")
	for _, tt := range []struct {
		name    string
		errs    []error
		runs    int
		status  deployments.BuildStatus
		message string
	}{
		{"valid project", nil, 1, deployments.Success, ""},
		{"too much memory", []error{builds.TooLarge()}, 1, deployments.Failure, `"memory"`},
		{"two timeouts", []error{builds.TooSlow(), builds.TooSlow()}, 2, deployments.Failure, `"time"`},
		{"one timeout", []error{builds.TooSlow()}, 2, deployments.Success, ""},
		{"crashes", []error{crash, crash, crash, crash, crash, crash, crash, crash}, 8, deployments.Failure, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sandbox{errs: tt.errs}
				fx := newFixtureWith(t, s)
				u := fx.issueUpload("main")
				fx.upload(u.StatusID, pack(t, simpleProject("https://example.com")))
				status := fx.status(u.StatusID)
				for range 30 {
					if status.Status != deployments.InProgress {
						break
					}
					time.Sleep(time.Minute)
					if err := fx.engine.Sweep(fx.Context()); err != nil {
						t.Fatal(err)
					}
					status = fx.status(u.StatusID)
				}
				if status.Status != tt.status || s.runs != tt.runs {
					t.Errorf("status = %+v after %d runs, want %v after %d", status, s.runs, tt.status, tt.runs)
				}
				var messages strings.Builder
				for _, e := range status.Errors {
					messages.WriteString(e.Message)
				}
				if !strings.Contains(messages.String(), tt.message) {
					t.Errorf("messages of the errors = %q, want %q in them", &messages, tt.message)
				}
			})
		})
	}
}
