package events

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/management/api"
)

//go:embed */*.json
var files embed.FS

// Values has the value of each parameter, by the name of the parameter. Samples refer to a parameter as {parameter}.
type Values map[string]string

// Samples are the valid requests of a group.
type Samples struct {
	// Values are the values of the group's own parameters. They can contain parameters of groups that are listed
	// earlier, and the parameters consoleIcon, accountName, projectName and branchName, which the caller of
	// SampleSet.Values chooses. For an ID that the product assigns, Values has a sample; Setup replaces it with the real
	// ID.
	Values Values `json:"names"`
	// Setup has the requests that create the objects for the group's operations. Send them in this order.
	Setup []Step `json:"world"`
	// Requests has a valid request for each operation, by its ID. An operation without a body needs no entry.
	Requests map[string]Request `json:"requests"`
}

// Request is a valid request of an operation. It has the parts that do not follow from the operation's declaration.
type Request struct {
	// Query is percent-encoded and without the question mark.
	Query string `json:"query,omitempty"`
	// Body is nil for a request without a body.
	Body json.RawMessage `json:"body,omitempty"`
	// Values replaces the values of parameters in this request only.
	Values Values `json:"names,omitempty"`
	// Variants are further valid requests, for which the operation makes other calls outside its process, such as a
	// search for an object by its ID.
	Variants []Request `json:"also,omitempty"`
	// ChangesNothing means that the request succeeds without a change and without an audit record, although the
	// operation can change something.
	ChangesNothing bool `json:"changesNothing,omitempty"`
	// Prerequisites are requests to send after Setup and before this request. They create objects that only this
	// operation needs.
	Prerequisites []Step `json:"after,omitempty"`
}

// Step is a request that creates something.
type Step struct {
	// Operation is the ID of an operation of any group. If the body is nil, the step sends the body of the operation's
	// valid request.
	Operation string `json:"operation"`
	Request
	// Capture has the parameters to which RunSteps assigns fields of the response. The value of a parameter in Capture
	// is the path of its field, such as "data.0.name".
	Capture map[string]string `json:"keep,omitempty"`
	// Upload uploads a small project to the address in the response's field uploadUrl, and waits for its build.
	Upload bool `json:"upload,omitempty"`
}

// Load reads the samples of a group.
func Load(group string) (Samples, error) {
	raw, err := files.ReadFile(group + "/samples.json")
	if err != nil {
		return Samples{}, fmt.Errorf("group %s has no samples of its requests: write events/%s/samples.json (package "+
			"events says what it holds)", group, group)
	}
	var s Samples
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return Samples{}, fmt.Errorf("decode events/%s/samples.json: %w", group, err)
	}
	return s, nil
}

var parameterPattern = regexp.MustCompile(`\{([A-Za-z]+)\}`)

// Parameters returns the path parameters of an operation, in order.
func Parameters(d api.Declaration) []string {
	var out []string
	for _, m := range parameterPattern.FindAllStringSubmatch(d.Path, -1) {
		out = append(out, m[1])
	}
	return out
}

// fill replaces each parameter in a text with its value. escape escapes each value. fill returns an error if a
// parameter has no value.
func (v Values) fill(text string, escape func(string) string) (string, error) {
	var missing error
	out := parameterPattern.ReplaceAllStringFunc(text, func(p string) string {
		value, ok := v[strings.Trim(p, "{}")]
		if !ok {
			missing = fmt.Errorf("%s has no value: add it to names in the group's samples.json", p)
		}
		return escape(value)
	})
	return out, missing
}

// Merge returns the values together with others. A value in others can contain parameters of v, and replaces the value
// of the same parameter in v.
func (v Values) Merge(others Values) (Values, error) {
	out := maps.Clone(v)
	if out == nil {
		out = Values{}
	}
	for name, text := range others {
		filled, err := v.fill(text, func(s string) string { return s })
		if err != nil {
			return nil, err
		}
		out[name] = filled
	}
	return out, nil
}

// Target returns the request's path and query, and its body, with the values of v. The values in r.Values replace those
// in v.
func (r Request) Target(d api.Declaration, v Values) (target, body string, err error) {
	if v, err = v.Merge(r.Values); err != nil {
		return "", "", fmt.Errorf("%s: %w", d.ID, err)
	}
	if target, err = v.fill(d.Path, url.PathEscape); err != nil {
		return "", "", fmt.Errorf("%s: %w", d.ID, err)
	}
	if r.Query != "" {
		query, err := v.fill(r.Query, url.QueryEscape)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", d.ID, err)
		}
		target += "?" + query
	}
	if (d.TakesBody || d.TakesMessage) && r.Body == nil {
		return "", "", fmt.Errorf("%s takes a body: its group's samples.json needs a good one", d.ID)
	}
	body, err = v.fill(string(r.Body), escapeJSON)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", d.ID, err)
	}
	return target, body, nil
}

// escapeJSON returns a text escaped for a JSON string.
func escapeJSON(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return string(out[1 : len(out)-1])
}

// SampleSet contains the samples of several groups, with their declarations.
type SampleSet struct {
	groups  []api.Group
	samples map[string]Samples
	// operations contains each operation by its ID.
	operations map[string]operation
}

// operation is an operation with the name of its group.
type operation struct {
	api.Declaration
	group string
}

// Open reads the samples of groups.
func Open(groups []api.Group) (*SampleSet, error) {
	b := &SampleSet{groups: groups, samples: map[string]Samples{}, operations: map[string]operation{}}
	for _, g := range groups {
		s, err := Load(g.Name)
		if err != nil {
			return nil, err
		}
		b.samples[g.Name] = s
		for _, d := range g.Declarations() {
			b.operations[d.ID] = operation{d, g.Name}
		}
	}
	return b, b.check()
}

// check returns an error if a group has samples of an operation that it does not declare.
func (b *SampleSet) check() error {
	for group, s := range b.samples {
		for id := range s.Requests {
			if o, ok := b.operations[id]; !ok || o.group != group {
				return fmt.Errorf("events/%s/samples.json has a request of %s, which is not an operation of the group", group, id)
			}
		}
	}
	return nil
}

// Values returns the values of all parameters. base has the values that the caller chooses (Samples.Values).
func (b *SampleSet) Values(base Values) (v Values, err error) {
	v = base
	for _, g := range b.groups {
		if v, err = v.Merge(b.samples[g.Name].Values); err != nil {
			return nil, fmt.Errorf("the values of group %s: %w", g.Name, err)
		}
	}
	return v, nil
}

// Request returns an operation's valid request.
func (b *SampleSet) Request(d api.Declaration) Request {
	return b.samples[b.operations[d.ID].group].Requests[d.ID]
}

// CreationRequests returns the requests for an operation in the Setup of all groups. If captured has parameters, it
// returns only the requests that capture one of these parameters, or whose body has the parameter as the name of the
// new object. After Setup, the objects of these requests already exist.
func (b *SampleSet) CreationRequests(d api.Declaration, captured ...string) (out []Request) {
	for _, g := range b.groups {
		for _, s := range b.samples[g.Name].Setup {
			captures := func(parameter string) bool { return s.Capture[parameter] != "" || s.usesAsName(parameter) }
			if s.Operation != d.ID || len(captured) > 0 && !slices.ContainsFunc(captured, captures) {
				continue
			}
			r := s.Request
			if r.Body == nil {
				r.Body = b.Request(d).Body
			}
			out = append(out, r)
		}
	}
	return out
}

// usesAsName reports whether the step's body uses a parameter as the name of the new object.
func (s Step) usesAsName(parameter string) bool {
	var body struct{ Name string }
	return json.Unmarshal(s.Body, &body) == nil && body.Name == "{"+parameter+"}"
}

// Parameters returns the parameters in the request's query and body.
func (r Request) Parameters() (out []string) {
	for _, m := range parameterPattern.FindAllStringSubmatch(r.Query+string(r.Body), -1) {
		out = append(out, m[1])
	}
	return out
}

// Client sends requests as one caller.
type Client interface {
	// Call sends a request, and returns the status and the body of its response.
	Call(method, target, body string) (status int, response []byte, err error)
	// Upload uploads a small project to an upload's address and waits until it is built and served.
	Upload(values map[string]string, address string) error
}

// Setup creates the objects of the named groups, or of all groups if none is named. values is a result of
// SampleSet.Values. Setup adds to values what its steps capture.
func (b *SampleSet) Setup(c Client, values Values, groups ...string) error {
	for _, g := range b.groups {
		if len(groups) > 0 && !slices.Contains(groups, g.Name) {
			continue
		}
		if err := b.RunSteps(c, values, b.samples[g.Name].Setup); err != nil {
			return fmt.Errorf("set up the group %s: %w", g.Name, err)
		}
	}
	return nil
}

// RunSteps sends the requests of the steps one after another, and adds to v the values that they capture.
func (b *SampleSet) RunSteps(c Client, v Values, steps []Step) error {
	for _, s := range steps {
		o, ok := b.operations[s.Operation]
		if !ok {
			return fmt.Errorf("%s is not an operation", s.Operation)
		}
		r := s.Request
		if r.Body == nil {
			r.Body = b.Request(o.Declaration).Body
		}
		target, body, err := r.Target(o.Declaration, v)
		if err != nil {
			return err
		}
		status, raw, err := c.Call(o.Method, target, body)
		if err != nil {
			return err
		}
		if status >= http.StatusMultipleChoices {
			return fmt.Errorf("%s: status = %d: %s", s.Operation, status, raw)
		}
		var response any
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &response); err != nil {
				return fmt.Errorf("%s: decode the response %s: %w", s.Operation, raw, err)
			}
		}
		for name, path := range s.Capture {
			text, ok := Lookup(response, path).(string)
			if !ok {
				return fmt.Errorf("%s: the response %s has no text at %s", s.Operation, raw, path)
			}
			v[name] = text
		}
		if s.Upload {
			address, _ := Lookup(response, "uploadUrl").(string)
			if err := c.Upload(v, address); err != nil {
				return fmt.Errorf("%s: %w", s.Operation, err)
			}
		}
	}
	return nil
}

// Lookup returns the value at a path of names and indexes in decoded JSON, such as "data.0.name". It returns nil if no
// value is at the path.
func Lookup(v any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		switch container := v.(type) {
		case map[string]any:
			v = container[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(container) {
				return nil
			}
			v = container[i]
		default:
			return nil
		}
	}
	return v
}
