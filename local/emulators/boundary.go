package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/store"
)

// boundaryTimeout is how long a period may take to be closed: its job is called
// each minute here, and the operation that it begins by the table's stream.
const boundaryTimeout = 4 * time.Minute

// boundaries makes a subscription as it was made 40 days ago, with the code that
// makes them and a clock that is behind, and waits until the period that has ended
// since is closed: nobody calls the job but its schedule.
func (s *suite) boundaries(ctx context.Context, table *store.Table) error {
	then := time.Now().AddDate(0, 0, -40)
	past := func() time.Time { return then }
	service := metering.Open(installation.Parts{Table: table, IDs: ids.NewSource(rand.Reader, past), Now: past})
	owner := auth.Owner{AccountID: abandoned, Account: abandoned, Viewer: auth.Principal{AccountID: abandoned, Permissions: auth.Full()}}
	request := func(ctx context.Context, id string) context.Context {
		return audit.With(ctx, &audit.Request{AccountID: abandoned, Action: "metering-bucket.create", Time: then, RequestID: id})
	}
	b, err := service.CreateBucket(request(ctx, "bucket"), owner)
	if err != nil {
		return fmt.Errorf("make a metering bucket: %w", err)
	}
	at := metering.BucketAt{Owner: owner, Bucket: b.ID}
	plan, err := service.CreatePlan(request(ctx, "plan"), at, metering.Terms{Label: "x", ExternalID: "x", Meters: map[string]metering.Meter{"requests": {Max: 1}}})
	if err != nil {
		return fmt.Errorf("make a metering plan: %w", err)
	}
	made, err := service.CreateSubscription(request(ctx, "subscription"), at, metering.NewSubscription{
		PlanIDs: []string{plan.ID}, PlanExternalIDs: []string{plan.ExternalID}, Status: metering.Active, Renewal: meter.Monthly,
		Region: "us-east1", CustomerKey: "x", ExternalID: "x", CustomerExternalID: "x",
	})
	if err != nil {
		return fmt.Errorf("make a metering subscription: %w", err)
	}
	began := time.Now()
	for time.Since(began) < boundaryTimeout {
		waits, err := due(ctx, table, made.ID)
		if err != nil {
			return err
		}
		if !waits {
			fmt.Fprintf(os.Stderr, "%s: a quota period that had ended was closed %.0f s later, by the job that its schedule started\n", s.emulator, time.Since(began).Seconds())
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
	return fmt.Errorf("a quota period that has ended is open after %s: the schedule does not fire, or what it begins does not get on", boundaryTimeout)
}

// due reports whether something is to be closed of a subscription.
func due(ctx context.Context, table *store.Table, subscription string) (bool, error) {
	for shard := range metering.DueShards {
		keys, err := table.Keys(ctx, metering.DueQuery(shard, time.Now()))
		if err != nil {
			return false, fmt.Errorf("find the subscriptions that are due: %w", err)
		}
		if slices.ContainsFunc(keys, func(k store.Key) bool { return k.SK == subscription }) {
			return true, nil
		}
	}
	return false, nil
}
