package policy

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

// queryParamOptions are the options of query-param-to-header-inbound (contract 4.5).
type queryParamOptions struct {
	QueryParam string `json:"queryParam" required:"true"`
	HeaderName string `json:"headerName" required:"true"`
	// HeaderValue is the header's value. It contains {value}, which is replaced with the parameter's value.
	HeaderValue   string `json:"headerValue" required:"true"`
	RemoveFromURL bool   `json:"removeFromUrl"`
}

// defaultQueryParamOptions returns the values of options that a project does not set.
func defaultQueryParamOptions() queryParamOptions { return queryParamOptions{RemoveFromURL: true} }

const queryParamType = "query-param-to-header-inbound"

// placeholder is replaced with the parameter's value.
const placeholder = "{value}"

// queryParam converts a query parameter to a header, for clients that can't send headers.
type queryParam struct {
	param, header string
	valueTemplate string // with placeholder
	remove        bool
}

var _ pipeline.Inbound = (*queryParam)(nil)

func newQueryParam(_ string, raw json.RawMessage, _ *Setup) (Provisioned, []project.Problem) {
	o := defaultQueryParamOptions()
	problems := options.Read(raw, &o)
	header := http.CanonicalHeaderKey(o.HeaderName)
	if text := upstream.CheckFieldName(header); header != "" && text != "" { // a missing header is already reported
		problems = append(problems, options.Problem("/headerName", "%s", text))
	}
	if o.HeaderValue != "" && (!strings.Contains(o.HeaderValue, placeholder) ||
		!httpguts.ValidHeaderFieldValue(o.HeaderValue)) {
		problems = append(problems, options.Problem("/headerValue",
			`Write the header's value with {value} where the parameter's value goes, such as "Bearer {value}".`))
	}
	return Provisioned{Inbound: &queryParam{
		param: o.QueryParam, header: header, valueTemplate: o.HeaderValue,
		remove: o.RemoveFromURL,
	}}, problems
}

// Inbound sets the header if the parameter is present. It replaces a header that
// the client has sent. If the parameter has several values, it uses the first one.
// It refuses a request whose value is not valid in a header.
func (p *queryParam) Inbound(x *pipeline.Exchange) *http.Response {
	values, present := x.QueryValues()[p.param]
	if !present {
		return nil
	}
	value := strings.ReplaceAll(p.valueTemplate, placeholder, values[0])
	if !httpguts.ValidHeaderFieldValue(value) {
		return x.Problem(http.StatusBadRequest,
			"Send the query parameter "+p.param+" without line breaks and control characters: it becomes a header.")
	}
	x.Header[p.header] = []string{value}
	if p.remove {
		x.SetQuery(removeParam(x.Query, p.param))
	}
	return nil
}

// removeParam removes a parameter from a raw query and keeps the rest unchanged.
func removeParam(raw, param string) string {
	var kept []string
	for pair := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if unescaped, err := url.QueryUnescape(name); err == nil && unescaped == param {
			continue
		}
		kept = append(kept, pair)
	}
	return strings.Join(kept, "&")
}
