package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// TestEachItemVisitsItemsOnce checks that EachItem visits each item of a DynamoDB table with several
// pages once. It also checks that EachItem returns the error of its function.
func TestEachItemVisitsItemsOnce(t *testing.T) {
	table, client, name := storetest.NewDynamoDB(t)
	want := map[store.Key]bool{}
	for i := range 8 {
		key := store.KeyIn(fmt.Sprint("p", i%3), fmt.Sprint(i))
		if err := table.Commit(t.Context(),
			store.Put(key, map[string]string{"text": strings.Repeat("x", 300<<10)})); err != nil {
			t.Fatal(err)
		}
		want[key] = true
	}
	scanner := &throttledScanner{Scanner: client}
	err := store.EachItem(t.Context(), scanner, name, nil, func(item store.Item) error {
		key := store.KeyOf(item)
		if !want[key] || store.Size(item) < 300<<10 {
			t.Errorf("EachItem() visits %v with %d bytes, want each stored item once", key, store.Size(item))
		}
		delete(want, key)
		return nil
	})
	if err != nil || len(want) > 0 || scanner.scans < 2 {
		t.Errorf("EachItem() = %v, leaves out %d items in %d pages, want none in at least 2", err, len(want), scanner.scans)
	}
	stop := errors.New("stop")
	if err := store.EachItem(t.Context(), client, name, nil, func(store.Item) error {
		return stop
	}); !errors.Is(err, stop) {
		t.Errorf("EachItem() with a failing function = %v, want %v", err, stop)
	}
}

// throttledScanner is a Scanner whose first calls are throttled. throttled is the number of calls
// that are still throttled, negative for all calls. scans is the number of calls that were not throttled.
type throttledScanner struct {
	store.Scanner
	scans, throttled int
}

func (s *throttledScanner) Scan(
	ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options),
) (*dynamodb.ScanOutput, error) {
	if s.throttled != 0 {
		s.throttled--
		return nil, &types.ProvisionedThroughputExceededException{}
	}
	if s.scans++; s.Scanner == nil {
		return &dynamodb.ScanOutput{}, nil
	}
	return s.Scanner.Scan(ctx, in, o...)
}

// TestThrottledScanIsRetried checks that a throttled page is read again, and that the retries end.
func TestThrottledScanIsRetried(t *testing.T) {
	visit := func(store.Item) error { return nil }
	scanner := &throttledScanner{throttled: 5}
	if err := store.EachItem(t.Context(), scanner, "t", storetest.NoBackoff, visit); err != nil || scanner.scans != 1 {
		t.Errorf("EachItem() after 5 throttled pages = %v with %d pages, want success with 1", err, scanner.scans)
	}
	scanner = &throttledScanner{throttled: -1}
	if err := store.EachItem(t.Context(), scanner, "t", storetest.NoBackoff, visit); err == nil ||
		scanner.throttled < -20 {
		t.Errorf("EachItem() with only throttled pages = %v after %d calls, want an error after fewer than 20",
			err, -1-scanner.throttled)
	}
}
