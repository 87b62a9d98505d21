// Package probe lets a function that events call prove that it can work, without an event that asks for work. A release calls each
// new version of such a function once with Event before the version gets traffic (functions/releasecheck). The answer shows that the
// process has started, that it has read its configuration, and that it can read the table.
//
// What it is not: for functions behind API Gateway, which have requests that do nothing.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/shared/store"
)

const (
	// Event is the event. No service of AWS sends it.
	Event = `{"probe":true}`
	// Answer is what a function returns if it can work.
	Answer = `{"probe":"ok"}`
	// maxEventBytes bounds the payloads that are decoded to find the event: batches of the table's stream have megabytes.
	maxEventBytes = 64
)

// Handler returns a handler that answers Event after check, and passes every other event to next, as lambda.NewHandler takes it. An
// error of check is the answer to Event. check must have no effects.
func Handler(next any, check func(context.Context) error) lambda.Handler {
	return &handler{lambda.NewHandler(next), check}
}

type handler struct {
	lambda.Handler
	check func(context.Context) error
}

// Invoke implements lambda.Handler.
func (h *handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if !isEvent(payload) {
		return h.Handler.Invoke(ctx, payload)
	}
	if err := h.check(ctx); err != nil {
		return nil, fmt.Errorf("answer a probe: %w", err)
	}
	return []byte(Answer), nil
}

func isEvent(payload []byte) bool {
	if len(payload) > maxEventBytes {
		return false
	}
	var in struct{ Probe bool }
	return json.Unmarshal(payload, &in) == nil && in.Probe
}

// Reads returns a check that reads an item that does not exist, in the first space that a function may read. It panics if the function
// may read none.
func Reads(t *store.Table, r store.Reach) func(context.Context) error {
	key := r.Reads[0].Key("probe")
	return func(ctx context.Context) error {
		var none struct{}
		if err := t.Get(ctx, key, &none); err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("read the table: %w", err)
		}
		return nil
	}
}
