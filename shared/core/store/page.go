package store

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Pager is a Backend that can return all of its items, page by page.
type Pager interface {
	// Page returns a page of at most limit items. after is the key after which the page begins, and last is the key after
	// which the next page begins. after is the zero Key for the first page, and last is the zero Key at the end. Each item
	// is read consistently. Each backend has its own order of items, which does not change. The items can include items
	// that are past their ttl. An item that exists while all pages are read is on exactly one page. An item that is
	// created or deleted meanwhile may be on a page or not.
	Page(ctx context.Context, after Key, limit int) (items []Item, last Key, err error)
}

var _ Pager = (*DynamoDB)(nil)

var errScanUnsupported = errors.New("store: the backend gives no pages of all items")

// Page returns a page of all items of the table, as Pager.Page does. It is only for work that concerns all items of any
// kind (package rotation): no request scans the table, and a function has permission to scan it only if its TableAccess
// has Scans. Page returns an error if the backend is not a Pager, and in a dry run.
func (t *Table) Page(ctx context.Context, after Key, limit int) (items []Item, last Key, err error) {
	b, ok := t.backendFor(ctx).(Pager)
	if !ok {
		return nil, Key{}, errScanUnsupported
	}
	err = t.retry(ctx, querying, func() (err error) {
		items, last, err = b.Page(ctx, after, limit)
		return err
	})
	return items, last, err
}

// Page implements Pager.
func (d *DynamoDB) Page(ctx context.Context, after Key, limit int) ([]Item, Key, error) {
	scanner, ok := d.client.(Scanner)
	if !ok {
		return nil, Key{}, errScanUnsupported
	}
	in := &dynamodb.ScanInput{TableName: &d.table, ConsistentRead: aws.Bool(true), Limit: pageLimit(limit)}
	if after != (Key{}) {
		in.ExclusiveStartKey = after.Item()
	}
	out, err := scanner.Scan(ctx, in)
	if err != nil {
		return nil, Key{}, failure(ctx, err)
	}
	var last Key
	if len(out.LastEvaluatedKey) > 0 {
		last = KeyOf(out.LastEvaluatedKey)
	}
	return out.Items, last, nil
}
