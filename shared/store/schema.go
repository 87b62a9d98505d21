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

// Definition is what the table has to be, as data: CreateTable makes a table of it,
// and the infrastructure's is tested against it. All key attributes are
// strings, and the table is billed by the request.
type Definition struct {
	PartitionKey, SortKey string
	// TTL is the attribute by which items are deleted some time after they
	// expire.
	TTL string
	// Stream is what the table's stream tells of each change.
	Stream types.StreamViewType
	// Indexes are the global secondary indexes.
	Indexes []IndexDefinition
}

// IndexDefinition is one global secondary index.
type IndexDefinition struct {
	Name                  Index
	PartitionKey, SortKey string
	// Projection is what of an item the index holds.
	Projection types.ProjectionType
}

// Schema gives the definition of the product's table.
//
// The due index holds keys alone. Whoever reads it must read the record again
// anyway, since an index is eventually consistent; and a record's other
// attributes, some kilobytes that change at each step of an operation, may
// change without being paid for a second time. Entries have no ttl attribute
// either: who reads the record hears that it is gone.
func Schema() Definition {
	pk, sk := DueIndex.KeyAttributes()
	return Definition{
		PartitionKey: pkAttribute, SortKey: skAttribute, TTL: TTLAttribute,
		Stream:  types.StreamViewTypeNewAndOldImages,
		Indexes: []IndexDefinition{{DueIndex, pk, sk, types.ProjectionTypeKeysOnly}},
	}
}

// TableMaker is the part of *dynamodb.Client that CreateTable needs.
type TableMaker interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
}

var _ TableMaker = (*dynamodb.Client)(nil)

// CreateTable makes the table unless it is there, and returns when it can be used.
// It is for the local run and for tests: in AWS the infrastructure makes it.
func CreateTable(ctx context.Context, client TableMaker, name string) error {
	_, err := client.CreateTable(ctx, Schema().request(name))
	if _, there := errors.AsType[*types.ResourceInUseException](err); err != nil && !there {
		return fmt.Errorf("create the table: %w", err)
	}
	const longest = 2 * time.Minute
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay = 20 * time.Millisecond // an emulator's table is there at once
	})
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, longest); err != nil {
		return fmt.Errorf("wait for the table: %w", err)
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(Schema().TTL), Enabled: aws.Bool(true),
		},
	})
	// What is switched on already cannot be switched on again.
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
	for _, name := range names {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(name), AttributeType: types.ScalarAttributeTypeS,
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
