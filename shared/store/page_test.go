package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestPagesHaveEachItemOnce, past the megabyte at which DynamoDB ends a page whatever its limit, and of one item each.
func TestPagesHaveEachItemOnce(t *testing.T) {
	table, _, _ := storetest.NewDynamoDB(t)
	const items = 8
	for i := range items {
		if err := table.Commit(t.Context(), store.Put(store.In(fmt.Sprint("p", i%3), fmt.Sprint(i)), map[string]string{"text": strings.Repeat("x", 300<<10)})); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{1, 3, 500} {
		seen, pages := map[store.Key]int{}, 0
		for behind := (store.Key{}); ; pages++ {
			got, last, err := table.Page(t.Context(), behind, limit)
			if err != nil || len(got) > limit || pages > 2*items {
				t.Fatalf("page %d has %d items of %d (%v)", pages, len(got), limit, err)
			}
			for _, item := range got {
				seen[store.KeyOf(item)]++
			}
			if behind = last; last == (store.Key{}) {
				break
			}
		}
		if len(seen) != items || pages < 1 {
			t.Errorf("in pages of %d, %d, there are %v", limit, pages, seen)
		}
		for key, n := range seen {
			if n != 1 {
				t.Errorf("in pages of %d, %v is there %d times", limit, key, n)
			}
		}
	}
}

// scans is a DynamoDB that answers scans alone.
type scans struct {
	store.Client
	answers []*dynamodb.ScanOutput
	asked   []*dynamodb.ScanInput
}

func (s *scans) Scan(_ context.Context, in *dynamodb.ScanInput, _ ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	s.asked = append(s.asked, in)
	out := s.answers[0]
	s.answers = s.answers[1:]
	return out, nil
}

// TestEmptyPageIsNotTheEnd: DynamoDB answers pages without items that have others behind them, and reads consistently only who asks for it.
func TestEmptyPageIsNotTheEnd(t *testing.T) {
	key := store.In("p", "1")
	s := &scans{answers: []*dynamodb.ScanOutput{{LastEvaluatedKey: key.Item()}, {}}}
	table := storetest.Over(t, store.NewDynamoDB(s, "t"))
	items, last, err := table.Page(t.Context(), store.Key{}, 7)
	if err != nil || len(items) != 0 || last != key {
		t.Fatalf("an empty page is answered with %d items, %v, %v", len(items), last, err)
	}
	if _, last, err = table.Page(t.Context(), last, 7); err != nil || last != (store.Key{}) {
		t.Fatalf("the last one is answered with %v, %v", last, err)
	}
	for i, in := range s.asked {
		if in.ConsistentRead == nil || !*in.ConsistentRead || in.Limit == nil || *in.Limit != 7 || *in.TableName != "t" || (len(in.ExclusiveStartKey) > 0) != (i > 0) {
			t.Errorf("scan %d asks %+v", i, in)
		}
	}
	if store.KeyOf(s.asked[1].ExclusiveStartKey) != key {
		t.Errorf("it goes on behind %v", s.asked[1].ExclusiveStartKey)
	}
}
