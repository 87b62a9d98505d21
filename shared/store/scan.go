package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Scanner is the part of *dynamodb.Client that EachItem calls.
type Scanner interface {
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

var _ Scanner = (*dynamodb.Client)(nil)

// EachItem visits all items of a DynamoDB table, those past their ttl too, in no order,
// until an error. Each is read consistently, but not all at one moment: who needs that
// keeps writers away meanwhile. Pages that are throttled or lost are read again; nil for
// pause means Backoff.
//
// It is for who moves an installation. No request scans, and no function's role may.
func EachItem(ctx context.Context, client Scanner, table string, pause Pause, visit func(Item) error) error {
	if pause == nil {
		pause = Backoff
	}
	in := &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)}
	for attempt := 1; ; attempt++ {
		out, err := client.Scan(ctx, in)
		if err != nil {
			err = failure(ctx, err)
			if errors.Is(err, ErrRepeat) && attempt < attempts {
				if pauseErr := pause(ctx, attempt); pauseErr != nil {
					return pauseErr
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
