package policy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/celexpr"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

// maxExpressionBody is the maximum size in bytes of a body that an expression uses, before and after it is decompressed.
const maxExpressionBody = 1 << 20

// compileWhen compiles the condition of a policy of the kind k. It returns what is wrong with the condition, or "".
func compileWhen(p project.Policy, k kind) (c *celexpr.Condition, problem string) {
	if k.unconditional {
		return nil, k.whenProblem
	}
	stage := celexpr.OnRequest
	if k.direction == Outbound {
		stage = celexpr.OnResponse
	}
	c, err := celexpr.CompileCondition(p.When, stage)
	switch {
	case err != nil:
		return nil, strings.ReplaceAll(fmt.Sprintf("Correct this expression: %v.", err), "?.", "?")
	case k.whenProblem != "" && c.UsesResponse():
		return nil, k.whenProblem
	}
	return c, ""
}

// UsedVariables returns the names of the variables that the condition of a policy uses. A policy whose condition has
// problems uses none.
func UsedVariables(p project.Policy) []string {
	if p.When == "" {
		return nil
	}
	c, problem := compileWhen(p, builtins()[p.Type])
	if problem != "" {
		return nil
	}
	return c.EnvNames()
}

// readsBody reports whether the condition of an inbound policy uses the body of the request.
func readsBody(p project.Policy) bool {
	if !strings.Contains(p.When, "body") { // compiling takes longer
		return false
	}
	c, problem := compileWhen(p, builtins()[p.Type])
	return problem == "" && c.UsesBody()
}

// condition decides whether a policy applies to an exchange.
type condition struct {
	*celexpr.Condition
	policy string
	setup  *Setup
}

// conditional returns a policy that runs only for the exchanges for which c is true.
func conditional(name string, p Provisioned, c *celexpr.Condition, s *Setup) Provisioned {
	when := &condition{c.WithEnv(s.Variables), name, s}
	if p.Inbound != nil {
		return Provisioned{Inbound: &conditionalInbound{when, p.Inbound}}
	}
	out := &conditionalOutbound{when, p.Outbound}
	if preparer, ok := p.Outbound.(pipeline.Preparer); ok {
		return Provisioned{Outbound: &conditionalPreparer{out, preparer}}
	}
	return Provisioned{Outbound: out}
}

// applies evaluates the condition. If that fails, it logs the reason without values, and returns true: a policy that
// protects a route must not be skipped because of a request that its condition does not expect.
func (c *condition) applies(in celexpr.Input) bool {
	result, err := c.Eval(in)
	if err == nil {
		return result
	}
	c.logFailure(in.Exchange, err)
	return true
}

func (c *condition) logFailure(x *pipeline.Exchange, err error) {
	if c.setup.Log == nil {
		return
	}
	reason := "no result for this request"
	switch {
	case errors.Is(err, celexpr.ErrCost):
		reason = "more work than an expression may take"
	case errors.Is(err, celexpr.ErrBody):
		reason = "the body is not readable"
	}
	operation := ""
	if x.Route != nil {
		operation = x.Route.Info.OperationID
	}
	c.setup.Log.LogAttrs(x.Context, slog.LevelWarn, "condition of a policy failed, so the policy runs",
		slog.String("requestId", x.RequestID), slog.String("deployment", c.setup.Identity.Deployment),
		slog.String("operation", operation), slog.String("policy", c.policy), slog.String("reason", reason))
}

// conditionalInbound is an inbound policy with a condition.
type conditionalInbound struct {
	*condition
	inner pipeline.Inbound
}

var _ pipeline.Inbound = (*conditionalInbound)(nil)

// Inbound runs the policy if the condition is true. A body that is too large for the expression is refused.
func (p *conditionalInbound) Inbound(x *pipeline.Exchange) *http.Response {
	var applies bool
	if p.UsesBody() {
		var refusal *http.Response
		if applies, refusal = p.appliesToBody(x); refusal != nil {
			return refusal
		}
	} else {
		applies = p.applies(celexpr.Input{Exchange: x})
	}
	if !applies {
		return nil
	}
	return p.inner.Inbound(x)
}

// appliesToBody evaluates a condition that uses the body. The refusal is nil unless the body could not be read.
func (p *conditionalInbound) appliesToBody(x *pipeline.Exchange) (applies bool, refusal *http.Response) {
	raw, whole, refusal := x.ReadBody(maxExpressionBody, false)
	if refusal != nil {
		return false, refusal
	}
	if !whole {
		return false, x.Problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("Send a body of at most %d bytes: the "+
			"gateway has to read it.", maxExpressionBody))
	}
	body, err := decodeBody(x.Context, x.Header["Content-Encoding"], raw, maxExpressionBody)
	if err != nil {
		p.logFailure(x, celexpr.ErrBody)
		return true, nil
	}
	release, err := checkSlots{p.setup.CheckSlots}.acquire(x.Context, len(body))
	if err != nil {
		x.Cause = fmt.Errorf("wait to read a body: %w", err)
		return false, x.Problem(http.StatusServiceUnavailable, "The request ended before its body could be read. Send it "+
			"again.")
	}
	defer release()
	return p.applies(celexpr.Input{Exchange: x, Body: body}), nil
}

// conditionalOutbound is an outbound policy with a condition.
type conditionalOutbound struct {
	*condition
	inner pipeline.Outbound
}

var _ pipeline.Outbound = (*conditionalOutbound)(nil)

// Outbound runs the policy if the condition is true.
func (p *conditionalOutbound) Outbound(x *pipeline.Exchange, r *http.Response) *http.Response {
	applies, decided := x.Decision(p)
	if !decided {
		applies = p.applies(celexpr.Input{Exchange: x, Response: r})
	}
	if !applies {
		return r
	}
	return p.inner.Outbound(x, r)
}

// conditionalPreparer is an outbound policy with a condition that also sees the request.
type conditionalPreparer struct {
	*conditionalOutbound
	preparer pipeline.Preparer
}

var _ pipeline.Preparer = (*conditionalPreparer)(nil)

// Prepare prepares the policy, unless it is already known that the condition is false. The result for a condition that does
// not use the response is remembered: the policy and later ones can change the request.
func (p *conditionalPreparer) Prepare(x *pipeline.Exchange) *http.Response {
	if !p.UsesResponse() {
		applies := p.applies(celexpr.Input{Exchange: x})
		x.Decide(p.conditionalOutbound, applies)
		if !applies {
			return nil
		}
	}
	return p.preparer.Prepare(x)
}
