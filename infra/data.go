package main

import (
	"regexp"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/store"
)

// data is where an installation keeps what it knows.
type data struct {
	table  table
	bucket awss3.CfnBucket
	key    awskms.CfnKey
	// bucketName and bucketARN are spelled out, not references: the bucket
	// notifies a function whose permission names the bucket.
	bucketName, bucketARN *string
	// notified are the functions that the bucket tells of new objects.
	notified *[]any
	// address is the management API's, nil where nobody outside would reach it.
	address *string
}

// table is what the rest of the stack asks of its table: names.
type table interface {
	Ref() *string // its name
	AttrArn() *string
	AttrStreamArn() *string
}

// ownTable is a resource of the stack, of either kind.
type ownTable interface {
	awscdk.CfnResource
	table
}

// newData makes the table, the bucket and the key that wraps the root key. They
// outlive the stack of a protected installation.
func newData(scope constructs.Construct, s Settings) data {
	d := data{
		notified:   &[]any{},
		bucketName: awscdk.Fn_Sub(jsii.Sprintf("gatewright-%s-${AWS::AccountId}-${AWS::Region}", s.Stage), nil),
		bucketARN:  awscdk.Fn_Sub(jsii.Sprintf("arn:${AWS::Partition}:s3:::gatewright-%s-${AWS::AccountId}-${AWS::Region}", s.Stage), nil),
	}
	d.key = awskms.NewCfnKey(scope, jsii.String("RootKey"), &awskms.CfnKeyProps{
		Description:         jsii.Sprintf("Wraps the root key of the Gatewright installation %s", s.Stage),
		EnableKeyRotation:   jsii.Bool(true),
		PendingWindowInDays: jsii.Number(30),
		KeyPolicy:           keyPolicy(),
	})
	if s.MultiRegionKey {
		d.key.SetMultiRegion(jsii.Bool(true)) // and nothing for false, which keys of earlier releases do not say: KMS takes no change of it
	}
	kept := []awscdk.CfnResource{d.key}
	if s.TableStream != "" {
		d.table = restored{&s.TableStream}
	} else {
		own := newTable(scope, s)
		kept, d.table = append(kept, own), own
	}
	d.bucket = newBucket(scope, d)
	for _, r := range append(kept, d.bucket) {
		r.ApplyRemovalPolicy(removal(s), nil)
	}
	return d
}

// tableStream has a table's ARN and name in it.
var tableStream = regexp.MustCompile(`^(arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/([A-Za-z0-9_.-]{3,255}))/stream/`)

// restored is a table that was restored beside the stack, by the ARN of its stream, which has all
// of its names in it. It is no resource of the stack: what restored it keeps its settings
// (docs/decisions/0063-a-restored-table-is-adopted-by-its-stream.md).
type restored struct{ stream *string }

// Ref implements table.
func (r restored) Ref() *string { return jsii.String(tableStream.FindStringSubmatch(*r.stream)[2]) }

// AttrArn implements table.
func (r restored) AttrArn() *string { return jsii.String(tableStream.FindStringSubmatch(*r.stream)[1]) }

// AttrStreamArn implements table.
func (r restored) AttrStreamArn() *string { return r.stream }

// removal of what holds data. What the making of a stack has made goes when the making fails: what stayed would
// be in the way of the next try, by its name.
func removal(s Settings) awscdk.RemovalPolicy {
	if s.Protected {
		return awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
	}
	return awscdk.RemovalPolicy_DESTROY
}

// keyPolicy leaves the key to the account's own policies, as KMS recommends:
// without this statement nobody could ever change or delete it. more are statements about others.
func keyPolicy(more ...any) any {
	return map[string]any{
		"Version": "2012-10-17",
		"Statement": append([]any{map[string]any{
			"Effect":    "Allow",
			"Principal": map[string]any{"AWS": awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:iam::${AWS::AccountId}:root"), nil)},
			"Action":    "kms:*",
			"Resource":  "*",
		}}, more...),
	}
}

// newTable makes the table of store.Schema.
func newTable(scope constructs.Construct, s Settings) ownTable {
	schema := store.Schema()
	if s.Table == globalTable {
		return newGlobalTable(scope, s)
	}
	keys := func(pk, sk string) *[]*awsdynamodb.CfnTable_KeySchemaProperty {
		return &[]*awsdynamodb.CfnTable_KeySchemaProperty{
			{AttributeName: &pk, KeyType: jsii.String("HASH")},
			{AttributeName: &sk, KeyType: jsii.String("RANGE")},
		}
	}
	names := []string{schema.PartitionKey, schema.SortKey}
	var indexes []any
	for _, i := range schema.Indexes {
		indexes = append(indexes, &awsdynamodb.CfnTable_GlobalSecondaryIndexProperty{
			IndexName:  jsii.String(string(i.Name)),
			KeySchema:  keys(i.PartitionKey, i.SortKey),
			Projection: &awsdynamodb.CfnTable_ProjectionProperty{ProjectionType: jsii.String(string(i.Projection))},
		})
		names = append(names, i.PartitionKey, i.SortKey)
	}
	var attributes []any
	for _, name := range names {
		attributes = append(attributes, &awsdynamodb.CfnTable_AttributeDefinitionProperty{
			AttributeName: jsii.String(name), AttributeType: jsii.String("S"),
		})
	}
	return awsdynamodb.NewCfnTable(scope, jsii.String("Table"), &awsdynamodb.CfnTableProps{
		KeySchema:              keys(schema.PartitionKey, schema.SortKey),
		AttributeDefinitions:   &attributes,
		GlobalSecondaryIndexes: &indexes,
		BillingMode:            jsii.String("PAY_PER_REQUEST"),
		StreamSpecification: &awsdynamodb.CfnTable_StreamSpecificationProperty{
			StreamViewType: jsii.String(string(schema.Stream)),
		},
		TimeToLiveSpecification: &awsdynamodb.CfnTable_TimeToLiveSpecificationProperty{
			AttributeName: &schema.TTL, Enabled: jsii.Bool(true),
		},
		PointInTimeRecoverySpecification: &awsdynamodb.CfnTable_PointInTimeRecoverySpecificationProperty{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
			RecoveryPeriodInDays:       jsii.Number(recoveryDays),
		},
		SseSpecification:          &awsdynamodb.CfnTable_SSESpecificationProperty{SseEnabled: jsii.Bool(true)},
		DeletionProtectionEnabled: jsii.Bool(s.Protected),
	})
}

// newBucket makes the bucket for uploads, sources and artifacts, with nothing
// public and nothing without TLS. Its notifications are set by newUploadTrigger.
func newBucket(scope constructs.Construct, d data) awss3.CfnBucket {
	bucket := awss3.NewCfnBucket(scope, jsii.String("Bucket"), &awss3.CfnBucketProps{
		BucketName: d.bucketName,
		PublicAccessBlockConfiguration: &awss3.CfnBucket_PublicAccessBlockConfigurationProperty{
			BlockPublicAcls: jsii.Bool(true), BlockPublicPolicy: jsii.Bool(true),
			IgnorePublicAcls: jsii.Bool(true), RestrictPublicBuckets: jsii.Bool(true),
		},
		OwnershipControls: &awss3.CfnBucket_OwnershipControlsProperty{
			Rules: &[]any{&awss3.CfnBucket_OwnershipControlsRuleProperty{ObjectOwnership: jsii.String("BucketOwnerEnforced")}},
		},
		BucketEncryption: &awss3.CfnBucket_BucketEncryptionProperty{
			ServerSideEncryptionConfiguration: &[]any{&awss3.CfnBucket_ServerSideEncryptionRuleProperty{
				ServerSideEncryptionByDefault: &awss3.CfnBucket_ServerSideEncryptionByDefaultProperty{SseAlgorithm: jsii.String("AES256")},
			}},
		},
		// Versions keep the truststore's history, and let the builder read the
		// very upload that an event told of.
		VersioningConfiguration: &awss3.CfnBucket_VersioningConfigurationProperty{Status: jsii.String("Enabled")},
		LifecycleConfiguration:  &awss3.CfnBucket_LifecycleConfigurationProperty{Rules: lifecycle()},
	})
	awss3.NewCfnBucketPolicy(scope, jsii.String("BucketPolicy"), &awss3.CfnBucketPolicyProps{
		Bucket: bucket.Ref(),
		PolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{map[string]any{
				"Sid": "OnlyTLS", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
				"Resource":  []any{bucket.AttrArn(), awscdk.Fn_Join(jsii.String(""), &[]*string{bucket.AttrArn(), jsii.String("/*")})},
				"Condition": map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
			}},
		},
	})
	return bucket
}

// recoveryDays is how far back the table can be restored, and so how long what its records named has to
// be in the bucket: DynamoDB keeps 35 days, and the bucket's days end at midnight.
const (
	recoveryDays = 35
	versionDays  = recoveryDays + 1
)

// lifecycle removes what nobody asks for any more: uploads after a day (they
// are copied when they are built), old versions when no restored table names them. The builder removes an
// upload that it has heard of at once; this is for what nobody heard of (put
// twice, put late, put while the builder failed). A scheduled function would
// need a grant to list and delete, and code; S3 does this daily and for nothing.
// Emulators do not run it. Records of uploads expire by the table's ttl.
func lifecycle() *[]any {
	rule := func(id, prefix string, days, oldDays float64) any {
		r := &awss3.CfnBucket_RuleProperty{
			Id: &id, Status: jsii.String("Enabled"), Prefix: &prefix,
			NoncurrentVersionExpiration: &awss3.CfnBucket_NoncurrentVersionExpirationProperty{NoncurrentDays: &oldDays},
			AbortIncompleteMultipartUpload: &awss3.CfnBucket_AbortIncompleteMultipartUploadProperty{
				DaysAfterInitiation: jsii.Number(1),
			},
		}
		if days > 0 {
			r.ExpirationInDays = &days
		}
		return r
	}
	return &[]any{
		rule("uploads", blob.UploadKey(""), 1, 1),
		rule("sources", blob.SourceKey(""), 0, versionDays),
		rule("artifacts", blob.ArtifactKey(""), 0, versionDays),
		rule("truststores", blob.TruststoreKey(""), 0, versionDays),
	}
}
