package openapi

import (
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// pairs are the parameters of a query, or the fields of a form, by their names. The names are decoded. The values still
// have their escapes.
type pairs struct {
	values map[string][]string
	// names are the names in the order of their first occurrence.
	names []string
}

// parsePairs reads a query or a URL-encoded form. It returns false if a name has a malformed escape.
func parsePairs(raw string) (p pairs, ok bool) {
	p = pairs{values: map[string][]string{}}
	ok = true
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		escaped, value, _ := strings.Cut(pair, "=")
		name, valid := decodeQuery(escaped)
		if !valid {
			ok = false
			continue
		}
		if _, known := p.values[name]; !known {
			p.names = append(p.names, name)
		}
		p.values[name] = append(p.values[name], value)
	}
	return p, ok
}

// brackets returns the names with brackets by the text before the first bracket: filter has "filter[a]".
func (p *pairs) brackets() map[string][]string {
	var out map[string][]string
	for _, name := range p.names {
		if at := strings.IndexByte(name, '['); at > 0 {
			if out == nil {
				out = map[string][]string{}
			}
			out[name[:at]] = append(out[name[:at]], name)
		}
	}
	return out
}

// queryParameters are the compiled parameters of a query.
type queryParameters struct {
	all []*parameter
	// whole is the parameter that is the whole query, or nil.
	whole *content
	// declared has the names of the parameters. deep is true for the names of parameters in the style deepObject.
	declared, deep map[string]bool
}

// check checks a query. raw is the query with its escapes.
func (q *queryParameters) check(r *Report, raw string) {
	if q.whole != nil {
		q.whole.checkQuery(r, raw)
		return
	}
	sent, ok := parsePairs(raw)
	if !ok {
		r.add(InQuery, "", "must have names with valid escapes of UTF-8, such as %C3%A9")
	}
	brackets := sent.brackets()
	used := make(map[string]bool, len(sent.names))
	var free []string // the names that no parameter declares, set by the first call of others
	others := func() []string {
		if free == nil {
			free = []string{}
			for _, name := range sent.names {
				if base, _, isDeep := strings.Cut(name, "["); !q.declared[name] && !(isDeep && q.deep[base]) {
					free = append(free, name)
				}
			}
		}
		return free
	}
	for _, p := range q.all {
		switch {
		case p.Style == project.StyleDeep && p.schema != nil:
			p.checkDeep(r, sent, brackets[p.Name], used)
		case p.schema != nil && p.ContentType == "" && p.Explode && p.target.allowsObject() &&
			len(sent.values[p.Name]) == 0:
			p.checkNamed(r, InQuery, sent.values, decodeQuery, others)
			for _, name := range p.target.names {
				used[name] = true
			}
			if p.target.shape.IsFreeForm() {
				for _, name := range others() {
					used[name] = true
				}
			}
		default:
			used[p.Name] = true
			if p.Style == project.StyleDeep {
				for _, name := range brackets[p.Name] {
					used[name] = true
				}
			}
			p.checkValues(r, InQuery, sent.values[p.Name], decodeQuery)
		}
	}
	for _, name := range sent.names {
		if !used[name] {
			r.addUnknown(name)
		}
	}
}

// checkDeep checks an object in the style deepObject: filter[a]=1&filter[b][c]=2. names are the names of its pairs.
func (p *parameter) checkDeep(r *Report, sent pairs, names []string, used map[string]bool) {
	used[p.Name] = true
	switch {
	case len(sent.values[p.Name]) > 0:
		r.add(InQuery, p.pointer, p.needsBrackets())
		return
	case len(names) == 0 && p.Required:
		r.add(InQuery, p.pointer, missing)
		return
	case len(names) == 0:
		return
	}
	if list, isList := p.emptyBrackets(sent, names); isList {
		used[names[0]] = true
		if list == nil {
			r.add(InQuery, p.pointer, malformedEscape)
			return
		}
		p.checkParts(r, InQuery, []part{listPart(list)}, "")
		return
	}
	object := map[string]part{}
	for _, name := range names {
		used[name] = true
		if detail := addDeep(r, object, p.target, name[len(p.Name):], sent.values[name]); detail != "" {
			r.add(InQuery, p.pointer+schema.Pointer(bracketTokens(name[len(p.Name):])...), detail)
			return
		}
	}
	p.checkParts(r, InQuery, []part{{members: object}}, "")
}

// emptyBrackets returns the items of a list in the style deepObject if all of them are sent with empty brackets:
// ids[]=a&ids[]=b. OpenAPI does not define lists in this style, but many descriptions have them. names are the names of
// the parameter's pairs. items is nil if an item has an invalid escape.
func (p *parameter) emptyBrackets(sent pairs, names []string) (items []string, isList bool) {
	if len(names) != 1 || names[0] != p.Name+"[]" || !p.target.allowsList() {
		return nil, false
	}
	items, _ = decodeAll(sent.values[names[0]], decodeQuery)
	return items, true
}

// needsBrackets returns the detail of the violation of an object or list in the style deepObject that is sent as one value.
func (p *parameter) needsBrackets() string {
	if p.target.allowsList() && !p.target.allowsObject() {
		return "must have empty brackets for each item: " + p.Name + "[]"
	}
	return "must have names of properties in brackets, such as " + p.Name + "[name]"
}

// maxBrackets is the maximum number of brackets in a name.
const maxBrackets = 8

// bracketTokens returns the names within brackets: a and b for "[a][b]". It returns the first maxBrackets+1 names.
func bracketTokens(text string) []string {
	tokens := strings.SplitN(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), "][", maxBrackets+2)
	return tokens[:min(len(tokens), maxBrackets+1)]
}

// malformedBrackets is the detail of the violation of a name whose brackets servers read in different ways.
const malformedBrackets = "must have the names of properties in brackets, and nothing between or after them"

// hasProperties reports whether a text consists of names in brackets, such as "[a][b]". The last name can be empty: it
// stands for the items of a list.
func hasProperties(text string) bool {
	text, isOpen := strings.CutPrefix(text, "[")
	text, isClosed := strings.CutSuffix(text, "]")
	if !isOpen || !isClosed || text == "" {
		return false
	}
	names := strings.Split(text, "][")
	for i, name := range names {
		if name == "" && i < len(names)-1 || strings.ContainsAny(name, "[]") {
			return false
		}
	}
	return true
}

// addDeep adds a value of an object with brackets in its name. detail says what is wrong, or is "".
func addDeep(r *Report, object map[string]part, t *target, brackets string, values []string) (detail string) {
	if !hasProperties(brackets) {
		return malformedBrackets
	}
	decoded, ok := decodeAll(values, decodeQuery)
	if !ok {
		return malformedEscape
	}
	tokens := bracketTokens(brackets)
	// Some clients write lists with empty brackets: filter[list][]=a.
	if last := len(tokens) - 1; last > 0 && tokens[last] == "" {
		tokens = tokens[:last]
	}
	if len(tokens) > maxBrackets {
		return "must have fewer brackets"
	}
	for i, token := range tokens {
		index, err := strconv.Atoi(token)
		isIndex := err == nil && index >= 0
		isItem := isIndex && (t.allowsList() || t.shape.IsUnrestricted())
		if isIndex && t.allowsList() && !t.allowsObject() {
			t = t.item(index, r.remainingWork())
		} else {
			t = t.property(token, r.remainingWork())
		}
		if i == len(tokens)-1 {
			if _, exists := object[token]; exists || isItem && len(decoded) > 1 {
				return sentTwice
			}
			member, ok := repeated(t, decoded)
			if !ok {
				return sentTwice
			}
			object[token] = member
			return ""
		}
		inner, exists := object[token]
		if !exists {
			inner = part{members: map[string]part{}}
			object[token] = inner
		}
		if inner.members == nil {
			return sentTwice
		}
		object = inner.members
	}
	return ""
}
