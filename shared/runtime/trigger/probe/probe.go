// Package probe checks a function that is called by events, without an event that causes work. A release calls each new
// version of such a function once with Event before the version gets traffic (functions/releasecheck). The response
// proves that the process has started, has read its configuration, and can read the table.
//
// The package is not for functions behind API Gateway: they can be checked with a request without effects.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// Event is the event of a probe. No service of AWS sends it.
	Event = `{"probe":true}`
	// Response is the response of a function that works.
	Response = `{"probe":"ok"}`
	// maxEventBytes is the maximum size of a payload that is decoded to check whether it
	// is Event. Batches of the table's stream have megabytes, and are not decoded here.
	maxEventBytes = 64
)

// Handler returns a handler that calls check and responds when it receives Event. It passes every other event to next,
// which is a handler for lambda.NewHandler. If check returns an error, the response to Event is that error. check must
// have no effects.
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
	return []byte(Response), nil
}

func isEvent(payload []byte) bool {
	if len(payload) > maxEventBytes {
		return false
	}
	var in struct{ Probe bool }
	return json.Unmarshal(payload, &in) == nil && in.Probe
}

// TableCheck returns a check that reads an item that does not exist, under the first key
// prefix that the function may read. It panics if the function may not read any key prefix.
func TableCheck(t *store.Table, access store.TableAccess) func(context.Context) error {
	key := access.Reads[0].Key("probe")
	return func(ctx context.Context) error {
		var item struct{}
		if err := t.Get(ctx, key, &item); err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("read the table: %w", err)
		}
		return nil
	}
}
