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

// ErrTurning is what a move is answered while a rotation goes on: what moves has one root key.
var ErrTurning = errors.New("the root key is being rotated, and what moves has one root key: wait for the rotation's end, which its status tells")

// Moved is a root key that moves with its installation.
type Moved struct {
	// Number is which one it is, from 1, and Lineage what it has of those before it, sealed under itself, nil for none.
	Number  int    `json:"number"`
	Lineage []byte `json:"lineage,omitempty"`
	Key     []byte `json:"-"`
}

// Check refuses what is no root key.
func (m Moved) Check() error {
	if len(m.Key) != seal.KeyBytes {
		return fmt.Errorf("rootkey: a root key has %d bytes, not %d", seal.KeyBytes, len(m.Key))
	}
	if m.Number < 1 || (m.Number == 1) != (m.Lineage == nil) {
		return errors.New("rootkey: a root key behind the first, and no other, has a lineage")
	}
	_, err := seal.OpenLineage(m.Key, m.Number, m.Lineage)
	return err
}

// record is that of the moved root key, as a place wraps it.
func (m Moved) record(wrapped []byte, now func() time.Time) rootKeyRecord {
	return rootKeyRecord{Wrapped: wrapped, CreatedOn: now().UTC(), Number: m.Number, Lineage: m.Lineage}.first()
}

// first leaves the number of a first root key out, as earlier releases do.
func (r rootKeyRecord) first() rootKeyRecord {
	if r.Number == 1 {
		r.Number = 0
	}
	return r
}

// CheckStill answers ErrTurning where an item, which is the root key's (Is), says that a rotation goes on. What copies a table reads
// its root key first, and a rotation may begin before it comes to the items.
func CheckStill(item store.Item) error {
	var r rootKeyRecord
	if err := store.Decode(item, &r); err != nil {
		return err
	}
	if r.turning() {
		return ErrTurning
	}
	return nil
}

// turning reports whether a rotation goes on.
func (r rootKeyRecord) turning() bool { return r.Other != nil || r.status().Rotating() }

// Existing gives the root key of a table, and never makes one. It answers ErrTurning while that is rotated.
func Existing(ctx context.Context, client Mover, keyID string, table *store.Table) (Moved, error) {
	r, there, err := keyStore{table: table}.record(ctx)
	switch {
	case err != nil:
		return Moved{}, fmt.Errorf("read the wrapped root key: %w", err)
	case !there:
		return Moved{}, ErrNone
	case r.turning():
		return Moved{}, ErrTurning
	}
	key, err := wrapper{client, keyID}.Unwrap(ctx, r.Wrapped)
	if err != nil && r.Also != nil { // the installation goes over to this KMS key
		key, err = wrapper{client, keyID}.Unwrap(ctx, r.Also)
	}
	return Moved{Number: max(1, r.Number), Lineage: r.Lineage, Key: key}, err
}

// ExistingInFile is Existing for a root key in a file; an installation there need not have a record of it.
func ExistingInFile(ctx context.Context, path string, table *store.Table) (Moved, error) {
	key, err := seal.ExistingFile(path).Root(ctx)
	if err != nil {
		return Moved{}, err
	}
	check, err := seal.Check(ctx, seal.ExistingFile(path))
	if err != nil {
		return Moved{}, err
	}
	r, there, err := keyStore{table: table}.record(ctx)
	switch {
	case err != nil:
		return Moved{}, fmt.Errorf("read the root key's record: %w", err)
	case r.turning():
		return Moved{}, ErrTurning
	case there && check != string(r.Wrapped):
		return Moved{}, fmt.Errorf("the root key %s is not the one that the data were sealed under: put the right one back", path)
	}
	return Moved{Number: max(1, r.Number), Lineage: r.Lineage, Key: key}, nil
}

// Adopt has KMS wrap a root key that an installation had elsewhere, and gives the write that
// makes it the table's, in place of one that is there now. replaces tells of such a one: a
// process that has unwrapped it goes on with it for an hour at most, and knows no key meanwhile.
func Adopt(ctx context.Context, client Mover, keyID string, table *store.Table, root Moved, now func() time.Time) (w store.Write, replaces bool, err error) {
	if err := root.Check(); err != nil {
		return w, false, err
	}
	r, there, err := keyStore{table: table}.record(ctx)
	if err != nil {
		return w, false, fmt.Errorf("read the wrapped root key: %w", err)
	}
	wrapped, err := wrap(ctx, client, keyID, root.Key)
	if err != nil {
		return w, false, err
	}
	record := root.record(wrapped, now).kept()
	if !there {
		return store.Create(space.Key(), record), false, nil
	}
	return r.asRead(store.Put(space.Key(), record)), true, nil
}

// AdoptInFile is Adopt for a root key that lies in a file: the writes by which the table has what of it the file has not,
// none for a first root key.
func AdoptInFile(ctx context.Context, path string, root Moved, now func() time.Time) ([]store.Write, error) {
	if err := root.Check(); err != nil || root.Number == 1 {
		return nil, err
	}
	check, err := seal.Check(ctx, seal.ExistingFile(path))
	if err != nil {
		return nil, err
	}
	return []store.Write{store.Put(space.Key(), root.record([]byte(check), now).kept())}, nil
}

// wrap has a KMS key wrap a root key. One that cannot be unwrapped must not be stored: all that it sealed would be lost.
func wrap(ctx context.Context, client Mover, keyID string, key []byte) ([]byte, error) {
	out, err := client.Encrypt(ctx, &kms.EncryptInput{KeyId: &keyID, Plaintext: key, EncryptionContext: Purpose()})
	if err != nil {
		return nil, fmt.Errorf("wrap the root key: %w", err)
	}
	back, err := wrapper{client, keyID}.Unwrap(ctx, out.CiphertextBlob)
	if err == nil && subtle.ConstantTimeCompare(back, key) != 1 {
		err = errors.New("KMS gives another key back than it was given")
	}
	if err != nil {
		return nil, fmt.Errorf("try the wrapped root key: %w", err)
	}
	return out.CiphertextBlob, nil
}
