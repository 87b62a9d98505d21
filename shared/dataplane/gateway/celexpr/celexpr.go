// Package celexpr compiles and evaluates the expressions of policies, such as the condition `when`. Expressions are
// written in the Common Expression Language (CEL, cel.dev).
//
// Read this file first. variables.go declares the variables, and gets their values from an exchange.
package celexpr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"
)

// Limits of an expression.
const (
	// MaxBytes is the maximum length of an expression in bytes.
	MaxBytes = 4096
	// maxCost bounds the work of one evaluation, in units of CEL: about one for each operation, and one for each 10 bytes
	// of the texts that it compares.
	maxCost = 100_000
	// maxNodes and maxDepth bound the size and the nesting of an expression, so that compiling it takes little time.
	maxNodes = 1000
	maxDepth = 50
)

// Stage is the stage of an exchange at which an expression is evaluated.
type Stage int

// The stages: before the handler of the route, and after it, when there is a response.
const (
	OnRequest Stage = iota
	OnResponse
)

// Condition is a compiled expression whose result is true or false. It can be evaluated concurrently.
type Condition struct {
	program cel.Program
	// uses has the names of the variables of the expression.
	uses map[string]bool
	// envNames has the names of the project's variables that the expression uses, and env has their values.
	envNames []string
	env      map[string]string
}

// Errors of evaluations. They contain no values of a request.
var (
	ErrCost  = errors.New("celexpr: the expression exceeds the limit of work for one evaluation")
	ErrFails = errors.New("celexpr: the expression has no result for this request")
	ErrBody  = errors.New("celexpr: the body has no value for expressions")
)

// CompileCondition compiles an expression that must be of the type bool. Its error is a sentence for the author of the
// expression: it says what is wrong, and at which character.
func CompileCondition(source string, stage Stage) (*Condition, error) {
	if len(source) > MaxBytes {
		return nil, fmt.Errorf("write an expression of at most %d bytes", MaxBytes)
	}
	environment, err := environments()[stage]()
	if err != nil {
		return nil, fmt.Errorf("celexpr: initialize CEL: %w", err)
	}
	compiled, issues := environment.Compile(source)
	if issues.Err() != nil {
		return nil, errors.New(describe(issues, stage))
	}
	if t := compiled.OutputType(); !t.IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("the result of this expression has the type %s: write one that is true or false, such as "+
			"request.method != 'GET'", t)
	}
	program, err := environment.Program(compiled, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
	if err != nil {
		return nil, fmt.Errorf("correct a constant of this expression: %w", err)
	}
	c := &Condition{program: program, uses: map[string]bool{}}
	if c.envNames, err = envNames(compiled.NativeRep()); err != nil {
		return nil, err
	}
	for _, reference := range compiled.NativeRep().ReferenceMap() {
		if reference.Name != "" {
			c.uses[reference.Name] = true
		}
	}
	return c, nil
}

// envNames returns the names of the project's variables that an expression uses, sorted. It returns an error if the
// expression does not say which variable it uses: a build has to know that.
func envNames(expression *ast.AST) ([]string, error) {
	names, named, all := map[string]bool{}, 0, 0
	isEnv := func(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == projectEnv }
	visit := ast.NewExprVisitor(func(e ast.Expr) {
		if isEnv(e) {
			all++
		}
		if e.Kind() == ast.SelectKind && isEnv(e.AsSelect().Operand()) {
			names[e.AsSelect().FieldName()] = true
			named++
		}
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Index {
			return
		}
		if arguments := e.AsCall().Args(); isEnv(arguments[0]) && arguments[1].Kind() == ast.LiteralKind {
			if name, ok := arguments[1].AsLiteral().Value().(string); ok {
				names[name] = true
				named++
			}
		}
	})
	ast.PostOrderVisit(expression.Expr(), visit)
	if named < all {
		return nil, errors.New("name the variable after env, such as env.NAME or env['NAME']")
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// WithEnv returns a copy of the condition that uses these values of the project's variables. A variable without a value
// is empty.
func (c *Condition) WithEnv(variables map[string]string) *Condition {
	out := *c
	out.env = make(map[string]string, len(c.envNames))
	for _, name := range c.envNames {
		out.env[name] = variables[name]
	}
	return &out
}

// EnvNames returns the names of the project's variables that the expression uses, sorted.
func (c *Condition) EnvNames() []string { return c.envNames }

// UsesBody reports whether the expression uses the body of the request.
func (c *Condition) UsesBody() bool { return c.uses[requestBody] }

// UsesResponse reports whether the expression uses the response.
func (c *Condition) UsesResponse() bool { return c.uses[responseStatus] || c.uses[responseHeaders] }

// Eval evaluates the expression. Its errors are ErrCost, ErrFails and ErrBody.
func (c *Condition) Eval(in Input) (bool, error) {
	values := activation{input: in, env: c.env}
	out, _, err := c.program.Eval(&values)
	if err != nil {
		if values.bodyFailed {
			return false, ErrBody
		}
		if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok &&
			cancelled.Cause == interpreter.CostLimitExceeded {
			return false, ErrCost
		}
		return false, ErrFails
	}
	return out == types.True, nil
}

// maxIssues is the maximum number of mistakes of an expression in one message.
const maxIssues = 3

// describe returns the mistakes of an expression, with the characters at which they begin.
func describe(issues *cel.Issues, stage Stage) string {
	var all []string
	for _, e := range issues.Errors() {
		text := strings.TrimSuffix(e.Message, " (in container '')")
		if name, ok := strings.CutPrefix(text, "undeclared reference to '"); ok {
			name, _, _ = strings.Cut(name, "'")
			text = unknownName(name, stage)
		}
		text = fmt.Sprintf("character %d: %s", e.Location.Column()+1, text)
		if e.Location.Line() > 1 {
			text = fmt.Sprintf("line %d, %s", e.Location.Line(), text)
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if len(all) > maxIssues {
		all = append(all[:maxIssues], "and more")
	}
	return strings.Join(all, "; ")
}
