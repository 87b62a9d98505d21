// Package deployments keeps projects, their environments, and what is deployed
// to them: it gives out upload addresses, takes what arrives there as the
// beginning of a build, tells how a build goes, and lists, repeats and deletes
// deployments (specification 4.7; contract 2.7, 2.10, 3.1, 3.2).
//
// Everything stands in four records. A project has an environment for each
// branch; an environment has one deployment, whose name is the first label of
// its host name and is never used again. An upload is one archive on its way,
// or one repetition of a stored one; it and its build share the statusId, which
// is also the build's id.
//
// What it is not: it builds nothing. A claim (claim.go) begins a durable
// operation of the kind Build, which package builds carries out; this package
// owns the records that a build changes (build.go). Nor does it serve
// requests: package serving reads what is here.
//
// Read this file first, then upload.go, claim.go, build.go and status.go.
package deployments

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
)

// The kinds of durable operation that this package begins. Packages builds and
// removal define them.
const (
	// Build is from an archive to a served deployment; its id is the statusId.
	Build = "build"
	// Clean removes what a deployment does not need any more from the bucket.
	Clean = "deployment-clean"
	// DeleteProject removes a project with all that is in it.
	DeleteProject = "project-delete"
)

func sees(o auth.Owner, project string, kind environment.Kind) bool {
	return o.Viewer.MaySee(project, string(kind))
}

// Buckets makes the three key buckets that every project has.
type Buckets interface {
	// DefaultBuckets prepares those of a project, for the transaction that
	// makes it.
	DefaultBuckets(owner auth.Owner, project string) *keys.DefaultBuckets
}

var _ Buckets = (*keys.Service)(nil)

// Uploads gives out addresses for uploads and removes what came there.
type Uploads interface {
	// PresignPut makes an address to which anyone may PUT one object at key for
	// blob.UploadValidity. The address is a secret.
	PresignPut(ctx context.Context, key string) (string, error)
	// Delete removes the object at key, if there is one.
	Delete(ctx context.Context, key string) error
}

// Service does the operations. It is safe for concurrent use.
type Service struct {
	parts       installation.Parts
	makeBuckets Buckets
	counts      *counts.Counts
}

// Open makes the Service of an installation.
func Open(p installation.Parts) *Service { return New(p, keys.Open(p)) }

// New is Open with other makers of key buckets than those of the installation.
func New(p installation.Parts, b Buckets) *Service { return &Service{p, b, counts.Open(p)} }

func (s *Service) now() time.Time { return store.Instant(s.parts.Now()) }
