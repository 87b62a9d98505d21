package main

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

	"github.com/cockroachdb/pebble/vfs"

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

// fillers is how many requests fill makes at once.
const fillers = 16

// fill makes a bucket with n consumers in the data directory of a product that is
// stopped. It asks the product's own functions, so that the records are what a
// client's requests make, and leaves out the network.
func fill(ctx context.Context, data, account, name string, n int) (err error) {
	engine, err := embedded.Open(ctx, embedded.Options{Dir: filepath.Join(data, datadir.Engine), FS: unsynced{vfs.Default}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	key, err := rootkey.Open(ctx, filepath.Join(data, rootkey.Name), engine)
	if err != nil {
		return err
	}
	parts := installation.Parts{
		Table: store.New(engine, store.Options{Random: rand.Reader, Now: time.Now}), Key: key,
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
	if err := create(ctx, buckets, fmt.Sprintf(`{"name":"%s-bucket"}`, name)); err != nil {
		return err
	}
	return each(ctx, fillers, n, func(ctx context.Context, i int) error {
		return create(ctx, bucket(name)+"/consumers", consumer(i))
	})
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
