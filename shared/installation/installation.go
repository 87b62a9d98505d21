// Package installation holds what every function of an installation is made of:
// its table, its bucket, its root key, its clock. A Lambda main opens the parts
// in AWS (package cloud), the local process over its emulators, a test in
// memory; from there on all of them make the same services.
//
// What it is not: a container of services, of which it knows none. Each package
// of one has Open, which makes it of the parts; a function opens what it needs,
// so that its binary holds nothing else.
package installation

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"net"
	"time"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// Parts are what services are made of. All fields but the last four are needed.
type Parts struct {
	Config config.Config
	Table  *store.Table
	Bucket Bucket
	// Key is the root key, for sealing and hashing.
	Key seal.KeySource
	// DNS is asked for the TXT records of custom domains.
	DNS Resolver
	// Random is crypto/rand.Reader outside tests, Now time.Now.
	Random io.Reader
	Now    func() time.Time
	IDs    *ids.Source
	Log    *slog.Logger
	// Rates counts what account keys ask of operations that have a limit, in all groups
	// of a process; nil leaves them without one.
	Rates *allowance.Rates
	// Held returns how many units of a quota the gateway of this process has leased and not spent. It is nil if gateways are
	// other processes: units that they hold count as used until they return them.
	Held func(allowance.Allowance) int64
	// Telemetry is what the installation tells of itself beside its log.
	Telemetry telemetry.Options
	// Sandbox is where hostile projects are compiled, nil for this process: a
	// Lambda is a sandbox itself.
	Sandbox Sandbox
	// Unasked are addresses, host:port, at which the process listens for others than clients, and that no project may call:
	// its operators, who give no credential, agents, and who types commands on this machine.
	Unasked []string
}

// Sandbox runs what works on a stranger's input, in a process that has a bound.
type Sandbox interface {
	// Run passes in to the process and its answer to out. The error is an
	// *ExhaustedError when the process needed more than it may have, that of in,
	// the context's, or a failure of ours, after which out holds nothing of use.
	Run(ctx context.Context, in io.Reader, out io.Writer) error
}

// ExhaustedError tells that an input takes more to work on than there is for it.
type ExhaustedError struct {
	// Slow tells that it was time: another attempt may be faster.
	Slow bool
	// Public is what the input's author may read.
	Public string
}

// Error implements error.
func (e *ExhaustedError) Error() string { return e.Public }

// Resolver asks the DNS. A name without such records is a *net.DNSError that says so.
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

// Sealer seals what has to be shown again.
func (p Parts) Sealer() *seal.Sealer { return seal.NewSealer(p.Key) }

// Hasher hashes under the root key for one purpose: hashes of two purposes never
// meet. A purpose is part of what is stored and never changes.
func (p Parts) Hasher(purpose string) *seal.Hasher { return seal.NewHasher(p.Key, purpose) }
