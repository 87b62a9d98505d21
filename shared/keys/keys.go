// Package keys keeps key buckets, their consumers, and the consumers' API keys
// and managers, and verifies API keys for the gateway (specification 2, 4.5 and
// 4.6; contract 2.5, 2.6 and 3.4 to 3.6).
//
// What it is not: it speaks no HTTP and keeps no cache of keys. Whether a
// caller has the scope is decided before; what of an account a caller may see
// is asked of its Viewer here.
//
// Read keys.go and load.go first: an operation is one read round trip, by load,
// and one transaction. The operations are in bucket.go, consumer.go, key.go,
// bulk.go, roll.go, manager.go and list.go, the gateway's question in verify.go;
// table.go has the keys of the records, placement.go whose keys a gateway accepts.
// The reasons are in
// docs/decisions/0008-large-changes-show-at-one-commit.md and
// 0009-one-read-and-one-transaction.md.
//
// A change of more keys than a transaction takes is a large change. Package
// overlay has readers see it whole; large.go begins it, large_bulk.go creates
// keys in portions, and cascade.go has the durable operations that finish it.
// An operation needs of all this one call, to Service.largeChange. These files are
// no package of their own because they write the same records: it would have
// five types of record and their keys exported to everybody.
package keys

import (
	"context"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
)

// Sealer encrypts what must be shown again. context ties a sealed value to its
// record, so that it opens nowhere else.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, context string) ([]byte, error)
}

// Hasher makes the keyed hash by which the gateway finds a key.
type Hasher interface {
	Hash(ctx context.Context, text string) (string, error)
	// Lookups gives the hashes that a text may be kept under, in the order to look in.
	Lookups(ctx context.Context, text string) ([]string, error)
}

// Service does the operations. It is safe for concurrent use.
type Service struct {
	parts     installation.Parts
	table     *store.Table
	seal      Sealer
	hash      Hasher
	directory *directory
	counts    *counts.Counts
}

// hashPurpose keeps the hashes of keys apart from all others. It never changes.
const hashPurpose = "consumer-key"

// Open makes the Service of an installation.
func Open(p installation.Parts) *Service {
	return &Service{parts: p, table: p.Table, seal: p.Sealer(), hash: p.Hasher(hashPurpose), directory: newDirectory(), counts: counts.Open(p)}
}

// now is the time as records keep it: UTC, to the millisecond (contract 1.4).
func (s *Service) now() time.Time { return store.Instant(s.parts.Now()) }

func instantOf(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(store.Instant(*t))
}

// BucketAt names a bucket by its name or id.
type BucketAt struct {
	auth.Owner
	Bucket string
}

// ConsumerAt names a consumer of a bucket by its name or id.
type ConsumerAt struct {
	BucketAt
	Consumer string
	// Tags is a precondition: a consumer that does not carry all of them is
	// answered as one that does not exist (contract 3.6).
	Tags map[string]string
}

// throttled is the fault of a request that shall be repeated later.
func throttled(text string, after time.Duration) error {
	f := fault.New(fault.Throttled, "%s", text)
	f.RetryAfter = after
	return f
}

// concurrently runs calls at the same time, so that they cost one round trip.
func concurrently(calls ...func() error) error {
	errs := make([]error, len(calls))
	var group sync.WaitGroup
	for i, call := range calls[1:] {
		group.Go(func() { errs[i+1] = call() })
	}
	errs[0] = calls[0]()
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
