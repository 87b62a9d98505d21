package project

import (
	"cmp"
	"slices"
	"strings"
)

// This file checks the objects of an OpenAPI document and of the files to which its references lead.

// visit identifies an object, and the kind of object as which it was checked.
type visit struct {
	object uintptr
	kind   objectKind
}

// part is a place in another file to which references lead. isCovered is set if it is within another part. shape is the
// schema of OpenAPI for its value, or nil if there is none.
type part struct {
	place
	kind      objectKind
	isCovered bool
	shape     *shape
}

// followedReference is a reference that checkObjects has found and follows, with the kind of object to which it must lead.
type followedReference struct {
	place
	kind objectKind
	// section is the member of components that has objects of the kind.
	section string
}

// objectChecker checks the objects of one routes file, and the parts of other files to which its references lead.
type objectChecker struct {
	c     *compiler
	shape *shape // the schema of the version of OpenAPI
	// pending are the references that were not followed yet.
	pending []followedReference
	// current is the part that is being checked, nil for the routes file itself.
	current *part
}

// checkObjects checks what the schemas of OpenAPI cannot express: references, patterns, and the addresses of the info
// object. It also records the routes that no operation of a path declares (document.unserved). It follows references to
// other files, and checks the referenced parts of these files like the document itself.
func (c *compiler) checkObjects(doc *document, s *shape) {
	o := &objectChecker{c: c, shape: s}
	o.walk(place{doc: doc, value: doc.root}, documentObject)
	for len(o.pending) > 0 && !c.stopped() {
		all := o.pending
		o.pending = nil
		// Files are read in the order of the references, so that every build reports the same file if a budget is exceeded.
		slices.SortFunc(all, func(a, b followedReference) int {
			return cmp.Or(cmp.Compare(a.doc.file, b.doc.file), cmp.Compare(a.at, b.at))
		})
		for _, r := range all {
			o.follow(r)
		}
	}
}

// checksReferences reports whether checkObjects checks the references of the documents. OfferedOperations does not call
// checkObjects.
func (c *compiler) checksReferences() bool { return c.schemas != nil }

// checkParts reports violations of the schemas of OpenAPI, and $env expressions in wrong places, in the parts of other
// files.
func (c *compiler) checkParts() {
	for _, p := range c.parts {
		if p.isCovered || c.stopped() {
			continue
		}
		at := tokens(p.at)
		c.forbidEnv(p.doc.file, at, p.value, func(now []string) bool {
			n := len(now) - 3
			return p.kind == pathItemObject && n > len(at) && now[n] == routeExtension && now[n+1] == "handler" &&
				now[n+2] == "options" && isOperation(append([]string{"paths", ""}, now[len(at):n]...))
		})
		if p.shape != nil && (p.reference() == "" || p.kind == pathItemObject) {
			check(&c.report, p.doc.file, p.at, p.shape, p.value)
		}
	}
}

// follow checks the target of a reference, unless it was checked before.
func (o *objectChecker) follow(r followedReference) {
	target, problem := r.doc.resolve(r.reference())
	switch {
	case problem != "" && isURLReference(r.reference()) && r.kind != pathItemObject:
		o.c.warn(r.doc.file, r.at+"/$ref", "%s Until then, nothing is checked with it.", problem)
		return
	case problem != "":
		o.c.fail(r.doc.file, r.at+"/$ref", "%s", problem)
		return
	case target.doc == nil, IsRoutesFile(target.doc.file) || target.doc.file == offeredFile:
		return // the file cannot be read, or is checked as a whole
	}
	p := &part{place: target, kind: r.kind, shape: o.shape.parts[r.section]}
	if object := target.object(); object != nil {
		id := visit{identity(object), r.kind}
		if o.c.checked[id] {
			return
		}
		o.c.partsByVisit[id] = p
	}
	o.c.parts = append(o.c.parts, p)
	o.current = p
	o.walk(target, r.kind)
}

// walk checks the objects of a value. It does not check objects of other files again.
func (o *objectChecker) walk(p place, kind objectKind) {
	w := o.c.walker(func(at []string, kind objectKind, object map[string]any) { o.visit(p, at, kind, object) })
	if o.current != nil {
		w.skip = func(kind objectKind, object map[string]any) bool {
			id := visit{identity(object), kind}
			if within := o.c.partsByVisit[id]; within != nil && within != o.current {
				within.isCovered = true
			}
			if o.c.checked[id] {
				return true
			}
			o.c.checked[id] = true
			return false
		}
	}
	w.walk(tokens(p.at), kind, p.value)
}

// visit checks one object. at has the tokens of its pointer in the document of p.
func (o *objectChecker) visit(p place, at []string, kind objectKind, object map[string]any) {
	doc, c := p.doc, o.c
	if _, ok := object["$ref"].(string); ok {
		o.pending = append(o.pending, followedReference{place{doc, pointer(at...), object}, kind, sectionOf(kind, at)})
	}
	c.checkIneffective(doc.file, at, kind, object, o.shape == c.schemas.openAPI30)
	switch kind {
	case schemaObject:
		c.checkPatterns(doc.file, at, object)
		c.checkSchemaID(doc.file, at, object)
	case infoObject:
		c.checkInfo(doc.file, object)
	case operationObject:
		_, isRoute := object[routeExtension]
		if isRoute && (o.current != nil || at[0] != "paths" || !isOperation(at)) {
			doc.unserved[pointer(at...)] = true
		}
	default:
	}
}

// checkSchemaID warns about a schema within a document whose $id would change the targets of its references.
func (c *compiler) checkSchemaID(file string, at []string, schema map[string]any) {
	if id, ok := schema["$id"].(string); ok && len(at) > 0 && !strings.HasPrefix(id, "#") &&
		hasReference(schema, func(string) bool { return true }) {
		c.warn(file, pointer(at...)+pointer("$id"), "References in this schema are relative to this file, and $id does not "+
			"change that. Write the references relative to the file, and remove $id.")
	}
}

// sections are the members of components that have objects of a kind.
var sections = map[objectKind]string{
	pathItemObject: "pathItems", requestBodyObject: "requestBodies", mediaTypeObject: "mediaTypes",
	responseObject: "responses", callbackObject: "callbacks", schemaObject: "schemas",
}

// sectionOf returns the member of components that has objects of the same kind as the object at a pointer. It returns ""
// if components have no such objects.
func sectionOf(kind objectKind, at []string) string {
	if kind != parameterObject && kind != leafObject {
		return sections[kind]
	}
	if len(at) < 2 {
		return ""
	}
	switch name := at[len(at)-2]; name {
	case "parameters", "headers", "examples", "links", "securitySchemes":
		return name
	}
	return ""
}
