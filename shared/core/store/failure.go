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

// failure translates the error of a call for the Table. It returns a *ConditionError if a condition was false. It
// returns err itself if the database refused the call and would refuse a repeat. Every other error wraps ErrRetryable,
// ErrOutcomeUnknown or both. An error that is not known to be a refusal always wraps ErrOutcomeUnknown.
func failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w (%w)", ErrOutcomeUnknown, context.Cause(ctx), err)
	}
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return cancellationError(canceled)
	}
	switch {
	case code(err) == "TransactionInProgressException", outcomeUnknown(err):
		return fmt.Errorf("%w: %w: %w", ErrRetryable, ErrOutcomeUnknown, err)
	case code(err) == "TransactionConflictException", throttles.IsErrorThrottle(err) == aws.TrueTernary:
		return fmt.Errorf("%w: %w", ErrRetryable, err)
	case refused(err):
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

// refused reports whether the database rejected the call with an error of the client (4xx), such as an invalid request.
func refused(err error) bool {
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorFault() == smithy.FaultClient {
		return true
	}
	r, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return ok && r.HTTPStatusCode() >= 400 && r.HTTPStatusCode() < 500
}

// throttles recognizes the error codes that AWS uses for throttling. They include TransactionInProgressException: a
// transaction with the same token is still in progress. Its outcome is unknown, so check for this code first.
var throttles = retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}

// cancellationError translates the cancellation reasons (one for each write, in order) into the error that a
// Table expects. A false condition has priority over all other reasons: it was false no matter what happened to
// the other items.
func cancellationError(err *types.TransactionCanceledException) error {
	var failed []int
	retryable := false
	for i, reason := range err.CancellationReasons {
		switch aws.ToString(reason.Code) {
		case "ConditionalCheckFailed":
			failed = append(failed, i)
		case "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded":
			retryable = true
		}
	}
	switch {
	case failed != nil:
		return &ConditionError{Failed: failed}
	case retryable:
		return fmt.Errorf("%w: %w", ErrRetryable, err)
	}
	return err
}

// outcomeUnknown reports whether the database may have executed the call although it returned no result: after a broken
// connection, a 5xx or an incomplete response.
func outcomeUnknown(err error) bool {
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
	return connectionErrors.IsErrorRetryable(err) == aws.TrueTernary
}

var connectionErrors retry.RetryableConnectionError

// code returns the error code of the AWS API, "" if err is not an error of the API.
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}
