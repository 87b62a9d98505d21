package project

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// The media types of forms.
const (
	urlEncodedForm = "application/x-www-form-urlencoded"
	multipartForm  = "multipart/form-data"
)

// addBody adds the arguments for the body: one for each property of an object, or a single
// argument "body" for any other type. It warns about a body that no call of the tool has.
func (b *offerBuilder) addBody() {
	const at = "/requestBody"
	if b.operation["requestBody"] == nil {
		return
	}
	if b.route.Method == http.MethodTrace {
		b.warn(at, "This body has no effect: a TRACE request has none. Remove it, or use another method.")
		return
	}
	found, ok := b.deref(at, place{doc: b.doc, value: b.operation["requestBody"]})
	if !ok {
		return
	}
	request := found.object()
	content, _ := request["content"].(map[string]any)
	mediaType, kind := bodyContent(content)
	if kind == "" {
		b.reportUnsupportedBody(at)
		return
	}
	media := place{doc: found.doc, value: content[mediaType]}
	if kind == BodyForm {
		// URL-encoded forms have no files.
		alternative := contentOf(content, multipartForm)
		multipart := place{doc: found.doc, value: content[alternative]}
		if alternative != "" && mayHaveFile(mediaSchema(multipart), 0) {
			mediaType, kind, media = alternative, BodyMultipart, multipart
		}
	}
	b.offer.Body, b.offer.ContentType = kind, mediaType
	switch {
	case strings.Contains(mediaType, "*"):
		b.offer.ContentType = "application/json"
	case !isMediaType(mediaType):
		b.offer.ContentType = baseType(mediaType) // the parameters are malformed, as in "text/plain; utf-8"
	}
	mediaAt := at + "/content" + escapedPointer(mediaType)
	pointer := mediaAt + "/schema"
	schema := mediaSchema(media)
	if schema.value == nil {
		schema.value = map[string]any{}
		if kind == BodyText {
			schema.value = map[string]any{"type": "string"}
		}
	}
	isForm := kind == BodyForm || kind == BodyMultipart
	inline := b.inlineSchema
	if isForm {
		inline = b.inlineBaseType
	}
	inlined, ok := inline(pointer, schema, "readOnly")
	if !ok {
		return
	}
	bodyRequired := request["required"] == true
	flat, isObject := flatten(inlined)
	switch {
	case isForm && !isObject && b.isUsuallyWithoutBody():
		b.offer.Body, b.offer.ContentType = "", ""
		b.warn(pointer, "This body is no argument of the MCP tool: an MCP server makes a form of an object's properties. "+
			"Describe the body by a schema of the type object, or remove it.")
	case isForm && !isObject:
		b.fail(pointer, "An MCP server makes a form of an object's properties. Describe this body by a schema of the "+
			"type object.")
	case isForm:
		b.addForm(mediaAt, media, flat, bodyRequired)
	case kind == BodyText || !isObject:
		b.addArgument(Argument{Location: InBody, Target: "body", Required: bodyRequired},
			withDescription(inlined, text(orEmpty(request["description"]))))
	default:
		b.addProperties(flat, bodyRequired, b.addArgument)
	}
}

// reportUnsupportedBody reports a body in a format that MCP servers do not send. It is an error, except
// for a method whose requests usually have no body: the tool then calls the operation without it.
func (b *offerBuilder) reportUnsupportedBody(at string) {
	if b.isUsuallyWithoutBody() {
		b.warn(at+"/content", "This body is no argument of the MCP tool: an MCP server sends JSON, text or forms. Describe "+
			"it as application/json, or remove it.")
		return
	}
	b.fail(at+"/content", "An MCP server sends JSON, text or forms, and this body is none of these. Describe it as "+
		"application/json, or expose another operation.")
}

// isUsuallyWithoutBody reports whether requests with the route's method usually have no body.
func (b *offerBuilder) isUsuallyWithoutBody() bool {
	return slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, b.route.Method)
}

// addProperties calls add with an argument and a schema for each property of a body that is an object.
func (b *offerBuilder) addProperties(flat map[string]any, bodyRequired bool, add func(a Argument, schema any)) {
	properties, _ := flat["properties"].(map[string]any)
	required, _ := flat["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		add(Argument{Location: InProperty, Target: name, Required: bodyRequired &&
			slices.Contains(required, any(name))}, properties[name])
	}
	// The schema can require properties that it does not declare. Requests are refused without them.
	for _, name := range required {
		name, _ := name.(string)
		if _, declared := properties[name]; declared || b.dropped[name] || flat["additionalProperties"] == false {
			continue
		}
		schema, isSchema := flat["additionalProperties"].(map[string]any)
		if !isSchema {
			schema = map[string]any{}
		}
		add(Argument{Location: InProperty, Target: name, Required: bodyRequired}, schema)
	}
	b.offer.BodyRequired = bodyRequired
	switch extra := flat["additionalProperties"]; {
	case extra != nil:
		b.additional = extra
	case len(properties) == 0:
		b.additional = true // an object without any description
	}
}

// jsonContent returns the JSON media type of a content object, or a range that includes it, or "" if there is neither.
func jsonContent(content map[string]any) string {
	for _, exact := range []string{"application/json", "*/*", "application/*"} {
		if _, ok := content[exact]; ok {
			return exact
		}
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if isJSON(name) {
			return name
		}
	}
	return ""
}

// isJSON reports whether a media type, which can have parameters, is JSON.
func isJSON(mediaType string) bool {
	base := baseType(mediaType)
	return base == "application/json" || strings.HasSuffix(base, "+json")
}

// contentOf returns the name of a media type in a content object, which can have
// parameters and capital letters, or "" if the content object does not have the type.
func contentOf(content map[string]any, mediaType string) string {
	if _, ok := content[mediaType]; ok {
		return mediaType
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if baseType(name) == mediaType {
			return name
		}
	}
	return ""
}

// bodyContent returns the media type and format that an MCP server uses to
// send a body. It returns "" and "" if it supports none of the media types.
func bodyContent(content map[string]any) (string, BodyKind) {
	if name := jsonContent(content); name != "" {
		return name, BodyJSON
	}
	if name := contentOf(content, urlEncodedForm); name != "" {
		return name, BodyForm
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if strings.HasPrefix(name, "text/") && !strings.Contains(name, "*") {
			return name, BodyText
		}
	}
	if name := contentOf(content, multipartForm); name != "" {
		return name, BodyMultipart
	}
	return "", ""
}
