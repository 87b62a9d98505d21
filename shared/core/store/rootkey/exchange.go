package rootkey

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
)

// An installation that moves to another place keeps its root key. With another root key, data that is looked up by a
// hash, such as account keys, could not be found (docs/decisions/0057-an-installation-moves-with-its-root-key.md).

// EncryptClient is the part of *kms.Client that Export, Import and changes of the KMS key call.
type EncryptClient interface {
	Client
	Encrypt(context.Context, *kms.EncryptInput, ...func(*kms.Options)) (*kms.EncryptOutput, error)
}

var _ EncryptClient = (*kms.Client)(nil)

// IsRecordKey reports whether the key is of the root key's record. Do not copy
// that record to another table: another KMS key wraps the root key there.
func IsRecordKey(key store.Key) bool { return key == recordPrefix.Key() }

// ErrNoRootKey is the error of Export, AddKMSKey, KeepOnlyKMSKey and Source.Existing for a table that has no root key
// yet.
var ErrNoRootKey = errors.New("rootkey: the table has no root key yet")

// ErrRotating is the error of a move during a rotation. An installation can only move while it has one root key.
var ErrRotating = errors.New("the root key is being rotated, and what moves has one root key: wait for the " +
	"rotation's end, which its status tells")

// ExportedKey is a root key that moves with its installation.
type ExportedKey struct {
	// Number is the number of the root key, from 1. Lineage has the subkeys of earlier root keys that
	// are still needed (seal.Lineage), sealed under this root key. It is nil for the first root key.
	Number  int    `json:"number"`
	Lineage []byte `json:"lineage,omitempty"`
	Key     []byte `json:"-"`
}

// Check returns an error if k is not a valid root key.
func (k ExportedKey) Check() error {
	if len(k.Key) != seal.KeyBytes {
		return fmt.Errorf("rootkey: a root key has %d bytes, not %d", seal.KeyBytes, len(k.Key))
	}
	if k.Number < 1 || (k.Number == 1) != (k.Lineage == nil) {
		return errors.New("rootkey: a root key behind the first, and no other, has a lineage")
	}
	_, err := seal.OpenLineage(k.Key, k.Number, k.Lineage)
	return err
}

// record returns the record of the moved root key. wrapped is the root key, wrapped by the KMS key of the new installation.
func (k ExportedKey) record(wrapped []byte, now func() time.Time) rootKeyRecord {
	return rootKeyRecord{Wrapped: wrapped, CreatedOn: now().UTC(), Number: k.Number, Lineage: k.Lineage}.omitFirstNumber()
}

// omitFirstNumber removes the number if it is 1, because earlier releases do not store it.
func (r rootKeyRecord) omitFirstNumber() rootKeyRecord {
	if r.Number == 1 {
		r.Number = 0
	}
	return r
}

// CheckNotRotating returns ErrRotating if an item, which must be the root key's record
// (IsRecordKey), says that a rotation is in progress. A program that copies a table needs this
// check: it reads the root key first, and a rotation can begin before it reads the items.
func CheckNotRotating(item store.Item) error {
	var r rootKeyRecord
	if err := store.Decode(item, &r); err != nil {
		return err
	}
	if r.rotating() {
		return ErrRotating
	}
	return nil
}

// rotating reports whether a rotation is in progress.
func (r rootKeyRecord) rotating() bool { return r.Other != nil || r.status().Rotating() }

// Export returns the root key of a table. It never creates one. It returns ErrRotating during a rotation.
func Export(ctx context.Context, client EncryptClient, keyID string, table *store.Table) (ExportedKey, error) {
	r, exists, err := keyStore{table: table}.record(ctx)
	switch {
	case err != nil:
		return ExportedKey{}, fmt.Errorf("read the wrapped root key: %w", err)
	case !exists:
		return ExportedKey{}, ErrNoRootKey
	case r.rotating():
		return ExportedKey{}, ErrRotating
	}
	key, err := wrapper{client, keyID}.Unwrap(ctx, r.Wrapped)
	if err != nil && r.WrappedAlternate != nil { // the installation is changing to this KMS key
		key, err = wrapper{client, keyID}.Unwrap(ctx, r.WrappedAlternate)
	}
	return ExportedKey{Number: max(1, r.Number), Lineage: r.Lineage, Key: key}, err
}

// ExportFile works as Export does, for a root key in a file. The table of such an installation may have no
// record of its root key. ExportFile returns an error if the table has a record of another root key.
func ExportFile(ctx context.Context, path string, table *store.Table) (ExportedKey, error) {
	key, err := seal.ExistingFile(path).Root(ctx)
	if err != nil {
		return ExportedKey{}, err
	}
	check, err := seal.RootKeyHash(ctx, seal.ExistingFile(path))
	if err != nil {
		return ExportedKey{}, err
	}
	r, exists, err := keyStore{table: table}.record(ctx)
	switch {
	case err != nil:
		return ExportedKey{}, fmt.Errorf("read the root key's record: %w", err)
	case r.rotating():
		return ExportedKey{}, ErrRotating
	case exists && check != string(r.Wrapped):
		return ExportedKey{},
			fmt.Errorf("the root key %s is not the one that the data were sealed under: put the right one back", path)
	}
	return ExportedKey{Number: max(1, r.Number), Lineage: r.Lineage, Key: key}, nil
}

// Import wraps an exported root key with KMS, and returns the write that makes it the table's root key.
// replaces reports whether the write replaces an existing root key. A process that has unwrapped the
// existing root key continues to use it for up to an hour, and cannot find keys of clients meanwhile.
func Import(
	ctx context.Context, client EncryptClient, keyID string, table *store.Table, root ExportedKey, now func() time.Time,
) (w store.Write, replaces bool, err error) {
	if err := root.Check(); err != nil {
		return w, false, err
	}
	r, exists, err := keyStore{table: table}.record(ctx)
	if err != nil {
		return w, false, fmt.Errorf("read the wrapped root key: %w", err)
	}
	wrapped, err := wrap(ctx, client, keyID, root.Key)
	if err != nil {
		return w, false, err
	}
	record := root.record(wrapped, now).storedForm()
	if !exists {
		return store.Create(recordPrefix.Key(), record), false, nil
	}
	return r.ifUnchanged(store.Put(recordPrefix.Key(), record)), true, nil
}

// ImportFile works as Import does, for a root key that is already in the file at path. It returns the write that stores
// the number and the lineage, which the file does not contain, in the table. There is no write for a first root key.
func ImportFile(ctx context.Context, path string, root ExportedKey, now func() time.Time) ([]store.Write, error) {
	if err := root.Check(); err != nil || root.Number == 1 {
		return nil, err
	}
	check, err := seal.RootKeyHash(ctx, seal.ExistingFile(path))
	if err != nil {
		return nil, err
	}
	return []store.Write{store.Put(recordPrefix.Key(), root.record([]byte(check), now).storedForm())}, nil
}

// wrap wraps a root key with a KMS key. It unwraps the result to test it. A root key
// that cannot be unwrapped must not be stored: all data sealed by it would be lost.
func wrap(ctx context.Context, client EncryptClient, keyID string, key []byte) ([]byte, error) {
	out, err := client.Encrypt(ctx, &kms.EncryptInput{
		KeyId: &keyID, Plaintext: key,
		EncryptionContext: EncryptionContext(),
	})
	if err != nil {
		return nil, fmt.Errorf("wrap the root key: %w", err)
	}
	unwrapped, err := wrapper{client, keyID}.Unwrap(ctx, out.CiphertextBlob)
	if err == nil && subtle.ConstantTimeCompare(unwrapped, key) != 1 {
		err = errors.New("KMS gives another key back than it was given")
	}
	if err != nil {
		return nil, fmt.Errorf("try the wrapped root key: %w", err)
	}
	return out.CiphertextBlob, nil
}
