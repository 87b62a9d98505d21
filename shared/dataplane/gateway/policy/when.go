package policy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
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
		return nil, correctExpression(err)
	case k.whenProblem != "" && c.UsesResponse():
		return nil, k.whenProblem
	}
	return c, ""
}

// correctExpression returns the problem of an expression.
func correctExpression(err error) string {
	return strings.ReplaceAll(fmt.Sprintf("Correct this expression: %v.", err), "?.", "?")
}

// expressions returns the compiled expressions of a policy: its condition, and the expression of authorize-inbound.
// Expressions with problems are left out.
func expressions(p project.Policy) []*celexpr.Condition {
	var out []*celexpr.Condition
	if p.When != "" {
		if c, problem := compileWhen(p, builtins()[p.Type]); problem == "" {
			out = append(out, c)
		}
	}
	if p.Type == authorizeType {
		if c, problems := readAuthorize(p.Handler.Options); len(problems) == 0 {
			out = append(out, c)
		}
	}
	return out
}

// UsedVariables returns the names of the variables that the expressions of a policy use. Expressions with problems use
// none.
func UsedVariables(p project.Policy) []string {
	var out []string
	for _, c := range expressions(p) {
		out = append(out, c.EnvNames()...)
	}
	return out
}

// readsBody reports whether an expression of an inbound policy uses the body of the request.
func readsBody(p project.Policy) bool {
	if !strings.Contains(p.When, "body") && p.Type != authorizeType { // compiling takes longer
		return false
	}
	return slices.ContainsFunc(expressions(p), (*celexpr.Condition).UsesBody)
}

// condition evaluates an expression of a policy.
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

// evaluate evaluates an expression before the handler. It reads the body if the expression uses the body. The refusal is
// nil unless the body could not be read, or is too large. err is an error of Eval.
func (c *condition) evaluate(x *pipeline.Exchange) (result bool, refusal *http.Response, err error) {
	if !c.UsesBody() {
		result, err = c.Eval(celexpr.Input{Exchange: x})
		return result, nil, err
	}
	raw, whole, refusal := x.ReadBody(maxExpressionBody, false)
	if refusal != nil {
		return false, refusal, nil
	}
	if !whole {
		return false, x.Problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("Send a body of at most %d bytes: the "+
			"gateway has to read it.", maxExpressionBody)), nil
	}
	body, err := decodeBody(x.Context, x.Header["Content-Encoding"], raw, maxExpressionBody)
	if err != nil {
		return false, nil, celexpr.ErrBody
	}
	release, err := checkSlots{c.setup.CheckSlots}.acquire(x.Context, len(body))
	if err != nil {
		x.Cause = fmt.Errorf("wait to read a body: %w", err)
		return false, x.Problem(http.StatusServiceUnavailable,
			"The request ended before its body could be read. Send it again."), nil
	}
	defer release()
	result, err = c.Eval(celexpr.Input{Exchange: x, Body: body})
	return result, nil, err
}

// appliesAfter returns whether a policy with this condition runs, from the result of the condition. If the condition has
// failed, it logs that and returns true: a policy that protects a route must not be skipped because of a request that its
// condition does not expect.
func (c *condition) appliesAfter(x *pipeline.Exchange, result bool, err error) bool {
	if err != nil {
		c.logFailure(x, "the policy runs", err)
		return true
	}
	return result
}

// logFailure logs the reason why an expression failed, without values, and the outcome.
func (c *condition) logFailure(x *pipeline.Exchange, outcome string, err error) {
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
	c.setup.Log.LogAttrs(x.Context, slog.LevelWarn, "expression of a policy failed",
		slog.String("requestId", x.RequestID), slog.String("deployment", c.setup.Identity.Deployment),
		slog.String("operation", operation), slog.String("policy", c.policy), slog.String("reason", reason),
		slog.String("outcome", outcome))
}

// conditionalInbound is an inbound policy with a condition.
type conditionalInbound struct {
	*condition
	inner pipeline.Inbound
}

var _ pipeline.Inbound = (*conditionalInbound)(nil)

// Inbound runs the policy if the condition is true. It refuses a body that is too large for the expression.
func (p *conditionalInbound) Inbound(x *pipeline.Exchange) *http.Response {
	result, refusal, err := p.evaluate(x)
	if refusal != nil {
		return refusal
	}
	if !p.appliesAfter(x, result, err) {
		return nil
	}
	return p.inner.Inbound(x)
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
		result, err := p.Eval(celexpr.Input{Exchange: x, Response: r})
		applies = p.appliesAfter(x, result, err)
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
		result, err := p.Eval(celexpr.Input{Exchange: x})
		applies := p.appliesAfter(x, result, err)
		x.Decide(p.conditionalOutbound, applies)
		if !applies {
			return nil
		}
	}
	return p.preparer.Prepare(x)
}
