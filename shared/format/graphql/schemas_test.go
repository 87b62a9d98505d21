package graphql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// drawnType is a type of a drawn schema. Every name in it is a unique word, except for fields that interfaces require.
type drawnType struct {
	name, kind string
	// members are fields, input fields, values or possible types, in their order.
	members    []drawnMember
	implements []string
}

// drawnMember is a member of a type, or an argument. wrapped is typeName with list and non-null wrappers.
// fallback is the default value, or "" if there is none.
type drawnMember struct {
	name, typeName, wrapped, fallback string
	args                              []drawnMember
}

// drawnSchema is a schema that uses all features of the language.
type drawnSchema struct {
	types []drawnType
	// directive are the arguments of the directive @drawn.
	directive []drawnMember
	sdl       string
	nameCount int
}

func (s *drawnSchema) newName(kind string) string {
	s.nameCount++
	return fmt.Sprintf("%s%dw", kind, s.nameCount)
}

// schemaGenerator draws a schema: first the names of all types, then their members.
type schemaGenerator struct {
	*rapid.T
	schema *drawnSchema
	// inputs are the names of types for arguments. outputs are the names of types for fields.
	inputs, outputs []string
}

func drawSchema(t *rapid.T) *drawnSchema {
	s := &drawnSchema{}
	d := &schemaGenerator{T: t, schema: s}
	for _, kind := range []string{"scalar", "enum", "input", "interface", "type", "union"} {
		for range d.count(1, 3) {
			s.types = append(s.types, drawnType{name: s.newName(strings.ToUpper(kind[:1]) + kind[1:]), kind: kind})
		}
	}
	s.types = append(s.types, drawnType{name: "Query", kind: "type"}, drawnType{name: "Mutation", kind: "type"})
	d.drawEnums()
	d.drawInputs()
	d.drawOutputs()
	for range d.count(1, 2) {
		s.directive = append(s.directive, d.value("arg"))
	}
	s.sdl = s.write(d.pick)
	return s
}

func (g *schemaGenerator) pick(choices ...string) string {
	return rapid.SampledFrom(choices).Draw(g.T, "pick")
}

func (g *schemaGenerator) count(lo, hi int) int {
	return rapid.IntRange(lo, hi).Draw(g.T, "some")
}

// namesOf returns the names of the types of some kinds, except the types of operations.
func (g *schemaGenerator) namesOf(kinds ...string) []string {
	var names []string
	for _, typ := range g.schema.types {
		if slices.Contains(kinds, typ.kind) && typ.name != "Query" && typ.name != "Mutation" {
			names = append(names, typ.name)
		}
	}
	return names
}

// wrap sometimes puts a type into lists or makes it non-null.
func (g *schemaGenerator) wrap(name string) string {
	return fmt.Sprintf(g.pick("%s", "%s!", "[%s]", "[%s!]!", "[[[%s!]!]!]!"), name)
}

// fallback returns a default value for an argument. name is the name of the argument's type without its wrappers, and
// wrapped is the type with its wrappers. For an output type, which has no default values, fallback returns only the
// brackets of the lists.
func (g *schemaGenerator) fallback(name, wrapped string) string {
	out := ""
	for _, typ := range g.schema.types {
		switch {
		case typ.name != name:
		case typ.kind == "enum":
			out = typ.members[0].name
		case typ.kind == "scalar":
			out = g.pick("1", `"text {a: b}"`)
		case typ.kind == "input":
			var fields []string
			for _, m := range typ.members {
				if value := g.fallback(m.typeName, m.wrapped); value != "" && (strings.HasSuffix(m.wrapped, "!") ||
					g.pick("y", "n") == "y") {
					fields = append(fields, m.name+": "+value)
				}
			}
			out = "{" + strings.Join(fields, ", ") + "}"
		}
	}
	switch name {
	case "Int":
		out = "1"
	case "String":
		out = `"text"`
	case "Boolean":
		out = "true"
	}
	for range strings.Count(wrapped, "[") {
		out = "[" + out + "]"
	}
	return out
}

// value draws an argument or an input field.
func (g *schemaGenerator) value(kind string) drawnMember {
	m := drawnMember{name: g.schema.newName(kind), typeName: g.pick(g.inputs...)}
	m.wrapped = g.wrap(m.typeName)
	if g.pick("y", "n") == "y" {
		m.fallback = g.fallback(m.typeName, m.wrapped)
	}
	return m
}

func (g *schemaGenerator) field() drawnMember {
	m := drawnMember{name: g.schema.newName("field"), typeName: g.pick(g.outputs...)}
	m.wrapped = g.wrap(m.typeName)
	for range g.count(0, 2) {
		m.args = append(m.args, g.value("arg"))
	}
	return m
}

func (g *schemaGenerator) drawEnums() {
	s := g.schema
	for i := range s.types {
		if s.types[i].kind == "enum" {
			for range g.count(1, 3) {
				s.types[i].members = append(s.types[i].members, drawnMember{name: s.newName("VALUE")})
			}
		}
	}
}

func (g *schemaGenerator) drawInputs() {
	s := g.schema
	g.inputs = append(g.namesOf("scalar", "enum"), "Int", "String", "Boolean")
	for i := range s.types {
		if s.types[i].kind == "input" {
			for range g.count(1, 3) {
				s.types[i].members = append(s.types[i].members, g.value("put"))
			}
			g.inputs = append(g.inputs, s.types[i].name) // only earlier types, so that no default value is endless
		}
	}
}

func (g *schemaGenerator) drawOutputs() {
	s := g.schema
	g.outputs = append(g.namesOf("scalar", "enum", "interface", "type", "union"), "Int", "String", "Boolean")
	objects := g.namesOf("type")
	for i := range s.types {
		t := &s.types[i]
		switch t.kind {
		case "interface", "type":
			for range g.count(1, 3) {
				t.members = append(t.members, g.field())
			}
			if t.kind == "type" {
				for _, typ := range s.types {
					if typ.kind == "interface" && g.pick("y", "n") == "y" {
						t.implements = append(t.implements, typ.name)
						t.members = append(t.members, typ.members...)
					}
				}
			}
		case "union":
			t.members = append(t.members, drawnMember{name: objects[0]})
			for _, name := range objects[1:] {
				if g.pick("y", "n") == "y" {
					t.members = append(t.members, drawnMember{name: name})
				}
			}
		}
	}
}

// write returns the schema in the schema definition language.
func (s *drawnSchema) write(pick func(choices ...string) string) string {
	var out strings.Builder
	arguments := func(args []drawnMember) string {
		if len(args) == 0 {
			return ""
		}
		var all []string
		for _, a := range args {
			text := a.name + ": " + a.wrapped
			if a.fallback != "" {
				text += " = " + a.fallback
			}
			all = append(all, text)
		}
		return "(" + strings.Join(all, ", ") + ")"
	}
	for _, t := range s.types {
		switch t.kind {
		case "scalar":
			fmt.Fprintf(&out, "scalar %s %s\n", t.name, pick("", `@specifiedBy(url: "https://example.com/a")`))
		case "union":
			var names []string
			for _, m := range t.members {
				names = append(names, m.name)
			}
			fmt.Fprintf(&out, "union %s = %s\n", t.name, strings.Join(names, " | "))
		default:
			fmt.Fprintf(&out, "\"described\"\n%s %s", t.kind, t.name)
			if len(t.implements) > 0 {
				out.WriteString(" implements " + strings.Join(t.implements, " & "))
			}
			out.WriteString(" {\n")
			for _, m := range t.members {
				out.WriteString(m.name + arguments(m.args))
				if m.wrapped != "" {
					out.WriteString(": " + m.wrapped)
				}
				if m.fallback != "" && t.kind == "input" {
					out.WriteString(" = " + m.fallback)
				}
				if !(strings.HasSuffix(m.wrapped, "!") && m.fallback == "" && t.kind == "input") && len(t.implements) == 0 &&
					pick("", "", "@") != "" {
					out.WriteString(` @deprecated(reason: "old")`)
				}
				out.WriteString("\n")
			}
			out.WriteString("}\n")
		}
	}
	out.WriteString("directive @drawn" + arguments(s.directive) + " repeatable on FIELD\n")
	return out.String()
}

// hiddenNames returns the names that occur only in hidden parts of the schema, if types and fields are hidden. If
// complete is true, types without any visible member are hidden too. noQuery reports whether the query type is hidden.
func (s *drawnSchema) hiddenNames(
	types []string, fields map[string][]string, complete bool,
) (names []string, noQuery bool) {
	removed := map[string]bool{}
	for _, name := range types {
		removed[name] = true
	}
	visible := func(t drawnType, m drawnMember) bool {
		if t.kind == "union" {
			return !removed[m.name]
		}
		return !removed[t.name] && !removed[m.typeName] && !slices.Contains(fields[t.name], m.name)
	}
	for changed := complete; changed; {
		changed = false
		for _, t := range s.types {
			if t.kind != "scalar" && !removed[t.name] && !slices.ContainsFunc(t.members, func(m drawnMember) bool {
				return visible(t, m)
			}) {
				removed[t.name], changed = true, true
			}
		}
	}
	all, remaining := map[string]bool{}, map[string]bool{}
	record := func(name string, visible bool) {
		all[name] = true
		if visible {
			remaining[name] = true
		}
	}
	for _, t := range s.types {
		record(t.name, !removed[t.name])
		for _, m := range t.members {
			if t.kind == "union" {
				continue
			}
			record(m.name, visible(t, m))
			for _, a := range m.args {
				record(a.name, visible(t, m) && !removed[a.typeName])
			}
		}
	}
	for _, a := range s.directive {
		record(a.name, !removed[a.typeName])
	}
	for name := range remaining {
		delete(all, name)
	}
	return slices.Sorted(maps.Keys(all)), removed["Query"]
}

// drawHidden draws the types and fields to hide.
func (s *drawnSchema) drawHidden(t *rapid.T) (types []string, fields map[string][]string) {
	fields = map[string][]string{}
	for _, typ := range s.types {
		if typ.name != "Query" && rapid.IntRange(0, 4).Draw(t, "hide") == 0 {
			types = append(types, typ.name)
		}
		for _, m := range typ.members {
			if typ.kind != "union" && typ.name != "Query" && rapid.IntRange(0, 7).Draw(t, "hide") == 0 {
				fields[typ.name] = append(fields[typ.name], m.name)
			}
		}
	}
	return types, fields
}
