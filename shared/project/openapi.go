package project

import (
	"maps"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/lazy"
)

var (
	openAPI30 = lazy.Regexp(`^3\.0\.\d+(-.+)?$`)
	openAPI31 = lazy.Regexp(`^3\.1\.\d+(-.+)?$`)
)

// checkOpenAPI reports where a document is no valid OpenAPI, by the OpenAPI
// Initiative's own schemas, and which of its references lead nowhere. It answers
// whether the document has paths to go on with. Why these schemas:
// docs/decisions/0011-openapi-by-its-own-schema.md.
func (c *compiler) checkOpenAPI(doc *document) bool {
	root, ok := doc.root.(map[string]any)
	if !ok {
		c.fail(doc.file, "", "This is no OpenAPI document. Write an object with openapi, info and paths.")
		return false
	}
	version, _ := root["openapi"].(string)
	schema := c.schemas.openAPI31
	switch {
	case openAPI30().MatchString(version):
		schema = c.schemas.openAPI30
	case openAPI31().MatchString(version):
	case root["swagger"] != nil:
		c.fail(doc.file, "/swagger", "This is Swagger 2, which is not supported. Convert it to OpenAPI 3.1 or 3.0.")
		return false
	default:
		c.fail(doc.file, "/openapi", `This version is not supported. Write OpenAPI 3.1 or 3.0, and say so: "openapi": "3.1.0".`)
		return false
	}
	c.checkShape(doc.file, schema, root)
	if _, ok := root["paths"].(map[string]any); !ok {
		if _, there := root["paths"]; !there {
			c.fail(doc.file, "", `Add "paths": a gateway's document describes routes.`)
		}
		return false
	}
	refs := &references{c: c, file: doc.file, root: doc.root, good: map[string]bool{}}
	refs.walk(nil, doc.root)
	return true
}

// checkShape holds a document against a schema of OpenAPI. A large one that does
// not fit is held against it in parts, each of which is a document with some of
// its entries: an error of the library's takes more memory than what is wrong.
func (c *compiler) checkShape(file string, s *shape, root map[string]any) {
	if weigh(root) <= maxWeight {
		c.checkPart(file, "", s, root)
		return
	}
	if s.fits(root) {
		return
	}
	frame := maps.Clone(root)
	empty := map[string]any{}
	for _, section := range []string{"paths", "webhooks"} {
		if entries, ok := root[section].(map[string]any); ok {
			frame[section] = empty
			c.checkEntries(file, "/"+section, s, entries, func(some map[string]any) map[string]any {
				return documentOf(root, section, some)
			})
		}
	}
	if components, ok := root["components"].(map[string]any); ok {
		emptied := maps.Clone(components)
		frame["components"] = emptied
		for name, entries := range components {
			entries, ok := entries.(map[string]any)
			if !ok || strings.HasPrefix(name, "x-") {
				continue
			}
			emptied[name] = empty
			c.checkEntries(file, "/components"+pointer(name), s, entries, func(some map[string]any) map[string]any {
				return documentOf(root, "components", map[string]any{name: some})
			})
		}
	}
	c.checkPart(file, "", s, frame)
}

// documentOf is a document that has nothing but a section.
func documentOf(root map[string]any, section string, entries map[string]any) map[string]any {
	return map[string]any{
		"openapi": root["openapi"], "info": map[string]any{"title": "", "version": ""},
		"paths": map[string]any{}, section: entries,
	}
}

// checkEntries checks the entries of a section, so many at a time as can be told of.
func (c *compiler) checkEntries(file, at string, s *shape, entries map[string]any, document func(some map[string]any) map[string]any) {
	some, weight := map[string]any{}, 0
	for name, entry := range entries {
		if c.stopped() {
			return
		}
		w := weigh(entry) + 100 // and what is around it
		if w > maxWeight {
			c.checkPart(file, at+pointer(name), s, document(map[string]any{name: entry}))
			continue
		}
		if weight += w; weight > maxWeight/2 {
			c.checkPart(file, at, s, document(some))
			some, weight = map[string]any{}, w
		}
		some[name] = entry
	}
	c.checkPart(file, at, s, document(some))
}

// checkPart checks a document and reports in the words of documents. at is what
// to look at when the violations cannot be told.
func (c *compiler) checkPart(file, at string, s *shape, root map[string]any) {
	prefix := ""
	if weigh(root) > maxWeight {
		prefix = at
	}
	var found report
	check(&found, file, prefix, s, root)
	for _, p := range found.problems.first {
		if at := tokens(p.Path); p.Message == unknownProperty && len(at) == 2 && at[0] == "paths" {
			p.Message = "A path begins with a slash. Correct it, or write x- before the name of an extension."
		}
		c.problems.add(p)
	}
	c.problems.more += found.problems.more
}

// references checks the references of a document into itself.
type references struct {
	c    *compiler
	file string
	root any
	good map[string]bool // the targets looked at so far
}

// walk looks at every $ref below value. What an author quotes as data (examples,
// defaults, extensions) is none of ours.
func (r *references) walk(at []string, value any) {
	if r.c.stopped() {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		if target, ok := v["$ref"].(string); ok && !r.leads(target) {
			r.c.fail(r.file, pointer(at...)+"/$ref", "This reference leads nowhere. Correct it, or add what it names.")
		}
		at = append(at, "")
		for name, child := range v {
			switch {
			case name == "example", name == "default", name == "enum", name == "const", name == "value",
				strings.HasPrefix(name, "x-"):
				continue
			case name == "examples":
				if _, quoted := child.([]any); quoted {
					continue
				}
			}
			at[len(at)-1] = name
			r.walk(at, child)
		}
	case []any:
		at = append(at, "")
		for i, child := range v {
			at[len(at)-1] = strconv.Itoa(i)
			r.walk(at, child)
		}
	}
}

// leads reports whether a target exists. References out of the document and
// named anchors are not followed: the gateway needs none of them.
func (r *references) leads(target string) bool {
	path, local := strings.CutPrefix(target, "#/")
	if !local {
		return true
	}
	good, known := r.good[path]
	if !known {
		good = exists(r.root, path)
		r.good[path] = good
	}
	return good
}

func exists(value any, path string) bool {
	_, ok := lookup(value, path)
	return ok
}

// lookup returns what a JSON pointer without its first slash leads to.
func lookup(value any, path string) (any, bool) {
	for token := range strings.SplitSeq(path, "/") {
		token = unescapeToken(percentDecoded(token))
		switch v := value.(type) {
		case map[string]any:
			child, ok := v[token]
			if !ok {
				return nil, false
			}
			value = child
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}
