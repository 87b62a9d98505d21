package cloud

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"

	"github.com/gatewright/gatewright/shared/base/dryrun"
)

// refuseInDryRun makes every client that uses the configuration refuse requests in a dry run, except
// requests that are known to be read-only. So requests to a service that is added later are refused too.
func refuseInDryRun(c *aws.Config) {
	c.APIOptions = append(c.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("RefuseInDryRun",
			func(ctx context.Context, in middleware.InitializeInput,
				next middleware.InitializeHandler,
			) (middleware.InitializeOutput, middleware.Metadata, error) {
				if !isReadOnly(in.Parameters) {
					if err := dryrun.Refuse(ctx, fmt.Sprintf("%T", in.Parameters)); err != nil {
						return middleware.InitializeOutput{}, middleware.Metadata{}, err
					}
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
	})
}

// isReadOnly reports whether a request is known to change nothing.
func isReadOnly(input any) bool {
	switch input.(type) {
	case *dynamodb.GetItemInput, *dynamodb.BatchGetItemInput, *dynamodb.QueryInput,
		*s3.GetObjectInput, *s3.HeadObjectInput, *s3.ListObjectsV2Input, *kms.DecryptInput:
		return true
	}
	return false
}
