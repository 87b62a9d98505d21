package blob

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // G501: S3's ETag is an MD5, nothing rests on it
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Memory is a bucket in memory, for tests. It is safe for concurrent use.
type Memory struct {
	now func() time.Time

	mu      sync.Mutex
	objects map[string]memoryObject
}

// memoryObject is an object in memory. It is immutable: an upload creates a new memoryObject.
type memoryObject struct {
	Object
	body []byte
}

// NewMemory returns an empty bucket. now is its clock.
func NewMemory(now func() time.Time) *Memory {
	return &Memory{now: now, objects: map[string]memoryObject{}}
}

// Clone returns an independent bucket with the same objects and the same clock.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{now: m.now, objects: maps.Clone(m.objects)}
}

// Restore replaces the bucket's objects with copies of the objects of another
// bucket, and keeps the bucket's clock. So a test can return to an earlier state.
func (m *Memory) Restore(from *Memory) {
	c := from.Clone()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects = c.objects
}

// Upload stores body at key and replaces any earlier object, as the client of a presigned URL does.
func (m *Memory) Upload(key string, body []byte) Object {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.store(key, body)
}

func (m *Memory) store(key string, body []byte) Object {
	sum := md5.Sum(body) //nolint:gosec // G401: as above
	o := Object{
		Key: key, Size: int64(len(body)), ETag: hex.EncodeToString(sum[:]),
		Modified: m.now().UTC().Truncate(time.Second),
	}
	m.objects[key] = memoryObject{o, slices.Clone(body)}
	return o
}

// Put works as Bucket.Put does.
func (m *Memory) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := RefuseInDryRun(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("put an object: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objects[key]; !ok {
		m.store(key, content)
	}
	return nil
}

// Replace works as Bucket.Replace does.
func (m *Memory) Replace(ctx context.Context, key, etag string, body io.ReadSeeker) error {
	if err := errors.Join(RefuseInDryRun(ctx), ctx.Err()); err != nil {
		return err
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("replace an object: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch o, ok := m.objects[key]; {
	case !ok:
		return ErrNotFound
	case o.ETag != etag:
		return ErrChanged
	}
	m.store(key, content)
	return nil
}

// Get works as Bucket.Get does.
func (m *Memory) Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	switch {
	case !ok:
		return nil, Object{}, ErrNotFound
	case etag != "" && etag != o.ETag:
		return nil, Object{}, ErrChanged
	case o.Size > limit:
		return nil, Object{}, ErrTooLarge
	}
	return &limitedReader{io.NopCloser(bytes.NewReader(o.body)), limit}, o.Object, nil
}

// Head works as Bucket.Head does.
func (m *Memory) Head(ctx context.Context, key string) (Object, error) {
	if err := ctx.Err(); err != nil {
		return Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return Object{}, ErrNotFound
	}
	return o.Object, nil
}

// Delete works as Bucket.Delete does.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := RefuseInDryRun(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

// List works as Bucket.List does.
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(Object{}, err)
			return
		}
		m.mu.Lock()
		var found []Object
		for _, key := range slices.Sorted(maps.Keys(m.objects)) {
			if strings.HasPrefix(key, prefix) {
				found = append(found, m.objects[key].Object)
			}
		}
		m.mu.Unlock()
		for _, o := range found {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// PresignPut works as Bucket.PresignPut does. No server listens at the URL: a test calls Upload instead.
func (m *Memory) PresignPut(ctx context.Context, key string) (string, error) {
	if address, ok := DryRunURL(ctx, key); ok {
		return address, nil
	}
	u := url.URL{Scheme: "https", Host: "uploads.example.test", Path: "/" + key}
	u.RawQuery = url.Values{"X-Amz-Expires": {strconv.Itoa(int(UploadValidity.Seconds()))}}.Encode()
	return u.String(), nil
}
