// Package keys stores key buckets, their consumers, and the consumers' API keys and managers. It
// verifies API keys for the gateway (specification 2, 4.5 and 4.6; contract 2.5, 2.6 and 3.4 to 3.6).
//
// The package has no HTTP code and does not cache keys. Its callers check whether the scope of the request's credential
// allows the operation. The package uses auth.Owner.Viewer to decide which resources of the account are visible.
//
// Read keys.go and load.go first: most requests read in one round trip, in load, and write in one transaction. The
// requests are in bucket.go, consumer.go, key.go, bulk.go, roll.go, manager.go and list.go. The verification of keys
// for the gateway is in verify.go. placement.go decides which buckets' keys a gateway accepts. Each record is defined
// next to its key prefix and its table keys: buckets in bucket.go; consumers in consumer.go, index.go and
// consumer_count.go; API keys in key.go (for their owner) and in verify.go (for the gateway); bulk creations in
// large_bulk.go. docs/decisions/0008-large-changes-show-at-one-commit.md and 0009-one-read-and-one-transaction.md
// explain why the package reads and writes in this way.
//
// A change of more keys than a transaction allows is a large change. Package overlay makes all its effects visible at
// the same instant. large.go starts large changes (Service.largeChange), large_bulk.go creates keys in portions, and
// cascade.go contains the durable operations that complete large changes. These files are not a separate package,
// because they write the same records: this package would have to export five types of record and their table keys.
package keys

import (
	"context"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Sealer encrypts values that can be shown again, and decrypts them. context identifies the record of a value: Open
// fails with another context than Seal had, so a sealed value is useless in another record.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, context string) ([]byte, error)
}

// Hasher returns keyed hashes of the texts of keys. The gateway finds a key by the hash of its text.
type Hasher interface {
	Hash(ctx context.Context, text string) (string, error)
	// Lookups returns the hashes under which the record of a text may be stored, in the order of lookup. There are two
	// during a rotation of the root key.
	Lookups(ctx context.Context, text string) ([]string, error)
}

// Service implements the operations. It is safe for concurrent use.
type Service struct {
	parts     installation.Parts
	table     *store.Table
	sealer    Sealer
	hasher    Hasher
	directory *directory
	counts    *counts.Counts
}

// hashPurpose separates the hashes of keys from all other hashes. It never changes.
const hashPurpose = "consumer-key"

// Open returns the Service of an installation.
func Open(p installation.Parts) *Service {
	return &Service{
		parts: p, table: p.Table, sealer: p.Sealer(), hasher: p.Hasher(hashPurpose), directory: newDirectory(),
		counts: counts.Open(p),
	}
}

// now returns the current time in the form that records store: in UTC and with milliseconds (contract 1.4).
func (s *Service) now() time.Time { return store.Instant(s.parts.Now()) }

// instantOf returns store.Instant of a time, or nil for nil.
func instantOf(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(store.Instant(*t))
}

// BucketLocator identifies a bucket by its name or id.
type BucketLocator struct {
	auth.Owner
	Bucket string
}

// ConsumerLocator identifies a consumer of a bucket by its name or id.
type ConsumerLocator struct {
	BucketLocator
	Consumer string
	// Tags are tags that the consumer must have. A consumer that lacks one of these tags is treated as missing (contract
	// 3.6).
	Tags map[string]string
}

// throttled returns the fault of a request that the client should retry later.
func throttled(text string, after time.Duration) error {
	f := fault.New(fault.Throttled, "%s", text)
	f.RetryAfter = after
	return f
}

// concurrently runs calls concurrently, so that all their reads together take the time of one round trip. It waits for
// all calls. If several calls fail, it returns the error of the first one in the list.
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
