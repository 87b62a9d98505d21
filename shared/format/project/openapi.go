package project

import (
	"maps"
	"net/mail"
	"net/url"
	"strings"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

var (
	openAPI30 = lazy.Regexp(`^3\.0\.\d+(-.+)?$`)
	openAPI31 = lazy.Regexp(`^3\.1\.\d+(-.+)?$`)
	openAPI32 = lazy.Regexp(`^3\.2\.\d+(-.+)?$`)
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
	case openAPI32().MatchString(version):
		schema = c.schemas.openAPI32
	case root["swagger"] != nil:
		c.fail(doc.file, "/swagger", "This is Swagger 2, which is not supported. Convert it to OpenAPI 3.0, 3.1 or 3.2.")
		return false
	default:
		c.fail(doc.file, "/openapi",
			`This version is not supported. Write OpenAPI 3.0, 3.1 or 3.2, and say so: "openapi": "3.1.0".`)
		return false
	}
	c.checkShape(doc.file, schema, root)
	if _, ok := root["paths"].(map[string]any); !ok {
		if _, exists := root["paths"]; !exists {
			c.fail(doc.file, "", `Add "paths": a gateway's document describes routes.`)
		}
		return false
	}
	c.checkObjects(doc, schema)
	return true
}

// checkInfo warns about addresses of the info object that are invalid. The gateway does not use them.
func (c *compiler) checkInfo(file string, info map[string]any) {
	check := func(parent map[string]any, isValid func(string) bool, advice string, at ...string) {
		text, exists := parent[at[len(at)-1]].(string)
		if exists && !isValid(text) {
			c.warn(file, pointer("info")+pointer(at...), "This is no %s.", advice)
		}
	}
	contact, _ := info["contact"].(map[string]any)
	license, _ := info["license"].(map[string]any)
	const urlAdvice = "URL. Write one such as https://example.com/terms"
	check(info, isURL, urlAdvice, "termsOfService")
	check(contact, isURL, urlAdvice, "contact", "url")
	check(contact, isEmail, "email address. Write one such as team@example.com", "contact", "email")
	check(license, isURL, urlAdvice, "license", "url")
}

// isURL reports whether a text is a URL or a relative reference (RFC 3986).
func isURL(text string) bool {
	_, err := url.Parse(text)
	return err == nil && !strings.ContainsAny(text, " <>\"{}|\\^`")
}

// isEmail reports whether a text is an email address without a name.
func isEmail(text string) bool {
	address, err := mail.ParseAddress(text)
	return err == nil && address.Address == text
}

// warnUnserved warns about routes of a document that no path has: those of webhooks and callbacks, and those of path
// items that no path refers to. doc is nil for a file that cannot be read.
func (c *compiler) warnUnserved(doc *document) {
	if doc == nil {
		return
	}
	for at := range doc.unserved {
		c.warn(doc.file, at+pointer(routeExtension), "This route has no effect: the gateway serves the operations of paths, "+
			"and no path has this one. Refer to its path item in paths, or remove x-gateway-route.")
	}
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
		if names := tokens(p.Path); p.unknownIn != nil && len(names) == 2 && names[0] == "paths" {
			p.unknownIn = nil
			p.Message = "A path begins with a slash. Correct it, or write x- before the name of an extension."
		}
		c.problems.add(p)
	}
	c.problems.omitted += partial.problems.omitted
}
