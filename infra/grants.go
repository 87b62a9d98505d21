package main

import (
	"cmp"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/management/api"
)

// grantTarget is a kind of resource that a grant allows access to.
type grantTarget string

const (
	targetTable       grantTarget = "table"
	targetDueIndex    grantTarget = "table/index/due"
	targetRootKey     grantTarget = "root key"
	targetBucket      grantTarget = "bucket"
	targetUploads     grantTarget = "bucket/uploads"
	targetSources     grantTarget = "bucket/sources"
	targetArtifacts   grantTarget = "bucket/artifacts"
	targetTruststores grantTarget = "bucket/truststores"
)

// grant allows one action on one resource.
type grant struct {
	action string
	target grantTarget
}

// grantsOf returns the grants that a use needs. IAM has no action for a transaction: the actions of its parts are
// granted.
func grantsOf(use api.Use) []grant {
	switch use {
	case api.GetItem:
		return []grant{{"dynamodb:GetItem", targetTable}}
	case api.BatchGetItem:
		return []grant{{"dynamodb:BatchGetItem", targetTable}}
	case api.Query:
		return []grant{{"dynamodb:Query", targetTable}}
	case api.QueryDue:
		return []grant{{"dynamodb:Query", targetDueIndex}}
	case api.ScanTable:
		return []grant{{"dynamodb:Scan", targetTable}}
	case api.PutItem:
		return []grant{{"dynamodb:PutItem", targetTable}}
	case api.UpdateItem:
		return []grant{{"dynamodb:UpdateItem", targetTable}}
	case api.DeleteItem:
		return []grant{{"dynamodb:DeleteItem", targetTable}}
	case api.CheckItem:
		return []grant{{"dynamodb:ConditionCheckItem", targetTable}}
	case api.RootKey:
		return []grant{{"kms:Decrypt", targetRootKey}, {"dynamodb:GetItem", targetTable}}
	case api.CreateRootKey:
		return []grant{{"kms:GenerateDataKeyWithoutPlaintext", targetRootKey}, {"dynamodb:PutItem", targetTable}}
	case api.PresignUpload:
		return []grant{{"s3:PutObject", targetUploads}}
	case api.ReadUpload:
		return []grant{{"s3:GetObject", targetUploads}}
	case api.DeleteUpload:
		return []grant{{"s3:DeleteObject", targetUploads}}
	case api.ListObjects:
		return []grant{{"s3:ListBucket", targetBucket}}
	case api.ReadSource:
		return []grant{{"s3:GetObject", targetSources}}
	case api.WriteSource:
		return []grant{{"s3:PutObject", targetSources}}
	case api.DeleteSource:
		return []grant{{"s3:DeleteObject", targetSources}}
	case api.ReadArtifact:
		return []grant{{"s3:GetObject", targetArtifacts}}
	case api.WriteArtifact:
		return []grant{{"s3:PutObject", targetArtifacts}}
	case api.DeleteArtifact:
		return []grant{{"s3:DeleteObject", targetArtifacts}}
	case api.WriteTruststore:
		return []grant{{"s3:PutObject", targetTruststores}}
	case api.DeleteTruststore:
		return []grant{{"s3:DeleteObject", targetTruststores}}
	}
	panic("infra: no grant is known for the use " + string(use))
}

// uniqueGrants returns the grants of all uses, sorted and without duplicates.
func uniqueGrants(uses []api.Use) []grant {
	set := map[grant]bool{}
	for _, use := range uses {
		for _, g := range grantsOf(use) {
			set[g] = true
		}
	}
	return slices.SortedFunc(maps.Keys(set), func(a, b grant) int {
		return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.action, b.action))
	})
}

// policyStatements returns the statements of grants, which must be sorted by target: one for each target, and for the
// table one for each kind of call, limited to access. It panics instead of allowing all items if a grant on items has
// no key prefixes in access.
func (d data) policyStatements(grants []grant, access store.TableAccess) []any {
	var out []any
	for i := 0; i < len(grants); {
		target := grants[i].target
		var actions []any
		for ; i < len(grants) && grants[i].target == target; i++ {
			actions = append(actions, grants[i].action)
		}
		if target == targetTable {
			out = append(out, tableStatements(actions, access, d.arn(target))...)
			continue
		}
		statement := allow(actions, d.arn(target))
		if target == targetRootKey {
			statement["Condition"] = map[string]any{"StringEquals": encryptionContextValues()}
		}
		out = append(out, statement)
	}
	return out
}

// encryptionContextValues returns the values of a condition that limits uses of the KMS key to the root key: a
// statement with this condition does not allow the decryption of anything else that is encrypted under the KMS key.
func encryptionContextValues() map[string]any {
	out := map[string]any{}
	for name, value := range rootkey.EncryptionContext() {
		out["kms:EncryptionContext:"+name] = value
	}
	return out
}

// allow returns a statement that allows actions on resources.
func allow(actions []any, resources ...any) map[string]any {
	return map[string]any{"Effect": "Allow", "Action": actions, "Resource": resources}
}

// arn returns the ARN of a target.
func (d data) arn(target grantTarget) any {
	withSuffix := func(base *string, suffix string) *string {
		return awscdk.Fn_Join(jsii.String(""), &[]*string{base, jsii.String(suffix)})
	}
	switch target {
	case targetTable:
		return d.table.AttrArn()
	case targetDueIndex:
		return withSuffix(d.table.AttrArn(), "/index/"+string(store.DueIndex))
	case targetRootKey:
		return d.key.AttrArn()
	case targetBucket:
		return d.bucketARN
	case targetUploads:
		return withSuffix(d.bucketARN, "/"+blob.UploadKey("")+"*")
	case targetSources:
		return withSuffix(d.bucketARN, "/"+blob.SourceKey("")+"*")
	case targetArtifacts:
		return withSuffix(d.bucketARN, "/"+blob.ArtifactKey("")+"*")
	case targetTruststores:
		return withSuffix(d.bucketARN, "/"+blob.TruststoreKey("")+"*")
	}
	panic("infra: no resource is known for " + string(target))
}
