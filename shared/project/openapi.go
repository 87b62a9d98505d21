package project

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	openAPI30 = regexp.MustCompile(`^3\.0\.\d+(-.+)?$`)
	openAPI31 = regexp.MustCompile(`^3\.1\.\d+(-.+)?$`)
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
	case openAPI30.MatchString(version):
		schema = c.schemas.openAPI30
	case openAPI31.MatchString(version):
	case root["swagger"] != nil:
		c.fail(doc.file, "/swagger", "This is Swagger 2, which is not supported. Convert it to OpenAPI 3.1 or 3.0.")
		return false
	default:
		c.fail(doc.file, "/openapi", `This version is not supported. Write OpenAPI 3.1 or 3.0, and say so: "openapi": "3.1.0".`)
		return false
	}
	first := len(c.problems)
	check(&c.report, doc.file, "", schema, doc.root)
	for i, p := range c.problems[first:] {
		if at := tokens(p.Path); p.Message == unknownProperty && len(at) == 2 && at[0] == "paths" {
			c.problems[first+i].Message = "A path begins with a slash. Correct it, or write x- before the name of an extension."
		}
	}
	if _, ok := root["paths"].(map[string]any); !ok {
		if _, there := root["paths"]; !there {
			c.fail(doc.file, "", `Add "paths": a gateway's document describes routes.`)
		}
		return false
	}
	refs := &references{report: &c.report, file: doc.file, root: doc.root, good: map[string]bool{}}
	refs.walk(nil, doc.root)
	return true
}

// references checks the references of a document into itself.
type references struct {
	report *report
	file   string
	root   any
	good   map[string]bool // the targets looked at so far
}

// walk looks at every $ref below value. What an author quotes as data (examples,
// defaults, extensions) is none of ours.
func (r *references) walk(at []string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if target, ok := v["$ref"].(string); ok && !r.leads(target) {
			r.report.fail(r.file, pointer(at...)+"/$ref", "This reference leads nowhere. Correct it, or add what it names.")
		}
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
			r.walk(append(at[:len(at):len(at)], name), child)
		}
	case []any:
		for i, child := range v {
			r.walk(append(at[:len(at):len(at)], strconv.Itoa(i)), child)
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
	for token := range strings.SplitSeq(path, "/") {
		token = unescapeToken(percentDecoded(token))
		switch v := value.(type) {
		case map[string]any:
			child, ok := v[token]
			if !ok {
				return false
			}
			value = child
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return false
			}
			value = v[i]
		default:
			return false
		}
	}
	return true
}
