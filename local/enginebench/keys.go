package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// checked is how many keys are checked, each for the first time.
const checked = 1000

// keyChecks makes consumers with keys and gives the median time of a check of one,
// as a gateway makes it that has not seen the key.
func keyChecks(ctx context.Context, table *store.Table, keyFile string) (time.Duration, error) {
	parts := installation.Parts{
		Table: table, Key: seal.OpenFile(keyFile), Random: rand.Reader, Now: time.Now,
		IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
	}
	account, text, err := accounts.Open(parts).Create(ctx, "demo")
	if err != nil {
		return 0, err
	}
	viewer, err := accounts.Open(parts).Authenticate(ctx, text)
	if err != nil {
		return 0, err
	}
	at := keys.BucketAt{Owner: auth.Owner{AccountID: account.ID, Account: account.Name, Viewer: viewer}, Bucket: "orders"}
	request := func(ctx context.Context, action audit.Action) context.Context {
		return store.Decide(audit.With(ctx, &audit.Request{
			AccountID: account.ID, Action: action, RequestID: parts.IDs.UUID(), Time: time.Now(),
		}))
	}
	service := keys.Open(parts)
	bucket, err := service.CreateBucket(request(ctx, "key-bucket.create"), at.Owner, keys.NewBucket{Name: at.Bucket})
	if err != nil {
		return 0, fmt.Errorf("create a bucket: %w", err)
	}
	texts := make([]string, checked)
	group, making := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range texts {
		group.Go(func() error {
			c, err := service.CreateConsumer(request(making, "consumer.create"), at, keys.NewConsumer{Name: fmt.Sprintf("c%05d", i), WithKey: true})
			if err == nil {
				texts[i] = c.Keys[0].Text
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("create a consumer: %w", err)
	}
	verifier := keys.OpenVerifier(parts)
	took := make([]time.Duration, checked)
	for i, text := range texts {
		began := time.Now()
		if _, err := verifier.Verify(ctx, keys.BucketRef{AccountID: account.ID, Name: bucket.Name}, text); err != nil {
			return 0, fmt.Errorf("check a key: %w", err)
		}
		took[i] = time.Since(began)
	}
	return load.Median(took), nil
}
