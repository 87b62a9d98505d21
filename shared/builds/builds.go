// Package builds carries out the durable operations that package deployments
// begins: from an uploaded archive to a served deployment (deployments.Build),
// and the removal of what a deployment does not need any more
// (deployments.Clean), and what is built anew in another format (deployments.Rebuild).
//
// A build goes through the states download, validate, build and deploy. What is
// wrong with a project ends it with findings, and what was served before is
// served on; what is wrong with us is tried again, and ends in the state abandon
// if it stays. Effects in the bucket are idempotent: sources are known by their
// digest and build, artifacts by their content, and deleting twice is deleting once.
//
// What it is not: it declares no route and takes no event; functions/builder
// and functions/operations run these definitions.
//
// Read builds.go first, then tasks.go, clean.go and rebuild.go. The rules are those of
// contract 3.1 and 3.2 and of design, sections 6 and 7.
package builds

import (
	"context"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/mtlscertificates"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/variables"
)

// Objects is the bucket.
type Objects interface {
	Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error)
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
}

var (
	_ Objects = (*blob.Bucket)(nil)
	_ Objects = (*blob.Memory)(nil)
)

// Artifacts stores artifacts.
type Artifacts interface {
	// Get answers a *project.FormatError for a format that this release does not read.
	Get(ctx context.Context, name string) (*project.Artifact, error)
	// Written is the format that Put writes.
	Written() int
	Put(ctx context.Context, deployment string, a *project.Artifact) (name string, err error)
}

var _ Artifacts = (*artifacts.Store)(nil)

// Variables gives the variables of a branch's environment.
type Variables interface {
	Resolve(ctx context.Context, accountID, project, branch string) (map[string]string, error)
}

// Buckets finds key buckets.
type Buckets interface {
	BucketFor(ctx context.Context, at keys.BucketAt, project string, kind environment.Kind) (keys.BucketID, error)
}

var _ Buckets = (*keys.Service)(nil)

// Options are what a Builder takes from outside; all are needed but Sandbox and
// TempDir.
type Options struct {
	Table     *store.Table
	Objects   Objects
	Artifacts Artifacts
	Variables Variables
	Buckets   Buckets
	// Metering is asked where a policy counts in a metering bucket.
	Metering MeteringBuckets
	// Certificates are asked where a route names one.
	Certificates Certificates
	Compiler     *project.Compiler
	Catalogue    project.Catalogue
	// Verify answers what would keep a gateway from serving an artifact that
	// compiles: package gateway's function of the name does.
	Verify func(*project.Artifact) []project.Problem
	// Sandbox, if not nil, is where projects are compiled, by Work: then neither
	// Compiler nor Catalogue nor Verify is used.
	Sandbox installation.Sandbox
	// TempDir holds one archive for each build that downloads; "" means the
	// system's folder for temporary files.
	TempDir string
}

// Builder carries out builds. It is safe for concurrent use.
type Builder struct {
	o      Options
	limits project.Limits
	w      worker

	mu sync.Mutex
	// compiled is the last result of validate, which saves the next state of
	// the same build in the same process from compiling again.
	compiled *compiled
}

// compiled is a compiled project.
type compiled struct {
	statusID string
	artifact *project.Artifact
	result   project.Result
}

// Open makes the Builder of an installation.
func Open(p installation.Parts) *Builder {
	return New(Options{
		Table: p.Table, Objects: p.Bucket, Artifacts: artifacts.Open(p), Variables: variables.Open(p), Buckets: keys.Open(p),
		Metering:     metering.Open(p),
		Certificates: mtlscertificates.Open(p, nil),
		Compiler:     project.NewCompiler(), Catalogue: gateway.Catalogue{}, Verify: gateway.Verify,
		Sandbox: p.Sandbox,
	})
}

// New makes a Builder.
func New(o Options) *Builder {
	limits := project.DefaultLimits()
	return &Builder{o: o, limits: limits, w: worker{o.Compiler, o.Catalogue, o.Verify, limits}}
}

// Definitions returns the operations' definitions.
func (b *Builder) Definitions() []operation.Definition {
	// A client polls for 250 s. A worker that dies is replaced when the step's
	// time and the time to the next sweep are over: some 100 s in all. 100 MiB
	// take a step a few seconds.
	const timeout = 30 * time.Second
	// A Lambda that runs out of memory or time ends without a word. The budgets of
	// projects keep it from that; what they miss shall not be begun for an hour.
	const deaths = 5
	retry := operation.Retry{Attempts: 8, Longest: 10 * time.Second}
	return []operation.Definition{
		{
			Kind:  deployments.Build,
			First: deployments.Download,
			States: map[string]operation.State{
				deployments.Download: {
					Does: "keeps the uploaded archive under its digest",
					Task: b.download, Next: deployments.Validate, Or: []string{operation.Fail},
					Catch: deployments.Abandon, Timeout: timeout, Retry: retry,
				},
				deployments.Validate: {
					Does: "unpacks the archive and compiles the project, for its faults",
					Task: b.validate, Next: deployments.Compile, Or: []string{operation.Fail},
					Catch: deployments.Abandon, Timeout: timeout, Retry: retry, Deaths: deaths,
				},
				deployments.Compile: {
					Does: "seals the compiled project and stores it",
					Task: b.compile, Next: deployments.Deploy, Or: []string{operation.Fail},
					Catch: deployments.Abandon, Timeout: timeout, Retry: retry, Deaths: deaths,
				},
				deployments.Deploy: {
					Does: "has the gateway serve it, unless a newer build is served",
					Task: b.deploy, Next: deployments.Settle, Or: []string{operation.Succeed, operation.Fail},
					Catch: deployments.Abandon, Retry: retry,
				},
				deployments.Settle: {
					Does: "waits until every gateway has seen that it is to serve it",
					Task: settle, Next: operation.Succeed, Must: true,
				},
				deployments.Abandon: {
					Does: "notes that the build has ended without success",
					Task: b.abandon, Next: operation.Fail, Must: true,
				},
			},
		},
		{
			Kind:  deployments.Rebuild,
			First: rebuilding,
			States: map[string]operation.State{
				rebuilding: {
					Does: "builds anew, one by one, what has an artifact of an older format than is written",
					Task: b.rebuild, Next: operation.Succeed, Must: true, Timeout: timeout,
				},
			},
		},
		{
			Kind:  deployments.Clean,
			First: removing,
			States: map[string]operation.State{
				removing: {
					Does: "removes what the deployment does not need from the bucket",
					Task: b.remove, Next: operation.Succeed, Must: true,
				},
			},
		},
	}
}
