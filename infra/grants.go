package main

import (
	"cmp"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// place is a resource that grants are for.
type place string

const (
	theTable    place = "table"
	theDueIndex place = "table/index/due"
	theRootKey  place = "root key"
	theBucket   place = "bucket"
	theUploads  place = "bucket/uploads"
	theSources  place = "bucket/sources"
	theResults  place = "bucket/artifacts"
	theTrust    place = "bucket/truststores"
)

// grant is one action on one resource.
type grant struct {
	action string
	on     place
}

// grantsOf is the one place that says which actions a use needs. A transaction
// has no action of its own: its parts are granted.
func grantsOf(use api.Use) []grant {
	switch use {
	case api.GetItem:
		return []grant{{"dynamodb:GetItem", theTable}}
	case api.BatchGetItem:
		return []grant{{"dynamodb:BatchGetItem", theTable}}
	case api.Query:
		return []grant{{"dynamodb:Query", theTable}}
	case api.QueryDue:
		return []grant{{"dynamodb:Query", theDueIndex}}
	case api.ScanTable:
		return []grant{{"dynamodb:Scan", theTable}}
	case api.PutItem:
		return []grant{{"dynamodb:PutItem", theTable}}
	case api.UpdateItem:
		return []grant{{"dynamodb:UpdateItem", theTable}}
	case api.DeleteItem:
		return []grant{{"dynamodb:DeleteItem", theTable}}
	case api.CheckItem:
		return []grant{{"dynamodb:ConditionCheckItem", theTable}}
	case api.RootKey:
		return []grant{{"kms:Decrypt", theRootKey}, {"dynamodb:GetItem", theTable}}
	case api.MakeRootKey:
		return []grant{{"kms:GenerateDataKeyWithoutPlaintext", theRootKey}, {"dynamodb:PutItem", theTable}}
	case api.PresignUpload:
		return []grant{{"s3:PutObject", theUploads}}
	case api.ReadUpload:
		return []grant{{"s3:GetObject", theUploads}}
	case api.DeleteUpload:
		return []grant{{"s3:DeleteObject", theUploads}}
	case api.ListObjects:
		return []grant{{"s3:ListBucket", theBucket}}
	case api.ReadSource:
		return []grant{{"s3:GetObject", theSources}}
	case api.WriteSource:
		return []grant{{"s3:PutObject", theSources}}
	case api.DeleteSource:
		return []grant{{"s3:DeleteObject", theSources}}
	case api.ReadArtifact:
		return []grant{{"s3:GetObject", theResults}}
	case api.WriteArtifact:
		return []grant{{"s3:PutObject", theResults}}
	case api.DeleteArtifact:
		return []grant{{"s3:DeleteObject", theResults}}
	case api.WriteTruststore:
		return []grant{{"s3:PutObject", theTrust}}
	case api.DeleteTruststore:
		return []grant{{"s3:DeleteObject", theTrust}}
	}
	panic("infra: no grant is known for the use " + string(use))
}

// union returns the grants of uses, each once, sorted.
func union(uses []api.Use) []grant {
	set := map[grant]bool{}
	for _, use := range uses {
		for _, g := range grantsOf(use) {
			set[g] = true
		}
	}
	return slices.SortedFunc(maps.Keys(set), func(a, b grant) int {
		return cmp.Or(cmp.Compare(a.on, b.on), cmp.Compare(a.action, b.action))
	})
}

// policy returns the statements of grants, one for each resource, and of the table one for each kind of call, held to
// a reach: nothing is granted all items that lists no space.
func (d data) policy(grants []grant, reach store.Reach) []any {
	var out []any
	for i := 0; i < len(grants); {
		on := grants[i].on
		var actions []any
		for ; i < len(grants) && grants[i].on == on; i++ {
			actions = append(actions, grants[i].action)
		}
		if on == theTable {
			out = append(out, within(actions, reach, d.arn(on))...)
			continue
		}
		statement := allow(actions, d.arn(on))
		if on == theRootKey {
			statement["Condition"] = map[string]any{"StringEquals": encryptionContext()}
		}
		out = append(out, statement)
	}
	return out
}

// encryptionContext returns the condition of a statement that allows uses of the KMS key for the root key alone, and not for anything else that is
// encrypted under it.
func encryptionContext() map[string]any {
	out := map[string]any{}
	for name, value := range rootkey.Purpose() {
		out["kms:EncryptionContext:"+name] = value
	}
	return out
}

func allow(actions []any, resource ...any) map[string]any {
	return map[string]any{"Effect": "Allow", "Action": actions, "Resource": resource}
}

// arn spells the resource that a place is.
func (d data) arn(p place) any {
	below := func(base *string, suffix string) *string {
		return awscdk.Fn_Join(jsii.String(""), &[]*string{base, jsii.String(suffix)})
	}
	switch p {
	case theTable:
		return d.table.AttrArn()
	case theDueIndex:
		return below(d.table.AttrArn(), "/index/"+string(store.DueIndex))
	case theRootKey:
		return d.key.AttrArn()
	case theBucket:
		return d.bucketARN
	case theUploads:
		return below(d.bucketARN, "/"+blob.UploadKey("")+"*")
	case theSources:
		return below(d.bucketARN, "/"+blob.SourceKey("")+"*")
	case theResults:
		return below(d.bucketARN, "/"+blob.ArtifactKey("")+"*")
	case theTrust:
		return below(d.bucketARN, "/"+blob.TruststoreKey("")+"*")
	}
	panic("infra: no resource is known for " + string(p))
}
