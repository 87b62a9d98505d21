package project

// SchemaKeywords is the object of the keywords of schemas: those of OpenAPI 3.0, and those of JSON Schema 2020-12 and of
// OpenAPI's vocabulary.
const SchemaKeywords = "Schema"

// enforced are the effects of keywords that restrict the values of requests, responses and arguments.
const enforced = "requests,responses,tools"

// Keywords returns what each keyword of OpenAPI 3.0, 3.1 and 3.2 does, by objects in the order of the specification. The
// keywords of schemas are last. Extensions, whose names begin with x-, are not listed.
func Keywords() []KeywordGroup {
	return append(append(append(documentKeywords(), messageKeywords()...), securityKeywords()...),
		append(assertions(), otherSchemaKeywords()...)...)
}

// documentKeywords returns the keywords of the document, its paths and operations.
func documentKeywords() []KeywordGroup {
	const (
		openAPI, components, item, operation = "OpenAPI", "Components", "Path Item", "Operation"
		atOperation                          = "the build warns where an operation or a response refers to one"
	)
	return []KeywordGroup{
		group(openAPI, allVersions, "openapi", "structure", "the version, and so the dialect of schemas"),
		group(openAPI, allVersions, "paths", "routes", ""),
		group(openAPI, allVersions, "security", "security", ""),
		group(openAPI, allVersions, "components", "structure", ""),
		group(openAPI, allVersions, "servers", "init", ""),
		group(openAPI, allVersions, "info tags externalDocs", "readers", ""),
		group(openAPI, since31, "webhooks", "warning", "their requests do not pass the gateway"),
		group(openAPI, since31, "jsonSchemaDialect", "warning", "if it names another dialect than those of OpenAPI and JSON "+
			"Schema 2020-12"),
		group(openAPI, Version32, "$self", "warning", "if references lead to other files, which are relative to the file"),
		group("Info", allVersions, "title version description termsOfService contact license", "readers", ""),
		group("Info", since31, "summary", "readers", ""),
		group("Contact", allVersions, "name url email", "readers", ""),
		group("License", allVersions, "name url", "readers", ""),
		group("License", since31, "identifier", "readers", ""),
		group("Server", allVersions, "url variables", "init", ""),
		group("Server", allVersions, "description", "readers", ""),
		group("Server", Version32, "name", "readers", ""),
		group("Server Variable", allVersions, "default enum", "init", ""),
		group("Server Variable", allVersions, "description", "readers", ""),
		group(components, allVersions, "schemas responses parameters requestBodies headers", "structure", ""),
		group(components, since31, "pathItems", "structure", ""),
		group(components, Version32, "mediaTypes", "structure", ""),
		group(components, allVersions, "securitySchemes", "security", ""),
		group(components, allVersions, "examples", "readers", ""),
		group(components, allVersions, "links callbacks", "readers", atOperation),
		group("Paths", allVersions, "{path}", "routes", ""),
		group(item, allVersions, "$ref get put post delete options head patch trace", "routes", ""),
		group(item, Version32, "query additionalOperations", "routes", ""),
		group(item, allVersions, "parameters", "requests,tools", ""),
		group(item, allVersions, "servers", "init", ""),
		group(item, allVersions, "summary description", "readers", ""),
		group(operation, allVersions, "operationId", "tools", "and the name of the operation in logs"),
		group(operation, allVersions, "parameters requestBody", "requests,tools", ""),
		group(operation, allVersions, "responses", "responses,tools", ""),
		group(operation, allVersions, "security", "security", ""),
		group(operation, allVersions, "servers", "init", ""),
		group(operation, allVersions, "summary description", "passed on", ""),
		group(operation, allVersions, "tags externalDocs deprecated", "readers", ""),
		group(operation, allVersions, "callbacks", "warning", "their requests do not pass the gateway"),
		group("External Documentation", allVersions, "description url", "readers", ""),
		group("Callback", allVersions, "{expression}", "readers", "the build warns at `callbacks` of the operation"),
		group("Tag", allVersions, "name description externalDocs", "readers", ""),
		group("Tag", Version32, "summary parent kind", "readers", ""),
		group("Reference", allVersions, "$ref", "structure", "within the file and to other files of the project"),
		group("Reference", since31, "summary description", "readers", ""),
	}
}

// messageKeywords returns the keywords of requests and responses.
func messageKeywords() []KeywordGroup {
	const (
		parameter, header, media, encoding = "Parameter", "Header", "Media Type", "Encoding"
		inForms                            = "the items of streams and the parts of multipart bodies are not checked with it"
		notForHeaders                      = "OpenAPI gives it no meaning for headers"
		atLinks                            = "the build warns at `links` of the response"
	)
	return []KeywordGroup{
		group(parameter, allVersions, "name in required schema content style explode", "requests,tools", "a style that does "+
			"not fit the type is reported"),
		group(parameter, allVersions, "allowEmptyValue", "requests", "in the query and in cookies"),
		group(parameter, allVersions, "allowReserved", "warning", "if a tool has the parameter: tools escape reserved "+
			"characters. Requests can have them as they are, and escaped"),
		group(parameter, allVersions, "description", "passed on", ""),
		group(parameter, allVersions, "deprecated example examples", "readers", ""),
		group("Request Body", allVersions, "content required", "requests,tools", ""),
		group("Request Body", allVersions, "description", "passed on", "if the body is one argument"),
		group(media, allVersions, "schema", enforced, "for JSON, forms and text"),
		group(media, allVersions, "encoding", "requests,tools", "for forms"),
		group(media, Version32, "itemSchema prefixEncoding itemEncoding", "warning", inForms),
		group(media, allVersions, "example examples", "readers", ""),
		group(media, Version32, "description", "readers", ""),
		group(encoding, allVersions, "contentType style explode", "requests,tools", ""),
		group(encoding, allVersions, "headers", "requests,tools", "of the parts of multipart forms"),
		group(encoding, allVersions, "allowReserved", "tools", "requests can have reserved characters as they are, and "+
			"escaped"),
		group(encoding, Version32, "encoding prefixEncoding itemEncoding", "warning", "a form within a form is not checked"),
		group("Responses", allVersions, "{status}", "responses,tools", "tools use those of success"),
		group("Responses", allVersions, "default", "responses", ""),
		group("Response", allVersions, "headers", "responses", ""),
		group("Response", allVersions, "content", "responses,tools", ""),
		group("Response", allVersions, "links", "warning", "the gateway adds no links"),
		group("Response", allVersions, "description", "readers", ""),
		group("Response", Version32, "summary", "readers", ""),
		group(header, allVersions, "required schema content explode", "responses", "and in requests for the parts of "+
			"multipart forms"),
		group(header, allVersions, "style", "readers", "there is only one"),
		group(header, allVersions, "description deprecated example examples", "readers", ""),
		group(header, Version30, "allowEmptyValue allowReserved", "readers", notForHeaders),
		group("Example", allVersions, "summary description value externalValue", "readers", ""),
		group("Example", Version32, "dataValue serializedValue", "readers", ""),
		group("Link", allVersions, "operationRef operationId parameters requestBody description server", "readers", atLinks),
	}
}

// securityKeywords returns the keywords of security schemes.
func securityKeywords() []KeywordGroup {
	const scheme = "Security Scheme"
	return []KeywordGroup{
		group(scheme, allVersions, "type name in scheme bearerFormat", "security", ""),
		group(scheme, allVersions, "description flows openIdConnectUrl", "readers", ""),
		group(scheme, Version32, "oauth2MetadataUrl deprecated", "readers", ""),
		group("OAuth Flows", allVersions, "implicit password clientCredentials authorizationCode", "readers", ""),
		group("OAuth Flows", Version32, "deviceAuthorization", "readers", ""),
		group("OAuth Flow", allVersions, "authorizationUrl tokenUrl refreshUrl scopes", "readers", "operations require "+
			"scopes in `security`"),
		group("OAuth Flow", Version32, "deviceAuthorizationUrl", "readers", ""),
		group("Security Requirement", allVersions, "{scheme}", "security", "with its scopes"),
		group("Discriminator", allVersions, "propertyName mapping", "requests,responses,tools", ""),
		group("Discriminator", Version32, "defaultMapping", "tools", "other subtypes are then not offered"),
		group("XML", allVersions, "name namespace prefix attribute wrapped", "readers", "the build warns at the schema of a "+
			"body in XML, which is not checked"),
		group("XML", Version32, "nodeType", "readers", "like the other keywords of XML"),
	}
}

// assertions returns the keywords of schemas that restrict values.
func assertions() []KeywordGroup {
	return []KeywordGroup{
		group(SchemaKeywords, allVersions, "type enum multipleOf maximum exclusiveMaximum minimum exclusiveMinimum "+
			"maxLength minLength maxItems minItems uniqueItems maxProperties minProperties required", enforced, ""),
		group(SchemaKeywords, since31, "const minContains maxContains dependentRequired", enforced, ""),
		group(SchemaKeywords, allVersions, "allOf anyOf oneOf not items properties additionalProperties", enforced, ""),
		group(SchemaKeywords, since31, "if then else prefixItems contains patternProperties propertyNames "+
			"dependentSchemas unevaluatedItems unevaluatedProperties", enforced, ""),
		group(SchemaKeywords, allVersions, "pattern", enforced+",warning", "the build warns about a pattern that "+
			"cannot be checked in linear time"),
		group(SchemaKeywords, allVersions, "format", enforced+",warning", "the formats that are [listed above]"+
			"(#requests). The build warns about other formats of JSON Schema"),
		group(SchemaKeywords, since31, "contentEncoding", enforced, "base64"),
		group(SchemaKeywords, Version30, "nullable", enforced, "in OpenAPI 3.1 and 3.2, it is unknown: the build warns"),
		group(SchemaKeywords, allVersions, "readOnly", "requests,tools", "the property must not be in requests"),
		group(SchemaKeywords, allVersions, "writeOnly", "responses,tools", "the property must not be in responses"),
	}
}

// otherSchemaKeywords returns the keywords of schemas that restrict no values themselves.
func otherSchemaKeywords() []KeywordGroup {
	return []KeywordGroup{
		group(SchemaKeywords, allVersions, "discriminator", "requests,responses,tools,warning", "a value is also checked "+
			"with the subtype that the mapping names, and tools offer the subtypes. The build warns about subtypes without "+
			"a mapping"),
		group(SchemaKeywords, allVersions, "title description default deprecated", "passed on", ""),
		group(SchemaKeywords, since31, "examples contentMediaType", "passed on", ""),
		group(SchemaKeywords, since31, "contentSchema", "warning", "texts are not read as documents"),
		group(SchemaKeywords, since31, "$ref $defs $anchor $dynamicAnchor definitions", "structure", ""),
		group(SchemaKeywords, since31, "$dynamicRef $recursiveRef", "warning", "an MCP tool with it is refused"),
		group(SchemaKeywords, since31, "dependencies", "warning", "JSON Schema 2020-12 has `dependentRequired` and "+
			"`dependentSchemas` in its place"),
		group(SchemaKeywords, since31, "$id", "warning", "if there are references, which are relative to the file"),
		group(SchemaKeywords, since31, "$schema", "warning", "if it names another dialect"),
		group(SchemaKeywords, allVersions, "example externalDocs xml", "readers", ""),
		group(SchemaKeywords, since31, "$comment $vocabulary $recursiveAnchor", "readers", ""),
	}
}
