package celexpr

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"

	"github.com/gatewright/gatewright/shared/base/spelling"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// The names of the variables.
const (
	requestMethod   = "request.method"
	requestPath     = "request.path"
	requestParams   = "request.params"
	requestQuery    = "request.query"
	requestHeaders  = "request.headers"
	requestIP       = "request.ip"
	requestBody     = "request.body"
	responseStatus  = "response.status"
	responseHeaders = "response.headers"
	userSub         = "user.sub"
	userData        = "user.data"
	projectEnv      = "env"
)

// variable is a variable of expressions. Each has a type, so that most mistakes are found when a project is built.
type variable struct {
	name   string
	typ    *cel.Type
	stages []Stage
}

// variables returns all variables. Their names have dots: CEL finds a variable with a dot without a value for the part in
// front of the dot.
func variables() []variable {
	texts := cel.MapType(cel.StringType, cel.StringType)
	both, before, after := []Stage{OnRequest, OnResponse}, []Stage{OnRequest}, []Stage{OnResponse}
	return []variable{
		{requestMethod, cel.StringType, both},
		{requestPath, cel.StringType, both},
		{requestParams, texts, both},
		{requestQuery, texts, both},
		{requestHeaders, texts, both},
		{requestIP, cel.StringType, both},
		{requestBody, cel.DynType, before},
		{responseStatus, cel.IntType, after},
		{responseHeaders, texts, after},
		{userSub, cel.StringType, both},
		{userData, cel.MapType(cel.StringType, cel.DynType), both},
		{projectEnv, texts, both},
	}
}

// Names returns the names of the variables that expressions of a stage can use.
func Names(stage Stage) []string {
	var out []string
	for _, v := range variables() {
		if slices.Contains(v.stages, stage) {
			out = append(out, v.name)
		}
	}
	return out
}

// environments returns the environment of CEL for each stage. An environment is created when it is first used, so that a
// gateway whose projects have no expressions does not need the time.
var environments = sync.OnceValue(func() map[Stage]func() (*cel.Env, error) {
	out := map[Stage]func() (*cel.Env, error){}
	for _, stage := range []Stage{OnRequest, OnResponse} {
		out[stage] = sync.OnceValues(func() (*cel.Env, error) {
			settings := []cel.EnvOption{
				cel.CrossTypeNumericComparisons(true), cel.ParserExpressionSizeLimit(MaxBytes),
				cel.ExpressionNodeLimit(maxNodes), cel.ParserRecursionLimit(maxDepth), cel.EagerlyValidateDeclarations(true),
			}
			for _, v := range variables() {
				if slices.Contains(v.stages, stage) {
					settings = append(settings, cel.Variable(v.name, v.typ))
				}
			}
			return cel.NewEnv(settings...)
		})
	}
	return out
})

// unknownName returns the message about a name that is not a variable.
func unknownName(name string, stage Stage) string {
	names := Names(stage)
	switch {
	case stage == OnRequest && (name == "response" || strings.HasPrefix(name, "response.")):
		return "response exists only in the expressions of outbound policies"
	case stage == OnResponse && name == requestBody:
		return "request.body exists only in the expressions of inbound policies"
	}
	const lettersPerTypo = 4
	if nearest, ok := spelling.Nearest(name, names, len(name)/lettersPerTypo); ok {
		return fmt.Sprintf("%s does not exist: %s", strconv.Quote(name), spelling.DidYouMean(nearest))
	}
	return fmt.Sprintf("%s does not exist. Use %s", strconv.Quote(name), strings.Join(names, ", "))
}

// Input has what an expression is evaluated for.
type Input struct {
	Exchange *pipeline.Exchange
	// Response is the response, nil before the handler.
	Response *http.Response
	// Body has the bytes of the request's body, without a content encoding. It matters only if UsesBody returns true.
	Body []byte
}

// activation gets the values of the variables that an expression uses. It gets each value once: an expression can use a
// variable in a loop.
type activation struct {
	input  Input
	env    map[string]string
	values map[string]any
	// bodyFailed is set if the expression has used a body that has no value.
	bodyFailed bool
}

var _ cel.Activation = (*activation)(nil)

// Parent implements cel.Activation.
func (*activation) Parent() cel.Activation { return nil }

// ResolveName returns the value of a variable. ok is false if there is none.
func (a *activation) ResolveName(name string) (value any, ok bool) {
	value, ok = a.values[name]
	if ok || a.bodyFailed && name == requestBody {
		return value, ok
	}
	if value, ok = a.get(name); ok {
		if a.values == nil {
			a.values = make(map[string]any, 4)
		}
		a.values[name] = value
	}
	return value, ok
}

// get returns the value of a variable.
func (a *activation) get(name string) (value any, ok bool) {
	x := a.input.Exchange
	switch name {
	case requestMethod:
		return x.Method, true
	case requestPath:
		return x.Path, true
	case requestParams:
		return params(x), true
	case requestQuery:
		return firstValues(x.QueryValues()), true
	case requestHeaders:
		return headerValues(x.Header, x.Unsent), true
	case requestIP:
		if !x.Client.IsValid() {
			return "", true
		}
		return x.Client.Unmap().WithZone("").String(), true
	case requestBody:
		value, ok := body(x.Header, a.input.Body)
		a.bodyFailed = !ok
		return value, ok
	case responseStatus:
		return a.input.Response.StatusCode, true
	case responseHeaders:
		return headerValues(a.input.Response.Header, nil), true
	case userSub:
		if x.User == nil {
			return "", true
		}
		return x.User.Sub, true
	case userData:
		return a.userData(), true
	case projectEnv:
		return a.env, true
	}
	return nil, false
}

// userData returns the metadata of the user, an empty object without a user or metadata.
func (a *activation) userData() map[string]any {
	if u := a.input.Exchange.User; u != nil && len(u.Data) > 0 {
		if value, violation := schema.Decode(u.Data); violation == nil {
			if object, ok := native(value).(map[string]any); ok {
				return object
			}
		}
	}
	return map[string]any{}
}

// params returns the parameters of the path.
func params(x *pipeline.Exchange) map[string]string {
	out := map[string]string{}
	for _, name := range x.Params.Names() {
		out[name] = x.Param(name)
	}
	return out
}

// firstValues returns the first value of each parameter of the query, as ${query.NAME} does.
func firstValues(query map[string][]string) map[string]string {
	out := make(map[string]string, len(query))
	for name, values := range query {
		if len(values) > 0 {
			out[name] = values[0]
		}
	}
	return out
}

// headerValues returns the values of header fields by their names in lower case. Several values of a field are joined as
// in RFC 9110, section 5.3, and those of Cookie with semicolons.
func headerValues(headers ...http.Header) map[string]string {
	out := map[string]string{}
	for _, header := range headers {
		for name, values := range header {
			separator := ", "
			if name == "Cookie" {
				separator = "; "
			}
			out[strings.ToLower(name)] = strings.Join(values, separator)
		}
	}
	return out
}

// body returns the value of a request's body: the value of JSON, the text of other types, null for an empty body. ok is
// false for invalid JSON, and for bytes that are not text.
func body(header http.Header, raw []byte) (value any, ok bool) {
	if len(raw) == 0 {
		return nil, true
	}
	mediaType, _, _ := strings.Cut(strings.ToLower(strings.Join(header["Content-Type"], ", ")), ";")
	mediaType = strings.TrimSpace(mediaType)
	if mediaType != "application/json" && !strings.HasSuffix(mediaType, "+json") {
		return string(raw), utf8.Valid(raw)
	}
	decoded, violation := schema.Decode(raw)
	if violation != nil {
		return nil, false
	}
	return native(decoded), true
}

// native returns a value with the numbers of CEL: int for whole numbers of 64 bits, and double for all others.
func native(value any) any {
	switch v := value.(type) {
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return whole
		}
		float, _ := v.Float64() // schema.Decode has checked the range
		return float
	case map[string]any:
		for name, member := range v {
			v[name] = native(member)
		}
	case []any:
		for i, item := range v {
			v[i] = native(item)
		}
	}
	return value
}
