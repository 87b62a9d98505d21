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

	"github.com/gatewright/gatewright/shared/builds"
	"github.com/gatewright/gatewright/shared/deployments"
)

// sandbox answers what its process would end with.
type sandbox struct {
	ends []error
	runs int
}

func (s *sandbox) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	s.runs++
	if len(s.ends) == 0 {
		return builds.Work(ctx, bufio.NewReader(in), out)
	}
	end := s.ends[0]
	s.ends = s.ends[1:]
	return end
}

// TestBuildThatExhaustsItsSandboxFails has the process of a build end before it
// answers: what takes too much memory fails at once, what takes too long the
// second time, and a failure of ours is tried again. None is tried for ever.
func TestBuildThatExhaustsItsSandboxFails(t *testing.T) {
	crash := errors.New("exit status 2")
	for _, tt := range []struct {
		name  string
		ends  []error
		runs  int
		state deployments.BuildStatus
		want  string
	}{
		{"nothing", nil, 1, deployments.Success, ""},
		{"memory", []error{builds.TooLarge()}, 1, deployments.Failure, `"memory"`},
		{"time", []error{builds.TooSlow(), builds.TooSlow()}, 2, deployments.Failure, `"time"`},
		{"time once", []error{builds.TooSlow()}, 2, deployments.Success, ""},
		{"a crash", []error{crash, crash, crash, crash, crash, crash, crash, crash}, 8, deployments.Failure, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sandbox{ends: tt.ends}
				i := installWith(t, s)
				u := i.issue("main")
				i.upload(u.StatusID, pack(t, simple("https://example.com")))
				status := i.status(u.StatusID)
				for range 30 {
					if status.Status != deployments.InProgress {
						break
					}
					time.Sleep(time.Minute)
					if err := i.engine.Sweep(i.Context()); err != nil {
						t.Fatal(err)
					}
					status = i.status(u.StatusID)
				}
				if status.Status != tt.state || s.runs != tt.runs {
					t.Errorf("the build is %+v after %d runs", status, s.runs)
				}
				var told strings.Builder
				for _, e := range status.Errors {
					told.WriteString(e.Message)
				}
				if !strings.Contains(told.String(), tt.want) {
					t.Errorf("errors %q", &told)
				}
			})
		})
	}
}
