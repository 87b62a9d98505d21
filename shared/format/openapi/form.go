package openapi

import (
	"maps"
	"strings"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// checkForm checks a form in URL encoding: a body, or a whole query.
func (c *content) checkForm(r *Report, in, raw string) {
	sent, ok := parsePairs(raw)
	if !ok {
		r.add(in, "", "must have names with valid escapes of UTF-8, such as %C3%A9")
		return
	}
	object := map[string]part{}
	brackets := sent.brackets()
	used := map[string]bool{}
	for name, e := range c.encoding {
		p := &parameter{
			Parameter: project.Parameter{Name: name, Style: e.Style, Explode: e.Explode},
			target:    c.target().property(name, r.remainingWork()), pointer: schema.Pointer(name),
		}
		switch {
		case e.Style == project.StyleDeep:
			if !p.addDeepProperty(r, in, object, sent, brackets[name], used) {
				return
			}
		case e.Style != "" && e.Explode && p.target.allowsObject() && len(sent.values[name]) == 0:
			if !p.addNamedProperties(r, in, object, sent, used) {
				return
			}
		}
	}
	escaped := map[string]part{} // the other readings of properties
	for _, name := range sent.names {
		if used[name] {
			continue
		}
		members, detail := c.formParts(r, name, sent.values[name])
		if detail != "" {
			r.add(in, schema.Pointer(name), detail)
			return
		}
		object[name] = members[0]
		if len(members) > 1 {
			escaped[name] = members[len(members)-1]
		}
	}
	all := []part{{members: object}}
	if len(escaped) > 0 {
		other := maps.Clone(object)
		maps.Copy(other, escaped)
		all = append(all, part{members: other})
	}
	r.validateAny(c.schema, c.target().readings(r.remainingWork(), all...), in, "")
}

// addDeepProperty adds the property p, which has the style deepObject, to object. It returns false after a violation.
func (p *parameter) addDeepProperty(r *Report, in string, object map[string]part, sent pairs, names []string,
	used map[string]bool,
) bool {
	if len(sent.values[p.Name]) > 0 && (len(names) > 0 || !p.target.allowsText()) {
		r.add(in, p.pointer, p.needsBrackets())
		return false
	}
	if list, isList := p.emptyBrackets(sent, names); isList {
		used[names[0]] = true
		if list == nil {
			r.add(in, p.pointer, malformedEscape)
			return false
		}
		object[p.Name] = listPart(list)
		return true
	}
	members := map[string]part{}
	for _, name := range names {
		used[name] = true
		if detail := addDeep(r, members, p.target, name[len(p.Name):], sent.values[name]); detail != "" {
			r.add(in, schema.Pointer(append([]string{p.Name}, bracketTokens(name[len(p.Name):])...)...), detail)
			return false
		}
	}
	if len(names) > 0 {
		object[p.Name] = part{members: members}
	}
	return true
}

// addNamedProperties adds the property p, an object whose properties are fields of the form, to object. It returns false
// after a violation.
func (p *parameter) addNamedProperties(r *Report, in string, object map[string]part, sent pairs,
	used map[string]bool,
) bool {
	members := map[string]part{}
	for _, name := range p.target.names {
		if len(sent.values[name]) == 0 {
			continue
		}
		used[name] = true
		decoded, ok := decodeAll(sent.values[name], decodeQuery)
		if !ok {
			r.add(in, schema.Pointer(p.Name, name), malformedEscape)
			return false
		}
		if members[name], ok = repeated(p.target.property(name, r.remainingWork()), decoded); !ok {
			r.add(in, schema.Pointer(p.Name, name), sentTwice)
			return false
		}
	}
	if len(members) > 0 {
		object[p.Name] = part{members: members}
	}
	return true
}

// formParts returns the parts that a field of a form can stand for. A list in one text can have other items if its
// commas are escaped. detail says what is wrong, or is "".
func (c *content) formParts(r *Report, name string, values []string) (parts []part, detail string) {
	decoded, ok := decodeAll(values, decodeQuery)
	if !ok {
		return nil, malformedEscape
	}
	t, e := c.target().property(name, r.remainingWork()), c.encoding[name]
	switch {
	case e != nil && e.Style != "" && !e.Explode && len(values) == 1 && !t.allowsText():
		p := &parameter{Parameter: project.Parameter{Name: name, Style: e.Style}, target: t}
		return p.valueParts(values, decoded, decodeQuery)
	case e != nil && e.Style == "" && isJSON(e.ContentType), t.allowsObject() && !t.allowsText():
		p, detail := jsonParts(t, decoded)
		return []part{p}, detail
	}
	p, ok := repeated(t, decoded)
	if !ok {
		return nil, sentTwice
	}
	return []part{p}, ""
}

// jsonParts returns the part of a field whose values are JSON. Several values are the items of a list.
func jsonParts(t *target, texts []string) (p part, detail string) {
	if len(texts) == 1 && (!t.allowsList() || strings.HasPrefix(strings.TrimSpace(texts[0]), "[")) {
		return jsonPart(texts[0])
	}
	p.list = []part{}
	for _, text := range texts {
		item, detail := jsonPart(text)
		if detail != "" {
			return part{}, detail
		}
		p.list = append(p.list, item)
	}
	return p, ""
}

func jsonPart(text string) (p part, detail string) {
	value, violation := schema.Decode([]byte(text))
	if violation != nil {
		return part{}, "must be valid JSON: it " + violation.Detail + at(violation.Pointer)
	}
	return part{decoded: &value}, ""
}

// at returns a place in the JSON of a field as text, "" for the whole JSON.
func at(pointer string) string {
	if pointer == "" {
		return ""
	}
	return " (at " + pointer + ")"
}
