package rootkey

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// An installation that moves takes its root key along: what is known by a hash, an account
// key first of all, is known by no other (docs/decisions/0057-an-installation-moves-with-its-root-key.md).

// Mover is the part of *kms.Client that a move calls.
type Mover interface {
	Client
	Encrypt(context.Context, *kms.EncryptInput, ...func(*kms.Options)) (*kms.EncryptOutput, error)
}

var _ Mover = (*kms.Client)(nil)

// Is reports whether the record at a key is the root key's: it is of no use in a table that
// another KMS key is for.
func Is(key store.Key) bool { return key == space.Key() }

// ErrNone is what Existing answers for a table that has no root key yet.
var ErrNone = errors.New("rootkey: the table has no root key yet")

// Existing gives the root key of a table, and never makes one.
func Existing(ctx context.Context, client Mover, keyID string, table *store.Table) ([]byte, error) {
	wrapped, err := keyStore{table: table}.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the wrapped root key: %w", err)
	}
	if wrapped == nil {
		return nil, ErrNone
	}
	return wrapper{client, keyID}.Unwrap(ctx, wrapped)
}

// Adopt has KMS wrap a root key that an installation had elsewhere, and gives the write that
// makes it the table's, in place of one that is there now. replaces tells of such a one: a
// process that has unwrapped it goes on with it for an hour at most, and knows no key meanwhile.
func Adopt(ctx context.Context, client Mover, keyID string, table *store.Table, root []byte, now func() time.Time) (w store.Write, replaces bool, err error) {
	if len(root) != seal.KeyBytes {
		return w, false, fmt.Errorf("rootkey: a root key has %d bytes, not %d", seal.KeyBytes, len(root))
	}
	there, err := keyStore{table: table}.Load(ctx)
	if err != nil {
		return w, false, fmt.Errorf("read the wrapped root key: %w", err)
	}
	out, err := client.Encrypt(ctx, &kms.EncryptInput{KeyId: &keyID, Plaintext: root, EncryptionContext: purpose()})
	if err != nil {
		return w, false, fmt.Errorf("wrap the root key: %w", err)
	}
	// A key that cannot be unwrapped must not be stored: all that comes with it would be lost.
	back, err := wrapper{client, keyID}.Unwrap(ctx, out.CiphertextBlob)
	if err == nil && subtle.ConstantTimeCompare(back, root) != 1 {
		err = errors.New("KMS gives another key back than it was given")
	}
	if err != nil {
		return w, false, fmt.Errorf("try the wrapped root key: %w", err)
	}
	record := rootKeyRecord{out.CiphertextBlob, now().UTC()}
	if there == nil {
		return store.Create(space.Key(), record), false, nil
	}
	return store.Put(space.Key(), record).If(store.Equal(store.At("wrapped"), there)), true, nil
}
