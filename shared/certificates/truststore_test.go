package certificates_test

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

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/operationtest"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// simulated is the bucket as a worker of the simulation sees it.
type simulated struct {
	w     *operationtest.Worker
	inner *blob.Memory
}

func (s simulated) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return s.w.Call(ctx, "put "+key, func() error { return s.inner.Put(ctx, key, body) })
}

func (s simulated) Delete(ctx context.Context, key string) error {
	return s.w.Call(ctx, "delete "+key, func() error { return s.inner.Delete(ctx, key) })
}

func (s simulated) List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error] {
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

// TestTruststoreEndsEqualToTheCAs has changes of three CAs in flight while workers die
// and objects are written late.
func TestTruststoreEndsEqualToTheCAs(t *testing.T) {
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
				return certificates.Truststores{Table: w.Table, Objects: simulated{w, bucket}}.Definitions()
			},
			Arrange: func(ctx context.Context, w *operationtest.Worker) error {
				source := ids.NewSource(rand.NewChaCha8([32]byte{7}), time.Now)
				service := certificates.Open(installation.Parts{Table: w.Table, IDs: source, Now: time.Now})
				request := func() context.Context {
					return store.Decide(audit.With(ctx, &audit.Request{AccountID: "a-1", RequestID: source.UUID(), Time: time.Now()}))
				}
				var first certificates.CA
				for i, text := range texts {
					made, err := service.Create(request(), owner(), certificates.New{Name: fmt.Sprint("ca_", i), Certificate: text})
					if err != nil {
						return err
					}
					if i == 0 {
						first = made
					}
				}
				return service.Delete(request(), owner(), first.ID)
			},
			Outside: func() any {
				out := []string{}
				for o, err := range bucket.List(context.Background(), "") {
					out = append(out, fmt.Sprint(o.Key, err))
				}
				if len(out) != 1 {
					return errors.New("more or fewer objects than one")
				}
				return out
			},
			Ignore: []string{"updatedOn", "createdOn"},
		}
	}, 100)
}

// TestTruststoreOfAnOlderChangeIsNotTheLast has a change be made, and its truststore be
// written, after the truststore of the one before has been read and before it is written.
func TestTruststoreOfAnOlderChangeIsNotTheLast(t *testing.T) {
	w := newWorld(t)
	bucket := blob.NewMemory(func() time.Time { return w.now })
	publish := func(objects certificates.Objects) {
		engine, err := operation.New(w.table, certificates.Truststores{Table: w.table, Objects: objects}.Definitions(), operation.Options{
			Now: func() time.Time { return w.now }, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	deleted, kept := pkitest.CA(t, "Deleted", w.now).PEM(), pkitest.CA(t, "Kept", w.now).PEM()
	made := w.create("deleted", deleted)
	w.create("kept", kept)
	publish(&overtaken{Memory: bucket, by: func() {
		if err := w.Delete(w.request(), owner(), made.ID); err != nil {
			t.Fatal(err)
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
	if !slices.Equal(all, []string{kept}) {
		t.Errorf("the truststores are %q, want one with the CA that was kept: %q", all, kept)
	}
}

// overtaken is a bucket whose first object is written after something else has happened.
type overtaken struct {
	*blob.Memory
	by func()
}

// Put implements certificates.Objects.
func (o *overtaken) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if by := o.by; by != nil {
		o.by = nil
		by()
	}
	return o.Memory.Put(ctx, key, body)
}
