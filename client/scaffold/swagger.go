package scaffold

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
)

// fromSwagger converts a description in Swagger 2.0 to OpenAPI 3.0. Paths keep their order, and the members of the root
// have the usual order (restoreOrder). The members of all other objects are in alphabetical order, because the library
// keeps them in maps. Numbers keep their digits. d is the description itself. notes say what the conversion leaves out, and
// what it changes.
//
// go.mod requires an older version of the library on purpose: newer versions import a JSON Schema library whose
// initialization allocates 1.7 MB at each start of the client. The folder shared/thirdparty has a changed copy of that
// JSON Schema library.
func fromSwagger(root []member, d document) (converted []member, notes []string, err error) {
	defer func() {
		if reason := recover(); reason != nil { // the library panics for some invalid descriptions
			converted, notes = nil, nil
			err = fmt.Errorf("the description in Swagger 2.0 cannot be converted: %v", reason)
		}
	}()
	for i, m := range root {
		if m.name == swaggerMember {
			root[i].value = quote(swaggerVersion(root)) // YAML reads 2.0 as a number
		}
	}
	text := writeObject(root)
	var from openapi2.T
	if err := json.Unmarshal(text, &from); err != nil {
		return nil, nil, fmt.Errorf("the description is no Swagger 2.0: %w", err)
	}
	numbers, err := readExactNumbers(d)
	if err != nil {
		return nil, nil, err
	}
	listNotes := replaceLists(&from, d)
	lost := map[string]int{}
	if err := setMediaTypes(&from, lost); err != nil {
		return nil, nil, err
	}
	to, err := openapi2conv.ToV3(&from)
	if err != nil {
		return nil, nil, fmt.Errorf("the description in Swagger 2.0 cannot be converted: %w", err)
	}
	if len(to.Servers) == 0 && from.BasePath != "" {
		to.AddServer(&openapi3.Server{URL: from.BasePath})
	}
	setStyles(&from, to)
	requireForms(to)
	result, err := to.MarshalJSON()
	if err != nil {
		return nil, nil, fmt.Errorf("write the converted description: %w", err)
	}
	if result, err = numbers.restore(result); err != nil {
		return nil, nil, err
	}
	if converted, err = readMembers(result); err != nil {
		return nil, nil, fmt.Errorf("read the converted description: %w", err)
	}
	if err := restoreOrder(converted, root); err != nil {
		return nil, nil, err
	}
	if err := addLost(lost, text, result); err != nil {
		return nil, nil, err
	}
	notes = []string{"the description was converted from Swagger 2.0 to OpenAPI 3.0"}
	notes = slices.Concat(notes, listNotes, numbers.notes)
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		notes = append(notes,
			fmt.Sprintf("the conversion from Swagger 2.0 leaves out %s (occurrences: %d)", name, lost[name]))
	}
	return converted, notes, nil
}

// requireForms makes a form required if one of its fields is. In Swagger 2.0, only the fields can be required.
func requireForms(to *openapi3.T) {
	for _, item := range to.Paths.Map() {
		for _, operation := range item.Operations() {
			if operation.RequestBody == nil || operation.RequestBody.Value == nil {
				continue
			}
			for name, media := range operation.RequestBody.Value.Content {
				isForm := name == "multipart/form-data" || name == "application/x-www-form-urlencoded"
				if isForm && media.Schema != nil && media.Schema.Value != nil && len(media.Schema.Value.Required) > 0 {
					operation.RequestBody.Value.Required = true
				}
			}
		}
	}
}

// swaggerMember is the member of a description in Swagger 2.0 that has the version.
const swaggerMember = "swagger"

// swaggerVersion returns "2.0" for a description in Swagger 2.0, and "" for any other.
func swaggerVersion(root []member) string {
	const version = "2.0"
	value := memberValue(root, swaggerMember)
	if text := stringValue(value); text == version || string(value) == version {
		return version
	}
	return ""
}

// setMediaTypes sets the media types of each operation that has none. It uses those of the description, because the
// library would leave them out for responses. If there are none for requests, it uses defaultMediaType. The library
// converts neither the schemes of an operation nor a path that refers to a path item, so setMediaTypes adds them to
// lost. It returns an error if the conversion, which copies schemas for each media type, would exceed maxCopiedBytes.
func setMediaTypes(from *openapi2.T, lost map[string]int) error {
	copied := 0
	for _, item := range from.Paths {
		if item.Ref != "" {
			lost["the path items that paths refer to ($ref)"]++
		}
		for _, operation := range item.Operations() {
			if operation.Produces == nil {
				operation.Produces = from.Produces
			}
			if operation.Consumes == nil {
				operation.Consumes = from.Consumes
			}
			if len(operation.Consumes) == 0 {
				operation.Consumes = []string{defaultMediaType(from, operation.Parameters)}
			}
			if len(operation.Schemes) > 0 {
				lost["schemes of an operation"]++
			}
			text, err := json.Marshal(operation)
			if err != nil {
				return fmt.Errorf("read an operation in Swagger 2.0: %w", err)
			}
			if copied += len(text) * max(len(operation.Produces), len(operation.Consumes)); copied > maxCopiedBytes {
				return errors.New("the description in Swagger 2.0 has too many media types for its schemas: shorten produces " +
					"and consumes")
			}
		}
	}
	return nil
}

// maxCopiedBytes is the maximum size of all operations of a description in Swagger 2.0, times their media types.
const maxCopiedBytes = 256 << 20

// defaultMediaType returns the media type of a request with these parameters for an operation that has none.
func defaultMediaType(from *openapi2.T, parameters openapi2.Parameters) string {
	mediaType := "application/json"
	for _, p := range parameters {
		p = resolve(from, p)
		switch {
		case p.In == "formData" && p.Type.Is("file"):
			return "multipart/form-data"
		case p.In == "formData":
			mediaType = "application/x-www-form-urlencoded"
		}
	}
	return mediaType
}

// resolve returns the parameter that a reference names, and p if it is none.
func resolve(from *openapi2.T, p *openapi2.Parameter) *openapi2.Parameter {
	if name, ok := strings.CutPrefix(p.Ref, "#/parameters/"); ok && from.Parameters[name] != nil {
		return from.Parameters[name]
	}
	return p
}

// setStyles sets the style of each parameter that is a list, because the library ignores collectionFormat, and the
// defaults of the two versions differ. It also moves allowEmptyValue from the schema of a parameter to the parameter.
func setStyles(from *openapi2.T, to *openapi3.T) {
	for name, p := range from.Parameters {
		if converted := to.Components.Parameters[name]; converted != nil {
			setStyle(p, converted)
		}
		if schema := to.Components.Schemas[name]; p.In == "formData" && schema != nil && schema.Value != nil {
			schema.Value.AllowEmptyValue = false
		}
	}
	for path, item := range from.Paths {
		converted := to.Paths.Value(path)
		setStylesOf(item.Parameters, converted.Parameters)
		for method, operation := range item.Operations() {
			other := converted.GetOperation(method)
			setStylesOf(operation.Parameters, other.Parameters)
			if other.RequestBody != nil && other.RequestBody.Value != nil {
				setEncodings(from, operation.Parameters, other.RequestBody.Value.Content)
			}
		}
	}
}

// setStylesOf sets the styles of the parameters of an operation or a path.
func setStylesOf(from openapi2.Parameters, to openapi3.Parameters) {
	for _, p := range from {
		for _, converted := range to {
			if converted.Ref == "" && converted.Value.In == p.In && converted.Value.Name == p.Name {
				setStyle(p, converted)
			}
		}
	}
}

// setStyle sets the style of a parameter that is a list.
func setStyle(p *openapi2.Parameter, converted *openapi3.ParameterRef) {
	to := converted.Value
	if to == nil {
		return
	}
	if to.Schema != nil && to.Schema.Value != nil && to.Schema.Value.AllowEmptyValue {
		to.AllowEmptyValue, to.Schema.Value.AllowEmptyValue = p.In == openapi3.ParameterInQuery, false
	}
	if p.Type.Is("array") && p.In == openapi3.ParameterInQuery {
		to.Style, to.Explode = style(p.CollectionFormat)
	}
}

// setEncodings sets the styles of the fields of a form that are lists.
func setEncodings(from *openapi2.T, parameters openapi2.Parameters, content openapi3.Content) {
	for _, p := range parameters {
		p = resolve(from, p)
		if p.In != "formData" {
			continue
		}
		for _, mediaType := range content {
			if schema := mediaType.Schema.Value; schema != nil && schema.Properties[p.Name] != nil &&
				schema.Properties[p.Name].Value != nil {
				schema.Properties[p.Name].Value.AllowEmptyValue = false
			}
			if name, explode := style(p.CollectionFormat); p.Type.Is("array") && name != "" {
				if mediaType.Encoding == nil {
					mediaType.Encoding = map[string]*openapi3.Encoding{}
				}
				mediaType.Encoding[p.Name] = &openapi3.Encoding{Style: name, Explode: explode}
			}
		}
	}
}

// style returns the style of OpenAPI 3 for a collectionFormat of a query or a form, "" for one that has no equivalent.
func style(collectionFormat string) (name string, explode *bool) {
	isMulti := collectionFormat == "multi"
	switch collectionFormat {
	case "", "csv", "multi":
		return "form", &isMulti
	case "ssv":
		return "spaceDelimited", &isMulti
	case "pipes":
		return "pipeDelimited", &isMulti
	}
	return "", nil
}

// restoreOrder sorts the members of the converted description, and its paths in the order of the original.
func restoreOrder(converted, original []member) error {
	order := []string{"openapi", "info", "externalDocs", "servers", "security", "tags", "paths", "components"}
	slices.SortStableFunc(converted, func(a, b member) int {
		return slices.Index(order, a.name) - slices.Index(order, b.name)
	})
	paths, _ := readMembers(memberValue(original, "paths")) // nil if there are no paths
	place := map[string]int{}
	for i, m := range paths {
		place[m.name] = i
	}
	for i, m := range converted {
		if m.name != "paths" {
			continue
		}
		all, err := readMembers(m.value)
		if err != nil {
			return fmt.Errorf("read the converted paths: %w", err)
		}
		slices.SortStableFunc(all, func(a, b member) int { return place[a.name] - place[b.name] })
		converted[i].value = writeObject(all)
	}
	return nil
}

// moved returns the members of Swagger 2.0 that other members of OpenAPI 3 replace.
func moved() []string {
	return []string{
		swaggerMember, "host", "basePath", "schemes", "consumes", "produces", "definitions", "parameters", "responses",
		"securityDefinitions", "in", "name", "required", "schema", "type", "flow", "authorizationUrl", "tokenUrl", "scopes",
		"x-nullable",
	}
}

// addLost adds the members that the conversion has left out: the members that the result has less often.
// collectionFormat is lost where it has no equivalent.
func addLost(lost map[string]int, from, to []byte) error {
	var original, converted any
	if err := errors.Join(json.Unmarshal(from, &original), json.Unmarshal(to, &converted)); err != nil {
		return fmt.Errorf("compare the converted description: %w", err)
	}
	before, after := map[string]int{}, map[string]int{}
	countMembers(original, before)
	countMembers(converted, after)
	for name, n := range before {
		if missing := n - after[name]; missing > 0 && !slices.Contains(moved(), name) {
			lost[name] += missing
		}
	}
	return nil
}

// countMembers counts the members of the objects in a value by name. It skips members that have no effect, such as
// required: false, and those within examples and other data. It counts a collectionFormat only if it has no equivalent. It
// also skips what replaceLists removes.
func countMembers(value any, counts map[string]int) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			countMembers(element, counts)
		}
	case map[string]any:
		format := v["collectionFormat"]
		isText := v["in"] != nil && v["type"] == "array" && format != nil && !hasStyle(v["in"], format)
		for name, child := range v {
			if !hasEffect(child) || isText && slices.Contains(listMembers(), name) ||
				name == "collectionFormat" && hasStyle(v["in"], child) {
				continue
			}
			counts[name]++
			if !slices.Contains([]string{"example", "examples", "default", "enum"}, name) && !strings.HasPrefix(name, "x-") {
				countMembers(child, counts)
			}
		}
	}
}

// hasStyle reports whether OpenAPI 3 has an equivalent of a collectionFormat. in is the place of the parameter, nil for
// the items of a list and for a header of a response.
func hasStyle(in, collectionFormat any) bool {
	format, _ := collectionFormat.(string)
	name, _ := style(format)
	switch in {
	case "query", "formData":
		return name != ""
	case nil:
		return false
	}
	return format == "csv" // a path or a header has the style simple
}

// hasEffect reports whether a value differs from the value that a member has if it is left out.
func hasEffect(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case float64:
		return v != 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}
