package project

import (
	"strconv"
	"strings"
)

// objectKind is a kind of object in an OpenAPI document.
type objectKind int

// The kinds of objects. Each kind has its section in the OpenAPI specification.
const (
	dataObject objectKind = iota // a value that is not described further, such as an example
	documentObject
	infoObject
	componentsObject
	pathItemObject
	operationObject
	parameterObject // a parameter or a header
	requestBodyObject
	mediaTypeObject
	encodingObject
	responseObject
	callbackObject
	leafObject // a link, an example or a security scheme: it can be a reference, and contains no other objects
	schemaObject
)

// memberKind describes a member of an object: the kind of its value, or of the elements if the value is a list.
type memberKind struct {
	kind objectKind
	// byName is true for a value that is an object whose members have names of the author's choice. These members are of
	// the kind. isExtensible is true if members whose names begin with x- are extensions there.
	byName, isExtensible bool
}

// members has the members that contain objects, for each kind of object except schemas, of all versions of OpenAPI.
// memberOf adds the operations of a path item and the keywords of a schema.
var members = map[objectKind]map[string]memberKind{
	documentObject: {
		"info":       {kind: infoObject},
		"paths":      {kind: pathItemObject, byName: true, isExtensible: true},
		"webhooks":   {kind: pathItemObject, byName: true},
		"components": {kind: componentsObject},
	},
	componentsObject: {
		"schemas":         {kind: schemaObject, byName: true},
		"responses":       {kind: responseObject, byName: true},
		"parameters":      {kind: parameterObject, byName: true},
		"examples":        {kind: leafObject, byName: true},
		"requestBodies":   {kind: requestBodyObject, byName: true},
		"headers":         {kind: parameterObject, byName: true},
		"securitySchemes": {kind: leafObject, byName: true},
		"links":           {kind: leafObject, byName: true},
		"callbacks":       {kind: callbackObject, byName: true},
		"pathItems":       {kind: pathItemObject, byName: true},
		"mediaTypes":      {kind: mediaTypeObject, byName: true},
	},
	pathItemObject: {
		"parameters":         {kind: parameterObject},
		additionalOperations: {kind: operationObject, byName: true},
	},
	operationObject: {
		"parameters":  {kind: parameterObject},
		"requestBody": {kind: requestBodyObject},
		"responses":   {kind: responseObject, byName: true, isExtensible: true},
		"callbacks":   {kind: callbackObject, byName: true},
	},
	parameterObject: {
		"schema":   {kind: schemaObject},
		"content":  {kind: mediaTypeObject, byName: true},
		"examples": {kind: leafObject, byName: true},
	},
	requestBodyObject: {"content": {kind: mediaTypeObject, byName: true}},
	mediaTypeObject: {
		"schema":         {kind: schemaObject},
		"itemSchema":     {kind: schemaObject},
		"examples":       {kind: leafObject, byName: true},
		"encoding":       {kind: encodingObject, byName: true},
		"prefixEncoding": {kind: encodingObject},
		"itemEncoding":   {kind: encodingObject},
	},
	encodingObject: {
		"headers":        {kind: parameterObject, byName: true},
		"encoding":       {kind: encodingObject, byName: true},
		"prefixEncoding": {kind: encodingObject},
		"itemEncoding":   {kind: encodingObject},
	},
	responseObject: {
		"headers": {kind: parameterObject, byName: true},
		"content": {kind: mediaTypeObject, byName: true},
		"links":   {kind: leafObject, byName: true},
	},
}

// memberOf returns the kind of a member of an object. It returns the zero value, dataObject, for a member that
// contains no objects, such as an example, and for an extension.
func memberOf(kind objectKind, name string) memberKind {
	switch kind {
	case schemaObject:
		return schemaMember(name)
	case callbackObject:
		if !strings.HasPrefix(name, "x-") {
			return memberKind{kind: pathItemObject}
		}
	case pathItemObject:
		if isMethod(name) {
			return memberKind{kind: operationObject}
		}
	default:
	}
	return members[kind][name]
}

// schemaMember returns the kind of a keyword's value. It knows the keywords that a tool's schema can have
// (keywordKind), and the other keywords that contain schemas.
func schemaMember(name string) memberKind {
	switch keywordKind(name) {
	case kindSchema, kindSchemaList:
		return memberKind{kind: schemaObject}
	case kindSchemaMap:
		return memberKind{kind: schemaObject, byName: true}
	}
	switch name {
	case "additionalItems", "contentSchema":
		return memberKind{kind: schemaObject}
	case "$defs", "definitions", "dependencies":
		return memberKind{kind: schemaObject, byName: true}
	}
	return memberKind{}
}

// walker visits the objects of an OpenAPI document. It does not follow references, and skips data: examples, defaults,
// enumerations, constants and extensions. Names that the author has chosen have no meaning for it: a property called
// "example" is a schema.
type walker struct {
	// visit is called for each object, with the tokens of its pointer. It must not keep them.
	visit func(at []string, kind objectKind, object map[string]any)
	// skip, if not nil, is called before visit. If it returns true, the walk leaves out the object and its members.
	skip func(kind objectKind, object map[string]any) bool
	// isStopped ends the walk when it returns true.
	isStopped func() bool
}

// walker returns a walker that ends when the compilation is stopped.
func (c *compiler) walker(visit func(at []string, kind objectKind, object map[string]any)) *walker {
	return &walker{visit: visit, isStopped: c.stopped}
}

// walk visits a value of a kind, or the elements of a list, and all objects within them.
func (w *walker) walk(at []string, kind objectKind, value any) {
	if kind == dataObject || w.isStopped() {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		if w.skip != nil && w.skip(kind, v) {
			return
		}
		w.visit(at, kind, v)
		at = append(at, "")
		for name, child := range v {
			at[len(at)-1] = name
			if m := memberOf(kind, name); m.byName {
				w.walkNamed(at, m, child)
			} else {
				w.walk(at, m.kind, child)
			}
		}
	case []any:
		at = append(at, "")
		for i, child := range v {
			at[len(at)-1] = strconv.Itoa(i)
			w.walk(at, kind, child)
		}
	}
}

// walkNamed visits the members of an object with names of the author's choice.
func (w *walker) walkNamed(at []string, m memberKind, value any) {
	named, _ := value.(map[string]any)
	at = append(at, "")
	for name, child := range named {
		if m.isExtensible && strings.HasPrefix(name, "x-") {
			continue
		}
		at[len(at)-1] = name
		w.walk(at, m.kind, child)
	}
}
