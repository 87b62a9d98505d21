package apitools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// secretFormat is the format of secret strings in schemas. In OpenAPI, it is a hint to hide a string.
const secretFormat = "password"

// Secrets are the positions of secrets in a value, in the structure of the
// value. Parts of the value that Secrets does not list contain no secrets.
type Secrets struct {
	// Secret is true if the value itself is a secret.
	Secret bool `json:"secret,omitempty"`
	// Members has the secrets of an object's members, by name. Values has the secrets
	// of all other members, as in a map. Entries has the secrets of a list's entries.
	Members map[string]*Secrets `json:"members,omitempty"`
	Values  *Secrets            `json:"values,omitempty"`
	Entries *Secrets            `json:"entries,omitempty"`
	// CallerData is true if the caller chooses all names in the
	// value, as in metadata. Such names do not identify secrets.
	CallerData bool `json:"own,omitempty"`
}

// schema has the parts of a JSON Schema that are needed to find secrets. The JSON Schema must not contain references.
type schema struct {
	Format               string             `json:"format"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Items                *schema            `json:"items"`
	PrefixItems          []*schema          `json:"prefixItems"`
	AllOf                []*schema          `json:"allOf"`
	AnyOf                []*schema          `json:"anyOf"`
	OneOf                []*schema          `json:"oneOf"`
	// isFalse is true if the schema is false, which allows no value.
	isFalse bool
}

// UnmarshalJSON implements json.Unmarshaler. A schema can also be true or false.
func (s *schema) UnmarshalJSON(data []byte) error {
	if s.isFalse = string(data) == "false"; s.isFalse || string(data) == "true" {
		return nil
	}
	type object schema
	return json.Unmarshal(data, (*object)(s))
}

// newSecrets returns the secrets of a schema. It returns nil if the schema marks no secrets.
func newSecrets(rawSchema json.RawMessage) (*Secrets, error) {
	if rawSchema == nil {
		return nil, nil
	}
	var s schema
	if err := json.Unmarshal(rawSchema, &s); err != nil {
		return nil, fmt.Errorf("read the schema of its answer: %w", err)
	}
	if found := s.secrets(); found.hasSecrets() {
		return found, nil
	}
	return nil, nil
}

// secrets returns the secrets of a schema, or nil if it has neither secrets nor data of the caller.
func (s *schema) secrets() *Secrets {
	if s == nil {
		return nil
	}
	out := &Secrets{Secret: s.Format == secretFormat, Entries: s.Items.secrets(), Values: s.AdditionalProperties.values()}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		out.addMember(name, s.Properties[name].secrets())
	}
	for _, entry := range s.PrefixItems {
		out.Entries = out.Entries.union(entry.secrets())
	}
	for _, part := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf) {
		out = out.union(part.secrets())
	}
	if out.Secret || out.CallerData || len(out.Members) > 0 || out.Entries != nil || out.Values != nil {
		return out
	}
	return nil
}

// values returns the secrets of a schema for further members (additionalProperties), or nil if no further members are
// allowed. If the schema has no secrets, values returns CallerData, because the caller chooses the members' names.
func (s *schema) values() *Secrets {
	if s == nil {
		return nil
	}
	if found := s.secrets(); found.hasSecrets() {
		return found
	}
	if s.isFalse {
		return nil
	}
	return &Secrets{CallerData: true}
}

// addMember adds the secrets of a member.
func (s *Secrets) addMember(name string, secrets *Secrets) {
	if secrets == nil {
		return
	}
	if s.Members == nil {
		s.Members = map[string]*Secrets{}
	}
	s.Members[name] = s.Members[name].union(secrets)
}

// union returns the union of two Secrets, for a value that can match both.
func (s *Secrets) union(other *Secrets) *Secrets {
	switch {
	case s == nil:
		return other
	case other == nil:
		return s
	}
	out := &Secrets{
		Secret: s.Secret || other.Secret, CallerData: s.CallerData && other.CallerData,
		Members: maps.Clone(s.Members), Values: s.Values.union(other.Values), Entries: s.Entries.union(other.Entries),
	}
	for name, member := range other.Members {
		out.addMember(name, member)
	}
	return out
}

// hasSecrets reports whether the value, or any value inside it, is a secret.
func (s *Secrets) hasSecrets() bool {
	if s == nil {
		return false
	}
	for _, member := range s.Members {
		if member.hasSecrets() {
			return true
		}
	}
	return s.Secret || s.Values.hasSecrets() || s.Entries.hasSecrets()
}

// addNames adds the names of all members that are secrets to dst.
func (s *Secrets) addNames(dst map[string]bool) {
	if s == nil {
		return
	}
	for name, member := range s.Members {
		if member.Secret {
			dst[name] = true
		}
		member.addNames(dst)
	}
	s.Values.addNames(dst)
	s.Entries.addNames(dst)
}
