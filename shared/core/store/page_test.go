package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// TestPagesHaveEachItemOnce checks that all pages together have each item once. The limits
// of the pages are one item, three items, and more items than fit into a page of DynamoDB (1 MB).
func TestPagesHaveEachItemOnce(t *testing.T) {
	table, _, _ := storetest.NewDynamoDB(t)
	const items = 8
	for i := range items {
		if err := table.Commit(t.Context(), store.Put(store.KeyIn(fmt.Sprint("p", i%3), fmt.Sprint(i)),
			map[string]string{"text": strings.Repeat("x", 300<<10)})); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{1, 3, 500} {
		seen, pages := map[store.Key]int{}, 0
		for after := (store.Key{}); ; pages++ {
			got, last, err := table.Page(t.Context(), after, limit)
			if err != nil || len(got) > limit || pages > 2*items {
				t.Fatalf("call %d of Page() with the limit %d = %d items, %v, want at most %d items, and the end after %d calls",
					pages, limit, len(got), err, limit, 2*items)
			}
			for _, item := range got {
				seen[store.KeyOf(item)]++
			}
			if after = last; last == (store.Key{}) {
				break
			}
		}
		if len(seen) != items || pages < 1 {
			t.Errorf("pages of at most %d items: %d pages with %v, want all %d items in more than one page",
				limit, pages+1, seen, items)
		}
		for key, n := range seen {
			if n != 1 {
				t.Errorf("pages of at most %d items have %v %d times, want it once", limit, key, n)
			}
		}
	}
}

// scanClient is a client that only supports scans. It returns its responses in order.
type scanClient struct {
	store.Client
	responses []*dynamodb.ScanOutput
	requests  []*dynamodb.ScanInput
}

func (s *scanClient) Scan(
	_ context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options),
) (*dynamodb.ScanOutput, error) {
	s.requests = append(s.requests, in)
	out := s.responses[0]
	s.responses = s.responses[1:]
	return out, nil
}

// TestEmptyPageIsNotTheEnd checks that an empty page does not end a scan, because DynamoDB can
// return empty pages before the end. It also checks that the scan requests consistent reads.
func TestEmptyPageIsNotTheEnd(t *testing.T) {
	key := store.KeyIn("p", "1")
	s := &scanClient{responses: []*dynamodb.ScanOutput{{LastEvaluatedKey: key.Item()}, {}}}
	table := storetest.NewWithBackend(t, store.NewDynamoDB(s, "t"))
	items, last, err := table.Page(t.Context(), store.Key{}, 7)
	if err != nil || len(items) != 0 || last != key {
		t.Fatalf("empty Page() = %d items, last %v, %v, want 0, %v", len(items), last, err, key)
	}
	if _, last, err = table.Page(t.Context(), last, 7); err != nil || last != (store.Key{}) {
		t.Fatalf("last Page() = last %v, %v, want no key", last, err)
	}
	for i, in := range s.requests {
		if consistent, limit := aws.ToBool(in.ConsistentRead), aws.ToInt32(in.Limit); !consistent || limit != 7 {
			t.Errorf("scan %d: consistent read %t with the limit %d, want true with 7", i, consistent, limit)
		}
		if *in.TableName != "t" {
			t.Errorf("scan %d: table %q, want t", i, *in.TableName)
		}
		if hasStart := len(in.ExclusiveStartKey) > 0; hasStart != (i > 0) {
			t.Errorf("scan %d has a start key = %t, want a start key only in the second scan", i, hasStart)
		}
	}
	if store.KeyOf(s.requests[1].ExclusiveStartKey) != key {
		t.Errorf("start key of the second scan = %v, want %v", s.requests[1].ExclusiveStartKey, key)
	}
}
