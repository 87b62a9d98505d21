package functionstest

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
)

// Uses records what is done outside the process: in the table, in the bucket,
// with the root key. It is the in-process counterpart of what package cloud
// records of AWS's SDK, spelled as declarations are.
type Uses struct {
	mu   sync.Mutex
	done map[api.Use]int
	// now is what the running call has done, nil outside of one.
	now map[api.Use]int
	// reached are the spaces that were asked for.
	reached store.Reach
	// Reads, Queries and Commits count calls of the table.
	Reads, Queries, Commits int
	// Querying, where it is not nil, is told the space of each query of the table before that is made, by several at once: for
	// what others do meanwhile.
	Querying func(store.Space)
}

// Clear forgets what was done.
func (u *Uses) Clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done, u.Reads, u.Queries, u.Commits = nil, 0, 0, 0
	u.reached = store.Reach{}
}

// Reached gives the spaces of the table that were asked for, each once, sorted.
func (u *Uses) Reached() store.Reach {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reached
}

func (u *Uses) reach(r store.Reach) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reached = u.reached.And(r)
}

// Done lists what was done, each once, sorted.
func (u *Uses) Done() []api.Use {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.done))
}

// during lists what is done while f runs, each once, but for what is done in
// a call of its own meanwhile.
func (u *Uses) during(f func()) []api.Use {
	own := map[api.Use]int{}
	u.mu.Lock()
	outer := u.now
	u.now = own
	u.mu.Unlock()
	f()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now = outer
	return slices.Sorted(maps.Keys(own))
}

func (u *Uses) add(use api.Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done == nil {
		u.done = map[api.Use]int{}
	}
	u.done[use]++
	if u.now != nil {
		u.now[use]++
	}
}

func (u *Uses) count(n *int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	*n++
}

func (u *Uses) table(b store.Backend) store.Backend              { return &recordedTable{b, u} }
func (u *Uses) bucket(b installation.Bucket) installation.Bucket { return &recordedBucket{b, u} }
func (u *Uses) key(k rootKey) *recordedKey                       { return &recordedKey{k, u} }

type recordedTable struct {
	store.Backend
	uses *Uses
}

// Read implements store.Backend.
func (t *recordedTable) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	t.uses.count(&t.uses.Reads)
	if len(keys) == 1 {
		t.uses.add(api.GetItem)
	} else {
		t.uses.add(api.BatchGetItem)
	}
	for _, k := range keys {
		t.uses.reach(store.Reach{Reads: []store.Space{store.SpaceOf(k.PK)}})
	}
	return t.Backend.Read(ctx, keys)
}

// Query implements store.Backend.
func (t *recordedTable) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	t.uses.count(&t.uses.Queries)
	if t.uses.Querying != nil {
		t.uses.Querying(store.SpaceOf(q.PK))
	}
	if q.Index == store.DueIndex {
		t.uses.add(api.QueryDue)
	} else {
		t.uses.add(api.Query)
		t.uses.reach(store.Reach{Reads: []store.Space{store.SpaceOf(q.PK)}})
	}
	return t.Backend.Query(ctx, q)
}

// Transact implements store.Backend.
func (t *recordedTable) Transact(ctx context.Context, token string, writes []store.Write) error {
	t.uses.count(&t.uses.Commits)
	if !slices.ContainsFunc(writes, func(w store.Write) bool { return !audit.IsRecord(w.Key) }) {
		t.uses.add(neverRecordedApart)
	}
	for _, w := range writes {
		t.uses.reach(store.Reach{Writes: []store.Space{store.SpaceOf(w.Key.PK)}})
		switch w.Kind {
		case store.PutKind:
			t.uses.add(api.PutItem)
		case store.UpdateKind:
			t.uses.add(api.UpdateItem)
		case store.DeleteKind:
			t.uses.add(api.DeleteItem)
		case store.CheckKind:
			t.uses.add(api.CheckItem)
		}
	}
	return t.Backend.Transact(ctx, token, writes)
}

type recordedKey struct {
	rootKey
	uses *Uses
}

// Root returns the root key.
func (k *recordedKey) Root(ctx context.Context) ([]byte, error) {
	k.uses.add(api.RootKey)
	k.uses.reach(store.Reach{Reads: []store.Space{"root-key"}}) // where it is in the table
	return k.rootKey.Root(ctx)
}

type recordedBucket struct {
	installation.Bucket
	uses *Uses
}

// of returns the one of four uses that is for the kind of object at key.
func of(key string, upload, source, artifact, truststore api.Use) api.Use {
	for prefix, use := range map[string]api.Use{
		blob.UploadKey(""): upload, blob.SourceKey(""): source, blob.ArtifactKey(""): artifact, blob.TruststoreKey(""): truststore,
	} {
		if strings.HasPrefix(key, prefix) {
			return use
		}
	}
	return api.Use(fmt.Sprintf("bucket: %s, which is nothing's place", key))
}

const neverWritten api.Use = "uploads: write, which only their senders do"

const neverRead api.Use = "truststores: read, which only API Gateway does"

// neverRecordedApart is what a record in a commit of its own does: either of it
// and its change could exist without the other.
const neverRecordedApart api.Use = "table: an audit record apart from its change, which only a refused one is"

// Put implements installation.Bucket.
func (b *recordedBucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	b.uses.add(of(key, neverWritten, api.WriteSource, api.WriteArtifact, api.WriteTruststore))
	return b.Bucket.Put(ctx, key, body)
}

// Replace implements installation.Bucket: it reads the object that it compares.
func (b *recordedBucket) Replace(ctx context.Context, key, etag string, body io.ReadSeeker) error {
	b.uses.add(of(key, neverWritten, api.WriteSource, api.WriteArtifact, api.WriteTruststore))
	b.uses.add(of(key, api.ReadUpload, api.ReadSource, api.ReadArtifact, neverRead))
	return b.Bucket.Replace(ctx, key, etag, body)
}

// Get implements installation.Bucket.
func (b *recordedBucket) Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error) {
	b.uses.add(of(key, api.ReadUpload, api.ReadSource, api.ReadArtifact, neverRead))
	return b.Bucket.Get(ctx, key, etag, limit)
}

// Head implements installation.Bucket.
func (b *recordedBucket) Head(ctx context.Context, key string) (blob.Object, error) {
	b.uses.add(of(key, api.ReadUpload, api.ReadSource, api.ReadArtifact, neverRead))
	b.uses.add(api.ListObjects)
	return b.Bucket.Head(ctx, key)
}

// Delete implements installation.Bucket.
func (b *recordedBucket) Delete(ctx context.Context, key string) error {
	b.uses.add(of(key, api.DeleteUpload, api.DeleteSource, api.DeleteArtifact, api.DeleteTruststore))
	return b.Bucket.Delete(ctx, key)
}

// List implements installation.Bucket.
func (b *recordedBucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error] {
	b.uses.add(api.ListObjects)
	return b.Bucket.List(ctx, prefix)
}

// PresignPut implements installation.Bucket.
func (b *recordedBucket) PresignPut(ctx context.Context, key string) (string, error) {
	b.uses.add(of(key, api.PresignUpload, api.WriteSource, api.WriteArtifact, api.WriteTruststore))
	return b.Bucket.PresignPut(ctx, key)
}
