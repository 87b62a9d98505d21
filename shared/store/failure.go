package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// failure names a failed call for the Table: *ConditionError, something that
// wraps ErrRepeat, ErrLost or both, or err itself where the call was refused and
// a repeat would be too. What is not known to be a refusal is ErrLost.
func failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w (%w)", ErrLost, context.Cause(ctx), err)
	}
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return cancellation(canceled)
	}
	switch {
	case code(err) == "TransactionInProgressException", lost(err):
		return fmt.Errorf("%w: %w: %w", ErrRepeat, ErrLost, err)
	case code(err) == "TransactionConflictException", throttles.IsErrorThrottle(err) == aws.TrueTernary:
		return fmt.Errorf("%w: %w", ErrRepeat, err)
	case refused(err):
		return err
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// refused reports whether the database has said that it takes no such call.
func refused(err error) bool {
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorFault() == smithy.FaultClient {
		return true
	}
	r, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return ok && r.HTTPStatusCode() >= 400 && r.HTTPStatusCode() < 500
}

// throttles knows the codes by which AWS says "later". It has that of a
// transaction that is still at work under the same token, too, which is no refusal.
var throttles = retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}

// cancellation turns the reasons, one for each write in order, into what a
// Table asks for. A false condition outranks all else: it was false whatever
// happened to the other items.
func cancellation(err *types.TransactionCanceledException) error {
	var failed []int
	again := false
	for i, reason := range err.CancellationReasons {
		switch aws.ToString(reason.Code) {
		case "ConditionalCheckFailed":
			failed = append(failed, i)
		case "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
			again = true
		}
	}
	switch {
	case failed != nil:
		return &ConditionError{Failed: failed}
	case again:
		return fmt.Errorf("%w: %w", ErrRepeat, err)
	}
	return err
}

// lost reports whether the call may have reached the database while its answer
// did not reach us: a broken connection, a 5xx, half an answer.
func lost(err error) bool {
	if _, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*smithy.DeserializationError](err); ok {
		return true
	}
	if r, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && r.HTTPStatusCode() >= 500 {
		return true
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorFault() == smithy.FaultServer {
		return true
	}
	return connection.IsErrorRetryable(err) == aws.TrueTernary
}

var connection retry.RetryableConnectionError

// code gives the name of a modelled error, "" for none.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}
