// Package builds implements the durable operations that package deployments starts: building an
// uploaded archive into a served deployment (deployments.Build), removing data that a deployment no
// longer needs (deployments.Clean), and rebuilding artifacts in another format (deployments.Rebuild).
//
// A build goes through the states download, validate, build and deploy. An error in the project ends the build with
// findings, and the gateway still serves the deployment's previous build. Any other failure is retried, and ends the
// build in the state abandon if it persists. All changes to the bucket are idempotent: the name of a source contains
// its digest and build, the name of an artifact depends on its content, and a second deletion has no effect.
//
// The package does not declare routes or receive events: functions/builder and functions/operations run its definitions.
//
// Read builds.go first, then tasks.go, clean.go and rebuild.go. The
// rules are in contract 3.1 and 3.2 and in design, sections 6 and 7.
package builds

import (
	"context"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/metering"
	"github.com/gatewright/gatewright/shared/resource/upstreamcerts"
	"github.com/gatewright/gatewright/shared/resource/variables"
)

// Objects is the bucket that holds uploads, sources and artifacts.
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

// Artifacts reads and stores artifacts.
type Artifacts interface {
	// Get returns a *project.FormatError for a format that this release does not read.
	Get(ctx context.Context, name string) (*project.Artifact, error)
	// Format returns the format that Put writes.
	Format() int
	Put(ctx context.Context, deployment string, a *project.Artifact) (name string, err error)
}

var _ Artifacts = (*artifacts.Store)(nil)

// Variables returns the values of the variables of a branch's environment.
type Variables interface {
	Resolve(ctx context.Context, accountID, project, branch string) (map[string]string, error)
}

// Buckets looks up the key bucket that a policy of a project uses in an environment of this kind.
type Buckets interface {
	BucketFor(
		ctx context.Context, at keys.BucketLocator, project string, kind environment.Kind,
	) (keys.BucketIdentity, error)
}

var _ Buckets = (*keys.Service)(nil)

// Options are the dependencies of a Builder. All except Sandbox and TempDir are required.
type Options struct {
	Table     *store.Table
	Objects   Objects
	Artifacts Artifacts
	Variables Variables
	Buckets   Buckets
	// Metering looks up the metering buckets that policies use.
	Metering MeteringBuckets
	// Certificates looks up the client certificates that routes present to upstreams.
	Certificates Certificates
	Compiler     *project.Compiler
	Catalog      project.Catalog
	// Verify returns the problems that make a gateway refuse to serve an artifact: gateway.Verify.
	Verify func(context.Context, *project.Artifact) []project.Problem
	// Sandbox compiles projects with ServeBuild; nil compiles them in this
	// process. With a Sandbox, Compiler, Catalog and Verify are not used.
	Sandbox installation.Sandbox
	// TempDir is the folder for archives while they are downloaded, one
	// per running download; "" is the system's folder for temporary files.
	TempDir string
}

// Builder runs builds. It is safe for concurrent use.
type Builder struct {
	options Options
	limits  project.Limits
	worker  worker

	mu sync.Mutex
	// compiled is the last result of the state validate. If the state build of the same operation runs
	// in the same process, it uses this result instead of compiling the project again.
	compiled *compiled
}

// compiled is a compiled project.
type compiled struct {
	statusID string
	artifact *project.Artifact
	result   project.Result
}

// Open returns the Builder of an installation.
func Open(p installation.Parts) *Builder {
	return New(Options{
		Table: p.Table, Objects: p.Bucket, Artifacts: artifacts.Open(p), Variables: variables.Open(p), Buckets: keys.Open(p),
		Metering:     metering.Open(p),
		Certificates: upstreamcerts.Open(p, nil),
		Compiler:     project.NewCompiler(), Catalog: gateway.Catalog{}, Verify: gateway.Verify,
		Sandbox: p.Sandbox,
	})
}

// New returns a Builder.
func New(o Options) *Builder {
	limits := project.DefaultLimits()
	return &Builder{options: o, limits: limits, worker: worker{o.Compiler, o.Catalog, o.Verify, limits}}
}

// Definitions returns the definitions of the operations.
func (b *Builder) Definitions() []operation.Definition {
	// A client polls for 250 s. A dead worker is replaced after the timeout of the step and the
	// time until the next sweep, about 100 s in total. A step takes a few seconds for 100 MiB.
	const timeout = 30 * time.Second
	// A Lambda that runs out of memory or time ends silently. The budgets of projects prevent that in most
	// cases. In the other cases, maxDeaths limits the attempts: otherwise a build would be retried for an hour.
	const maxDeaths = 5
	retry := operation.Retry{Attempts: 8, MaxDelay: 10 * time.Second}
	return []operation.Definition{
		{
			Kind:  deployments.Build,
			First: deployments.Download,
			States: map[string]operation.State{
				deployments.Download: {
					Description: "keeps the uploaded archive under its digest",
					Task:        b.download, Next: deployments.Validate, Alternatives: []string{operation.Fail},
					Catch: deployments.Abandon, Timeout: timeout, Retry: retry,
				},
				deployments.Validate: {
					Description: "unpacks the archive and compiles the project, for its faults",
					Task:        b.validate, Next: deployments.Compile, Alternatives: []string{operation.Fail},
					Catch: deployments.Abandon, Timeout: timeout, Retry: retry, MaxDeaths: maxDeaths,
				},
				deployments.Compile: {
					Description: "seals the compiled project and stores it",
					Task:        b.compile, Next: deployments.Deploy, Alternatives: []string{operation.Fail},
					Catch: deployments.Abandon, Timeout: timeout, Retry: retry, MaxDeaths: maxDeaths,
				},
				deployments.Deploy: {
					Description: "has the gateway serve it, unless a newer build is served",
					Task:        b.deploy, Next: deployments.Settle, Alternatives: []string{operation.Succeed, operation.Fail},
					Catch: deployments.Abandon, Retry: retry,
				},
				deployments.Settle: {
					Description: "waits until every gateway has seen that it is to serve it",
					Task:        noop, Next: operation.Succeed, MustSucceed: true,
				},
				deployments.Abandon: {
					Description: "notes that the build has ended without success",
					Task:        b.abandon, Next: operation.Fail, MustSucceed: true,
				},
			},
		},
		{
			Kind:  deployments.Rebuild,
			First: stateRebuild,
			States: map[string]operation.State{
				stateRebuild: {
					Description: "builds anew, one by one, what has an artifact of an older format than is written",
					Task:        b.rebuild, Next: operation.Succeed, MustSucceed: true, Timeout: timeout,
				},
			},
		},
		{
			Kind:  deployments.Clean,
			First: stateRemove,
			States: map[string]operation.State{
				stateRemove: {
					Description: "removes what the deployment does not need from the bucket",
					Task:        b.remove, Next: operation.Succeed, MustSucceed: true,
				},
			},
		},
	}
}
