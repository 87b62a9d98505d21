package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

// errInvalidKey is the error of Verify for every invalid key. It does not contain the reason, which clients must not
// learn (contract 3.4).
var errInvalidKey = fault.New(fault.Unauthenticated, "Authorization Failed")

// errBucketUnavailable is the error of Verify for a bucket that accepts no key at all. Clients see errInvalidKey. The
// cause is for the log.
var errBucketUnavailable = errInvalidKey.WithCause(errors.New("the key bucket of this route was deleted, or serves " +
	"another environment: make it anew and deploy the project again"))

// BucketRef identifies the bucket whose keys a route accepts.
type BucketRef struct {
	AccountID string
	// Name, ID or both identify the bucket. If both are set, the bucket must have both. Without a name, a process needs
	// one more read when it uses the ID for the first time. Builds of earlier releases have a name without an ID.
	Name, ID string
	// Project and Kind are the project and the kind of environment of the route's deployment. Verify accepts no key if
	// the bucket does not serve them.
	Project string
	Kind    environment.Kind
}

// Identity describes a valid key and the consumer to which it belongs.
type Identity struct {
	KeyID string
	// Sub is the consumer's name. Data is its metadata, nil for none.
	Sub        string
	Data       json.RawMessage
	ConsumerID string
	// ExpiresOn is the time when the key expires, nil for never.
	ExpiresOn *time.Time
}

// keyHashPrefix is the key prefix of the hash records of API keys, from which gateways verify keys (hashRecord). The
// table key contains the keyed hash of the text, which also makes texts unique.
const keyHashPrefix store.KeyPrefix = "key-hash"

// hashRecord is the record from which gateways verify an API key. It has everything that Verify needs, except the
// bucket.
type hashRecord struct {
	store.UnknownAttributes

	overlay.KeyState
	KeyID        string `dynamodbav:"keyId"`
	AccountID    string `dynamodbav:"accountId"`
	BucketID     string `dynamodbav:"bucketId"`
	Bucket       string `dynamodbav:"bucket"`
	Generation   int    `dynamodbav:"generation"`
	ConsumerName string `dynamodbav:"consumerName"`
	// Metadata is the consumer's metadata. It was written at the consumer's version MetadataRevision.
	Metadata         string `dynamodbav:"metadata,omitempty"`
	MetadataRevision int64  `dynamodbav:"stamped"`
}

func keyHashKey(hash string) store.Key { return keyHashPrefix.Key(hash) }

// newHashRecord returns the hash record of a key of the view's consumer, with the consumer's metadata. revision becomes
// MetadataRevision.
func (v view) newHashRecord(k keyRecord, revision int64) hashRecord {
	return hashRecord{
		KeyState: k.KeyState, KeyID: k.ID,
		AccountID: v.bucket.AccountID, BucketID: v.bucket.ID, Bucket: v.bucket.Name, Generation: v.bucket.Generation,
		ConsumerName: v.consumer.Name, Metadata: v.consumer.Metadata, MetadataRevision: revision,
	}
}

// orphaned reports whether the bucket or the consumer of the key was deleted. b is the record under the bucket's name,
// which may be of a later bucket.
func (h hashRecord) orphaned(b bucketRecord) bool {
	if !b.exists() || b.Generation != h.Generation {
		return true
	}
	return b.Changes.Deletes(h.ConsumerID)
}

// IsCredential reports whether key is the table key of the hash record of an API key. Gateways accept no API key
// without a hash record.
func IsCredential(key store.Key) bool { return keyHashPrefix.Parts(key.PK) != nil }

// KeyOwner identifies an API key and its owner, and has the expiry in the key's hash record. A key without an expiry
// there may have one from a large roll in progress.
type KeyOwner struct {
	AccountID, Bucket, Consumer, ID string
	ExpiresOn                       *time.Time // nil: never
}

// DecodeOwner returns the owner of an API key from the key's hash record. IsCredential must be true for the table key
// of item.
func DecodeOwner(item store.Item) (KeyOwner, error) {
	var r hashRecord
	if err := store.Decode(item, &r); err != nil {
		return KeyOwner{}, fmt.Errorf("read whose an API key is: %w", err)
	}
	return KeyOwner{r.AccountID, r.Bucket, r.ConsumerName, r.KeyID, r.ExpiresOn}, nil
}

// Verifier verifies keys for the gateway. It does not cache results, because the gateway decides how long a result is
// valid. It is safe for concurrent use.
type Verifier struct {
	table     *store.Table
	hasher    Hasher
	now       func() time.Time
	directory *directory
}

// OpenVerifier returns the Verifier of an installation.
func OpenVerifier(p installation.Parts) *Verifier {
	return &Verifier{table: p.Table, hasher: p.Hasher(hashPurpose), now: p.Now, directory: newDirectory()}
}

// Verify returns the identity for a key if the bucket accepts the key now. text is the text of the key. Otherwise
// Verify returns an Unauthenticated fault. Any other error means that the result is unknown. Verify normally takes one
// round trip, and none for a text that cannot be a key. During a rotation of the root key, a text has two hashes. If
// there is no hash record for the first one, Verify takes a second round trip, which reads one item.
func (v *Verifier) Verify(ctx context.Context, ref BucketRef, text string) (Identity, error) {
	if !wellFormed(text) {
		return Identity{}, errInvalidKey
	}
	hashes, err := v.hasher.Lookups(ctx, text)
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
		bucketGets := []*store.ReadRequest{store.Get(bucketKey(ref.AccountID, name), &b)}
		for _, hash := range hashes {
			if err := v.table.Load(ctx, append([]*store.ReadRequest{store.Get(keyHashKey(hash), &h)},
				bucketGets...)...); err != nil {
				return Identity{}, fmt.Errorf("look up an API key: %w", err)
			}
			if bucketGets = nil; h.KeyID != "" {
				break // a rotation only moves hash records to a later hash of the list
			}
		}
		if !b.exists() || ref.ID != "" && b.ID != ref.ID || !b.serves(ref.Project, ref.Kind) {
			return Identity{}, errBucketUnavailable
		}
		if h.KeyID == "" || h.BucketID != b.ID || h.orphaned(b) {
			return Identity{}, errInvalidKey
		}
		if h.NewerThan(b.Seq) || v.now().Sub(started) >= overlay.Grace {
			// Either the bucket was read before the key's batch began, or it may have been read long after the key. In
			// the second case, a roll may have been written and its overlay entry removed between the two reads.
			continue
		}
		state, exists := b.Changes.Apply(h.KeyState)
		if !exists || state.ExpiredAt(v.now()) {
			return Identity{}, errInvalidKey
		}
		return h.identity(b, state), nil
	}
	return Identity{},
		throttled("The key bucket changes too often to check a key. Repeat the request after the time in Retry-After.",
			time.Second)
}

func (h hashRecord) identity(b bucketRecord, state overlay.KeyState) Identity {
	out := Identity{
		KeyID: h.KeyID, Sub: h.ConsumerName, ConsumerID: h.ConsumerID,
		ExpiresOn: state.ExpiresOn,
	}
	if data := b.Changes.Metadata(h.ConsumerID, h.Metadata, h.MetadataRevision); data != "" {
		out.Data = json.RawMessage(data)
	}
	return out
}

// bucketName returns the name of the bucket that ref identifies. The name for an id never changes, so it is cached.
func (v *Verifier) bucketName(ctx context.Context, ref BucketRef) (string, error) {
	if ref.Name != "" {
		return ref.Name, nil
	}
	if bucket, ok := v.directory.bucket(ref.ID); ok {
		return ref.nameInAccount(bucket)
	}
	var p bucketPointer
	err := v.table.Get(ctx, bucketIDKey(ref.ID), &p)
	if errors.Is(err, store.ErrNotFound) {
		return "", errBucketUnavailable
	}
	if err != nil {
		return "", fmt.Errorf("look up a key bucket: %w", err)
	}
	bucket := qualifiedName{p.AccountID, p.Name}
	v.directory.setBucket(ref.ID, bucket)
	return ref.nameInAccount(bucket)
}

// nameInAccount returns the name of a bucket if it belongs to the account of r, and errBucketUnavailable otherwise.
func (r BucketRef) nameInAccount(bucket qualifiedName) (string, error) {
	if bucket.accountID != r.AccountID {
		return "", errBucketUnavailable
	}
	return bucket.name, nil
}
