package accountkeys

import (
	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
)

// Below is the way between what the API speaks and what the service does.

// all stands for every scope, or every project.
const all = "all"

// The bounds of lists of names.
const maxNames, maxNameChars = 1000, 256

// names are a list of names, or all of them, which is a text and no list: a project
// may be called all.
type names struct {
	all bool
	of  []string // nil where nothing was given
}

// Schema implements huma.SchemaProvider.
func (names) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeString, Description: "All of them.", Enum: []any{all}},
		{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, MaxLength: new(maxNameChars)}, MaxItems: new(maxNames)},
	}}
}

// UnmarshalJSON tells the two apart. null, which is neither, is a name that nothing has.
func (n *names) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*n = names{all: one == all, of: []string{one}}
		return nil
	}
	return json.Unmarshal(b, &n.of)
}

// MarshalJSON writes all as a text.
func (n names) MarshalJSON() ([]byte, error) {
	if n.all {
		return json.Marshal(all)
	}
	return json.Marshal(n.of)
}

// kindNames are a list of kinds of environment. null is one that there is not: what is
// left out stands for all of them, and what is no list must not.
type kindNames []kindName

// UnmarshalJSON is called for null, too.
func (k *kindNames) UnmarshalJSON(b []byte) error {
	var list []kindName
	err := json.Unmarshal(b, &list)
	if list == nil {
		list = []kindName{""}
	}
	*k = list
	return err
}

// kindName is what an account key calls a kind of environment.
type kindName string

// Schema implements huma.SchemaProvider.
func (kindName) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, k := range environment.Kinds() {
		s.Enum = append(s.Enum, string(k))
	}
	return s
}

// Schema implements huma.SchemaProvider.
func (timestamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}

// spec is what the service makes the key of. Fault: Invalid.
func (in *createIn) spec() (accounts.Spec, error) {
	var wrong fault.Fields
	spec := accounts.Spec{Label: in.Body.Label, Permissions: auth.Full()}
	if e := in.Body.ExpiresOn; e.Set && !e.Null {
		spec.ExpiresOn = &e.Value.Time
	}
	p := &spec.Permissions
	p.Confirm = in.Body.Confirm
	if !in.Body.Scopes.all {
		p.Scopes = nil
		for _, name := range in.Body.Scopes.of {
			if !auth.Scope(name).Known() {
				wrong.Add("scopes", `has one that there is not: write "all", or a list of %s`, auth.ScopeForm())
				break
			}
			p.Scopes = append(p.Scopes, auth.Scope(name))
		}
	}
	if given := in.Body.Projects; given.of != nil && !given.all {
		p.Projects = nil
		for _, name := range given.of {
			if !deployments.IsProjectName(name) {
				wrong.Add("projects", `has one that no project can be called: write "all", or a list of names of a-z, 0-9 and -`)
				break
			}
			p.Projects = append(p.Projects, name)
		}
	}
	if of := in.Body.Environments; of != nil {
		p.Environments = nil
		for _, name := range of {
			kind, ok := environment.Parse(string(name))
			if !ok {
				wrong.Add("environments", "has to be a list: leave it out for all kinds of environment, or write [] for none")
				break
			}
			p.Environments = append(p.Environments, kind)
		}
	}
	return spec, wrong.Err()
}

func view(k accounts.Key) AccountKey {
	p := k.Permissions
	out := AccountKey{
		ID: k.ID, Label: k.Label, CreatedOn: api.Timestamp(k.CreatedOn),
		Scopes:       names{of: api.Each(p.Scopes, func(s auth.Scope) string { return string(s) })},
		Projects:     names{of: api.Each(p.Projects, func(name string) string { return name })},
		Environments: api.Each(p.Environments, func(k environment.Kind) string { return string(k) }),
		Confirm:      p.Confirm,
	}
	if p.HasAllScopes() {
		out.Scopes.all = true
	}
	if p.HasAllProjects() {
		out.Projects.all = true
	}
	if k.ExpiresOn != nil {
		out.ExpiresOn = new(api.Timestamp(*k.ExpiresOn))
	}
	if k.LastUsedOn != "" {
		out.LastUsedOn = &k.LastUsedOn
	}
	return out
}
