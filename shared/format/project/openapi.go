package project

import (
	"maps"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

var (
	openAPI30 = lazy.Regexp(`^3\.0\.\d+(-.+)?$`)
	openAPI31 = lazy.Regexp(`^3\.1\.\d+(-.+)?$`)
)

// checkOpenAPI reports violations of the OpenAPI Initiative's own schemas, and references
// to missing targets. It reports whether the document has paths that can be compiled.
// docs/decisions/0011-openapi-by-its-own-schema.md explains why it uses these schemas.
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
		c.fail(doc.file, "/openapi",
			`This version is not supported. Write OpenAPI 3.1 or 3.0, and say so: "openapi": "3.1.0".`)
		return false
	}
	c.checkShape(doc.file, schema, root)
	if _, ok := root["paths"].(map[string]any); !ok {
		if _, exists := root["paths"]; !exists {
			c.fail(doc.file, "", `Add "paths": a gateway's document describes routes.`)
		}
		return false
	}
	refs := &references{c: c, file: doc.file, root: doc.root, valid: map[string]bool{}}
	refs.walk(nil, doc.root)
	return true
}

// checkShape validates a document against a schema of OpenAPI. An error of the library
// takes more memory than the invalid value, so checkShape validates a large invalid
// document in parts. Each part is a document with some of the original entries.
func (c *compiler) checkShape(file string, s *shape, root map[string]any) {
	if weigh(root) <= maxWeight {
		c.checkPart(file, "", s, root)
		return
	}
	if s.matches(root) {
		return
	}
	skeleton := maps.Clone(root)
	empty := map[string]any{}
	for _, section := range []string{"paths", "webhooks"} {
		if entries, ok := root[section].(map[string]any); ok {
			skeleton[section] = empty
			c.checkEntries(file, "/"+section, s, entries, func(batch map[string]any) map[string]any {
				return documentOf(root, section, batch)
			})
		}
	}
	if components, ok := root["components"].(map[string]any); ok {
		emptied := maps.Clone(components)
		skeleton["components"] = emptied
		for name, entries := range components {
			entries, ok := entries.(map[string]any)
			if !ok || strings.HasPrefix(name, "x-") {
				continue
			}
			emptied[name] = empty
			c.checkEntries(file, "/components"+pointer(name), s, entries, func(batch map[string]any) map[string]any {
				return documentOf(root, "components", map[string]any{name: batch})
			})
		}
	}
	c.checkPart(file, "", s, skeleton)
}

// documentOf returns a document with the version of root and only one section, which has the entries.
func documentOf(root map[string]any, section string, entries map[string]any) map[string]any {
	return map[string]any{
		"openapi": root["openapi"], "info": map[string]any{"title": "", "version": ""},
		"paths": map[string]any{}, section: entries,
	}
}

// checkEntries validates the entries of a section in batches. document returns a document with a batch. Each batch is
// small enough for the library to list its violations (maxWeight), except a batch that is a single larger entry.
func (c *compiler) checkEntries(
	file, at string, s *shape, entries map[string]any, document func(batch map[string]any) map[string]any,
) {
	batch, weight := map[string]any{}, 0
	for name, entry := range entries {
		if c.stopped() {
			return
		}
		w := weigh(entry) + 100 // the entry, and the document around it
		if w > maxWeight {
			c.checkPart(file, at+pointer(name), s, document(map[string]any{name: entry}))
			continue
		}
		if weight += w; weight > maxWeight/2 {
			c.checkPart(file, at, s, document(batch))
			batch, weight = map[string]any{}, w
		}
		batch[name] = entry
	}
	c.checkPart(file, at, s, document(batch))
}

// checkPart checks a document and reports violations in the terms of OpenAPI documents. If the document is too large to
// list its violations, checkPart reports one problem. at is the pointer for this problem.
func (c *compiler) checkPart(file, at string, s *shape, root map[string]any) {
	prefix := ""
	if weigh(root) > maxWeight {
		prefix = at
	}
	var partial report
	check(&partial, file, prefix, s, root)
	for _, p := range partial.problems.entries {
		if names := tokens(p.Path); p.Message == unknownProperty && len(names) == 2 && names[0] == "paths" {
			p.Message = "A path begins with a slash. Correct it, or write x- before the name of an extension."
		}
		c.problems.add(p)
	}
	c.problems.omitted += partial.problems.omitted
}

// references checks the references of a document to its own parts.
type references struct {
	c     *compiler
	file  string
	root  any
	valid map[string]bool // whether a target exists, for the targets checked so far
}

// walk checks every $ref below value. It skips members whose names mean that they contain
// data: examples, defaults, enumerations, constants, values and extensions.
func (r *references) walk(at []string, value any) {
	if r.c.stopped() {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		if target, ok := v["$ref"].(string); ok && !r.resolves(target) {
			r.c.fail(r.file, pointer(at...)+"/$ref", "This reference leads nowhere. Correct it, or add what it names.")
		}
		at = append(at, "")
		for name, child := range v {
			switch {
			case name == "example", name == "default", name == "enum", name == "const", name == "value",
				strings.HasPrefix(name, "x-"):
				continue
			case name == "examples":
				if _, isList := child.([]any); isList {
					continue // the examples of a schema; other examples are an object that can have references
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

// resolves reports whether a target exists. It accepts references to other documents
// and named anchors without following them: the gateway does not need them.
func (r *references) resolves(target string) bool {
	path, local := strings.CutPrefix(target, "#/")
	if !local {
		return true
	}
	valid, checked := r.valid[path]
	if !checked {
		valid = exists(r.root, path)
		r.valid[path] = valid
	}
	return valid
}

func exists(value any, path string) bool {
	_, ok := lookup(value, path)
	return ok
}

// lookup returns the value at a JSON pointer. path is the pointer without its first slash.
func lookup(value any, path string) (any, bool) {
	for token := range strings.SplitSeq(path, "/") {
		token = unescapeToken(percentDecode(token))
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
