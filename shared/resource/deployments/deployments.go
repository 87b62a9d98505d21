// Package deployments stores projects, their environments and their deployments. It issues upload addresses, begins
// builds of the uploaded archives and reports the status of builds. It also lists, redeploys, rolls back and deletes
// deployments (specification 4.7; contract 2.7, 2.10, 3.1, 3.2).
//
// The data has four main kinds of records: projects, environments, deployments and uploads. A project has an
// environment for each branch. An environment has one deployment, whose name is the first label of its host name and is
// never reused. An upload is one expected archive, or one repeated build of a stored archive. An upload and its build
// share the statusId, which is also the build's id.
//
// This package does not build. A claim (claim.go) begins a durable operation of the kind Build, which package builds
// runs. This package defines the records that a build changes (build.go). It does not serve requests to deployments
// either: package serving reads the records for that.
//
// Read this file first, then upload.go, claim.go, build.go and status.go.
package deployments

import (
	"time"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// The kinds of durable operation that this package begins. Packages builds and projectdeletion define the operations.
const (
	// Build turns an archive into a served deployment. Its id is the statusId.
	Build = "build"
	// Clean removes the objects from the bucket that a deployment no longer needs.
	Clean = "deployment-clean"
	// DeleteProject removes a project with all its contents.
	DeleteProject = "project-delete"
)

func canSee(o auth.Owner, project string, kind environment.Kind) bool {
	return o.Viewer.CanSee(project, string(kind))
}

// Buckets creates the three default key buckets of each project.
type Buckets interface {
	// DefaultBuckets returns the reads and writes for the default key buckets of a project, for the transaction that
	// creates the project.
	DefaultBuckets(owner auth.Owner, project string) *keys.DefaultBuckets
}

var _ Buckets = (*keys.Service)(nil)

// Service implements the operations. It is safe for concurrent use.
type Service struct {
	parts         installation.Parts
	bucketCreator Buckets
	counts        *counts.Counts
}

// Open returns the Service of an installation.
func Open(p installation.Parts) *Service { return New(p, keys.Open(p)) }

// New returns a Service like Open, but with other Buckets than those of the installation.
func New(p installation.Parts, b Buckets) *Service { return &Service{p, b, counts.Open(p)} }

func (s *Service) now() time.Time { return store.Instant(s.parts.Now()) }
