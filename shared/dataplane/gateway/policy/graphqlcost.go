package policy

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/graphql"
	"github.com/gatewright/gatewright/shared/format/project"
)

// complexityOptions are the options of graphql-complexity-limit-inbound: the two options
// of the specification, and the nested options of existing projects (contract 4.4).
type complexityOptions struct {
	MaxDepth           *int64                  `json:"maxDepth" minimum:"0" maximum:"1000000"`
	MaxComplexity      *int64                  `json:"maxComplexity" minimum:"1" maximum:"9007199254740990"`
	UseDepthLimit      *depthLimitOptions      `json:"useDepthLimit"`
	UseComplexityLimit *complexityLimitOptions `json:"useComplexityLimit"`
}

type depthLimitOptions struct {
	DepthLimit int64 `json:"depthLimit" required:"true" minimum:"0" maximum:"1000000"`
	// Ignore has the names of fields that add nothing to the depth. Their subfields add nothing either.
	Ignore []string `json:"ignore"`
}

type complexityLimitOptions struct {
	ComplexityLimit int64 `json:"complexityLimit" required:"true" minimum:"1" maximum:"9007199254740990"`
	// EndpointURL is the address of a schema. It has no effect, because no schema is needed.
	EndpointURL string `json:"endpointUrl"`
}

// complexityLimit refuses requests with documents that exceed a limit.
type complexityLimit struct {
	graphQLReader
	depth, complexity int      // -1 for no limit
	ignored           []string // fields that add nothing to the depth
}

var _ pipeline.Inbound = (*complexityLimit)(nil)

// maxIgnored limits the number of names in ignore.
const maxIgnored = 50

// graphQLName matches the names of GraphQL that have at most 128 characters.
var graphQLName = lazy.Regexp(`^[_A-Za-z][_0-9A-Za-z]{0,127}$`)

func newComplexityLimit(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	var o complexityOptions
	problems := options.Read(raw, &o)
	p := &complexityLimit{depth: -1, complexity: -1}
	if o.MaxDepth != nil {
		p.depth = int(*o.MaxDepth)
	}
	if o.MaxComplexity != nil {
		p.complexity = int(*o.MaxComplexity)
	}
	if l := o.UseDepthLimit; l != nil {
		if o.MaxDepth != nil {
			problems = append(problems, options.Problem("/useDepthLimit",
				`Remove "useDepthLimit" or "maxDepth": they mean the same.`))
		}
		p.depth, p.ignored = int(l.DepthLimit), l.Ignore
		if len(l.Ignore) > maxIgnored {
			problems = append(problems, options.Problem("/useDepthLimit/ignore", "Name at most %d fields.", maxIgnored))
		}
		for i, name := range l.Ignore {
			if !graphQLName().MatchString(name) {
				problems = append(problems, options.Problem("/useDepthLimit/ignore/"+strconv.Itoa(i),
					"Write the name of a field: patterns are not supported."))
			}
		}
	}
	if l := o.UseComplexityLimit; l != nil {
		if o.MaxComplexity != nil {
			problems = append(problems, options.Problem("/useComplexityLimit",
				`Remove "useComplexityLimit" or "maxComplexity": they mean the same.`))
		}
		p.complexity = int(l.ComplexityLimit)
	}
	if len(problems) == 0 && p.depth < 0 && p.complexity < 0 {
		problems = append(problems,
			options.Problem("", `Add "maxDepth", "maxComplexity" or both: there is no limit otherwise.`))
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p.documents = s.Documents
	return Provisioned{Inbound: p}, nil
}

// Inbound refuses a request if any operation in its documents exceeds a limit. It ignores
// the request's operationName, because the server chooses which operation it executes. Limits
// of the exchange take precedence over the options.
func (l *complexityLimit) Inbound(x *pipeline.Exchange) *http.Response {
	if response := l.read(x); response != nil {
		return response
	}
	depth, complexity := l.depth, l.complexity
	if x.GraphQLLimits != nil {
		depth, complexity = x.GraphQLLimits.Depth, x.GraphQLLimits.Complexity
	}
	body := x.GraphQL.Body
	for i, document := range x.GraphQL.Documents {
		if len(l.ignored) > 0 {
			var refused *graphql.Error
			if document, refused = l.documents.Analyze(body.Requests[i].Query, l.ignored); refused != nil {
				return refuseGraphQL(inBatch(body, i, refused))
			}
		}
		if refused := document.CheckLimits(depth, complexity); refused != nil {
			return refuseGraphQL(inBatch(body, i, refused))
		}
	}
	return nil
}
