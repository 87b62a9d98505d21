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
	if !in.Body.Scopes.All {
		p.Scopes = nil
		for _, name := range in.Body.Scopes.Of {
			if !auth.Scope(name).Known() {
				wrong.Add("scopes", `has one that there is not: write "all", or a list of %s`, auth.ScopeForm())
				break
			}
			p.Scopes = append(p.Scopes, auth.Scope(name))
		}
	}
	if given := in.Body.Projects; given.Of != nil && !given.All {
		p.Projects = nil
		for _, name := range given.Of {
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
		Scopes:       api.NamesOf(p.HasAllScopes(), p.Scopes),
		Projects:     api.NamesOf(p.HasAllProjects(), p.Projects),
		Environments: api.Each(p.Environments, func(k environment.Kind) string { return string(k) }),
		Confirm:      p.Confirm,
	}
	if k.ExpiresOn != nil {
		out.ExpiresOn = new(api.Timestamp(*k.ExpiresOn))
	}
	if k.LastUsedOn != "" {
		out.LastUsedOn = &k.LastUsedOn
	}
	return out
}
