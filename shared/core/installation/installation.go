// Package installation has the parts that every function of an installation needs: its table, its bucket,
// its root key, its clock. A Lambda function opens the parts in AWS (package cloud), the local process
// over its own files or over emulators, and a test in memory. All of them create the same services from the parts.
//
// The package does not contain or import services. Each service's package has a function Open, which creates
// the service from the parts. A function opens only what it needs, so that its binary contains nothing else.
package installation

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"net"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Parts are the parts that services are created from. Rates and the fields after it are optional; all others are required.
type Parts struct {
	Config config.Config
	Table  *store.Table
	Bucket Bucket
	// Key is the root key, for sealing and hashing.
	Key seal.KeySource
	// DNS looks up the TXT records of custom domains.
	DNS Resolver
	// Random is crypto/rand.Reader and Now is time.Now, except in tests.
	Random io.Reader
	Now    func() time.Time
	IDs    *ids.Source
	Log    *slog.Logger
	// Rates limits how often account keys can call operations that have
	// a rate limit, over all operation groups. nil means no limit.
	Rates *allowance.Rates
	// UnspentUnits returns the number of units of a quota that the gateway of this process has leased and not spent. It
	// is nil if gateways run in other processes. Units that those gateways hold count as used until they are returned.
	UnspentUnits func(allowance.Allowance) int64
	// Telemetry configures the installation's metrics and traces, in addition to its log.
	Telemetry telemetry.Options
	// Sandbox compiles projects, which are untrusted input. nil means that this
	// process compiles them, because a Lambda function is a sandbox itself.
	Sandbox Sandbox
	// BlockedAddresses are addresses, host:port, that no project may call. At these addresses the process
	// listens for operators, who send no credential, for agents of tunnels, and for commands on this machine.
	BlockedAddresses []string
}

// Sandbox processes untrusted input in a process with resource limits.
type Sandbox interface {
	// Run copies the input (in) to the process, and the output of the process to out. The error is an *ExhaustedError if
	// the process exceeded a limit, an error of the input or of the context, or an internal error. After an error the
	// content of out is not usable.
	Run(ctx context.Context, in io.Reader, out io.Writer) error
}

// ExhaustedError means that processing the input exceeds the limits.
type ExhaustedError struct {
	// Timeout means that the time limit was exceeded: another attempt may be faster.
	Timeout bool
	// Public is the error text for the author of the input.
	Public string
}

// Error implements error.
func (e *ExhaustedError) Error() string { return e.Public }

// Resolver queries the DNS. For a name without such records it returns a *net.DNSError with IsNotFound.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

var _ Resolver = (*net.Resolver)(nil)

// Bucket is the bucket of uploads, sources and artifacts.
type Bucket interface {
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	Replace(ctx context.Context, key, etag string, body io.ReadSeeker) error
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

// Sealer returns the Sealer for secrets that must be readable again.
func (p Parts) Sealer() *seal.Sealer { return seal.NewSealer(p.Key) }

// Hasher returns the Hasher for one purpose, under the root key. Hashes of different
// purposes are unrelated. A purpose is part of stored data and must never change.
func (p Parts) Hasher(purpose string) *seal.Hasher { return seal.NewHasher(p.Key, purpose) }
