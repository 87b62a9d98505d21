package accountkeys

import (
	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// This file has the JSON decoding and the schemas of types in request bodies, and the functions that convert between
// the API's types and the service's types.

// kindNames is a list of kinds of environment in a body. If the body has no list, the key has access to all kinds. But
// null must not mean all kinds, so UnmarshalJSON decodes null as a list with an invalid name, which spec refuses.
type kindNames []kindName

// UnmarshalJSON implements json.Unmarshaler. It is also called for null.
func (k *kindNames) UnmarshalJSON(b []byte) error {
	var list []kindName
	err := json.Unmarshal(b, &list)
	if list == nil {
		list = []kindName{""}
	}
	*k = list
	return err
}

// kindName is the name of a kind of environment in account keys.
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

// spec returns the specification of the new key for the service. Fault: Invalid.
func (in *createIn) spec() (accounts.Spec, error) {
	var invalid fault.Fields
	spec := accounts.Spec{Label: in.Body.Label, Permissions: auth.Full()}
	if e := in.Body.ExpiresOn; e.Set && !e.Null {
		spec.ExpiresOn = &e.Value.Time
	}
	p := &spec.Permissions
	p.Confirm = in.Body.Confirm
	if !in.Body.Scopes.All {
		p.Scopes = nil
		for _, name := range in.Body.Scopes.List {
			if !auth.Scope(name).IsKnown() {
				invalid.Add("scopes", `has one that there is not: write "all", or a list of %s`, auth.ScopeFormat())
				break
			}
			p.Scopes = append(p.Scopes, auth.Scope(name))
		}
	}
	if projects := in.Body.Projects; projects.List != nil && !projects.All {
		p.Projects = nil
		for _, name := range projects.List {
			if !deployments.IsProjectName(name) {
				invalid.Add("projects", `has one that no project can be called: write "all", or a list of names of a-z, 0-9 and -`)
				break
			}
			p.Projects = append(p.Projects, name)
		}
	}
	if names := in.Body.Environments; names != nil {
		p.Environments = nil
		for _, name := range names {
			kind, ok := environment.Parse(string(name))
			if !ok {
				invalid.Add("environments", "has to be a list: leave it out for all kinds of environment, or write [] for none")
				break
			}
			p.Environments = append(p.Environments, kind)
		}
	}
	return spec, invalid.Err()
}

func view(k accounts.Key) AccountKey {
	p := k.Permissions
	out := AccountKey{
		ID: k.ID, Label: k.Label, CreatedOn: api.Timestamp(k.CreatedOn),
		Scopes:       api.NewNames(p.HasAllScopes(), p.Scopes),
		Projects:     api.NewNames(p.HasAllProjects(), p.Projects),
		Environments: api.Map(p.Environments, func(kind environment.Kind) string { return string(kind) }),
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
