package rootkey_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

func firstRootKey(key []byte) rootkey.ExportedKey { return rootkey.ExportedKey{Number: 1, Key: key} }

// TestImportedRootKeyIsUsed checks that an imported root key is used. It imports
// into a table without a root key, and into a table with another root key.
func TestImportedRootKeyIsUsed(t *testing.T) {
	root := firstRootKey(bytes.Repeat([]byte{42}, seal.KeyBytes))
	for _, used := range []bool{false, true} {
		service, table := &keyService{keyID: "key"}, storetest.New(t)
		if _, err := rootkey.Export(t.Context(), service, "key", table); !errors.Is(err, rootkey.ErrNoRootKey) ||
			len(service.keys) > 0 {
			t.Errorf("Export() of a table without a root key = %v, %d keys created, want %v, 0",
				err, len(service.keys), rootkey.ErrNoRootKey)
		}
		if used {
			if _, err := rootkey.New(service, "key", table, time.Now).Root(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w, replaces, err := rootkey.Import(t.Context(), service, "key", table, root, time.Now)
		if err != nil || replaces != used || !rootkey.IsRecordKey(w.Key) {
			t.Fatalf("Import() = write to %v, replaces %t, %v, want the root key's record, %t", w.Key, replaces, err, used)
		}
		if err := table.Commit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if got, err := rootkey.New(service, "key", table, time.Now).Root(t.Context()); err != nil ||
			!bytes.Equal(got, root.Key) {
			t.Errorf("Root() after Import() = the imported key %t, %v, want true", bytes.Equal(got, root.Key), err)
		}
		if got, err := rootkey.Export(t.Context(), service, "key", table); err != nil || !bytes.Equal(got.Key, root.Key) ||
			got.Number != 1 {
			t.Errorf("Export() after Import() = number %d, the imported key %t, %v, want 1, true",
				got.Number, bytes.Equal(got.Key, root.Key), err)
		}
		// The first commit has changed the record since Import read it.
		if err := table.Commit(t.Context(), w); !errors.Is(err, store.ErrCondition) {
			t.Errorf("second commit of the import = %v, want %v", err, store.ErrCondition)
		}
	}
}

// TestInvalidRootKeyIsNotImported checks that Import refuses a root key that is too short, or
// that KMS does not return. All data sealed under such a root key would be lost.
func TestInvalidRootKeyIsNotImported(t *testing.T) {
	table := storetest.New(t)
	if _, _, err := rootkey.Import(t.Context(), &keyService{keyID: "key"}, "other", table,
		firstRootKey(bytes.Repeat([]byte{1}, seal.KeyBytes)), time.Now); !errors.Is(err, errDenied) {
		t.Errorf("Import() with another KMS key = %v, want %v", err, errDenied)
	}
	if _, _, err := rootkey.Import(t.Context(), &wrongService{keyService{keyID: "key"}}, "key", table,
		firstRootKey(bytes.Repeat([]byte{1}, seal.KeyBytes)), time.Now); err == nil {
		t.Error("Import() with a KMS that returns another key succeeds, want an error")
	}
	if _, _, err := rootkey.Import(t.Context(), &keyService{keyID: "key"}, "key", table, firstRootKey([]byte("short")),
		time.Now); err == nil {
		t.Error("Import() of a short root key succeeds, want an error")
	}
}

// wrongService is a KMS whose Encrypt wraps another key than the requested key.
type wrongService struct{ keyService }

func (s *wrongService) Encrypt(
	ctx context.Context, in *kms.EncryptInput, o ...func(*kms.Options),
) (*kms.EncryptOutput, error) {
	other := *in
	other.Plaintext = bytes.Repeat([]byte{9}, len(in.Plaintext))
	return s.keyService.Encrypt(ctx, &other, o...)
}
