package project

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/base/spelling"
)

// This file warns about keywords that would restrict requests, responses or the arguments of tools, and do not. It reads
// only the parts of documents that a validation policy or a tool uses.

// use says what uses a part of a document: policies that validate, and operations that MCP servers offer.
type use struct {
	validated, offered bool
	// isPart is set for a schema in an allOf with several schemas: its discriminator selects no subtype.
	isPart bool
}

// usedPart is a part of a document that was not read yet.
type usedPart struct {
	place
	kind objectKind
	use  use
}

// useVisit identifies an object that was read, and its use.
type useVisit struct {
	visit
	use use
}

// useChecker reads the used parts of all routes.
type useChecker struct {
	c       *compiler
	visited map[useVisit]bool
	pending []usedPart
	is30    bool // whether the document that declares the route is OpenAPI 3.0
}

// checkUses warns about keywords without effect in the parts of documents that validation policies and tools use.
func (c *compiler) checkUses() {
	u := &useChecker{c: c, visited: map[useVisit]bool{}}
	for i := range c.artifact.Routes {
		route := &c.artifact.Routes[i]
		request, responses := c.validates(route)
		offered := route.MCPOperation != nil
		if c.docs[route.file] == nil || !request && !responses && !offered {
			continue
		}
		u.is30 = c.docs[route.file].isOpenAPI30()
		item, operation := c.declaration(route)
		if request || offered {
			inRequests := use{validated: request, offered: offered}
			u.add(item.placeOf("parameters"), parameterObject, inRequests)
			u.add(operation.member("parameters"), parameterObject, inRequests)
			u.add(operation.member("requestBody"), requestBodyObject, inRequests)
		}
		if responses || offered {
			named := operation.member("responses")
			for status := range named.object() {
				u.add(named.member(status), responseObject, use{validated: responses, offered: offered})
			}
		}
		u.read()
	}
}

func (u *useChecker) add(p place, kind objectKind, by use) {
	u.pending = append(u.pending, usedPart{p, kind, by})
}

// read reads the pending parts, and those to which they refer.
func (u *useChecker) read() {
	for len(u.pending) > 0 && !u.c.stopped() {
		last := len(u.pending) - 1
		next := u.pending[last]
		u.pending = u.pending[:last]
		u.readPart(next)
	}
}

func (u *useChecker) readPart(p usedPart) {
	switch value := p.value.(type) {
	case []any:
		by := p.use
		for i, child := range value {
			u.add(place{p.doc, p.at + "/" + strconv.Itoa(i), child}, p.kind, by)
		}
	case map[string]any:
		visited := useVisit{visit{identity(value), p.kind}, p.use}
		if p.kind == dataObject || p.kind == leafObject || u.visited[visited] {
			return
		}
		u.visited[visited] = true
		if target := p.reference(); target != "" {
			if found, _ := p.doc.resolve(target); found.doc != nil {
				u.add(found, p.kind, p.use)
			}
			if u.is30 && p.kind == schemaObject {
				u.checkSiblings(p.place, value)
				return
			}
		}
		u.check(p, value)
		for name, child := range value {
			m := memberOf(p.kind, name)
			at := place{p.doc, p.at + pointer(name), child}
			if m.byName {
				for entry := range at.object() {
					u.add(at.member(entry), m.kind, use{validated: p.use.validated, offered: p.use.offered})
				}
				continue
			}
			parts, _ := child.([]any)
			u.add(at, m.kind, use{p.use.validated, p.use.offered, name == "allOf" && len(parts) > 1})
		}
	}
}

// warn warns about a member of an object.
func (u *useChecker) warn(p place, name, format string, args ...any) {
	u.c.warnIneffective(p.doc.file, p.at+pointer(name), fmt.Sprintf(format, args...))
}

// checkSiblings warns about keywords next to a reference in OpenAPI 3.0, which restrict nothing there.
func (u *useChecker) checkSiblings(p place, schema map[string]any) {
	for name := range schema {
		if restricts(name) {
			u.warn(p, name, "OpenAPI 3.0 ignores keywords next to $ref, so %s has no effect here. Write the reference into an "+
				"allOf, next to the keyword.", name)
		}
	}
}

// restricts reports whether a keyword restricts values.
func restricts(keyword string) bool {
	return slices.ContainsFunc(assertions(), func(g KeywordGroup) bool { return slices.Contains(g.Names, keyword) })
}

// check warns about the members of one object.
func (u *useChecker) check(p usedPart, object map[string]any) {
	has := func(name string) bool { return object[name] != nil }
	switch p.kind {
	case parameterObject:
		u.checkParameter(p, object)
	case mediaTypeObject:
		for _, name := range []string{"itemSchema", "prefixEncoding", "itemEncoding"} {
			if has(name) {
				u.warn(p.place, name, "%s has no effect: the gateway checks neither the items of streams nor the parts of "+
					"bodies one after the other. Describe the whole body with schema and encoding, if it is JSON or a form.", name)
			}
		}
	case encodingObject:
		for _, name := range []string{"encoding", "prefixEncoding", "itemEncoding"} {
			if has(name) {
				u.warn(p.place, name, "%s has no effect here: the gateway checks no form within a form.", name)
			}
		}
	case schemaObject:
		if has("contentSchema") {
			u.warn(p.place, "contentSchema", "Texts are not checked with contentSchema: the gateway does not read the document "+
				"within a text.")
		}
		if format, ok := object["format"].(string); ok {
			u.checkFormat(p.place, format)
		}
		u.checkDiscriminator(p, object)
	default:
	}
}

// checkFormat warns about a format that is not checked although authors expect it, and about a misspelled one. Other
// formats can be those of the author.
func (u *useChecker) checkFormat(p place, format string) {
	const maxDistance = 2 // date_time and datetime are date-time
	switch nearest, isNear := spelling.Nearest(strings.ToLower(format), checkedFormats[:], maxDistance); {
	case slices.Contains(uncheckedFormats[:], format):
		u.warn(p, "format", "The gateway does not check the format %s, and accepts every text. Use pattern to restrict it.",
			format)
	case isNear && nearest != format && len(format) > maxDistance+1 && !slices.Contains(otherFormats[:], format):
		u.warn(p, "format", "The gateway does not check the format %s, because it does not know it. Did you mean %s?",
			quote(format), nearest)
	}
}

// checkedFormats are the formats that package schema checks. otherFormats are formats of OpenAPI and of its registry with
// similar names.
var (
	checkedFormats = [...]string{
		"byte", "date", "date-time", "duration", "email", "hostname", "int32", "int64", "ipv4", "ipv6", "json-pointer",
		"time", "uri", "uri-reference", "uuid",
	}
	otherFormats = [...]string{"int8", "int16", "uint8", "uint16", "uint32", "uint64", "url", "bytes", "char", "data"}
)

// uncheckedFormats are the formats of JSON Schema 2020-12 that the gateway does not check.
var uncheckedFormats = [...]string{
	"idn-email", "idn-hostname", "iri", "iri-reference", "uri-template", "relative-json-pointer", "regex",
}

// checkParameter warns about styles and options of a parameter that do not fit it. p can be a header too.
func (u *useChecker) checkParameter(p usedPart, object map[string]any) {
	in, _ := object["in"].(string)
	style, _ := object["style"].(string)
	if types := typesOf(p.member("schema")); types != nil {
		isObject, isList := slices.Contains(types, "object"), slices.Contains(types, "array")
		switch {
		case style == StyleDeep && !isObject && !isList:
			u.warn(p.place, "style", "The style deepObject is for objects and lists, and the schema of this parameter allows "+
				"neither, so no value matches both. Correct one of them.")
		case (style == StyleSpace || style == StylePipe) && !isObject && !isList:
			u.warn(p.place, "style", "The style %s has no effect: it is for lists and objects, and the schema of this "+
				"parameter allows neither. Remove it.", style)
		}
	}
	if object["allowReserved"] == true && p.use.offered && in != "" && in != "header" {
		u.warn(p.place, "allowReserved", "allowReserved has no effect on MCP tools: they escape reserved characters in this "+
			"parameter.")
	}
	if object["allowEmptyValue"] == true && (in == "path" || in == "header") {
		u.warn(p.place, "allowEmptyValue", "allowEmptyValue has no effect here: it is for parameters of the query. Remove "+
			"it.")
	}
}

// typesOf returns the types in the keyword type of a schema, nil if the schema does not have this keyword.
func typesOf(schema place) []string {
	schema, found := schema.deref()
	if !found {
		return nil
	}
	var out []string
	switch types := schema.object()["type"].(type) {
	case string:
		out = append(out, types)
	case []any:
		for _, entry := range types {
			out = append(out, text(entry))
		}
	}
	return out
}

// checkDiscriminator warns about a discriminator whose subtypes are not checked, because it has no mapping.
func (u *useChecker) checkDiscriminator(p usedPart, schema map[string]any) {
	discriminator, _ := schema["discriminator"].(map[string]any)
	if discriminator == nil || !p.use.validated || p.use.isPart || schema["oneOf"] != nil || schema["anyOf"] != nil {
		return
	}
	if u.c.extensions == nil {
		u.c.open = map[uintptr]bool{}
		u.c.readExtensions()
	}
	mapping, _ := discriminator["mapping"].(map[string]any)
	if len(mapping) > 0 || len(u.c.extensions[identity(schema)]) == 0 {
		return
	}
	u.warn(p.place, "discriminator", "Values are checked with this schema, and not with the subtypes that extend it. Add "+
		"a mapping with the names of the subtypes.")
}
