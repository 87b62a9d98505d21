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

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Uses records uses of the table, the bucket and the root key, with the same names as in declarations. Package cloud
// has another recorder, for a process in AWS: it records the requests of the AWS SDK with the names of IAM's actions.
type Uses struct {
	mu       sync.Mutex
	recorded map[api.Use]int
	// current has the uses of the innermost call of during in progress. It is nil if there is no such call.
	current map[api.Use]int
	// access has the key prefixes of the table that were read and written.
	access store.TableAccess
	// Reads, Queries and Commits are the numbers of calls of the table's backend since the last Clear.
	Reads, Queries, Commits int
	// OnQuery, if not nil, is called before each query of the table, with the key prefix of the query. Several
	// goroutines can call it concurrently. Tests use it to make a change just before a query.
	OnQuery func(store.KeyPrefix)
}

// Clear deletes all recorded uses, and sets the numbers of calls to 0.
func (u *Uses) Clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.recorded, u.Reads, u.Queries, u.Commits = nil, 0, 0, 0
	u.access = store.TableAccess{}
}

// TableAccess returns the key prefixes that were read and written since the last Clear, sorted and without duplicates.
func (u *Uses) TableAccess() store.TableAccess {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.access
}

func (u *Uses) addAccess(a store.TableAccess) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.access = u.access.Union(a)
}

// Recorded returns the uses that were recorded since the last Clear, sorted and without duplicates.
func (u *Uses) Recorded() []api.Use {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.recorded))
}

// during runs f and returns the uses that are recorded meanwhile, sorted and without duplicates. If f also calls
// during, the outer call does not return the uses that the inner call returns.
func (u *Uses) during(f func()) []api.Use {
	inner := map[api.Use]int{}
	u.mu.Lock()
	outer := u.current
	u.current = inner
	u.mu.Unlock()
	f()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.current = outer
	return slices.Sorted(maps.Keys(inner))
}

func (u *Uses) add(use api.Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.recorded == nil {
		u.recorded = map[api.Use]int{}
	}
	u.recorded[use]++
	if u.current != nil {
		u.current[use]++
	}
}

func (u *Uses) count(n *int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	*n++
}

func (u *Uses) wrapTable(b store.Backend) store.Backend              { return &recordingTable{b, u} }
func (u *Uses) wrapBucket(b installation.Bucket) installation.Bucket { return &recordingBucket{b, u} }
func (u *Uses) wrapKey(k rootKey) *recordingKey                      { return &recordingKey{k, u} }

type recordingTable struct {
	store.Backend
	uses *Uses
}

// Read implements store.Backend.
func (t *recordingTable) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	t.uses.count(&t.uses.Reads)
	if len(keys) == 1 {
		t.uses.add(api.GetItem)
	} else {
		t.uses.add(api.BatchGetItem)
	}
	for _, k := range keys {
		t.uses.addAccess(store.TableAccess{Reads: []store.KeyPrefix{store.KeyPrefixOf(k.PK)}})
	}
	return t.Backend.Read(ctx, keys)
}

// Query implements store.Backend.
func (t *recordingTable) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	t.uses.count(&t.uses.Queries)
	if t.uses.OnQuery != nil {
		t.uses.OnQuery(store.KeyPrefixOf(q.PK))
	}
	if q.Index == store.DueIndex {
		t.uses.add(api.QueryDue)
	} else {
		t.uses.add(api.Query)
		t.uses.addAccess(store.TableAccess{Reads: []store.KeyPrefix{store.KeyPrefixOf(q.PK)}})
	}
	return t.Backend.Query(ctx, q)
}

// Transact implements store.Backend.
func (t *recordingTable) Transact(ctx context.Context, token string, writes []store.Write) error {
	t.uses.count(&t.uses.Commits)
	if !slices.ContainsFunc(writes, func(w store.Write) bool { return !audit.IsRecord(w.Key) }) {
		t.uses.add(separateAuditRecord)
	}
	for _, w := range writes {
		t.uses.addAccess(store.TableAccess{Writes: []store.KeyPrefix{store.KeyPrefixOf(w.Key.PK)}})
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

type recordingKey struct {
	rootKey
	uses *Uses
}

// Root returns the root key.
func (k *recordingKey) Root(ctx context.Context) ([]byte, error) {
	k.uses.add(api.RootKey)
	k.uses.addAccess(store.TableAccess{Reads: []store.KeyPrefix{"root-key"}}) // the root key is in the table
	return k.rootKey.Root(ctx)
}

type recordingBucket struct {
	installation.Bucket
	uses *Uses
}

// useOf returns upload, source, artifact or truststore, according to the kind of the object at key. For any other key,
// it returns a use that no declaration has.
func useOf(key string, upload, source, artifact, truststore api.Use) api.Use {
	for prefix, use := range map[string]api.Use{
		blob.UploadKey(""): upload, blob.SourceKey(""): source, blob.ArtifactKey(""): artifact,
		blob.TruststoreKey(""): truststore,
	} {
		if strings.HasPrefix(key, prefix) {
			return use
		}
	}
	return api.Use(fmt.Sprintf("bucket: unexpected key %s", key))
}

const unexpectedUploadWrite api.Use = "uploads: write, which only clients do"

const unexpectedTruststoreRead api.Use = "truststores: read, which only API Gateway does"

// separateAuditRecord is the use of a commit that contains only audit records. A change and its audit record must be in
// one commit. So only refused requests, and operations that contain requests, may have this use.
const separateAuditRecord api.Use = "table: a separate audit record, which only a refused request may write"

// Put implements installation.Bucket.
func (b *recordingBucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	b.uses.add(useOf(key, unexpectedUploadWrite, api.WriteSource, api.WriteArtifact, api.WriteTruststore))
	return b.Bucket.Put(ctx, key, body)
}

// Replace implements installation.Bucket. It also records a read, because it compares the object.
func (b *recordingBucket) Replace(ctx context.Context, key, etag string, body io.ReadSeeker) error {
	b.uses.add(useOf(key, unexpectedUploadWrite, api.WriteSource, api.WriteArtifact, api.WriteTruststore))
	b.uses.add(useOf(key, api.ReadUpload, api.ReadSource, api.ReadArtifact, unexpectedTruststoreRead))
	return b.Bucket.Replace(ctx, key, etag, body)
}

// Get implements installation.Bucket.
func (b *recordingBucket) Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error) {
	b.uses.add(useOf(key, api.ReadUpload, api.ReadSource, api.ReadArtifact, unexpectedTruststoreRead))
	return b.Bucket.Get(ctx, key, etag, limit)
}

// Head implements installation.Bucket. It also records ListObjects, because S3 reports a missing object as such only to
// callers that may list objects.
func (b *recordingBucket) Head(ctx context.Context, key string) (blob.Object, error) {
	b.uses.add(useOf(key, api.ReadUpload, api.ReadSource, api.ReadArtifact, unexpectedTruststoreRead))
	b.uses.add(api.ListObjects)
	return b.Bucket.Head(ctx, key)
}

// Delete implements installation.Bucket.
func (b *recordingBucket) Delete(ctx context.Context, key string) error {
	b.uses.add(useOf(key, api.DeleteUpload, api.DeleteSource, api.DeleteArtifact, api.DeleteTruststore))
	return b.Bucket.Delete(ctx, key)
}

// List implements installation.Bucket.
func (b *recordingBucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error] {
	b.uses.add(api.ListObjects)
	return b.Bucket.List(ctx, prefix)
}

// PresignPut implements installation.Bucket.
func (b *recordingBucket) PresignPut(ctx context.Context, key string) (string, error) {
	b.uses.add(useOf(key, api.PresignUpload, api.WriteSource, api.WriteArtifact, api.WriteTruststore))
	return b.Bucket.PresignPut(ctx, key)
}
