package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func TestCreatedTableIsWhatTheSchemaSays(t *testing.T) {
	_, client, name := storetest.NewDynamoDB(t)
	if err := store.CreateTable(t.Context(), client, name); err != nil {
		t.Errorf("create it again: %v", err)
	}
	schema := store.Schema()
	described, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		t.Fatal(err)
	}
	table := described.Table
	keys := func(elements []types.KeySchemaElement) [2]string {
		if len(elements) != 2 || elements[0].KeyType != types.KeyTypeHash || elements[1].KeyType != types.KeyTypeRange {
			t.Fatalf("the key schema is %+v", elements)
		}
		return [2]string{*elements[0].AttributeName, *elements[1].AttributeName}
	}
	if got, want := keys(table.KeySchema), [2]string{schema.PartitionKey, schema.SortKey}; got != want {
		t.Errorf("the keys are %q, want %q", got, want)
	}
	if s := table.StreamSpecification; s == nil || !*s.StreamEnabled || s.StreamViewType != schema.Stream {
		t.Errorf("the stream is %+v", s)
	}
	if table.BillingModeSummary.BillingMode != types.BillingModePayPerRequest {
		t.Errorf("it is billed by %s", table.BillingModeSummary.BillingMode)
	}
	if len(table.GlobalSecondaryIndexes) != len(schema.Indexes) {
		t.Fatalf("it has %d indexes, want %d", len(table.GlobalSecondaryIndexes), len(schema.Indexes))
	}
	for i, want := range schema.Indexes {
		got := table.GlobalSecondaryIndexes[i]
		if *got.IndexName != string(want.Name) || keys(got.KeySchema) != [2]string{want.PartitionKey, want.SortKey} || got.Projection.ProjectionType != want.Projection {
			t.Errorf("index %d is %+v", i, got)
		}
		if pk, sk := want.Name.KeyAttributes(); pk != want.PartitionKey || sk != want.SortKey {
			t.Errorf("queries of %s use %s and %s", want.Name, pk, sk)
		}
	}
	ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil || ttl.TimeToLiveDescription.AttributeName == nil || *ttl.TimeToLiveDescription.AttributeName != schema.TTL {
		t.Errorf("the ttl is %+v, %v", ttl, err)
	}
}

// maker is a TableMaker whose ttl is switched on already, as AWS says it, or
// that fails.
type maker struct {
	*dynamodb.Client
	ttl    error
	create error
}

func (m maker) UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	return nil, m.ttl
}

func (m maker) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	if m.create != nil {
		return nil, m.create
	}
	return m.Client.CreateTable(ctx, in)
}

func TestOnlyWhatIsThereAlreadyIsNoFailure(t *testing.T) {
	_, client, name := storetest.NewDynamoDB(t)
	errDenied := &smithy.GenericAPIError{Code: "AccessDeniedException"}
	on := &smithy.GenericAPIError{Code: "ValidationException", Message: "TimeToLive is already enabled"}
	for _, test := range []struct {
		name  string
		maker maker
		want  error
	}{
		{"ttl is on", maker{client, on, nil}, nil},
		{"ttl is not allowed", maker{client, errDenied, nil}, errDenied},
		{"creating is not allowed", maker{client, nil, errDenied}, errDenied},
	} {
		if err := store.CreateTable(t.Context(), test.maker, name); !errors.Is(err, test.want) {
			t.Errorf("%s: answered %v, want %v", test.name, err, test.want)
		}
	}
}
