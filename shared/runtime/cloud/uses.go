package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Use is an action of a function on a resource, in the terms of IAM. A transaction has one use
// for each of its writes and checks. A presigned request is a use even if no client sends it.
type Use struct {
	Function string `json:"function"`
	Action   string `json:"action"`
	// Resource is the last part of an ARN: table/NAME, table/NAME/index/NAME, BUCKET, or BUCKET/KEY. For KMS, it is the
	// key as the request names it.
	Resource string `json:"resource"`
	// KeyPrefix is the key prefix of the partition that a request to the table
	// names. It is "" for requests to an index. Roles restrict access by key prefix.
	KeyPrefix store.KeyPrefix `json:"space,omitempty"`
}

// recorder appends uses to the file that config.VarUsesFile names, as JSON lines, each use once per process. No
// emulator enforces the permissions of a role, so a test compares the recorded uses with the role's permissions
// (docs/decisions/0018-grants-are-compared-with-use.md).
type recorder struct {
	path, function string

	mu       sync.Mutex
	recorded map[Use]bool
}

// record makes every client that uses the configuration record its requests before it sends them.
func (r *recorder) record(c *aws.Config) {
	c.APIOptions = append(c.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("RecordUses",
			func(ctx context.Context, in middleware.InitializeInput,
				next middleware.InitializeHandler,
			) (middleware.InitializeOutput, middleware.Metadata, error) {
				for _, u := range usesOf(in.Parameters) {
					if err := r.add(u); err != nil {
						return middleware.InitializeOutput{}, middleware.Metadata{}, err
					}
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.After)
	})
}

// add appends a use that is new to this process. If add returns an error, the request
// fails. Otherwise the test would report a permission as unused although it is used.
func (r *recorder) add(u Use) error {
	u.Function = r.function
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recorded[u] {
		return nil
	}
	line, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("record a use: %w", err)
	}
	// Append each line with one write, because several processes share the file.
	file, err := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("record a use: %w", err)
	}
	_, err = file.Write(append(line, '\n'))
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("record a use: %w", err)
	}
	r.recorded[u] = true
	return nil
}

// usesOf returns the permissions that a request needs. For an unknown request
// it returns the request's Go type as the action, which no role grants.
func usesOf(input any) []Use {
	partitionUse := func(action string, name *string, partition string) Use {
		return Use{
			Action: "dynamodb:" + action, Resource: "table/" + aws.ToString(name),
			KeyPrefix: store.KeyPrefixOf(partition),
		}
	}
	itemUse := func(action string, name *string, item store.Item) Use {
		return partitionUse(action, name, store.KeyOf(item).PK)
	}
	objectUses := func(action string, bucket, key *string) []Use {
		return []Use{{Action: "s3:" + action, Resource: aws.ToString(bucket) + "/" + aws.ToString(key)}}
	}
	switch in := input.(type) {
	case *dynamodb.GetItemInput:
		return []Use{itemUse("GetItem", in.TableName, in.Key)}
	case *dynamodb.QueryInput:
		u := partitionUse("Query", in.TableName, partitionOf(in))
		if in.IndexName != nil { // for IAM, an index is a resource of its own
			u.Resource, u.KeyPrefix = u.Resource+"/index/"+*in.IndexName, ""
		}
		return []Use{u}
	case *dynamodb.PutItemInput:
		return []Use{itemUse("PutItem", in.TableName, in.Item)}
	case *dynamodb.UpdateItemInput:
		return []Use{itemUse("UpdateItem", in.TableName, in.Key)}
	case *dynamodb.DeleteItemInput:
		return []Use{itemUse("DeleteItem", in.TableName, in.Key)}
	case *dynamodb.BatchGetItemInput:
		var out []Use
		for name, request := range in.RequestItems {
			for _, key := range request.Keys {
				out = append(out, itemUse("BatchGetItem", &name, key))
			}
		}
		return out
	case *dynamodb.TransactWriteItemsInput:
		var out []Use
		for _, item := range in.TransactItems {
			switch {
			case item.Put != nil:
				out = append(out, itemUse("PutItem", item.Put.TableName, item.Put.Item))
			case item.Update != nil:
				out = append(out, itemUse("UpdateItem", item.Update.TableName, item.Update.Key))
			case item.Delete != nil:
				out = append(out, itemUse("DeleteItem", item.Delete.TableName, item.Delete.Key))
			case item.ConditionCheck != nil:
				out = append(out, itemUse("ConditionCheckItem", item.ConditionCheck.TableName, item.ConditionCheck.Key))
			}
		}
		return out
	case *s3.PutObjectInput:
		return objectUses("PutObject", in.Bucket, in.Key)
	case *s3.DeleteObjectInput:
		return objectUses("DeleteObject", in.Bucket, in.Key)
	case *s3.GetObjectInput:
		if in.VersionId != nil {
			return objectUses("GetObjectVersion", in.Bucket, in.Key)
		}
		return objectUses("GetObject", in.Bucket, in.Key)
	case *s3.HeadObjectInput:
		// IAM has no action HeadObject. Without the permission to list, S3 reports a missing object as forbidden.
		return append(objectUses("GetObject", in.Bucket, in.Key),
			Use{Action: "s3:ListBucket", Resource: aws.ToString(in.Bucket)})
	case *s3.ListObjectsV2Input:
		return []Use{{Action: "s3:ListBucket", Resource: aws.ToString(in.Bucket)}}
	case *kms.DecryptInput:
		return []Use{{Action: "kms:Decrypt", Resource: aws.ToString(in.KeyId)}}
	case *kms.GenerateDataKeyWithoutPlaintextInput:
		return []Use{{Action: "kms:GenerateDataKeyWithoutPlaintext", Resource: aws.ToString(in.KeyId)}}
	}
	return []Use{{Action: fmt.Sprintf("%T", input)}}
}

// partitionOf returns the partition of a query, which is the first part of its condition (package store).
func partitionOf(in *dynamodb.QueryInput) string {
	_, rest, _ := strings.Cut(aws.ToString(in.KeyConditionExpression), " = ")
	placeholder, _, _ := strings.Cut(rest, " ")
	text, ok := in.ExpressionAttributeValues[placeholder].(*types.AttributeValueMemberS)
	if !ok {
		return "" // without a key prefix, so no role grants it
	}
	return text.Value
}
