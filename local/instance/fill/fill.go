// Package fill makes very large key buckets in the data directory of a product that is stopped, many times as fast as a client could:
// it asks the product's own functions in one process, so that the records are what requests make, and leaves out the network and the disk's
// acknowledgements. Programs that measure and tests use it; the product does not.
//
// Read this file; unsynced.go is the file system that does not wait, unrecorded.go the table without an audit log.
package fill

import (
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
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// workers is how many requests are made at once.
const workers = 16

// Bucket is what is made.
type Bucket struct {
	// Buckets is the path of the account's key buckets, /v1/accounts/{accountName}/key-buckets.
	Buckets string
	// Name is the bucket's.
	Name string
	// Consumers is how many it has.
	Consumers int
	// Unrecorded leaves out the audit records of what is made.
	Unrecorded bool
	// Consumer is the body that makes the one with a number, from 0.
	Consumer func(n int) string
}

// Make makes the bucket in the data directory data, with an account key that may. An error leaves a part of it.
func Make(ctx context.Context, data, account string, b Bucket) (err error) {
	engine, err := embedded.Open(ctx, embedded.Options{Dir: filepath.Join(data, datadir.Engine), FS: unsynced{vfs.Default}})
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
	handler := front(parts) //nolint:contextcheck // each request brings its own
	create := func(ctx context.Context, path, body string) error {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+account)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if answer.Code != http.StatusOK {
			return fmt.Errorf("POST %s answers %d: %s", path, answer.Code, answer.Body)
		}
		return nil
	}
	if err := create(ctx, b.Buckets, fmt.Sprintf(`{"name":%q}`, b.Name)); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for n := range b.Consumers {
		if ctx.Err() != nil {
			break // one has failed
		}
		group.Go(func() error { return create(ctx, b.Buckets+"/"+b.Name+"/consumers", b.Consumer(n)) })
	}
	return group.Wait()
}

// front is the management API of an installation.
func front(parts installation.Parts) http.Handler {
	callers := accounts.Open(parts)
	var all []apigateway.Function
	for _, g := range functions.Groups() {
		all = append(all, apigateway.Function{Group: g.Group, Edge: api.Open(parts, callers, g.Bind(parts)).Edge()})
	}
	return apigateway.New(apigateway.Options{
		Functions: all, Callers: callers, Domain: "127.0.0.1", IDs: parts.IDs, Now: parts.Now, Log: parts.Log,
	})
}
