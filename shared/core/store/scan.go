package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Scanner is the part of *dynamodb.Client that EachItem and DynamoDB.Page call.
type Scanner interface {
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

var _ Scanner = (*dynamodb.Client)(nil)

// EachItem calls visit for all items of a DynamoDB table, in no particular order, until visit returns
// an error. The items include items that are past their ttl. Each item is read consistently, but the
// items are not a snapshot of one moment. A caller that needs a snapshot has to stop all writers.
// A page whose read is throttled or whose reply is lost is read again, up to maxAttempts times in all. If backoff is
// nil, EachItem uses the function Backoff.
//
// EachItem is for moving an installation. No request scans the table.
func EachItem(ctx context.Context, client Scanner, table string, backoff BackoffFunc, visit func(Item) error) error {
	if backoff == nil {
		backoff = Backoff
	}
	in := &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)}
	for attempt := 1; ; attempt++ {
		out, err := client.Scan(ctx, in)
		if err != nil {
			err = failure(ctx, err)
			if errors.Is(err, ErrRetryable) && attempt < maxAttempts {
				if backoffErr := backoff(ctx, attempt); backoffErr != nil {
					return backoffErr
				}
				continue
			}
			return fmt.Errorf("scan the table: %w", err)
		}
		for _, item := range out.Items {
			if err := visit(item); err != nil {
				return err
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey, attempt = out.LastEvaluatedKey, 0
	}
}
