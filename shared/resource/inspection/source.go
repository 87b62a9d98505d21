package inspection

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// maxConcurrentExcerpts is the maximum number of archives that a process reads concurrently for excerpts. It limits
// the memory for the configuration files of these archives, which can take 24 MiB for each archive.
const maxConcurrentExcerpts = 4

var (
	errNoSources = fault.New(fault.NotFound, "There are no sources of this build: it has none yet, or they were "+
		"removed, which they are a day after its end where it is not served and cannot be returned to. Deploy the "+
		"project again.")
	errNoSuchFile = fault.New(fault.NotFound, "The build's sources have no such file that is shown. Name one of "+
		"config/*.oas.json, config/*.oas.yaml, config/policies.json and gatewright.jsonc, as the findings of its status do.")
	errBusy = fault.New(fault.Throttled, "Too many sources are looked at right now. Ask again in a moment.")
)

// SourceLocator identifies a position in the sources of a build: a file of the project's configuration, a line and a column.
// Line and Column begin at 1. Column counts characters.
type SourceLocator struct {
	deployments.StatusLocator
	File         string
	Line, Column int
}

// ReadSource returns an excerpt of a build's sources around a position. The build may have failed. In this case, its
// sources are available for a day. ReadSource returns NotFound for a missing upload, missing sources or a missing
// file. It returns Throttled if ctx ends while maxConcurrentExcerpts other archives are being read.
func (s *Service) ReadSource(ctx context.Context, at SourceLocator) (project.Excerpt, error) {
	name, err := s.deployments.BuildSource(ctx, at.StatusLocator)
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
	case errors.Is(err, project.ErrFileNotFound):
		return project.Excerpt{}, errNoSuchFile
	case err != nil:
		return project.Excerpt{}, fmt.Errorf("read sources: %w", err)
	}
	return out, nil
}

// excerpt waits for a free slot, and reads the excerpt from the archive with this key.
func (s *Service) excerpt(ctx context.Context, key string, at SourceLocator) (project.Excerpt, error) {
	select {
	case s.excerptSlots <- struct{}{}:
		defer func() { <-s.excerptSlots }()
	case <-ctx.Done():
		busy := *errBusy
		busy.RetryAfter = time.Second
		return project.Excerpt{}, &busy
	}
	// Head distinguishes a missing archive from an archive that cannot be read.
	if _, err := s.bucket.Head(ctx, key); err != nil {
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
