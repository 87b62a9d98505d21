package rootkey_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func first(key []byte) rootkey.Moved { return rootkey.Moved{Number: 1, Key: key} }

// TestAdoptedRootKeyIsTheOneOfAllProcesses, in place of none and of another one.
func TestAdoptedRootKeyIsTheOneOfAllProcesses(t *testing.T) {
	root := first(bytes.Repeat([]byte{42}, seal.KeyBytes))
	for _, used := range []bool{false, true} {
		service, table := &keyService{keyID: "key"}, storetest.New(t)
		if _, err := rootkey.Existing(t.Context(), service, "key", table); !errors.Is(err, rootkey.ErrNone) || len(service.keys) > 0 {
			t.Errorf("a table without one is answered with %v, and %d were made", err, len(service.keys))
		}
		if used {
			if _, err := rootkey.New(service, "key", table, time.Now).Root(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w, replaces, err := rootkey.Adopt(t.Context(), service, "key", table, root, time.Now)
		if err != nil || replaces != used || !rootkey.Is(w.Key) {
			t.Fatalf("it is adopted with %v, %v", replaces, err)
		}
		if err := table.Commit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if got, err := rootkey.New(service, "key", table, time.Now).Root(t.Context()); err != nil || !bytes.Equal(got, root.Key) {
			t.Errorf("a process has another (%v)", err)
		}
		if got, err := rootkey.Existing(t.Context(), service, "key", table); err != nil || !bytes.Equal(got.Key, root.Key) || got.Number != 1 {
			t.Errorf("who exports it has another (%v)", err)
		}
		// What was looked at is not there any more: another import was first.
		if err := table.Commit(t.Context(), w); !errors.Is(err, store.ErrCondition) {
			t.Errorf("a second time it is answered with %v", err)
		}
	}
}

// TestRootKeyThatCannotBeUnwrappedIsNotAdopted: all that was sealed under it would be lost.
func TestRootKeyThatCannotBeUnwrappedIsNotAdopted(t *testing.T) {
	table := storetest.New(t)
	if _, _, err := rootkey.Adopt(t.Context(), &keyService{keyID: "key"}, "other", table, first(bytes.Repeat([]byte{1}, seal.KeyBytes)), time.Now); !errors.Is(err, errDenied) {
		t.Errorf("another KMS key is answered with %v", err)
	}
	if _, _, err := rootkey.Adopt(t.Context(), &wrongService{keyService{keyID: "key"}}, "key", table, first(bytes.Repeat([]byte{1}, seal.KeyBytes)), time.Now); err == nil {
		t.Error("one that comes back as another is adopted")
	}
	if _, _, err := rootkey.Adopt(t.Context(), &keyService{keyID: "key"}, "key", table, first([]byte("short")), time.Now); err == nil {
		t.Error("a short one is adopted")
	}
}

// wrongService gives another key back than it was given.
type wrongService struct{ keyService }

func (s *wrongService) Encrypt(ctx context.Context, in *kms.EncryptInput, o ...func(*kms.Options)) (*kms.EncryptOutput, error) {
	other := *in
	other.Plaintext = bytes.Repeat([]byte{9}, len(in.Plaintext))
	return s.keyService.Encrypt(ctx, &other, o...)
}
