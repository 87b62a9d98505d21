package policy

import (
	"encoding/json"
	"net/http"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/celexpr"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

const authorizeType = "authorize-inbound"

// authorizeOptions are the options of authorize-inbound.
type authorizeOptions struct {
	Expression string `json:"expression" required:"true"`
}

// authorize refuses requests for which an expression is not true.
type authorize struct{ *condition }

var _ pipeline.Inbound = (*authorize)(nil)

// readAuthorize reads the options of authorize-inbound and compiles the expression.
func readAuthorize(raw json.RawMessage) (*celexpr.Condition, []project.Problem) {
	var o authorizeOptions
	if problems := options.Read(raw, &o); len(problems) > 0 {
		return nil, problems
	}
	c, err := celexpr.CompileCondition(o.Expression, celexpr.OnRequest)
	if err != nil {
		return nil, []project.Problem{options.Problem("/expression", "%s", correctExpression(err))}
	}
	return c, nil
}

func newAuthorize(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	c, problems := readAuthorize(raw)
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	return Provisioned{Inbound: &authorize{&condition{c.WithEnv(s.Variables), name, s}}}, nil
}

// Inbound refuses a request unless the expression is true, also if the expression has no result.
func (p *authorize) Inbound(x *pipeline.Exchange) *http.Response {
	allowed, refusal, err := p.evaluate(x)
	if refusal != nil {
		return refusal
	}
	if err != nil {
		p.logFailure(x, "the request is refused", err)
	}
	if err != nil || !allowed {
		return x.Problem(http.StatusForbidden, "Ask the owner of the API for access: this request is not allowed.")
	}
	return nil
}
