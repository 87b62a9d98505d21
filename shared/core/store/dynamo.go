package store

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Client is the part of *dynamodb.Client that the DynamoDB backend calls.
// The client must not repeat calls. Connect returns a suitable client.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput,
		...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput,
		...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

var _ Client = (*dynamodb.Client)(nil)

// callTimeout is the timeout of one request, so that an undetected dead
// connection costs one repeat and not the whole timeout of a Lambda.
const callTimeout = 3 * time.Second

// Connect returns a client of DynamoDB that makes each call once, because Table repeats calls itself,
// under one token. endpoint is the base address of an emulator, "" for AWS. Connect makes no request.
func Connect(config aws.Config, endpoint string) *dynamodb.Client {
	return dynamodb.NewFromConfig(config, func(o *dynamodb.Options) {
		o.Retryer = aws.NopRetryer{}
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
		if client, ok := o.HTTPClient.(*awshttp.BuildableClient); ok || o.HTTPClient == nil {
			if client == nil {
				client = awshttp.NewBuildableClient()
			}
			o.HTTPClient = client.WithTimeout(callTimeout)
		}
	})
}

// DynamoDB is the backend for DynamoDB or an emulator.
type DynamoDB struct {
	client Client
	table  string
}

var _ Backend = (*DynamoDB)(nil)

// NewDynamoDB returns a backend for the table with that name.
func NewDynamoDB(client Client, table string) *DynamoDB {
	return &DynamoDB{client: client, table: table}
}

// Read implements Backend.
func (d *DynamoDB) Read(ctx context.Context, keys []Key) ([]Item, error) {
	if len(keys) == 1 {
		return d.readOne(ctx, keys[0])
	}
	pending := make([]Item, len(keys))
	for i, k := range keys {
		pending[i] = k.Item()
	}
	var found []Item
	for len(pending) > 0 {
		out, err := d.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems:           map[string]types.KeysAndAttributes{d.table: {Keys: pending, ConsistentRead: aws.Bool(true)}},
			ReturnConsumedCapacity: returnCapacity(ctx),
		})
		ChargeRead(ctx, readCapacity(out))
		if err != nil {
			return nil, failure(ctx, err)
		}
		found = append(found, out.Responses[d.table]...)
		unprocessed := out.UnprocessedKeys[d.table].Keys
		if len(unprocessed) == len(pending) {
			// No key was read, so the table is too busy for an immediate repeat.
			return nil, fmt.Errorf("%w: no key of the batch was processed", ErrRetryable)
		}
		pending = unprocessed
	}
	return found, nil
}

func (d *DynamoDB) readOne(ctx context.Context, key Key) ([]Item, error) {
	out, err := d.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &d.table, Key: key.Item(), ConsistentRead: aws.Bool(true),
		ReturnConsumedCapacity: returnCapacity(ctx),
	})
	if err != nil {
		ChargeRead(ctx, 0)
		return nil, failure(ctx, err)
	}
	ChargeRead(ctx, consumedUnits(out.ConsumedCapacity))
	if len(out.Item) == 0 {
		return nil, nil
	}
	return []Item{out.Item}, nil
}

// Transact implements Backend.
func (d *DynamoDB) Transact(ctx context.Context, token string, writes []Write) error {
	if err := RefuseInDryRun(ctx); err != nil {
		return err
	}
	in := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken:     &token,
		TransactItems:          make([]types.TransactWriteItem, len(writes)),
		ReturnConsumedCapacity: returnCapacity(ctx),
	}
	for i, w := range writes {
		in.TransactItems[i] = d.transactItem(w)
	}
	out, err := d.client.TransactWriteItems(ctx, in)
	if err != nil {
		ChargeCommit(ctx, 0, 0)
		return failure(ctx, err)
	}
	var read, write float64
	for _, c := range out.ConsumedCapacity {
		// DynamoDB bills a repeat of a committed transaction as a read.
		read += aws.ToFloat64(c.ReadCapacityUnits)
		write += consumedUnits(&c) - aws.ToFloat64(c.ReadCapacityUnits)
	}
	ChargeCommit(ctx, read, write)
	return nil
}

func (d *DynamoDB) transactItem(w Write) types.TransactWriteItem {
	var e expression
	condition := e.condition(w.Condition)
	switch w.Kind {
	case PutKind:
		return types.TransactWriteItem{Put: &types.Put{
			TableName: &d.table, Item: w.Item, ConditionExpression: condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}}
	case UpdateKind:
		return types.TransactWriteItem{Update: &types.Update{
			TableName: &d.table, Key: w.Key.Item(), ConditionExpression: condition, UpdateExpression: e.update(w.Changes),
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}}
	case DeleteKind:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: &d.table, Key: w.Key.Item(), ConditionExpression: condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}}
	case CheckKind:
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: &d.table, Key: w.Key.Item(), ConditionExpression: condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		}}
	}
	return types.TransactWriteItem{}
}

// returnCapacity returns the setting that requests the consumed capacity if the context has a Meter.
func returnCapacity(ctx context.Context) types.ReturnConsumedCapacity {
	if meterOf(ctx) == nil {
		return types.ReturnConsumedCapacityNone
	}
	return types.ReturnConsumedCapacityTotal
}

// consumedUnits returns the capacity units that a request used, 0 if c is nil.
func consumedUnits(c *types.ConsumedCapacity) float64 {
	if c == nil {
		return 0
	}
	return aws.ToFloat64(c.CapacityUnits)
}

func readCapacity(out *dynamodb.BatchGetItemOutput) float64 {
	if out == nil {
		return 0
	}
	var sum float64
	for _, c := range out.ConsumedCapacity {
		sum += consumedUnits(&c)
	}
	return sum
}
