package cloud

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// countedKMS is a KMS client that logs each throttled request. CloudWatch makes a metric from these lines, because
// KMS has no metric for throttled requests, and the API's metrics do not distinguish them from other 5xx responses.
type countedKMS struct {
	rootkey.Client
	table string
	now   func() time.Time
	log   *slog.Logger
}

// GenerateDataKeyWithoutPlaintext implements rootkey.Client.
func (c countedKMS) GenerateDataKeyWithoutPlaintext(
	ctx context.Context, in *kms.GenerateDataKeyWithoutPlaintextInput, o ...func(*kms.Options),
) (*kms.GenerateDataKeyWithoutPlaintextOutput, error) {
	out, err := c.Client.GenerateDataKeyWithoutPlaintext(ctx, in, o...)
	c.count(ctx, err)
	return out, err
}

// Decrypt implements rootkey.Client.
func (c countedKMS) Decrypt(
	ctx context.Context, in *kms.DecryptInput, o ...func(*kms.Options),
) (*kms.DecryptOutput, error) {
	out, err := c.Client.Decrypt(ctx, in, o...)
	c.count(ctx, err)
	return out, err
}

func (c countedKMS) count(ctx context.Context, err error) {
	if apiErr, ok := errors.AsType[smithy.APIError](err); ok && apiErr.ErrorCode() == "ThrottlingException" {
		c.log.LogAttrs(ctx, slog.LevelError, "KMS refuses the root key: the account asks it for too much",
			slog.String("table", c.table), slog.Int(telemetry.KeyThrottles, 1),
			telemetry.Count(c.now(), telemetry.KeyThrottles, "table"))
	}
}
