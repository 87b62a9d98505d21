package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// maxPage is the maximum limit of a request. A page of 1 MB cannot hold this many items.
const maxPage = 1 << 20

// Query implements Backend.
func (d *DynamoDB) Query(ctx context.Context, q Query) (items []Item, next string, err error) {
	in, err := d.queryInput(ctx, q)
	if err != nil || in == nil {
		return nil, "", err
	}
	if q.Offset > 0 && q.Cursor == "" {
		if in.ExclusiveStartKey, err = d.skip(ctx, q); err != nil {
			return nil, "", err
		}
		if in.ExclusiveStartKey == nil {
			return nil, "", nil // the partition has no more items than the offset
		}
	}
	if q.Limit > 0 {
		in.Limit = pageLimit(q.Limit)
	}
	out, err := d.query(ctx, in)
	if err != nil {
		return nil, "", err
	}
	next, err = encodeCursor(out.LastEvaluatedKey)
	return out.Items, next, err
}

// skip returns the key of item number q.Offset, after which the page begins. It counts the
// items without transferring them. It returns nil if there are fewer items than q.Offset.
func (d *DynamoDB) skip(ctx context.Context, q Query) (Item, error) {
	q.KeysOnly = false // counting has no projection
	in, err := d.queryInput(ctx, q)
	if err != nil {
		return nil, err
	}
	in.Select = types.SelectCount
	for remaining := q.Offset; ; {
		in.Limit = pageLimit(remaining)
		out, err := d.query(ctx, in)
		if err != nil {
			return nil, err
		}
		remaining -= int(out.Count)
		in.ExclusiveStartKey = out.LastEvaluatedKey
		if remaining <= 0 || out.LastEvaluatedKey == nil {
			return out.LastEvaluatedKey, nil
		}
	}
}

func pageLimit(n int) *int32 {
	return aws.Int32(int32(min(n, maxPage))) //nolint:gosec // G115: at most maxPage
}

func (d *DynamoDB) query(ctx context.Context, in *dynamodb.QueryInput) (*dynamodb.QueryOutput, error) {
	out, err := d.client.Query(ctx, in)
	if err != nil {
		ChargeQuery(ctx, 0)
		return nil, failure(ctx, err)
	}
	ChargeQuery(ctx, consumedUnits(out.ConsumedCapacity))
	return out, nil
}

// queryInput returns the request for a page of q, without limit and offset. It returns nil if no item can match q.
func (d *DynamoDB) queryInput(ctx context.Context, q Query) (*dynamodb.QueryInput, error) {
	var e expression
	pk, sk := q.Index.KeyAttributes()
	text := func(s string) string { return e.value(&types.AttributeValueMemberS{Value: s}) }
	in := &dynamodb.QueryInput{
		TableName:              &d.table,
		ConsistentRead:         aws.Bool(q.Index == ""),
		ScanIndexForward:       aws.Bool(!q.Descending),
		ReturnConsumedCapacity: returnCapacity(ctx),
	}
	if q.Index != "" {
		in.IndexName = aws.String(string(q.Index))
	}
	empty, inside := q.locateAfter()
	if empty {
		return nil, nil
	}
	condition := e.name(pk) + " = " + text(q.PK)
	switch {
	case q.Prefix != "":
		condition += " AND begins_with(" + e.name(sk) + ", " + text(q.Prefix) + ")"
	case q.Index != "" && inside && q.UpTo != "":
		// Two items of an index can share a sort key, so After is not a position in
		// the index: the query begins at the next possible key.
		condition += " AND " + e.name(sk) + " BETWEEN " + text(q.After+"\x00") + " AND " + text(q.UpTo)
	case q.Index != "" && inside:
		condition += " AND " + e.name(sk) + " > " + text(q.After)
	case q.UpTo != "":
		condition += " AND " + e.name(sk) + " <= " + text(q.UpTo)
	}
	if q.Index != "" && q.UpTo != "" && q.After == q.UpTo {
		return nil, nil // BETWEEN refuses a lower bound above the upper bound
	}
	switch {
	case q.Cursor != "":
		start, err := decodeCursor(q.Cursor)
		if err != nil {
			return nil, err
		}
		in.ExclusiveStartKey = start
	case q.Index == "" && inside:
		in.ExclusiveStartKey = Key{PK: q.PK, SK: q.After}.Item()
	}
	if q.KeysOnly {
		projection := e.name(pkAttribute) + ", " + e.name(skAttribute)
		if q.Index == "" { // an index holds no ttl
			projection += ", " + e.name(TTLAttribute)
		}
		in.ProjectionExpression = &projection
	}
	in.KeyConditionExpression = &condition
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.names, e.values
	return in, nil
}

// encodeCursor encodes the LastEvaluatedKey of a page, whose attributes are all strings, as an opaque text. It returns
// "" if there is no key. It encodes the whole key, because entries of an index can share a sort key (two records that
// are due in the same millisecond).
func encodeCursor(last Item) (string, error) {
	if last == nil {
		return "", nil
	}
	texts := make(map[string]string, len(last))
	for name, v := range last {
		texts[name] = textOf(v)
	}
	b, err := json.Marshal(texts)
	if err != nil {
		return "", fmt.Errorf("encode a cursor: %w", err)
	}
	return string(b), nil
}

func decodeCursor(cursor string) (Item, error) {
	var texts map[string]string
	if err := json.Unmarshal([]byte(cursor), &texts); err != nil {
		return nil, fmt.Errorf("decode a cursor: %w", err)
	}
	item := make(Item, len(texts))
	for name, text := range texts {
		item[name] = &types.AttributeValueMemberS{Value: text}
	}
	return item, nil
}
