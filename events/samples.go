package events

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/console"
	"github.com/gatewright/gatewright/shared/api"
)

//go:embed */*.json
var files embed.FS

// Names are what the parameters of paths are called, by parameter: whatever
// stands as {parameter} in a sample.
type Names map[string]string

// Samples are the good requests of a group.
type Samples struct {
	// Names are what the group's own parameters are called. They may hold
	// parameters that are known before: of groups that are listed earlier,
	// consoleIcon, and accountName, projectName and branchName, which whoever asks chooses. An id that the
	// product gives stands here as a sample; World finds the real one.
	Names Names `json:"names"`
	// World are the requests that make what the group's operations are about,
	// in turn.
	World []Step `json:"world"`
	// Requests are the good requests by operation. An operation without a body
	// needs none.
	Requests map[string]Request `json:"requests"`
}

// Request is a good request of an operation, beside what its declaration says.
type Request struct {
	// Query is percent-encoded and without the question mark.
	Query string `json:"query,omitempty"`
	// Body is nil for none.
	Body json.RawMessage `json:"body,omitempty"`
	// Names replace others in this request alone.
	Names Names `json:"names,omitempty"`
	// Also are further good requests, where the operation does something else
	// outside its process for them, such as finding what is named by its id.
	Also []Request `json:"also,omitempty"`
	// ChangesNothing says that the request, of an operation that changes
	// something, succeeds and leaves everything as it is, without an audit
	// record.
	ChangesNothing bool `json:"changesNothing,omitempty"`
	// After are requests that come before this one, in the world that the
	// groups have made: what only this operation needs.
	After []Step `json:"after,omitempty"`
}

// Step is a request that makes something.
type Step struct {
	// Operation is the id of an operation of any group; a nil body and an empty
	// query are those of its good request.
	Operation string `json:"operation"`
	Request
	// Keep gives parameters the values of fields of the answer, by a path such
	// as "data.0.name".
	Keep map[string]string `json:"keep,omitempty"`
	// Upload puts a small project to the address in the answer's field
	// uploadUrl, and waits for its build.
	Upload bool `json:"upload,omitempty"`
}

// Load reads the samples of a group.
func Load(group string) (Samples, error) {
	raw, err := files.ReadFile(group + "/samples.json")
	if err != nil {
		return Samples{}, fmt.Errorf("group %s has no samples of its requests: write events/%s/samples.json (package events says what it holds)", group, group)
	}
	var s Samples
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return Samples{}, fmt.Errorf("decode events/%s/samples.json: %w", group, err)
	}
	return s, nil
}

var parameter = regexp.MustCompile(`\{([A-Za-z]+)\}`)

// Parameters lists the path parameters of an operation, in order.
func Parameters(d api.Declaration) []string {
	var out []string
	for _, m := range parameter.FindAllStringSubmatch(d.Path, -1) {
		out = append(out, m[1])
	}
	return out
}

// fill puts names for parameters, each as escape spells it.
func (n Names) fill(text string, escape func(string) string) (string, error) {
	var missing error
	out := parameter.ReplaceAllStringFunc(text, func(p string) string {
		v, ok := n[strings.Trim(p, "{}")]
		if !ok {
			missing = fmt.Errorf("nothing is called %s: name it in the group's samples.json", p)
		}
		return escape(v)
	})
	return out, missing
}

// With returns the names with others in their place or beside them, which may
// hold parameters themselves.
func (n Names) With(others Names) (Names, error) {
	out := maps.Clone(n)
	if out == nil {
		out = Names{}
	}
	for name, text := range others {
		filled, err := n.fill(text, func(s string) string { return s })
		if err != nil {
			return nil, err
		}
		out[name] = filled
	}
	return out, nil
}

// Target returns the request's path and query, and its body, under names.
func (r Request) Target(d api.Declaration, n Names) (target, body string, err error) {
	if n, err = n.With(r.Names); err != nil {
		return "", "", fmt.Errorf("%s: %w", d.ID, err)
	}
	if target, err = n.fill(d.Path, url.PathEscape); err != nil {
		return "", "", fmt.Errorf("%s: %w", d.ID, err)
	}
	if r.Query != "" {
		query, err := n.fill(r.Query, url.QueryEscape)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", d.ID, err)
		}
		target += "?" + query
	}
	if (d.TakesBody || d.TakesMessage) && r.Body == nil {
		return "", "", fmt.Errorf("%s takes a body: its group's samples.json needs a good one", d.ID)
	}
	body, err = n.fill(string(r.Body), quoted)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", d.ID, err)
	}
	return target, body, nil
}

// quoted is a text as it stands within a JSON string.
func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string can always be encoded
	}
	return string(out[1 : len(out)-1])
}

// Book is the samples of several groups, with their declarations.
type Book struct {
	groups  []api.Group
	samples map[string]Samples
	// declared is every operation by its id.
	declared map[string]operation
}

type operation struct {
	api.Declaration
	group string
}

// Open reads the samples of groups.
func Open(groups []api.Group) (*Book, error) {
	b := &Book{groups: groups, samples: map[string]Samples{}, declared: map[string]operation{}}
	for _, g := range groups {
		s, err := Load(g.Name)
		if err != nil {
			return nil, err
		}
		b.samples[g.Name] = s
		for _, d := range g.Declarations() {
			b.declared[d.ID] = operation{d, g.Name}
		}
	}
	return b, b.check()
}

// check refuses samples of operations that there are none of.
func (b *Book) check() error {
	for group, s := range b.samples {
		for id := range s.Requests {
			if o, ok := b.declared[id]; !ok || o.group != group {
				return fmt.Errorf("events/%s/samples.json has a request of %s, which is no operation of the group", group, id)
			}
		}
	}
	return nil
}

// Names returns what parameters are called, given those that the caller chooses. {consoleIcon} is the icon of the console, whose name changes
// with its content.
func (b *Book) Names(chosen Names) (Names, error) {
	icon, err := consoleIcon()
	if err != nil {
		return nil, err
	}
	n, err := chosen.With(Names{"consoleIcon": icon})
	if err != nil {
		return nil, err
	}
	for _, g := range b.groups {
		if n, err = n.With(b.samples[g.Name].Names); err != nil {
			return nil, fmt.Errorf("the names of group %s: %w", g.Name, err)
		}
	}
	return n, nil
}

// consoleIcon returns the name of the icon in the bundle of the console.
func consoleIcon() (string, error) {
	for _, name := range console.Embedded().Names() {
		if strings.HasPrefix(name, "icon-") {
			return name, nil
		}
	}
	return "", errors.New("the bundle of the console has no icon")
}

// Request returns an operation's good request.
func (b *Book) Request(d api.Declaration) Request {
	return b.samples[b.declared[d.ID].group].Requests[d.ID]
}

// Making gives the requests of all worlds that an operation has to answer, or
// those that give one of some parameters its value: in a world that has been
// made, they ask for what is there already.
func (b *Book) Making(d api.Declaration, kept ...string) (out []Request) {
	for _, g := range b.groups {
		for _, s := range b.samples[g.Name].World {
			keeps := func(parameter string) bool { return s.Keep[parameter] != "" || s.names(parameter) }
			if s.Operation != d.ID || len(kept) > 0 && !slices.ContainsFunc(kept, keeps) {
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

// names reports whether the step's body calls what it makes by a parameter.
func (s Step) names(parameter string) bool {
	var body struct{ Name string }
	return json.Unmarshal(s.Body, &body) == nil && body.Name == "{"+parameter+"}"
}

// Placeholders lists the parameters that the request's query and body hold.
func (r Request) Placeholders() (out []string) {
	for _, m := range parameter.FindAllStringSubmatch(r.Query+string(r.Body), -1) {
		out = append(out, m[1])
	}
	return out
}

// Client makes requests as one caller.
type Client interface {
	// Ask makes a request.
	Ask(method, target, body string) (status int, answer []byte, err error)
	// Upload puts a small project to an upload's address and waits until it is
	// built and served.
	Upload(names map[string]string, address string) error
}

// Make makes the worlds of groups, of all of them when none is named, and puts
// into names what is called how in them. names come from Names.
func (b *Book) Make(c Client, names Names, groups ...string) error {
	for _, g := range b.groups {
		if len(groups) > 0 && !slices.Contains(groups, g.Name) {
			continue
		}
		if err := b.Steps(c, names, b.samples[g.Name].World); err != nil {
			return fmt.Errorf("the world of group %s: %w", g.Name, err)
		}
	}
	return nil
}

// Steps makes steps in turn; what they keep goes into names.
func (b *Book) Steps(c Client, n Names, steps []Step) error {
	for _, s := range steps {
		o, ok := b.declared[s.Operation]
		if !ok {
			return fmt.Errorf("%s is no operation", s.Operation)
		}
		r := s.Request
		if r.Body == nil {
			r.Body = b.Request(o.Declaration).Body
		}
		target, body, err := r.Target(o.Declaration, n)
		if err != nil {
			return err
		}
		status, raw, err := c.Ask(o.Method, target, body)
		if err != nil {
			return err
		}
		if status >= http.StatusMultipleChoices {
			return fmt.Errorf("%s is answered %d %s", s.Operation, status, raw)
		}
		var answer any
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &answer); err != nil {
				return fmt.Errorf("%s is answered %s: %w", s.Operation, raw, err)
			}
		}
		for name, path := range s.Keep {
			text, ok := At(answer, path).(string)
			if !ok {
				return fmt.Errorf("%s is answered %s, in which %s is no text", s.Operation, raw, path)
			}
			n[name] = text
		}
		if s.Upload {
			address, _ := At(answer, "uploadUrl").(string)
			if err := c.Upload(n, address); err != nil {
				return fmt.Errorf("%s: %w", s.Operation, err)
			}
		}
	}
	return nil
}

// At follows names and indexes in decoded JSON, spelled as in "data.0.name". It
// gives nil for what is not there.
func At(v any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}
