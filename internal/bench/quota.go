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
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// countingBackend is a backend that counts the items that are written to it.
type countingBackend struct {
	store.Backend
	writes atomic.Int64
}

// Transact implements store.Backend.
func (b *countingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	b.writes.Add(int64(len(writes)))
	return b.Backend.Transact(ctx, token, writes)
}

// soldQuotas is a table with the subscription of a customer who has bought more requests than the benchmark sends.
type soldQuotas struct {
	table         *countingBackend
	bucketID      string
	subscriptions policy.SubscriptionReader
	quotas        policy.Quotas
}

// newSoldQuotas creates the metering bucket, the plan and the subscription as the product does, in a table in memory.
func newSoldQuotas(ctx context.Context) (*soldQuotas, error) {
	s := &soldQuotas{table: &countingBackend{Backend: memory.New()}}
	source := ids.NewSource(rand.Reader, time.Now)
	p := installation.Parts{
		Table: store.New(s.table, store.Options{Random: rand.Reader, Now: time.Now}), Random: rand.Reader, Now: time.Now,
		IDs: source, Log: slog.Default(),
	}
	owner := auth.Owner{AccountID: "a", Account: "a", Viewer: auth.Principal{Permissions: auth.Full()}}
	requestContext := func(ctx context.Context) context.Context {
		return store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
			AccountID: "a", Action: "plan.create",
			Time: time.Now(), RequestID: source.UUID(),
		}))
	}
	service := metering.Open(p)
	bucket, err := service.CreateBucket(requestContext(ctx), owner)
	if err != nil {
		return nil, fmt.Errorf("create a metering bucket: %w", err)
	}
	at := metering.BucketLocator{Owner: owner, Bucket: bucket.ID}
	plan, err := service.CreatePlan(requestContext(ctx), at,
		metering.Terms{Label: "bench", ExternalID: "plan", Meters: map[string]metering.Meter{"requests": {Max: 1 << 40}}})
	if err != nil {
		return nil, fmt.Errorf("create a plan: %w", err)
	}
	_, err = service.CreateSubscription(requestContext(ctx), at, metering.NewSubscription{
		PlanIDs: []string{plan.ID}, PlanExternalIDs: []string{plan.ExternalID}, Status: metering.Active,
		Renewal: meter.Monthly,
		Region:  "us-east1", CustomerKey: "acme", ExternalID: "subscription", CustomerExternalID: "customer",
	})
	if err != nil {
		return nil, fmt.Errorf("create a subscription: %w", err)
	}
	s.bucketID = bucket.ID
	quotas := allowance.NewQuotas(allowance.Options{Table: p.Table, Now: p.Now, Random: p.Random, Log: p.Log})
	s.subscriptions, s.quotas = gateway.NewSubscriptionQuotas(p, quotas)
	go quotas.Run(ctx, time.Second)
	return s, nil
}

// countingGateway returns a gateway of newGateway with a quota on each route. It also serves itemsPath.
func countingGateway(ctx context.Context, address string) (http.Handler, error) {
	s, err := newSoldQuotas(ctx)
	if err != nil {
		return nil, err
	}
	gateway := newGateway(ctx, address, s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == itemsPath {
			_, _ = fmt.Fprint(w, s.table.writes.Load())
			return
		}
		gateway.ServeHTTP(w, r)
	}), nil
}
