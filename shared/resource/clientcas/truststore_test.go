package clientcas_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/clientcas"
)

// simulatedBucket is the bucket as a worker of the simulation accesses it.
type simulatedBucket struct {
	w     *operationtest.Worker
	inner *blob.Memory
}

func (s simulatedBucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return s.w.Call(ctx, "put "+key, func() error { return s.inner.Put(ctx, key, body) })
}

func (s simulatedBucket) Delete(ctx context.Context, key string) error {
	return s.w.Call(ctx, "delete "+key, func() error { return s.inner.Delete(ctx, key) })
}

func (s simulatedBucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		err := s.w.Call(ctx, "list "+prefix, func() error { return nil })
		if err != nil {
			yield(blob.Object{}, err)
			return
		}
		for o, err := range s.inner.List(ctx, prefix) {
			if !yield(o, err) {
				return
			}
		}
	}
}

// TestTruststoreConvergesToCAs creates three CAs and deletes one of them, while workers die and objects are written
// late. It checks that the truststore finally has the current CAs.
func TestTruststoreConvergesToCAs(t *testing.T) {
	var texts [3]string
	for i := range texts {
		texts[i] = pkitest.CA(t, fmt.Sprint("CA ", i), storetest.Epoch, func(c *pkitest.Template) {
			c.NotBefore, c.NotAfter = time.Unix(0, 0), time.Unix(1<<33, 0)
		}).PEM()
	}
	operationtest.Simulate(t, func() operationtest.Scenario {
		bucket := blob.NewMemory(time.Now)
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				return clientcas.Truststores{Table: w.Table, Objects: simulatedBucket{w, bucket}}.Definitions()
			},
			Setup: func(ctx context.Context, w *operationtest.Worker) error {
				source := ids.NewSource(rand.NewChaCha8([32]byte{7}), time.Now)
				service := clientcas.Open(installation.Parts{Table: w.Table, IDs: source, Now: time.Now})
				request := func() context.Context {
					return store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
						AccountID: "a-1", RequestID: source.UUID(),
						Time: time.Now(),
					}))
				}
				var first clientcas.CA
				for i, text := range texts {
					created, err := service.Create(request(), owner(),
						clientcas.CreateInput{Name: fmt.Sprint("ca_", i), Certificate: text})
					if err != nil {
						return err
					}
					if i == 0 {
						first = created
					}
				}
				return service.Delete(request(), owner(), first.ID)
			},
			External: func() any {
				out := []string{}
				for o, err := range bucket.List(context.Background(), "") {
					out = append(out, fmt.Sprint(o.Key, err))
				}
				if len(out) != 1 {
					return fmt.Errorf("truststores = %q, want 1", out)
				}
				return out
			},
			Ignore: []string{"updatedOn", "createdOn"},
		}
	}, 100)
}

// TestOlderPublishDoesNotOverwriteNewer changes the CAs, and publishes the new truststore, while an older operation has
// read the previous CAs but not written them yet.
func TestOlderPublishDoesNotOverwriteNewer(t *testing.T) {
	fx := newFixture(t)
	bucket := blob.NewMemory(func() time.Time { return fx.now })
	publish := func(objects clientcas.Objects) {
		engine, err := operation.New(fx.table, clientcas.Truststores{Table: fx.table, Objects: objects}.Definitions(),
			operation.Options{
				Now: func() time.Time { return fx.now }, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler),
			})
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Sweep(t.Context()); err != nil {
			t.Fatalf("Sweep() error = %v, want none", err)
		}
	}
	deleted, retained := pkitest.CA(t, "Deleted", fx.now).PEM(), pkitest.CA(t, "Kept", fx.now).PEM()
	created := fx.create("deleted", deleted)
	fx.create("kept", retained)
	publish(&interruptedBucket{Memory: bucket, beforePut: func() {
		if err := fx.Delete(fx.request(), owner(), created.ID); err != nil {
			t.Fatalf("Delete(%s) error = %v, want none", created.ID, err)
		}
		publish(bucket)
	}})
	var all []string
	for o, err := range bucket.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		body, _, err := bucket.Get(t.Context(), o.Key, o.ETag, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	if !slices.Equal(all, []string{retained}) {
		t.Errorf("truststores = %q, want one with the remaining CA: %q", all, retained)
	}
}

// interruptedBucket is a bucket that calls a function before its first object is written.
type interruptedBucket struct {
	*blob.Memory
	beforePut func()
}

// Put implements clientcas.Objects.
func (b *interruptedBucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if beforePut := b.beforePut; beforePut != nil {
		b.beforePut = nil
		beforePut()
	}
	return b.Memory.Put(ctx, key, body)
}
