package triggers

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

// TableStream is the stream of a DynamoDB table.
type TableStream struct {
	*dynamodbstreams.Client
	tables *dynamodb.Client
	table  string
}

var _ Stream = (*TableStream)(nil)

// NewTableStream names the stream of a table at endpoint, "" for AWS.
func NewTableStream(config aws.Config, endpoint, table string) *TableStream {
	s := &TableStream{table: table}
	s.tables = dynamodb.NewFromConfig(config, func(o *dynamodb.Options) {
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
	s.Client = dynamodbstreams.NewFromConfig(config, func(o *dynamodbstreams.Options) {
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
	return s
}

// ARN implements Stream.
func (s *TableStream) ARN(ctx context.Context) (string, error) {
	out, err := s.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table})
	if err != nil {
		return "", fmt.Errorf("describe the table: %w", err)
	}
	if out.Table == nil || out.Table.LatestStreamArn == nil {
		return "", errors.New("the table has no stream")
	}
	return *out.Table.LatestStreamArn, nil
}
