package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"

	"github.com/gatewright/gatewright/shared/format/regex"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// The patterns of a document are regular expressions of ECMA-262. The gateway evaluates only the patterns in the schemas of
// MCP operations and of validated requests and responses, and accepts every text for an invalid one. So an invalid pattern
// is a warning and not an error.

// checkPatterns warns about patterns of a schema that are no regular expressions. at has the tokens of its pointer.
func (c *compiler) checkPatterns(file string, at []string, schema map[string]any) {
	eachPattern(schema, func(text string, member ...string) {
		if err := regex.Check(text); err != nil {
			c.warn(file, pointer(at...)+pointer(member...), "This is no regular expression of ECMA-262: %v. Correct it: the "+
				"gateway checks no value with it.", err)
		}
	})
}

// eachPattern calls found for each pattern that a schema itself has, with the tokens of its place in the schema.
func eachPattern(schema map[string]any, found func(text string, member ...string)) {
	if text, ok := schema["pattern"].(string); ok {
		found(text, "pattern")
	}
	named, _ := schema["patternProperties"].(map[string]any)
	for text := range named {
		found(text, "patternProperties", text)
	}
}

// warnUncheckedPatterns warns about patterns of MCP operations that the gateway cannot evaluate. The schemas of
// operations have no places, so it warns at each place of the document that has such a pattern. The gateway accepts
// every text there.
func (c *compiler) warnUncheckedPatterns() {
	reasons := map[string]string{}              // why a pattern is not checked, "" if it is, by pattern
	unchecked := map[string]map[string]string{} // the reasons that are not "", by routes file and pattern
	for i := range c.artifact.Routes {
		route := &c.artifact.Routes[i]
		if route.MCPOperation == nil {
			continue
		}
		for _, schema := range [...]json.RawMessage{route.MCPOperation.Input, route.MCPOperation.Output} {
			if !bytes.Contains(schema, []byte(`"pattern`)) {
				continue
			}
			tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
			if err != nil {
				continue // never occurs: the compiler has encoded the schema
			}
			c.walker(func(_ []string, _ objectKind, schema map[string]any) {
				eachPattern(schema, func(text string, _ ...string) {
					reason, known := reasons[text]
					if !known {
						reason = uncheckedReason(text)
						reasons[text] = reason
					}
					if reason == "" || c.stopped() {
						return
					}
					if unchecked[route.file] == nil {
						unchecked[route.file] = map[string]string{}
					}
					unchecked[route.file][text] = reason
				})
			}).walk(nil, schemaObject, tree)
		}
	}
	all := map[string]string{}
	for file, reasons := range unchecked {
		c.warnUncheckedIn(place{doc: c.docs[file], value: c.docs[file].root}, documentObject, reasons)
		maps.Copy(all, reasons)
	}
	for _, p := range c.parts {
		if len(all) > 0 && !p.isCovered {
			c.warnUncheckedIn(p.place, p.kind, all)
		}
	}
}

// warnUncheckedIn warns about the patterns in a place that are in reasons.
func (c *compiler) warnUncheckedIn(p place, kind objectKind, reasons map[string]string) {
	c.walker(func(at []string, kind objectKind, object map[string]any) {
		if kind != schemaObject {
			return
		}
		eachPattern(object, func(text string, member ...string) {
			if reason := reasons[text]; reason != "" {
				c.warn(p.doc.file, pointer(at...)+pointer(member...), uncheckedPattern, reason)
			}
		})
	}).walk(tokens(p.at), kind, p.value)
}

// uncheckedPattern is the warning about a pattern that the gateway cannot evaluate, with its reason.
const uncheckedPattern = "The gateway cannot check this pattern, because it %s. It accepts every text, and the " +
	"upstream has to check it."

// uncheckedReason returns why the gateway cannot evaluate a pattern, as the end of a sentence about it. It returns "" for
// a pattern that it evaluates, and for an invalid one.
func uncheckedReason(pattern string) string {
	_, err := regex.Compile(pattern)
	if e, ok := errors.AsType[*regex.UnsupportedError](err); ok {
		return e.Reason
	}
	return ""
}
