package inspection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/project"
)

// excerptsAtOnce bounds the archives that a process reads at the same time for excerpts, and so their memory: a file
// of the configuration may have 24 MiB.
const excerptsAtOnce = 4

var (
	errNoSources  = fault.New(fault.NotFound, "There are no sources of this build: it has none yet, or they were removed, which they are a day after its end where it is not served and cannot be returned to. Deploy the project again.")
	errNoSuchFile = fault.New(fault.NotFound, "The build's sources have no such file that is shown. Name one of config/*.oas.json, config/policies.json and gatewright.jsonc, as the findings of its status do.")
	errBusy       = fault.New(fault.Throttled, "Too many sources are looked at right now. Ask again in a moment.")
)

// SourceAt names a place in the sources of a build: a file of the project's configuration, and a line and a column, both from 1, the
// column in characters.
type SourceAt struct {
	deployments.StatusAt
	File         string
	Line, Column int
}

// ReadSource reads what a build was made of, or was refused for, around a place. A build that failed has
// its sources for a day. Fault: NotFound for an upload, sources or a file that there are not; Throttled.
func (s *Service) ReadSource(ctx context.Context, at SourceAt) (project.Excerpt, error) {
	name, err := s.deployments.BuildSource(ctx, at.StatusAt)
	if err != nil {
		return project.Excerpt{}, err
	}
	if name == "" {
		return project.Excerpt{}, errNoSources
	}
	out, err := s.excerpt(ctx, blob.SourceKey(name), at)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return project.Excerpt{}, errNoSources
	case errors.Is(err, project.ErrNoFile):
		return project.Excerpt{}, errNoSuchFile
	case err != nil:
		return project.Excerpt{}, fmt.Errorf("read sources: %w", err)
	}
	return out, nil
}

func (s *Service) excerpt(ctx context.Context, key string, at SourceAt) (project.Excerpt, error) {
	select {
	case s.excerpts <- struct{}{}:
		defer func() { <-s.excerpts }()
	case <-ctx.Done():
		busy := *errBusy
		busy.RetryAfter = time.Second
		return project.Excerpt{}, &busy
	}
	if _, err := s.bucket.Head(ctx, key); err != nil { // which tells one that is gone from one that may not be read
		return project.Excerpt{}, err
	}
	limits := project.DefaultLimits()
	r, _, err := s.bucket.Get(ctx, key, "", limits.CompressedBytes)
	if err != nil {
		return project.Excerpt{}, err
	}
	out, err := project.ReadExcerpt(ctx, r, at.File, at.Line, at.Column, limits)
	return out, errors.Join(err, r.Close())
}
