package api

import (
	"context"
	"errors"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// state is what is known of the running request, for its problem, its audit
// record and its line in the log.
type state struct {
	requestID string
	path      string // as the client wrote it, without the query, up to maxPathBytes
	start     time.Time
	meter     store.Meter

	span      telemetry.Span
	coldStart bool   // the first request of its process
	operation string // its id, "" until a route matched
	route     string // its path as declared, "" until then
	principal *auth.Principal
	change    *audit.Request // what a refusal is recorded as, nil for reads
	problem   *Problem       // what was answered, nil for a success
}

type stateKey struct{}

func stateOf(ctx context.Context) *state {
	s, _ := ctx.Value(stateKey{}).(*state)
	return s
}

func setProblem(ctx context.Context, p *Problem) {
	if s := stateOf(ctx); s != nil {
		s.problem = p
	}
}

// faultIn finds the fault in an error's chain, nil for none.
func faultIn(err error) *fault.Fault {
	f, _ := errors.AsType[*fault.Fault](err)
	return f
}
