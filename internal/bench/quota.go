package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// written is a backend that counts the items that are written to it.
type written struct {
	store.Backend
	items atomic.Int64
}

// Transact implements store.Backend.
func (w *written) Transact(ctx context.Context, token string, writes []store.Write) error {
	w.items.Add(int64(len(writes)))
	return w.Backend.Transact(ctx, token, writes)
}

// sold is the subscription of a customer who has bought more requests than are sent, with its table.
type sold struct {
	table         *written
	bucketID      string
	subscriptions policy.Subscriptions
	quotas        policy.Quotas
}

// sell creates the subscription as the product does, in a table in memory.
func sell(ctx context.Context) (*sold, error) {
	s := &sold{table: &written{Backend: memory.New()}}
	source := ids.NewSource(rand.Reader, time.Now)
	p := installation.Parts{
		Table: store.New(s.table, store.Options{Random: rand.Reader, Now: time.Now}), Random: rand.Reader, Now: time.Now,
		IDs: source, Log: slog.Default(),
	}
	owner := auth.Owner{AccountID: "a", Account: "a", Viewer: auth.Principal{Permissions: auth.Full()}}
	request := func(ctx context.Context) context.Context {
		return store.Decide(audit.With(ctx, &audit.Request{AccountID: "a", Action: "plan.create", Time: time.Now(), RequestID: source.UUID()}))
	}
	service := metering.Open(p)
	bucket, err := service.CreateBucket(request(ctx), owner)
	if err != nil {
		return nil, fmt.Errorf("create a metering bucket: %w", err)
	}
	at := metering.BucketAt{Owner: owner, Bucket: bucket.ID}
	plan, err := service.CreatePlan(request(ctx), at, metering.Terms{Label: "bench", ExternalID: "plan", Meters: map[string]metering.Meter{"requests": {Max: 1 << 40}}})
	if err != nil {
		return nil, fmt.Errorf("create a plan: %w", err)
	}
	_, err = service.CreateSubscription(request(ctx), at, metering.NewSubscription{
		PlanIDs: []string{plan.ID}, PlanExternalIDs: []string{plan.ExternalID}, Status: metering.Active, Renewal: meter.Monthly,
		Region: "us-east1", CustomerKey: "acme", ExternalID: "subscription", CustomerExternalID: "customer",
	})
	if err != nil {
		return nil, fmt.Errorf("create a subscription: %w", err)
	}
	s.bucketID = bucket.ID
	quotas := allowance.NewQuotas(allowance.Options{Table: p.Table, Now: p.Now, Random: p.Random, Log: p.Log})
	s.subscriptions, s.quotas = gateway.Counting(p, quotas)
	go quotas.Run(ctx, time.Second)
	return s, nil
}

// countingGateway returns newGateway's gateway with a quota after each key check.
func countingGateway(ctx context.Context, address string) (http.Handler, error) {
	s, err := sell(ctx)
	if err != nil {
		return nil, err
	}
	gateway := newGateway(ctx, address, s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == itemsPath {
			_, _ = fmt.Fprint(w, s.table.items.Load())
			return
		}
		gateway.ServeHTTP(w, r)
	}), nil
}
