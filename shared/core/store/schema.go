package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Definition defines the table. CreateTable creates a table from it, and a test compares the table of
// the infrastructure with it. All key attributes are strings, and the table is billed per request.
type Definition struct {
	PartitionKey, SortKey string
	// TTL is the name of the attribute with the time of expiry. DynamoDB deletes an item some time after this time.
	TTL string
	// Stream says what the records in the table's stream contain.
	Stream types.StreamViewType
	// Indexes are the global secondary indexes.
	Indexes []IndexDefinition
}

// IndexDefinition is one global secondary index.
type IndexDefinition struct {
	Name                  Index
	PartitionKey, SortKey string
	// Projection is the set of attributes that the index has.
	Projection types.ProjectionType
}

// Schema returns the definition of the product's table.
//
// The due index has only keys, for two reasons. A reader of the index must read the record anyway,
// because an index is eventually consistent. And a change of the record's other attributes, some
// kilobytes with each step of an operation, is not billed a second time for the index. The entries
// have no ttl attribute either, because the read of the record shows whether it has expired.
func Schema() Definition {
	pk, sk := DueIndex.KeyAttributes()
	return Definition{
		PartitionKey: pkAttribute, SortKey: skAttribute, TTL: TTLAttribute,
		Stream:  types.StreamViewTypeNewAndOldImages,
		Indexes: []IndexDefinition{{DueIndex, pk, sk, types.ProjectionTypeKeysOnly}},
	}
}

// TableCreator is the part of *dynamodb.Client that CreateTable calls.
type TableCreator interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput,
		...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput,
		...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput,
		...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
}

var _ TableCreator = (*dynamodb.Client)(nil)

// CreateTable creates the table unless it exists, and waits until it is usable. It
// is for local runs and for tests: in AWS the infrastructure creates the table.
func CreateTable(ctx context.Context, client TableCreator, name string) error {
	_, err := client.CreateTable(ctx, Schema().request(name))
	if _, exists := errors.AsType[*types.ResourceInUseException](err); err != nil && !exists {
		return fmt.Errorf("create the table: %w", err)
	}
	const maxWait = 2 * time.Minute
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay = 20 * time.Millisecond // an emulator creates a table immediately
	})
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, maxWait); err != nil {
		return fmt.Errorf("wait for the table: %w", err)
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(Schema().TTL), Enabled: aws.Bool(true),
		},
	})
	// DynamoDB returns this error if the ttl is already enabled.
	if err != nil && code(err) != "ValidationException" {
		return fmt.Errorf("switch on the table's ttl: %w", err)
	}
	return nil
}

func (d Definition) request(name string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:   &name,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   keySchema(d.PartitionKey, d.SortKey),
		StreamSpecification: &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: d.Stream,
		},
	}
	names := []string{d.PartitionKey, d.SortKey}
	for _, index := range d.Indexes {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName:  aws.String(string(index.Name)),
			KeySchema:  keySchema(index.PartitionKey, index.SortKey),
			Projection: &types.Projection{ProjectionType: index.Projection},
		})
		names = append(names, index.PartitionKey, index.SortKey)
	}
	for _, attribute := range names {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(attribute), AttributeType: types.ScalarAttributeTypeS,
		})
	}
	return in
}

func keySchema(pk, sk string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(pk), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sk), KeyType: types.KeyTypeRange},
	}
}
