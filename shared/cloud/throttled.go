package cloud

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// countedKMS is KMS whose refusals for too many requests are lines in the log, from which CloudWatch makes a metric: KMS has none of its
// own, and to who asks for something they are one more 5xx.
type countedKMS struct {
	rootkey.Client
	table string
	now   func() time.Time
	log   *slog.Logger
}

// GenerateDataKeyWithoutPlaintext implements rootkey.Client.
func (c countedKMS) GenerateDataKeyWithoutPlaintext(ctx context.Context, in *kms.GenerateDataKeyWithoutPlaintextInput, o ...func(*kms.Options)) (*kms.GenerateDataKeyWithoutPlaintextOutput, error) {
	out, err := c.Client.GenerateDataKeyWithoutPlaintext(ctx, in, o...)
	c.count(ctx, err)
	return out, err
}

// Decrypt implements rootkey.Client.
func (c countedKMS) Decrypt(ctx context.Context, in *kms.DecryptInput, o ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	out, err := c.Client.Decrypt(ctx, in, o...)
	c.count(ctx, err)
	return out, err
}

func (c countedKMS) count(ctx context.Context, err error) {
	if refused, is := errors.AsType[smithy.APIError](err); is && refused.ErrorCode() == "ThrottlingException" {
		c.log.LogAttrs(ctx, slog.LevelError, "KMS refuses the root key: the account asks it for too much",
			slog.String("table", c.table), slog.Int(telemetry.KeyThrottles, 1), telemetry.Count(c.now(), telemetry.KeyThrottles, "table"))
	}
}
