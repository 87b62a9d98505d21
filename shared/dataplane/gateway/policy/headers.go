package policy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/expression"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

// The types of the policies that change header fields.
const (
	setHeadersInType     = "set-headers-inbound"
	setHeadersOutType    = "set-headers-outbound"
	removeHeadersInType  = "remove-headers-inbound"
	removeHeadersOutType = "remove-headers-outbound"
	renameHeadersInType  = "rename-headers-inbound"
	renameHeadersOutType = "rename-headers-outbound"
)

// setOptions are the options of set-headers-inbound and set-headers-outbound.
type setHeadersOptions struct {
	Headers []setOption `json:"headers" required:"true"`
}

// setOption is a name and a value to set.
type setOption struct {
	Name string `json:"name" required:"true"`
	// Value is a text that can contain values of the request (package expression).
	Value string `json:"value" required:"true"`
	// Keep keeps the value that the message already has.
	Keep bool `json:"keepExisting"`
}

// removeHeadersOptions are the options of remove-headers-inbound and remove-headers-outbound.
type removeHeadersOptions struct {
	Headers []string `json:"headers" required:"true"`
}

// renameHeadersOptions are the options of rename-headers-inbound and rename-headers-outbound.
type renameHeadersOptions struct {
	Headers []renameOption `json:"headers" required:"true"`
}

// renameOption is a name and the name that replaces it.
type renameOption struct {
	From string `json:"from" required:"true"`
	To   string `json:"to" required:"true"`
}

// maxChanges is the maximum number of entries in the options of a policy that changes a header or a query.
const maxChanges = 100

// checkChanges returns a problem if there are no entries, or too many.
func checkChanges(option string, n int) []project.Problem {
	switch {
	case n == 0:
		return []project.Problem{options.Problem("/"+option, "Name at least one.")}
	case n > maxChanges:
		return []project.Problem{options.Problem("/"+option, "Name at most %d.", maxChanges)}
	}
	return nil
}

// namedText is a name with a text that can contain values of the request.
type namedText struct {
	name  string
	value *expression.Text
	keep  bool
}

// parseTexts parses the values of set options. option is the name of the option with the list.
func parseTexts(option string, all []setOption) (out []namedText, problems []project.Problem) {
	for i, o := range all {
		at := fmt.Sprintf("/%s/%d/value", option, i)
		text, err := expression.Parse(o.Value)
		if err != nil {
			mistakes := strings.ReplaceAll(err.Error(), "\n", "; ")
			problems = append(problems, options.Problem(at, "Correct the text: %s.", mistakes))
			continue
		}
		if names := text.Variables(); len(names) > 0 {
			problems = append(problems, options.Problem(at, "Write $env(%s) instead of ${env.%[1]s}: options take the values "+
				"of variables when the project is built.", names[0]))
			continue
		}
		out = append(out, namedText{o.Name, text, o.Keep})
	}
	return out, problems
}

// checkNames returns a problem for each name of a header that check refuses, and for each one that occurs twice. member is
// the pointer of the name within an entry of the option headers.
func checkNames(member string, names []string, check func(string) string) (problems []project.Problem) {
	seen := map[string]bool{}
	for i, name := range names {
		at := fmt.Sprintf("/headers/%d%s", i, member)
		folded := http.CanonicalHeaderKey(name)
		switch text := check(name); {
		case name == "": // already reported, because the option is required
		case text != "":
			problems = append(problems, options.Problem(at, "%s", text))
		case seen[folded]:
			problems = append(problems, options.Problem(at, "Remove this entry: another one has the same name."))
		}
		seen[folded] = true
	}
	return problems
}

// fieldNameCheck returns the check of a header field's name for a direction.
func fieldNameCheck(direction Direction) func(string) string {
	if direction == Outbound {
		return upstream.CheckResponseFieldName
	}
	return upstream.CheckFieldName
}

// headerChange changes a header. x is the exchange whose values it uses. It returns a text that says why the request
// cannot be processed, or "".
type headerChange func(x *pipeline.Exchange, h http.Header) string

// headerPolicy changes the header of requests or of responses.
type headerPolicy struct{ change headerChange }

var (
	_ pipeline.Inbound  = headerPolicy{}
	_ pipeline.Outbound = headerPolicy{}
	_ pipeline.Preparer = headerPolicy{}
)

// Inbound changes the header of a request. It refuses a request with a value that cannot be in a header.
func (p headerPolicy) Inbound(x *pipeline.Exchange) *http.Response {
	if problem := p.change(x, x.Header); problem != "" {
		return x.Problem(http.StatusBadRequest, problem)
	}
	return nil
}

// Prepare refuses a request with a value that cannot be in the header of the response, before the upstream gets it.
func (p headerPolicy) Prepare(x *pipeline.Exchange) *http.Response {
	if problem := p.change(x, http.Header{}); problem != "" {
		return x.Problem(http.StatusBadRequest, problem)
	}
	return nil
}

// Outbound changes the header of a response. Prepare has checked the values.
func (p headerPolicy) Outbound(x *pipeline.Exchange, r *http.Response) *http.Response {
	p.change(x, r.Header)
	upstream.RemoveSession(r.Header)
	return r
}

// headerKind returns the kind of a policy that changes a header. provision reads the options, and returns the change.
func headerKind(
	direction Direction, defaults any,
	provision func(raw json.RawMessage, check func(string) string) (headerChange, []project.Problem),
) kind {
	return kind{
		direction: direction, module: RuntimeModule, defaults: defaults,
		provision: func(_ string, raw json.RawMessage, _ *Setup) (Provisioned, []project.Problem) {
			change, problems := provision(raw, fieldNameCheck(direction))
			if len(problems) > 0 {
				return Provisioned{}, problems
			}
			if direction == Inbound {
				return Provisioned{Inbound: headerPolicy{change}}, nil
			}
			return Provisioned{Outbound: headerPolicy{change}}, nil
		},
	}
}

// newSetHeaders reads the options of set-headers-inbound and set-headers-outbound.
func newSetHeaders(raw json.RawMessage, check func(string) string) (headerChange, []project.Problem) {
	var o setHeadersOptions
	problems := options.Read(raw, &o)
	if len(problems) == 0 {
		problems = checkChanges("headers", len(o.Headers))
	}
	var names []string
	for i, h := range o.Headers {
		names = append(names, h.Name)
		if !httpguts.ValidHeaderFieldValue(h.Value) {
			problems = append(problems, options.Problem(fmt.Sprintf("/headers/%d/value", i),
				"Write a value without line breaks and control characters."))
		}
	}
	problems = append(problems, checkNames("/name", names, check)...)
	texts, more := parseTexts("headers", o.Headers)
	return func(x *pipeline.Exchange, h http.Header) string {
		for _, t := range texts {
			if t.keep && hasField(h, t.name) {
				continue
			}
			value := t.value.Value(x)
			if !httpguts.ValidHeaderFieldValue(value) {
				return "Send the values that become the header " + t.name + " without line breaks and control characters."
			}
			upstream.RemoveField(h, t.name)
			if value != "" {
				h[http.CanonicalHeaderKey(t.name)] = []string{value}
			}
		}
		return ""
	}, append(problems, more...)
}

// hasField reports whether a header has a field, or one that upstreams can confuse with it.
func hasField(h http.Header, name string) bool {
	for other := range h {
		if upstream.SameField(other, name) {
			return true
		}
	}
	return false
}

// newRemoveHeaders reads the options of remove-headers-inbound and remove-headers-outbound.
func newRemoveHeaders(raw json.RawMessage, check func(string) string) (headerChange, []project.Problem) {
	var o removeHeadersOptions
	problems := options.Read(raw, &o)
	if len(problems) == 0 {
		problems = append(checkChanges("headers", len(o.Headers)), checkNames("", o.Headers, check)...)
	}
	return func(_ *pipeline.Exchange, h http.Header) string {
		for _, name := range o.Headers {
			upstream.RemoveField(h, name)
		}
		return ""
	}, problems
}

// newRenameHeaders reads the options of rename-headers-inbound and rename-headers-outbound.
func newRenameHeaders(raw json.RawMessage, check func(string) string) (headerChange, []project.Problem) {
	var o renameHeadersOptions
	problems := options.Read(raw, &o)
	if len(problems) == 0 {
		problems = checkChanges("headers", len(o.Headers))
	}
	var from, to []string
	for i, h := range o.Headers {
		from, to = append(from, h.From), append(to, h.To)
		if h.From != "" && strings.EqualFold(h.From, h.To) {
			problems = append(problems, options.Problem(fmt.Sprintf("/headers/%d/to", i), "Write another name than in from."))
		}
	}
	problems = append(problems, checkNames("/from", from, check)...)
	problems = append(problems, checkNames("/to", to, check)...)
	return func(_ *pipeline.Exchange, h http.Header) string {
		for i := range from {
			values, exists := h[http.CanonicalHeaderKey(from[i])]
			upstream.RemoveField(h, from[i])
			if exists {
				upstream.RemoveField(h, to[i])
				h[http.CanonicalHeaderKey(to[i])] = values
			}
		}
		return ""
	}, problems
}
