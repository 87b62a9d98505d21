package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// periodEndTimeout is the maximum time until a period is closed. On MiniStack, a schedule calls
// the job every minute, and the table's stream starts the operation that the job begins.
const periodEndTimeout = 4 * time.Minute

// periodEndAccount is the ID and the name of the account in testPeriodEnd.
const periodEndAccount = "period-end-of-the-suite"

// testPeriodEnd creates a subscription 40 days in the past, so that its first period has ended.
// It then waits until the period is closed, which happens only if the schedule calls the job.
func (s *suite) testPeriodEnd(ctx context.Context, table *store.Table) error {
	pastTime := time.Now().AddDate(0, 0, -40)
	pastClock := func() time.Time { return pastTime }
	service := metering.Open(installation.Parts{Table: table, IDs: ids.NewSource(rand.Reader, pastClock), Now: pastClock})
	owner := auth.Owner{
		AccountID: periodEndAccount, Account: periodEndAccount,
		Viewer: auth.Principal{AccountID: periodEndAccount, Permissions: auth.Full()},
	}
	withAudit := func(ctx context.Context, id string) context.Context {
		return audit.WithRequest(ctx, &audit.Request{
			AccountID: periodEndAccount, Action: "metering-bucket.create", Time: pastTime,
			RequestID: id,
		})
	}
	b, err := service.CreateBucket(withAudit(ctx, "bucket"), owner)
	if err != nil {
		return fmt.Errorf("make a metering bucket: %w", err)
	}
	bucketAt := metering.BucketLocator{Owner: owner, Bucket: b.ID}
	plan, err := service.CreatePlan(withAudit(ctx, "plan"), bucketAt,
		metering.Terms{Label: "x", ExternalID: "x", Meters: map[string]metering.Meter{"requests": {Max: 1}}})
	if err != nil {
		return fmt.Errorf("make a metering plan: %w", err)
	}
	created, err := service.CreateSubscription(withAudit(ctx, "subscription"), bucketAt, metering.NewSubscription{
		PlanIDs: []string{plan.ID}, PlanExternalIDs: []string{plan.ExternalID}, Status: metering.Active,
		Renewal: meter.Monthly,
		Region:  "us-east1", CustomerKey: "x", ExternalID: "x", CustomerExternalID: "x",
	})
	if err != nil {
		return fmt.Errorf("make a metering subscription: %w", err)
	}
	start := time.Now()
	for time.Since(start) < periodEndTimeout {
		isDue, err := hasDuePeriod(ctx, table, created.ID)
		if err != nil {
			return err
		}
		if !isDue {
			fmt.Fprintf(os.Stderr, "%s: a quota period that had ended was closed %.0f s later, by the job that its "+
				"schedule started\n", s.emulator, time.Since(start).Seconds())
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
	return fmt.Errorf("a quota period that has ended is open after %s: the schedule does not fire, or the operation that "+
		"the job begins makes no progress", periodEndTimeout)
}

// hasDuePeriod reports whether a subscription has a period that has ended and is not closed yet.
func hasDuePeriod(ctx context.Context, table *store.Table, subscription string) (bool, error) {
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
