package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

func TestCreatedTableMatchesSchema(t *testing.T) {
	_, client, name := storetest.NewDynamoDB(t)
	if err := store.CreateTable(t.Context(), client, name); err != nil {
		t.Errorf("second CreateTable() = %v, want nil", err)
	}
	schema := store.Schema()
	described, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		t.Fatal(err)
	}
	table := described.Table
	keys := func(elements []types.KeySchemaElement) [2]string {
		if len(elements) != 2 || elements[0].KeyType != types.KeyTypeHash || elements[1].KeyType != types.KeyTypeRange {
			t.Fatalf("key schema = %+v, want a hash and a range key", elements)
		}
		return [2]string{*elements[0].AttributeName, *elements[1].AttributeName}
	}
	if got, want := keys(table.KeySchema), [2]string{schema.PartitionKey, schema.SortKey}; got != want {
		t.Errorf("keys of the table = %q, want %q", got, want)
	}
	if s := table.StreamSpecification; s == nil {
		t.Error("stream specification = nil, want one")
	} else if !*s.StreamEnabled || s.StreamViewType != schema.Stream {
		t.Errorf("stream specification: enabled = %t, view type %v, want true, %v",
			*s.StreamEnabled, s.StreamViewType, schema.Stream)
	}
	if table.BillingModeSummary.BillingMode != types.BillingModePayPerRequest {
		t.Errorf("billing mode = %s, want %s", table.BillingModeSummary.BillingMode, types.BillingModePayPerRequest)
	}
	if len(table.GlobalSecondaryIndexes) != len(schema.Indexes) {
		t.Fatalf("the table has %d indexes, want %d", len(table.GlobalSecondaryIndexes), len(schema.Indexes))
	}
	for i, want := range schema.Indexes {
		got := table.GlobalSecondaryIndexes[i]
		if *got.IndexName != string(want.Name) || keys(got.KeySchema) != [2]string{want.PartitionKey, want.SortKey} ||
			got.Projection.ProjectionType != want.Projection {
			t.Errorf("index %d = %s with the keys %q and the projection %v, want %+v",
				i, *got.IndexName, keys(got.KeySchema), got.Projection.ProjectionType, want)
		}
		if pk, sk := want.Name.KeyAttributes(); pk != want.PartitionKey || sk != want.SortKey {
			t.Errorf("queries of %s use %s and %s, want %s and %s", want.Name, pk, sk, want.PartitionKey, want.SortKey)
		}
	}
	ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		t.Fatalf("DescribeTimeToLive() = %v, want success", err)
	}
	if got := aws.ToString(ttl.TimeToLiveDescription.AttributeName); got != schema.TTL {
		t.Errorf("TTL attribute of the table = %q, want %q", got, schema.TTL)
	}
}

// failingCreator is a TableCreator whose calls fail. ttl is the error of UpdateTimeToLive. create is the error of
// CreateTable. If create is nil, CreateTable calls the Client.
type failingCreator struct {
	*dynamodb.Client
	ttl    error
	create error
}

func (c failingCreator) UpdateTimeToLive(
	context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options),
) (*dynamodb.UpdateTimeToLiveOutput, error) {
	return nil, c.ttl
}

func (c failingCreator) CreateTable(
	ctx context.Context, in *dynamodb.CreateTableInput, _ ...func(*dynamodb.Options),
) (*dynamodb.CreateTableOutput, error) {
	if c.create != nil {
		return nil, c.create
	}
	return c.Client.CreateTable(ctx, in)
}

func TestCreateTableErrors(t *testing.T) {
	_, client, name := storetest.NewDynamoDB(t)
	errDenied := &smithy.GenericAPIError{Code: "AccessDeniedException"}
	errEnabled := &smithy.GenericAPIError{Code: "ValidationException", Message: "TimeToLive is already enabled"}
	for _, test := range []struct {
		name    string
		creator failingCreator
		want    error
	}{
		{"ttl is on", failingCreator{client, errEnabled, nil}, nil},
		{"ttl is not allowed", failingCreator{client, errDenied, nil}, errDenied},
		{"creating is not allowed", failingCreator{client, nil, errDenied}, errDenied},
	} {
		if err := store.CreateTable(t.Context(), test.creator, name); !errors.Is(err, test.want) {
			t.Errorf("%s: CreateTable() = %v, want %v", test.name, err, test.want)
		}
	}
}
