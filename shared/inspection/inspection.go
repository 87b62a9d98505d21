// Package inspection shows what a deployment is made of: the routes that are served under its name, and the sources of
// a build around a place, such as one that a finding is about.
//
// What it is not: it changes nothing, and who sees a deployment or an upload is package deployments' to say. It is a
// package by itself since the many that ask for a deployment's record have no use for the compiler.
//
// Read this file first, then source.go.
package inspection

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/project"
)

// Service shows what is inside. It is safe for concurrent use.
type Service struct {
	deployments *deployments.Service
	artifacts   *artifacts.Store
	bucket      installation.Bucket
	excerpts    chan struct{} // holds one for each archive that is read
}

// Open makes the Service of an installation.
func Open(p installation.Parts, d *deployments.Service) *Service {
	return &Service{deployments: d, artifacts: artifacts.Open(p), bucket: p.Bucket, excerpts: make(chan struct{}, excerptsAtOnce)}
}

var (
	errOtherRelease = fault.New(fault.Conflict, "What is served was built by a release that this one cannot read. Ask again when the update is over.")
	errReplaced     = fault.New(fault.Conflict, "What is served was replaced meanwhile. Ask again.")
)

// Served is what a gateway serves under a deployment's name.
type Served struct {
	// Routes are in the order of the project's files, paths and methods.
	Routes []project.Route
	// Policies by name, of which routes name theirs. Options hold variables and may not be shown.
	Policies map[string]project.Policy
}

// Served returns what is served under a deployment's name; nothing before its first build has succeeded.
// Fault: NotFound, Conflict where another release has built it, or what is served is replaced meanwhile.
func (s *Service) Served(ctx context.Context, at deployments.DeploymentAt) (Served, error) {
	name, err := s.deployments.ServedArtifact(ctx, at)
	if err != nil || name == "" {
		return Served{}, err
	}
	a, err := s.artifacts.Get(ctx, name)
	if errors.Is(err, blob.ErrNotFound) {
		return Served{}, errReplaced
	}
	if _, other := errors.AsType[*project.FormatError](err); other {
		return Served{}, errOtherRelease
	}
	if err != nil {
		return Served{}, fmt.Errorf("read what is served: %w", err)
	}
	return Served{a.Routes, a.Policies}, nil
}
