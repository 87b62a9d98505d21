// Package inspection shows the contents of a deployment: the served
// routes, and excerpts of a build's sources, for example around a finding.
//
// Package inspection changes nothing. Package deployments decides which callers can see a deployment or an upload.
// Inspection is not part of package deployments, because it imports the compiler, which the other users of package
// deployments do not need.
//
// Read this file first, then source.go.
package inspection

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// Service returns the contents of deployments. It is safe for concurrent use.
type Service struct {
	deployments  *deployments.Service
	artifacts    *artifacts.Store
	bucket       installation.Bucket
	excerptSlots chan struct{} // contains one element for each archive that is being read
}

// Open returns the Service of an installation.
func Open(p installation.Parts, d *deployments.Service) *Service {
	return &Service{
		deployments: d, artifacts: artifacts.Open(p), bucket: p.Bucket,
		excerptSlots: make(chan struct{}, maxConcurrentExcerpts),
	}
}

var (
	errOtherRelease = fault.New(fault.Conflict, "What is served was built by a release that this one cannot read. "+
		"Ask again when the update is over.")
	errArtifactReplaced = fault.New(fault.Conflict, "What is served was replaced meanwhile. Ask again.")
)

// Served is the configuration that a gateway serves for a deployment.
type Served struct {
	// Routes are sorted by file, path and method.
	Routes []project.Route
	// Policies are the policies by the names that Routes use. Do not show their options, which may contain values of
	// variables.
	Policies map[string]project.Policy
}

// Served returns the served configuration of a deployment. The configuration is empty before the first build has
// succeeded. Served returns NotFound if there is no such deployment. It returns Conflict if this release cannot read
// the format of the served artifact, or if another build replaces the artifact meanwhile.
func (s *Service) Served(ctx context.Context, at deployments.DeploymentLocator) (Served, error) {
	name, err := s.deployments.ServedArtifact(ctx, at)
	if err != nil || name == "" {
		return Served{}, err
	}
	a, err := s.artifacts.Get(ctx, name)
	if errors.Is(err, blob.ErrNotFound) {
		return Served{}, errArtifactReplaced
	}
	if _, incompatible := errors.AsType[*project.FormatError](err); incompatible {
		return Served{}, errOtherRelease
	}
	if err != nil {
		return Served{}, fmt.Errorf("read what is served: %w", err)
	}
	return Served{a.Routes, a.Policies}, nil
}
