package graphql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// drawnType is a type of a drawn schema. Every name of it is a word that no other has, but for fields that
// interfaces ask for.
type drawnType struct {
	name, kind string
	// members are fields, input fields, values or possible types, in their order.
	members    []drawnMember
	implements []string
}

type drawnMember struct {
	name, is, wrapped, fallback string
	args                        []drawnMember
}

// drawnSchema is a schema with everything that the language has.
type drawnSchema struct {
	types     []drawnType
	directive []drawnMember
	sdl       string
	words     int
}

func (s *drawnSchema) word(kind string) string {
	s.words++
	return fmt.Sprintf("%s%dw", kind, s.words)
}

func drawSchema(t *rapid.T) *drawnSchema {
	s := &drawnSchema{}
	pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "pick") }
	some := func(least, most int) int { return rapid.IntRange(least, most).Draw(t, "some") }
	for _, kind := range []string{"scalar", "enum", "input", "interface", "type", "union"} {
		for range some(1, 3) {
			s.types = append(s.types, drawnType{name: s.word(strings.ToUpper(kind[:1]) + kind[1:]), kind: kind})
		}
	}
	s.types = append(s.types, drawnType{name: "Query", kind: "type"}, drawnType{name: "Mutation", kind: "type"})
	of := func(kinds ...string) []string {
		var names []string
		for _, each := range s.types {
			if slices.Contains(kinds, each.kind) && each.name != "Query" && each.name != "Mutation" {
				names = append(names, each.name)
			}
		}
		return names
	}
	for i := range s.types {
		if s.types[i].kind == "enum" {
			for range some(1, 3) {
				s.types[i].members = append(s.types[i].members, drawnMember{name: s.word("VALUE")})
			}
		}
	}
	wrap := func(name string) string {
		return fmt.Sprintf(pick("%s", "%s!", "[%s]", "[%s!]!", "[[[%s!]!]!]!"), name)
	}
	var fallback func(name, wrapped string) string
	fallback = func(name, wrapped string) string {
		out := ""
		for _, each := range s.types {
			switch {
			case each.name != name:
			case each.kind == "enum":
				out = each.members[0].name
			case each.kind == "scalar":
				out = pick("1", `"text {a: b}"`)
			case each.kind == "input":
				var fields []string
				for _, m := range each.members {
					if value := fallback(m.is, m.wrapped); value != "" && (strings.HasSuffix(m.wrapped, "!") || pick("y", "n") == "y") {
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
	value := func(kind string, among []string) drawnMember {
		m := drawnMember{name: s.word(kind), is: pick(among...)}
		m.wrapped = wrap(m.is)
		if pick("y", "n") == "y" {
			m.fallback = fallback(m.is, m.wrapped)
		}
		return m
	}
	inputs := append(of("scalar", "enum"), "Int", "String", "Boolean")
	for i := range s.types {
		if s.types[i].kind == "input" {
			for range some(1, 3) {
				s.types[i].members = append(s.types[i].members, value("put", inputs))
			}
			inputs = append(inputs, s.types[i].name) // of those before, so that nothing is endless
		}
	}
	outputs := append(of("scalar", "enum", "interface", "type", "union"), "Int", "String", "Boolean")
	field := func() drawnMember {
		m := drawnMember{name: s.word("field"), is: pick(outputs...)}
		m.wrapped = wrap(m.is)
		for range some(0, 2) {
			m.args = append(m.args, value("arg", inputs))
		}
		return m
	}
	objects := of("type")
	for i := range s.types {
		t := &s.types[i]
		switch t.kind {
		case "interface", "type":
			for range some(1, 3) {
				t.members = append(t.members, field())
			}
			if t.kind == "type" {
				for _, each := range s.types {
					if each.kind == "interface" && pick("y", "n") == "y" {
						t.implements = append(t.implements, each.name)
						t.members = append(t.members, each.members...)
					}
				}
			}
		case "union":
			t.members = append(t.members, drawnMember{name: objects[0]})
			for _, name := range objects[1:] {
				if pick("y", "n") == "y" {
					t.members = append(t.members, drawnMember{name: name})
				}
			}
		}
	}
	for range some(1, 2) {
		s.directive = append(s.directive, value("arg", inputs))
	}
	s.sdl = s.write(pick)
	return s
}

func (s *drawnSchema) write(pick func(of ...string) string) string {
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
				if !(strings.HasSuffix(m.wrapped, "!") && m.fallback == "" && t.kind == "input") && len(t.implements) == 0 && pick("", "", "@") != "" {
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

// without tells what nobody is to see where some types and fields are hidden: names of which nothing is left.
// whole says that types of which nothing is left are hidden too.
func (s *drawnSchema) without(types []string, fields map[string][]string, whole bool) (names []string, noQuery bool) {
	gone := map[string]bool{}
	for _, name := range types {
		gone[name] = true
	}
	shown := func(t drawnType, m drawnMember) bool {
		if t.kind == "union" {
			return !gone[m.name]
		}
		return !gone[t.name] && !gone[m.is] && !slices.Contains(fields[t.name], m.name)
	}
	for again := whole; again; {
		again = false
		for _, t := range s.types {
			if t.kind != "scalar" && !gone[t.name] && !slices.ContainsFunc(t.members, func(m drawnMember) bool { return shown(t, m) }) {
				gone[t.name], again = true, true
			}
		}
	}
	all, left := map[string]bool{}, map[string]bool{}
	note := func(name string, is bool) {
		all[name] = true
		if is {
			left[name] = true
		}
	}
	for _, t := range s.types {
		note(t.name, !gone[t.name])
		for _, m := range t.members {
			if t.kind == "union" {
				continue
			}
			note(m.name, shown(t, m))
			for _, a := range m.args {
				note(a.name, shown(t, m) && !gone[a.is])
			}
		}
	}
	for _, a := range s.directive {
		note(a.name, !gone[a.is])
	}
	for name := range left {
		delete(all, name)
	}
	return slices.Sorted(maps.Keys(all)), gone["Query"]
}

// drawHidden draws what a filter is to hide.
func (s *drawnSchema) drawHidden(t *rapid.T) (types []string, fields map[string][]string) {
	fields = map[string][]string{}
	for _, each := range s.types {
		if each.name != "Query" && rapid.IntRange(0, 4).Draw(t, "hide") == 0 {
			types = append(types, each.name)
		}
		for _, m := range each.members {
			if each.kind != "union" && each.name != "Query" && rapid.IntRange(0, 7).Draw(t, "hide") == 0 {
				fields[each.name] = append(fields[each.name], m.name)
			}
		}
	}
	return types, fields
}
