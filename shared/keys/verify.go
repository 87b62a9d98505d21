package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys/overlay"
	"github.com/gatewright/gatewright/shared/store"
)

// errRefused is what Verify answers for a key that opens nothing, whatever the
// reason: a caller learns no more (contract 3.4).
var errRefused = fault.New(fault.Unauthenticated, "Authorization Failed")

// errNoSuchBucket is errRefused where no key opens anything, with the cause for the
// log of who asks.
var errNoSuchBucket = errRefused.Because(errors.New("the key bucket of this route was deleted, or serves another environment: make it anew and deploy the project again"))

// BucketRef is the bucket whose keys a route accepts.
type BucketRef struct {
	AccountID string
	// Name or ID, or both, which then have to agree. The name is the quicker:
	// an id takes a request of its own, once in this process. A name without an
	// id is what builds of earlier releases know of their bucket.
	Name, ID string
	// Project and Kind are of the deployment that the route is in. A bucket that
	// does not serve them opens nothing there, however it is named.
	Project string
	Kind    environment.Kind
}

// Identity is the consumer that a key belongs to.
type Identity struct {
	KeyID string
	// Sub is the consumer's name, Data its metadata, nil for none.
	Sub        string
	Data       json.RawMessage
	ConsumerID string
	// ExpiresOn is when the key expires, nil for never.
	ExpiresOn *time.Time
}

// Verifier verifies keys for the gateway. It keeps no answers: how long one is
// valid is the gateway's decision. It is safe for concurrent use.
type Verifier struct {
	table     *store.Table
	hash      Hasher
	now       func() time.Time
	directory *directory
}

// OpenVerifier makes the Verifier of an installation.
func OpenVerifier(p installation.Parts) *Verifier {
	return &Verifier{table: p.Table, hash: p.Hasher(hashPurpose), now: p.Now, directory: newDirectory()}
}

// Verify says whose key text is, if it opens the bucket now, and answers an
// Unauthenticated fault if it does not; any other error means that it is not
// known. It takes one round trip, and none for a text that cannot be a key; while the root key is rotated one more, for one
// item, where the key is not under the old one.
func (v *Verifier) Verify(ctx context.Context, ref BucketRef, text string) (Identity, error) {
	if !wellFormed(text) {
		return Identity{}, errRefused
	}
	hashes, err := v.hash.Lookups(ctx, text)
	if err != nil {
		return Identity{}, fmt.Errorf("hash an API key: %w", err)
	}
	name, err := v.bucketName(ctx, ref)
	if err != nil {
		return Identity{}, err
	}
	for range loadAttempts {
		started := v.now()
		var h hashRecord
		var b bucketRecord
		with := []*store.Wanted{store.Want(bucketKey(ref.AccountID, name), &b)}
		for _, hash := range hashes {
			if err := v.table.Load(ctx, append([]*store.Wanted{store.Want(keyHashKey(hash), &h)}, with...)...); err != nil {
				return Identity{}, fmt.Errorf("look up an API key: %w", err)
			}
			if with = nil; h.KeyID != "" {
				break // a rotation of the root key moves it to the next hash, and never back
			}
		}
		if !b.exists() || ref.ID != "" && b.ID != ref.ID || !b.serves(ref.Project, ref.Kind) {
			return Identity{}, errNoSuchBucket
		}
		if h.KeyID == "" || h.BucketID != b.ID || h.orphaned(b) {
			return Identity{}, errRefused
		}
		if h.NewerThan(b.Seq) || v.now().Sub(started) >= overlay.Grace {
			// The bucket was read before the key's batch began; or so much later
			// than the key that a roll may have been written and taken out between.
			continue
		}
		l, there := b.Changes.Apply(h.KeyState)
		if !there || l.ExpiredAt(v.now()) {
			return Identity{}, errRefused
		}
		return h.identity(b, l), nil
	}
	return Identity{}, throttled("The key bucket changes too often to check a key. Repeat the request after the time in Retry-After.", time.Second)
}

func (h hashRecord) identity(b bucketRecord, l overlay.KeyState) Identity {
	out := Identity{
		KeyID: h.KeyID, Sub: h.ConsumerName, ConsumerID: h.ConsumerID,
		ExpiresOn: l.ExpiresOn,
	}
	if data := b.Changes.Metadata(h.ConsumerID, h.Metadata, h.Stamped); data != "" {
		out.Data = json.RawMessage(data)
	}
	return out
}

// bucketName gives the bucket's name, which never changes for an id.
func (v *Verifier) bucketName(ctx context.Context, ref BucketRef) (string, error) {
	if ref.Name != "" {
		return ref.Name, nil
	}
	if bucket, ok := v.directory.bucket(ref.ID); ok {
		return ref.nameOf(bucket)
	}
	var p bucketPointer
	err := v.table.Get(ctx, bucketIDKey(ref.ID), &p)
	if errors.Is(err, store.ErrNotFound) {
		return "", errNoSuchBucket
	}
	if err != nil {
		return "", fmt.Errorf("look up a key bucket: %w", err)
	}
	bucket := qualifiedName{p.AccountID, p.Name}
	v.directory.setBucket(ref.ID, bucket)
	return ref.nameOf(bucket)
}

// nameOf gives the name of a bucket that has the id, if it is of the account.
func (r BucketRef) nameOf(bucket qualifiedName) (string, error) {
	if bucket.accountID != r.AccountID {
		return "", errNoSuchBucket
	}
	return bucket.name, nil
}
