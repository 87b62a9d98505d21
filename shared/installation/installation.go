// Package installation holds what every function of an installation is made of:
// its table, its bucket, its root key, its clock. A Lambda main opens the parts
// in AWS (package cloud), the local process over its emulators, a test in
// memory; from there on all of them make the same services.
//
// What it is not: a container of services. A function makes the services it
// needs from the parts, so that its binary holds nothing else.
package installation

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/variables"
)

// Parts are what services are made of. All fields but the last are needed.
type Parts struct {
	Config config.Config
	Table  *store.Table
	Bucket Bucket
	// Key is the root key, for sealing and hashing.
	Key seal.KeySource
	// Random is crypto/rand.Reader outside tests, Now time.Now.
	Random io.Reader
	Now    func() time.Time
	IDs    *ids.Source
	Log    *slog.Logger
	// Telemetry is what the installation tells of itself beside its log.
	Telemetry telemetry.Options
}

// Bucket is the bucket of uploads, sources and artifacts.
type Bucket interface {
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error)
	Head(ctx context.Context, key string) (blob.Object, error)
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
	PresignPut(ctx context.Context, key string) (string, error)
}

var (
	_ Bucket = (*blob.Bucket)(nil)
	_ Bucket = (*blob.Memory)(nil)
)

// The purposes of hashes. They are part of what is stored and never change.
const (
	keyPurpose      = "consumer-key"
	artifactPurpose = "artifact"
)

// Sealer seals what has to be shown again.
func (p Parts) Sealer() *seal.Sealer { return seal.NewSealer(p.Key) }

// KeyHasher hashes consumers' keys.
func (p Parts) KeyHasher() *seal.Hasher { return seal.NewHasher(p.Key, keyPurpose) }

// ArtifactHasher names artifacts by their content.
func (p Parts) ArtifactHasher() *seal.Hasher { return seal.NewHasher(p.Key, artifactPurpose) }

// Accounts makes the service of accounts, which every operation needs to know
// its caller.
func (p Parts) Accounts() *accounts.Service { return accounts.New(p.Table, p.IDs, p.Now) }

// Keys makes the service of key buckets.
func (p Parts) Keys() *keys.Service {
	return keys.New(keys.Options{
		Table: p.Table, Sealer: p.Sealer(), Hasher: p.KeyHasher(), IDs: p.IDs, Now: p.Now,
	})
}

// Variables makes the service of environment variables.
func (p Parts) Variables() *variables.Service {
	return variables.New(variables.Options{Table: p.Table, Sealer: p.Sealer(), Now: p.Now})
}

// Deployments makes the service of projects and deployments.
func (p Parts) Deployments() *deployments.Service {
	return deployments.New(deployments.Options{
		Table: p.Table, Buckets: p.Keys(), Uploads: p.Bucket, IDs: p.IDs, Now: p.Now, Origin: p.Config.DeploymentOrigin,
	})
}

// Server makes the handler of routes.
func (p Parts) Server(callers api.Authenticator, routes []api.Route) *api.Server {
	return api.NewServer(api.Config{
		Authenticator: callers, Audit: p.Table, Log: p.Log, IDs: p.IDs, Now: p.Now, DecodedPaths: p.Config.DecodedPaths,
		Telemetry: p.Telemetry,
	}, routes)
}
