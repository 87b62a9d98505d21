package apitools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// secretFormat is the format of a text that is a secret, in the schemas of answers: OpenAPI's hint that a text
// is not to be shown.
const secretFormat = "password"

// Secrets says where a value holds secrets. It has the form of the value; what it does not have holds none.
type Secrets struct {
	// Secret says that the value is one itself.
	Secret bool `json:"secret,omitempty"`
	// Members are those of an object by name, Values those that have no name here, as in a map, and Entries
	// those of a list.
	Members map[string]*Secrets `json:"members,omitempty"`
	Values  *Secrets            `json:"values,omitempty"`
	Entries *Secrets            `json:"entries,omitempty"`
	// Own says that all names within are the caller's own, such as those of metadata: they tell nothing.
	Own bool `json:"own,omitempty"`
}

// schema is what of a JSON Schema without references says where secrets are.
type schema struct {
	Format     string             `json:"format"`
	Properties map[string]*schema `json:"properties"`
	More       *schema            `json:"additionalProperties"`
	Items      *schema            `json:"items"`
	Prefix     []*schema          `json:"prefixItems"`
	AllOf      []*schema          `json:"allOf"`
	AnyOf      []*schema          `json:"anyOf"`
	OneOf      []*schema          `json:"oneOf"`
	// never says that it is false, which no value fits.
	never bool
}

// UnmarshalJSON implements json.Unmarshaler: a schema may be true or false.
func (s *schema) UnmarshalJSON(data []byte) error {
	if s.never = string(data) == "false"; s.never || string(data) == "true" {
		return nil
	}
	type object schema
	return json.Unmarshal(data, (*object)(s))
}

// secretsOf reads the schema of an answer, and gives nil where nothing is marked as a secret.
func secretsOf(output json.RawMessage) (*Secrets, error) {
	if output == nil {
		return nil, nil
	}
	var s schema
	if err := json.Unmarshal(output, &s); err != nil {
		return nil, fmt.Errorf("read the schema of its answer: %w", err)
	}
	if found := s.secrets(); found.holds() {
		return found, nil
	}
	return nil, nil
}

// secrets is nil for a schema that says nothing of secrets.
func (s *schema) secrets() *Secrets {
	if s == nil {
		return nil
	}
	out := &Secrets{Secret: s.Format == secretFormat, Entries: s.Items.secrets(), Values: s.More.values()}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		out.member(name, s.Properties[name].secrets())
	}
	for _, entry := range s.Prefix {
		out.Entries = out.Entries.with(entry.secrets())
	}
	for _, part := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf) {
		out = out.with(part.secrets())
	}
	if out.Secret || out.Own || len(out.Members) > 0 || out.Entries != nil || out.Values != nil {
		return out
	}
	return nil
}

// values is what a schema of further members says: where none is a secret, their names are the caller's.
func (s *schema) values() *Secrets {
	if s == nil {
		return nil
	}
	if within := s.secrets(); within.holds() {
		return within
	}
	if s.never {
		return nil
	}
	return &Secrets{Own: true}
}

// member adds what a member holds.
func (s *Secrets) member(name string, of *Secrets) {
	if of == nil {
		return
	}
	if s.Members == nil {
		s.Members = map[string]*Secrets{}
	}
	s.Members[name] = s.Members[name].with(of)
}

// with is what either of two says: a value that may be of both.
func (s *Secrets) with(other *Secrets) *Secrets {
	switch {
	case s == nil:
		return other
	case other == nil:
		return s
	}
	out := &Secrets{
		Secret: s.Secret || other.Secret, Own: s.Own && other.Own,
		Members: maps.Clone(s.Members), Values: s.Values.with(other.Values), Entries: s.Entries.with(other.Entries),
	}
	for name, of := range other.Members {
		out.member(name, of)
	}
	return out
}

// holds reports whether there is a secret anywhere.
func (s *Secrets) holds() bool {
	if s == nil {
		return false
	}
	for _, of := range s.Members {
		if of.holds() {
			return true
		}
	}
	return s.Secret || s.Values.holds() || s.Entries.holds()
}

// names adds the names of all members that are secrets.
func (s *Secrets) names(into map[string]bool) {
	if s == nil {
		return
	}
	for name, of := range s.Members {
		if of.Secret {
			into[name] = true
		}
		of.names(into)
	}
	s.Values.names(into)
	s.Entries.names(into)
}
