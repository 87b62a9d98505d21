package store

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Pager is a Backend that gives all of its items, page by page.
type Pager interface {
	// Page gives at most limit items behind a key, the zero Key for the first, each read consistently, in an order of its
	// own that stays the same; and the key that the next page is behind, the zero Key at the end. Items past their ttl may be among them.
	// What is there throughout is on a page once; what comes, goes or changes meanwhile may be or not.
	Page(ctx context.Context, behind Key, limit int) (items []Item, last Key, err error)
}

var _ Pager = (*DynamoDB)(nil)

var errNoPages = errors.New("store: the backend gives no pages of all items")

// Page gives a page of all items of the table, as Pager has it. It is for the one work that concerns all of them, whatever they are
// (package rotation): a request never scans, and no other function's role may.
func (t *Table) Page(ctx context.Context, behind Key, limit int) (items []Item, last Key, err error) {
	b, ok := t.over(ctx).(Pager)
	if !ok {
		return nil, Key{}, errNoPages
	}
	err = t.repeat(ctx, querying, func() (err error) {
		items, last, err = b.Page(ctx, behind, limit)
		return err
	})
	return items, last, err
}

// Page implements Pager.
func (d *DynamoDB) Page(ctx context.Context, behind Key, limit int) ([]Item, Key, error) {
	scanner, ok := d.client.(Scanner)
	if !ok {
		return nil, Key{}, errNoPages
	}
	in := &dynamodb.ScanInput{TableName: &d.table, ConsistentRead: aws.Bool(true), Limit: pageLimit(limit)}
	if behind != (Key{}) {
		in.ExclusiveStartKey = behind.Item()
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
