package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestEachItemOfATableIsVisitedOnce, over more than one page of a DynamoDB.
func TestEachItemOfATableIsVisitedOnce(t *testing.T) {
	table, client, name := storetest.NewDynamoDB(t)
	want := map[store.Key]bool{}
	for i := range 8 {
		key := store.In(fmt.Sprint("p", i%3), fmt.Sprint(i))
		if err := table.Commit(t.Context(), store.Put(key, map[string]string{"text": strings.Repeat("x", 300<<10)})); err != nil {
			t.Fatal(err)
		}
		want[key] = true
	}
	pages := &paged{Scanner: client}
	err := store.EachItem(t.Context(), pages, name, nil, func(item store.Item) error {
		key := store.KeyOf(item)
		if !want[key] || store.Size(item) < 300<<10 {
			t.Errorf("%v is visited twice, or was never stored", key)
		}
		delete(want, key)
		return nil
	})
	if err != nil || len(want) > 0 || pages.n < 2 {
		t.Errorf("%d are left out, in %d pages (%v)", len(want), pages.n, err)
	}
	stop := errors.New("stop")
	if err := store.EachItem(t.Context(), client, name, nil, func(store.Item) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of who visits is answered with %v", err)
	}
}

// paged counts pages, after some that are throttled.
type paged struct {
	store.Scanner
	n, throttled int
}

func (p *paged) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	if p.throttled != 0 {
		p.throttled--
		return nil, &types.ProvisionedThroughputExceededException{}
	}
	if p.n++; p.Scanner == nil {
		return &dynamodb.ScanOutput{}, nil
	}
	return p.Scanner.Scan(ctx, in, o...)
}

// TestThrottledPageIsReadAgain, and not for ever.
func TestThrottledPageIsReadAgain(t *testing.T) {
	visit := func(store.Item) error { return nil }
	p := &paged{throttled: 5}
	if err := store.EachItem(t.Context(), p, "t", storetest.AtOnce, visit); err != nil || p.n != 1 {
		t.Errorf("after %d pages it is answered with %v", p.n, err)
	}
	p = &paged{throttled: -1}
	if err := store.EachItem(t.Context(), p, "t", storetest.AtOnce, visit); err == nil || p.throttled < -20 {
		t.Errorf("after %d throttled pages it is answered with %v", -p.throttled, err)
	}
}
