package policy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

// The types of the policies that change the query.
const (
	setQueryType    = "set-query-params-inbound"
	removeQueryType = "remove-query-params-inbound"
	renameQueryType = "rename-query-params-inbound"
)

// setQueryOptions are the options of set-query-params-inbound.
type setQueryOptions struct {
	Params []setOption `json:"params" required:"true"`
}

// removeQueryOptions are the options of remove-query-params-inbound.
type removeQueryOptions struct {
	Params []string `json:"params" required:"true"`
}

// renameQueryOptions are the options of rename-query-params-inbound.
type renameQueryOptions struct {
	Params []renameOption `json:"params" required:"true"`
}

// queryPolicy changes the query of requests. change returns the new raw query.
type queryPolicy func(x *pipeline.Exchange) string

var _ pipeline.Inbound = queryPolicy(nil)

// Inbound changes the query.
func (p queryPolicy) Inbound(x *pipeline.Exchange) *http.Response {
	if query := p(x); query != x.Query {
		x.SetQuery(query)
	}
	return nil
}

// checkParams returns the problems of the names of parameters. Names of parameters are case-sensitive.
func checkParams(member string, names []string) []project.Problem {
	problems := checkChanges("params", len(names))
	seen := map[string]bool{}
	for i, name := range names {
		if name != "" && seen[name] {
			problems = append(problems, options.Problem(fmt.Sprintf("/params/%d%s", i, member),
				"Remove this entry: another one has the same name."))
		}
		seen[name] = true
	}
	return problems
}

func newSetQuery(_ string, raw json.RawMessage, _ *Setup) (Provisioned, []project.Problem) {
	var o setQueryOptions
	problems := options.Read(raw, &o)
	var names []string
	for _, p := range o.Params {
		names = append(names, p.Name)
	}
	if len(problems) == 0 {
		problems = checkParams("/name", names)
	}
	texts, more := parseTexts("params", o.Params)
	return Provisioned{Inbound: queryPolicy(func(x *pipeline.Exchange) string {
		query := x.Query
		for _, t := range texts {
			if t.keep && hasParam(query, t.name) {
				continue
			}
			query = removeParam(query, t.name)
			if value := t.value.Value(x); value != "" {
				query = strings.TrimPrefix(query+"&", "&") + url.QueryEscape(t.name) + "=" + url.QueryEscape(value)
			}
		}
		return query
	})}, append(problems, more...)
}

// hasParam reports whether a raw query has a parameter.
func hasParam(raw, name string) bool { return removeParam(raw, name) != raw }

func newRemoveQuery(_ string, raw json.RawMessage, _ *Setup) (Provisioned, []project.Problem) {
	var o removeQueryOptions
	problems := options.Read(raw, &o)
	if len(problems) == 0 {
		problems = checkParams("", o.Params)
	}
	return Provisioned{Inbound: queryPolicy(func(x *pipeline.Exchange) string {
		query := x.Query
		for _, name := range o.Params {
			query = removeParam(query, name)
		}
		return query
	})}, problems
}

func newRenameQuery(_ string, raw json.RawMessage, _ *Setup) (Provisioned, []project.Problem) {
	var o renameQueryOptions
	problems := options.Read(raw, &o)
	var from, to []string
	for _, p := range o.Params {
		from, to = append(from, p.From), append(to, p.To)
	}
	if len(problems) == 0 {
		problems = append(checkParams("/from", from), checkParams("/to", to)...)
		for i := range from {
			if from[i] == to[i] {
				problems = append(problems, options.Problem(fmt.Sprintf("/params/%d/to", i), "Write another name than in from."))
			}
		}
	}
	return Provisioned{Inbound: queryPolicy(func(x *pipeline.Exchange) string {
		query := x.Query
		for i := range from {
			query = renameParam(query, from[i], to[i])
		}
		return query
	})}, problems
}

// renameParam renames a parameter in a raw query, and removes the parameter that had the new name. It keeps the rest
// unchanged. Without a parameter of the old name it changes nothing.
func renameParam(raw, from, to string) string {
	if !hasParam(raw, from) {
		return raw
	}
	pairs := strings.Split(removeParam(raw, to), "&")
	for i, pair := range pairs {
		name, value, hasValue := strings.Cut(pair, "=")
		if unescaped, err := url.QueryUnescape(name); err != nil || unescaped != from {
			continue
		}
		if pairs[i] = url.QueryEscape(to); hasValue {
			pairs[i] += "=" + value
		}
	}
	return strings.Join(pairs, "&")
}
