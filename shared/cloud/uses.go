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

	"github.com/gatewright/gatewright/shared/store"
)

// Use is an action of a function on a resource, as IAM has them: a transaction
// is its parts, and a presigned request is one that is made.
type Use struct {
	Function string `json:"function"`
	Action   string `json:"action"`
	// Resource is the last part of an ARN: table/NAME, table/NAME/index/NAME,
	// BUCKET, BUCKET/KEY, or the id of a key.
	Resource string `json:"resource"`
	// Space is that of the partition which a request to the table itself names, as roles are held to spaces.
	Space store.Space `json:"space,omitempty"`
}

// recorder appends uses to the file that config.VarUsesFile names, each as a JSON
// line, once a process. No emulator enforces what a role allows, so that a test
// compares the two instead (docs/decisions/0018-grants-are-compared-with-use.md).
type recorder struct {
	path, function string

	mu   sync.Mutex
	seen map[Use]bool
}

// record has every client made of a configuration tell the recorder of its
// requests before they are made.
func (r *recorder) record(c *aws.Config) {
	c.APIOptions = append(c.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("RecordUses",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				for _, u := range usesOf(in.Parameters) {
					if err := r.add(u); err != nil {
						return middleware.InitializeOutput{}, middleware.Metadata{}, err
					}
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.After)
	})
}

// add appends a use that is new to this process. A use that cannot be recorded
// fails its request: what a test has not seen must not look unused.
func (r *recorder) add(u Use) error {
	u.Function = r.function
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[u] {
		return nil
	}
	line, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("record a use: %w", err)
	}
	// One write of a line at the end: several processes share the file.
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
	r.seen[u] = true
	return nil
}

// usesOf returns what a request needs to be allowed. One that is not known here
// is named by its Go type, which no role grants.
func usesOf(input any) []Use {
	partition := func(action string, name *string, partition string) Use {
		return Use{Action: "dynamodb:" + action, Resource: "table/" + aws.ToString(name), Space: store.SpaceOf(partition)}
	}
	table := func(action string, name *string, item store.Item) Use {
		return partition(action, name, store.KeyOf(item).PK)
	}
	object := func(action string, bucket, key *string) []Use {
		return []Use{{Action: "s3:" + action, Resource: aws.ToString(bucket) + "/" + aws.ToString(key)}}
	}
	switch in := input.(type) {
	case *dynamodb.GetItemInput:
		return []Use{table("GetItem", in.TableName, in.Key)}
	case *dynamodb.QueryInput:
		u := partition("Query", in.TableName, partitionOf(in))
		if in.IndexName != nil { // which a role grants as a resource of its own
			u.Resource, u.Space = u.Resource+"/index/"+*in.IndexName, ""
		}
		return []Use{u}
	case *dynamodb.PutItemInput:
		return []Use{table("PutItem", in.TableName, in.Item)}
	case *dynamodb.UpdateItemInput:
		return []Use{table("UpdateItem", in.TableName, in.Key)}
	case *dynamodb.DeleteItemInput:
		return []Use{table("DeleteItem", in.TableName, in.Key)}
	case *dynamodb.BatchGetItemInput:
		var out []Use
		for name, of := range in.RequestItems {
			for _, key := range of.Keys {
				out = append(out, table("BatchGetItem", &name, key))
			}
		}
		return out
	case *dynamodb.TransactWriteItemsInput:
		var out []Use
		for _, item := range in.TransactItems {
			switch {
			case item.Put != nil:
				out = append(out, table("PutItem", item.Put.TableName, item.Put.Item))
			case item.Update != nil:
				out = append(out, table("UpdateItem", item.Update.TableName, item.Update.Key))
			case item.Delete != nil:
				out = append(out, table("DeleteItem", item.Delete.TableName, item.Delete.Key))
			case item.ConditionCheck != nil:
				out = append(out, table("ConditionCheckItem", item.ConditionCheck.TableName, item.ConditionCheck.Key))
			}
		}
		return out
	case *s3.PutObjectInput:
		return object("PutObject", in.Bucket, in.Key)
	case *s3.DeleteObjectInput:
		return object("DeleteObject", in.Bucket, in.Key)
	case *s3.GetObjectInput:
		if in.VersionId != nil {
			return object("GetObjectVersion", in.Bucket, in.Key)
		}
		return object("GetObject", in.Bucket, in.Key)
	case *s3.HeadObjectInput:
		// IAM knows no other action, and tells who may not list that what is
		// absent is forbidden.
		return append(object("GetObject", in.Bucket, in.Key), Use{Action: "s3:ListBucket", Resource: aws.ToString(in.Bucket)})
	case *s3.ListObjectsV2Input:
		return []Use{{Action: "s3:ListBucket", Resource: aws.ToString(in.Bucket)}}
	case *kms.DecryptInput:
		return []Use{{Action: "kms:Decrypt", Resource: aws.ToString(in.KeyId)}}
	case *kms.GenerateDataKeyWithoutPlaintextInput:
		return []Use{{Action: "kms:GenerateDataKeyWithoutPlaintext", Resource: aws.ToString(in.KeyId)}}
	}
	return []Use{{Action: fmt.Sprintf("%T", input)}}
}

// partitionOf is the partition that a query names: its condition begins with it (store).
func partitionOf(in *dynamodb.QueryInput) string {
	_, rest, _ := strings.Cut(aws.ToString(in.KeyConditionExpression), " = ")
	placeholder, _, _ := strings.Cut(rest, " ")
	text, ok := in.ExpressionAttributeValues[placeholder].(*types.AttributeValueMemberS)
	if !ok {
		return "" // of no space, which no role grants
	}
	return text.Value
}
