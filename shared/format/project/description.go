package project

import "encoding/json"

// RequestDescription describes the requests of a route as its OpenAPI document does, for policies that validate them. It
// has the defaults of OpenAPI where the document has no value.
//
// Its schemas are JSON Schemas (2020-12). They can refer to the artifact's Definitions: {"$ref": "#/$defs/NAME"}. In the
// schemas of requests, a property with readOnly is not allowed and not required. In those of responses, the same applies
// to a property with writeOnly.
type RequestDescription struct {
	// Parameters has no two entries with the same location and name.
	Parameters []Parameter `json:"parameters,omitempty"`
	// Body is nil if the document describes none.
	Body *BodyDescription `json:"body,omitempty"`
}

// ResponseDescription describes the responses of a route by their statuses: "200", a range such as "2XX", or "default".
type ResponseDescription map[string]StatusDescription

// StatusDescription describes the responses with a status.
type StatusDescription struct {
	// Headers are parameters with the location header.
	Headers []Parameter `json:"headers,omitempty"`
	// Content is empty if the document describes no body.
	Content []MediaType `json:"content,omitempty"`
}

// Parameter describes a parameter of requests, or a header of responses.
type Parameter struct {
	In       ParameterLocation `json:"in"`
	Name     string            `json:"name"`
	Required bool              `json:"required,omitempty"`
	// Style and Explode say how lists and objects are written. Style is "" for a parameter with a ContentType.
	Style   string `json:"style,omitempty"`
	Explode bool   `json:"explode,omitempty"`
	// AllowEmpty accepts an empty query parameter or cookie, even if its schema does not allow it (allowEmptyValue).
	AllowEmpty bool `json:"allowEmpty,omitempty"`
	// ContentType is the media type of a parameter that the document describes with content.
	ContentType string `json:"contentType,omitempty"`
	// Schema is absent if every value is valid.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Encoding says how the properties are written if ContentType is a form (location querystring).
	Encoding map[string]Encoding `json:"encoding,omitempty"`
}

// ParameterLocation is the location of a parameter in a request.
type ParameterLocation string

// The locations. InQueryString is for a parameter that is the whole query (OpenAPI 3.2).
const (
	PathParameter   ParameterLocation = "path"
	QueryParameter  ParameterLocation = "query"
	HeaderParameter ParameterLocation = "header"
	CookieParameter ParameterLocation = "cookie"
	InQueryString   ParameterLocation = "querystring"
)

// Styles of parameters that only validation supports. The others are declared with Argument. StyleCookie is a style of
// OpenAPI 3.2.
const (
	StyleMatrix = "matrix"
	StyleLabel  = "label"
	StyleCookie = "cookie"
)

// BodyDescription describes the bodies of requests.
type BodyDescription struct {
	Required bool        `json:"required,omitempty"`
	Content  []MediaType `json:"content,omitempty"`
}

// MediaType describes the bodies of a media type.
type MediaType struct {
	// Type is a media type in lower case without parameters, or a range such as text/* or */*.
	Type string `json:"type"`
	// Schema is absent if every value is valid.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Encoding says how the properties of a form are written, by their names.
	Encoding map[string]Encoding `json:"encoding,omitempty"`
}

// Encoding says how a property of a form is written.
type Encoding struct {
	// ContentType has the media types that the document allows, separated by commas, or "" for the default.
	ContentType string `json:"contentType,omitempty"`
	// Style and Explode say how lists and objects are written. If Style is not "", ContentType has no effect.
	Style   string `json:"style,omitempty"`
	Explode bool   `json:"explode,omitempty"`
	// Headers describe the headers of a part of a multipart form.
	Headers []Parameter `json:"headers,omitempty"`
}
