package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/core/store"
)

// globalTable is the value of the setting table for a table that can have replicas in other regions later.
const globalTable = "global"

// newGlobalTable creates the table of store.Schema as AWS::DynamoDB::GlobalTable, with a replica only in the
// installation's own region. Its resource type differs from that of newTable, and CloudFormation cannot convert one
// type into the other.
func newGlobalTable(scope constructs.Construct, s Settings) tableResource {
	schema := store.Schema()
	keys := func(pk, sk string) *[]*awsdynamodb.CfnGlobalTable_KeySchemaProperty {
		return &[]*awsdynamodb.CfnGlobalTable_KeySchemaProperty{
			{AttributeName: &pk, KeyType: jsii.String("HASH")},
			{AttributeName: &sk, KeyType: jsii.String("RANGE")},
		}
	}
	names := []string{schema.PartitionKey, schema.SortKey}
	var indexes []any
	for _, i := range schema.Indexes {
		indexes = append(indexes, &awsdynamodb.CfnGlobalTable_GlobalSecondaryIndexProperty{
			IndexName:  jsii.String(string(i.Name)),
			KeySchema:  keys(i.PartitionKey, i.SortKey),
			Projection: &awsdynamodb.CfnGlobalTable_ProjectionProperty{ProjectionType: jsii.String(string(i.Projection))},
		})
		names = append(names, i.PartitionKey, i.SortKey)
	}
	var attributes []any
	for _, name := range names {
		attributes = append(attributes, &awsdynamodb.CfnGlobalTable_AttributeDefinitionProperty{
			AttributeName: jsii.String(name), AttributeType: jsii.String("S"),
		})
	}
	return awsdynamodb.NewCfnGlobalTable(scope, jsii.String("Table"), &awsdynamodb.CfnGlobalTableProps{
		KeySchema:              keys(schema.PartitionKey, schema.SortKey),
		AttributeDefinitions:   &attributes,
		GlobalSecondaryIndexes: &indexes,
		BillingMode:            jsii.String("PAY_PER_REQUEST"),
		StreamSpecification: &awsdynamodb.CfnGlobalTable_StreamSpecificationProperty{
			StreamViewType: jsii.String(string(schema.Stream)),
		},
		TimeToLiveSpecification: &awsdynamodb.CfnGlobalTable_TimeToLiveSpecificationProperty{
			AttributeName: &schema.TTL, Enabled: jsii.Bool(true),
		},
		SseSpecification: &awsdynamodb.CfnGlobalTable_SSESpecificationProperty{
			SseEnabled: jsii.Bool(true),
			SseType:    jsii.String("KMS"),
		},
		Replicas: &[]any{&awsdynamodb.CfnGlobalTable_ReplicaSpecificationProperty{
			Region: awscdk.Aws_REGION(),
			PointInTimeRecoverySpecification: &awsdynamodb.CfnGlobalTable_PointInTimeRecoverySpecificationProperty{
				PointInTimeRecoveryEnabled: jsii.Bool(true), RecoveryPeriodInDays: jsii.Number(recoveryDays),
			},
			DeletionProtectionEnabled: jsii.Bool(s.Protected),
		}},
	})
}
