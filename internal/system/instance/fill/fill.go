// Package fill creates very large key buckets in the data directory of a product that is not running, much faster than
// a client could. It calls the product's own functions in one process, so it creates the same records as requests do,
// but without the network and without waiting for the disk. Measurements and tests use the package; the product does
// not.
//
// Read this file first. unsynced.go is the file system that does not wait for the disk, and unrecorded.go is the table without an audit
// log.
package fill

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

// workers is the number of concurrent requests.
const workers = 16

// Bucket describes the key bucket to create.
type Bucket struct {
	// BucketsPath is the path of the account's key buckets, /v1/accounts/{accountName}/key-buckets.
	BucketsPath string
	// Name is the name of the bucket.
	Name string
	// Consumers is the number of consumers of the bucket.
	Consumers int
	// Unrecorded means that the changes have no audit records.
	Unrecorded bool
	// Consumer returns the request body that creates consumer n, counted from 0.
	Consumer func(n int) string
}

// CreateBucket creates the bucket in the data directory data. The account key needs permission to create it. After an
// error, a part of the bucket can exist.
func CreateBucket(ctx context.Context, data, accountKey string, b Bucket) (err error) {
	engine, err := embedded.Open(ctx, embedded.Options{
		Dir: filepath.Join(data, datadir.Engine),
		FS:  unsynced{vfs.Default},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	key, err := rootkey.Open(ctx, filepath.Join(data, rootkey.Name), engine)
	if err != nil {
		return err
	}
	var table store.Backend = engine
	if b.Unrecorded {
		table = unrecorded{engine}
	}
	parts := installation.Parts{
		Table: store.New(table, store.Options{Random: rand.Reader, Now: time.Now}), Key: key,
		Random: rand.Reader, Now: time.Now, IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
	}
	handler := newHandler(parts) //nolint:contextcheck // each request has its own context
	create := func(ctx context.Context, path, body string) error {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+accountKey)
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, r)
		if response.Code != http.StatusOK {
			return fmt.Errorf("POST %s status = %d, want 200: %s", path, response.Code, response.Body)
		}
		return nil
	}
	if err := create(ctx, b.BucketsPath, fmt.Sprintf(`{"name":%q}`, b.Name)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for n := range b.Consumers {
		if ctx.Err() != nil {
			// A request has failed, or the caller's context has ended.
			return cmp.Or(group.Wait(), context.Cause(ctx))
		}
		group.Go(func() error { return create(ctx, b.BucketsPath+"/"+b.Name+"/consumers", b.Consumer(n)) })
	}
	return group.Wait()
}

// newHandler returns the management API of an installation.
func newHandler(parts installation.Parts) http.Handler {
	callers := accounts.Open(parts)
	var all []apigateway.Function
	for _, g := range functions.Groups() {
		all = append(all, apigateway.Function{Group: g.Group, Edge: api.Open(parts, callers, g.Bind(parts)).Edge()})
	}
	return apigateway.New(apigateway.Options{
		Functions: all, Authenticator: callers, Domain: "127.0.0.1", IDs: parts.IDs, Now: parts.Now, Log: parts.Log,
	})
}
