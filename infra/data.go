package main

import (
	"regexp"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/store"
)

// data has the resources that store the data of an installation.
type data struct {
	table  table
	bucket awss3.CfnBucket
	key    awskms.CfnKey
	// bucketName and bucketARN contain the literal name of the bucket and do not refer to the resource. A reference would
	// be a cycle: the bucket notifies a function whose permission names the bucket.
	bucketName, bucketARN *string
	// notifications are the functions that the bucket notifies of new objects.
	notifications *[]any
	// apiAddress is the public address of the management API, or nil if it is unknown (managementAddress).
	apiAddress *string
}

// table has the name and the ARNs of the table, to which other resources refer.
type table interface {
	Ref() *string // the name of the table
	AttrArn() *string
	AttrStreamArn() *string
}

// tableResource is a table that is a resource of the stack: a Table or a GlobalTable.
type tableResource interface {
	awscdk.CfnResource
	table
}

// newData creates the table, the bucket and the KMS key that wraps the root key. If the settings name a restored table,
// newData uses that table instead. If the installation is protected, what newData has created is kept when the stack is
// deleted.
func newData(scope constructs.Construct, s Settings) data {
	d := data{
		notifications: &[]any{},
		bucketName:    awscdk.Fn_Sub(jsii.Sprintf("gatewright-%s-${AWS::AccountId}-${AWS::Region}", s.Stage), nil),
		bucketARN: awscdk.Fn_Sub(jsii.Sprintf("arn:${AWS::Partition}:s3:::gatewright-%s-${AWS::AccountId}-${AWS::Region}",
			s.Stage), nil),
	}
	d.key = awskms.NewCfnKey(scope, jsii.String("RootKey"), &awskms.CfnKeyProps{
		Description:         jsii.Sprintf("Wraps the root key of the Gatewright installation %s", s.Stage),
		EnableKeyRotation:   jsii.Bool(true),
		PendingWindowInDays: jsii.Number(30),
		KeyPolicy:           keyPolicy(),
	})
	if s.MultiRegionKey {
		// Otherwise the property stays unset: false would be a change of the keys of earlier releases, which KMS refuses.
		d.key.SetMultiRegion(jsii.Bool(true))
	}
	retained := []awscdk.CfnResource{d.key}
	if s.TableStream != "" {
		d.table = restoredTable{&s.TableStream}
	} else {
		created := newTable(scope, s)
		retained, d.table = append(retained, created), created
	}
	d.bucket = newBucket(scope, d)
	for _, r := range append(retained, d.bucket) {
		r.ApplyRemovalPolicy(removalPolicy(s), nil)
	}
	return d
}

// tableStream matches the ARN of a table's stream, and captures the ARN and the name of the table.
var tableStream = regexp.MustCompile(
	`^(arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/([A-Za-z0-9_.-]{3,255}))/stream/`)

// restoredTable is a table that was restored outside of the stack. The ARN of its stream contains its name and its ARN.
// The table is not a resource of the stack: the command that restored it has set its properties
// (docs/decisions/0063-a-restored-table-is-adopted-by-its-stream.md).
type restoredTable struct{ stream *string }

// Ref implements table.
func (r restoredTable) Ref() *string {
	return jsii.String(tableStream.FindStringSubmatch(*r.stream)[2])
}

// AttrArn implements table.
func (r restoredTable) AttrArn() *string {
	return jsii.String(tableStream.FindStringSubmatch(*r.stream)[1])
}

// AttrStreamArn implements table.
func (r restoredTable) AttrStreamArn() *string { return r.stream }

// removalPolicy returns the removal policy of resources with data. A protected stage keeps them when an update removes
// them from the stack, and when the stack is deleted. If the creation of a stack fails, they are deleted in any case:
// otherwise the next attempt would fail because their names are in use.
func removalPolicy(s Settings) awscdk.RemovalPolicy {
	if s.Protected {
		return awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
	}
	return awscdk.RemovalPolicy_DESTROY
}

// keyPolicy returns the policy of a KMS key. Its first statement lets the account's own policies grant access to the
// key, as KMS recommends: without it nobody could ever change or delete the key. statements are added to the policy.
func keyPolicy(statements ...any) any {
	return map[string]any{
		"Version": "2012-10-17",
		"Statement": append([]any{map[string]any{
			"Effect": "Allow",
			"Principal": map[string]any{"AWS": awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:iam::${AWS::AccountId}:root"),
				nil)},
			"Action":   "kms:*",
			"Resource": "*",
		}}, statements...),
	}
}

// newTable creates the table with the indexes and keys of store.Schema: a Table, or a GlobalTable if the settings
// request one.
func newTable(scope constructs.Construct, s Settings) tableResource {
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

// newBucket creates the bucket for uploads, sources and artifacts. It
// is private and requires TLS. newUploadTrigger sets its notifications.
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
				ServerSideEncryptionByDefault: &awss3.CfnBucket_ServerSideEncryptionByDefaultProperty{
					SseAlgorithm: jsii.String("AES256"),
				},
			}},
		},
		// With versioning, the truststore keeps its history, and a restored table finds the objects that its records
		// name, even if they were deleted or sealed with another root key later.
		VersioningConfiguration: &awss3.CfnBucket_VersioningConfigurationProperty{Status: jsii.String("Enabled")},
		LifecycleConfiguration:  &awss3.CfnBucket_LifecycleConfigurationProperty{Rules: lifecycle()},
	})
	awss3.NewCfnBucketPolicy(scope, jsii.String("BucketPolicy"), &awss3.CfnBucketPolicyProps{
		Bucket: bucket.Ref(),
		PolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{map[string]any{
				"Sid": "OnlyTLS", "Effect": "Deny", "Principal": "*", "Action": "s3:*",
				"Resource": []any{
					bucket.AttrArn(),
					awscdk.Fn_Join(jsii.String(""), &[]*string{bucket.AttrArn(), jsii.String("/*")}),
				},
				"Condition": map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
			}},
		},
	})
	return bucket
}

// recoveryDays is the number of past days to which the table can be restored, the maximum of DynamoDB. versionDays is
// the number of days for which the bucket keeps old versions of objects, because records of a restored table can refer
// to them. It has one day more, because S3 counts days from midnight.
const (
	recoveryDays = 35
	versionDays  = recoveryDays + 1
)

// lifecycle returns the rules that make S3 delete objects that are no longer needed: uploads after a day (they are
// copied when they are built), and old versions when no restored table can refer to them. The builder deletes each
// upload when it handles the upload's event. The rule for uploads deletes the others: an upload that was repeated, or
// late, or made while the builder failed. A scheduled function would need code, and a grant to list and delete, but S3
// does this daily for free. Emulators do not apply lifecycle rules. Records of uploads expire by the table's ttl.
func lifecycle() *[]any {
	// days is 0 for objects that do not expire.
	rule := func(id, prefix string, days, noncurrentDays float64) any {
		r := &awss3.CfnBucket_RuleProperty{
			Id: &id, Status: jsii.String("Enabled"), Prefix: &prefix,
			NoncurrentVersionExpiration: &awss3.CfnBucket_NoncurrentVersionExpirationProperty{NoncurrentDays: &noncurrentDays},
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
