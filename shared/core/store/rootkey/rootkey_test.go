package rootkey_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/gatewright/gatewright/shared/base/dryrun"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// keyService is a KMS with one key. The wrapped form of a key is "w" and its index in keys.
type keyService struct {
	keyID string

	mu       sync.Mutex
	keys     [][]byte
	contexts []map[string]string
	decrypts int
}

var errDenied = errors.New("AccessDeniedException")

func (s *keyService) GenerateDataKeyWithoutPlaintext(
	ctx context.Context, in *kms.GenerateDataKeyWithoutPlaintextInput, _ ...func(*kms.Options),
) (*kms.GenerateDataKeyWithoutPlaintextOutput, error) {
	if err := dryrun.Refuse(ctx, "a data key"); err != nil {
		return nil, err // as the KMS client of package cloud does
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if *in.KeyId != s.keyID || in.KeySpec != types.DataKeySpecAes256 {
		return nil, errDenied
	}
	n := byte(len(s.keys))
	s.keys = append(s.keys, bytes.Repeat([]byte{n + 1}, seal.KeyBytes))
	s.contexts = append(s.contexts, in.EncryptionContext)
	return &kms.GenerateDataKeyWithoutPlaintextOutput{CiphertextBlob: []byte{'w', n}}, nil
}

// Encrypt wraps an existing key.
func (s *keyService) Encrypt(
	_ context.Context, in *kms.EncryptInput, _ ...func(*kms.Options),
) (*kms.EncryptOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *in.KeyId != s.keyID {
		return nil, errDenied
	}
	n := byte(len(s.keys))
	s.keys = append(s.keys, bytes.Clone(in.Plaintext))
	s.contexts = append(s.contexts, in.EncryptionContext)
	return &kms.EncryptOutput{CiphertextBlob: []byte{'w', n}}, nil
}

func (s *keyService) Decrypt(
	_ context.Context, in *kms.DecryptInput, _ ...func(*kms.Options),
) (*kms.DecryptOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decrypts++
	n := int(in.CiphertextBlob[1])
	if *in.KeyId != s.keyID || !maps.Equal(in.EncryptionContext, s.contexts[n]) || len(in.EncryptionContext) == 0 {
		return nil, errDenied
	}
	return &kms.DecryptOutput{Plaintext: s.keys[n]}, nil
}

func TestProcessesShareRootKey(t *testing.T) {
	service, table := &keyService{keyID: "key"}, storetest.New(t)
	keys := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range keys {
		source := rootkey.New(service, "key", table, time.Now)
		wg.Go(func() {
			for range 3 {
				key, err := source.Root(t.Context())
				if err != nil {
					t.Errorf("Root() of process %d = %v, want success", i, err)
				}
				keys[i] = key
			}
		})
	}
	wg.Wait()
	for i, key := range keys {
		if len(key) != seal.KeyBytes || !bytes.Equal(key, keys[0]) {
			t.Errorf("Root() of process %d = %v, want %v with %d bytes", i, key, keys[0], seal.KeyBytes)
		}
	}
	if service.decrypts != len(keys) {
		t.Errorf("%d processes call Decrypt of KMS %d times, want one call each", len(keys), service.decrypts)
	}
}

func TestRootKeyIsStoredWrapped(t *testing.T) {
	service, items := &keyService{keyID: "key"}, memory.New()
	if _, err := rootkey.New(service, "key", storetest.NewWithBackend(t, items), time.Now).Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys := slices.Collect(maps.Keys(items.Items()))
	if len(keys) != 1 {
		t.Fatalf("items in the table = %d, want only the root key", len(keys))
	}
	var record struct {
		Wrapped []byte `dynamodbav:"wrapped"`
	}
	if err := storetest.NewWithBackend(t, items).Get(t.Context(), keys[0], &record); err != nil ||
		!slices.Equal(record.Wrapped, []byte{'w', 0}) {
		t.Errorf("wrapped key in the record = %v, %v, want %v", record.Wrapped, err, []byte{'w', 0})
	}
}

// transactions records the number of writes of each transaction.
type transactions struct {
	store.Backend
	writes []int
}

func (t *transactions) Transact(ctx context.Context, token string, writes []store.Write) error {
	t.writes = append(t.writes, len(writes))
	return t.Backend.Transact(ctx, token, writes)
}

// TestFirstUseIsNotInReadSet checks that the first use of the root key during a change adds no check of
// the root key's record to the change's transaction. The function may have no permission for such a check.
func TestFirstUseIsNotInReadSet(t *testing.T) {
	service := &keyService{keyID: "key"}
	backend := &transactions{Backend: memory.New()}
	table := storetest.NewWithBackend(t, backend)
	key := store.Key{PK: "a", SK: "a"}
	for range 2 { // the first process creates the root key, the second finds it
		source := rootkey.New(service, "key", table, time.Now)
		ctx := store.WithReadSet(t.Context())
		if _, err := source.Root(ctx); err != nil {
			t.Fatalf("Root() during a change = %v, want success", err)
		}
		if err := table.Commit(ctx, store.Put(key, struct{ A int }{1})); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int{1, 1, 1}; !slices.Equal(backend.writes, want) {
		t.Errorf("transactions of %v writes, want %v", backend.writes, want)
	}
}

func TestKMSErrorIsReturned(t *testing.T) {
	source := rootkey.New(&keyService{keyID: "key"}, "another", storetest.New(t), time.Now)
	if _, err := source.Root(t.Context()); !errors.Is(err, errDenied) {
		t.Errorf("Root() with another KMS key = %v, want %v", err, errDenied)
	}
}

// TestRootKeyCreatedInDryRunIsStored checks that a root key that is created during a dry run is written
// to the table. A root key that exists only in memory would seal data that no other process can open.
func TestRootKeyCreatedInDryRunIsStored(t *testing.T) {
	service, table := &keyService{keyID: "key"}, storetest.New(t)
	dryRun, _, _ := store.BeginDryRun(t.Context())
	first, err := rootkey.New(service, "key", table, time.Now).Root(dryRun)
	if err != nil {
		t.Fatalf("Root() in a dry run = %v, want success", err)
	}
	second, err := rootkey.New(service, "key", table, time.Now).Root(t.Context())
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("Root() = %v, %v after a dry run got %v, want the same", second, err, first)
	}
}
