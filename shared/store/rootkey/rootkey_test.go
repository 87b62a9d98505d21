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

	"github.com/gatewright/gatewright/shared/dryrun"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// keyService is KMS with one key. A wrapped key is its place in keys.
type keyService struct {
	keyID string

	mu       sync.Mutex
	keys     [][]byte
	contexts []map[string]string
	decrypts int
}

var errDenied = errors.New("AccessDeniedException")

func (s *keyService) GenerateDataKeyWithoutPlaintext(ctx context.Context, in *kms.GenerateDataKeyWithoutPlaintextInput, _ ...func(*kms.Options)) (*kms.GenerateDataKeyWithoutPlaintextOutput, error) {
	if err := dryrun.Refuse(ctx, "a data key"); err != nil {
		return nil, err // as package cloud has it
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

// Encrypt wraps a key that is there already.
func (s *keyService) Encrypt(_ context.Context, in *kms.EncryptInput, _ ...func(*kms.Options)) (*kms.EncryptOutput, error) {
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

func (s *keyService) Decrypt(_ context.Context, in *kms.DecryptInput, _ ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decrypts++
	n := int(in.CiphertextBlob[1])
	if *in.KeyId != s.keyID || !maps.Equal(in.EncryptionContext, s.contexts[n]) || len(in.EncryptionContext) == 0 {
		return nil, errDenied
	}
	return &kms.DecryptOutput{Plaintext: s.keys[n]}, nil
}

func TestAllProcessesOfAnInstallationShareOneRootKey(t *testing.T) {
	service, table := &keyService{keyID: "key"}, storetest.New(t)
	keys := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range keys {
		source := rootkey.New(service, "key", table, time.Now)
		wg.Go(func() {
			for range 3 {
				key, err := source.Root(t.Context())
				if err != nil {
					t.Error(err)
				}
				keys[i] = key
			}
		})
	}
	wg.Wait()
	for i, key := range keys {
		if len(key) != seal.KeyBytes || !bytes.Equal(key, keys[0]) {
			t.Errorf("process %d has %v, the first %v", i, key, keys[0])
		}
	}
	if service.decrypts != len(keys) {
		t.Errorf("KMS was asked %d times by %d processes", service.decrypts, len(keys))
	}
}

func TestRootKeyStandsInTheTableWrappedOnly(t *testing.T) {
	service, items := &keyService{keyID: "key"}, memory.New()
	if _, err := rootkey.New(service, "key", storetest.Over(t, items), time.Now).Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys := slices.Collect(maps.Keys(items.Items()))
	if len(keys) != 1 {
		t.Fatalf("%d items, want the root key alone", len(keys))
	}
	var record struct {
		Wrapped []byte `dynamodbav:"wrapped"`
	}
	if err := storetest.Over(t, items).Get(t.Context(), keys[0], &record); err != nil || !slices.Equal(record.Wrapped, []byte{'w', 0}) {
		t.Errorf("the record holds %v, %v", record.Wrapped, err)
	}
}

// transactions counts the writes of each transaction.
type transactions struct {
	store.Backend
	writes []int
}

func (b *transactions) Transact(ctx context.Context, token string, writes []store.Write) error {
	b.writes = append(b.writes, len(writes))
	return b.Backend.Transact(ctx, token, writes)
}

// TestFirstUseOfTheRootKeyIsNoPartOfAChange: a change that reads nothing else asks
// for no permission to check what it has read.
func TestFirstUseOfTheRootKeyIsNoPartOfAChange(t *testing.T) {
	service := &keyService{keyID: "key"}
	backend := &transactions{Backend: memory.New()}
	table := storetest.Over(t, backend)
	key := store.Key{PK: "a", SK: "a"}
	for range 2 { // the first process makes the root key, the second finds it
		source := rootkey.New(service, "key", table, time.Now)
		ctx := store.Decide(t.Context())
		if _, err := source.Root(ctx); err != nil {
			t.Fatal(err)
		}
		if err := table.Commit(ctx, store.Put(key, struct{ A int }{1})); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int{1, 1, 1}; !slices.Equal(backend.writes, want) {
		t.Errorf("transactions of %v writes, want %v", backend.writes, want)
	}
}

func TestRefusalOfKMSIsTold(t *testing.T) {
	source := rootkey.New(&keyService{keyID: "key"}, "another", storetest.New(t), time.Now)
	if _, err := source.Root(t.Context()); !errors.Is(err, errDenied) {
		t.Errorf("answered %v", err)
	}
}

// TestTheRootKeyThatADryRunMakesIsKept: one in memory alone would seal what no other
// process can open.
func TestTheRootKeyThatADryRunMakesIsKept(t *testing.T) {
	service, table := &keyService{keyID: "key"}, storetest.New(t)
	tried, _, _ := store.Try(t.Context())
	first, err := rootkey.New(service, "key", table, time.Now).Root(tried)
	if err != nil {
		t.Fatal(err)
	}
	second, err := rootkey.New(service, "key", table, time.Now).Root(t.Context())
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("a dry run has %v, and another process %v, %v", first, second, err)
	}
}
