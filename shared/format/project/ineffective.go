package project

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// This file warns about keywords that have no effect anywhere in a document. uses.go warns about keywords that have no
// effect where a policy or a tool uses them.

// ineffective identifies a warning about a keyword without effect. A document can have the keyword in many places. It gets
// one warning for all of them, at the first place, so that they do not hide other warnings.
type ineffective struct{ file, message string }

// ineffectivePlaces are the places of a keyword without effect.
type ineffectivePlaces struct {
	first string          // the first place in the order of pointers
	all   map[string]bool // at most maxIneffectivePlaces
}

const (
	// maxIneffective is the maximum number of warnings that are joined. All further warnings are reported at each place.
	maxIneffective = 1000
	// maxIneffectivePlaces is the maximum number of places that are counted for a warning.
	maxIneffectivePlaces = 100
)

// warnIneffective records a warning about a keyword without effect. reportIneffective adds it to the report.
func (c *compiler) warnIneffective(file, at, message string) {
	key := ineffective{file, message}
	places := c.ineffective[key]
	switch {
	case places == nil && len(c.ineffective) >= maxIneffective:
		c.warn(file, at, "%s", message)
		return
	case places == nil:
		if c.ineffective == nil {
			c.ineffective = map[ineffective]*ineffectivePlaces{}
		}
		places = &ineffectivePlaces{first: at, all: map[string]bool{}}
		c.ineffective[key] = places
	}
	places.first = min(places.first, at)
	if len(places.all) < maxIneffectivePlaces {
		places.all[at] = true
	}
}

// reportIneffective adds the warnings of warnIneffective to the report, one for all places of the same warning.
func (c *compiler) reportIneffective() {
	for key, places := range c.ineffective {
		message := key.message
		switch more := len(places.all) - 1; {
		case more == maxIneffectivePlaces-1:
			message += fmt.Sprintf(" The same is true in at least %d other places.", more)
		case more > 1:
			message += fmt.Sprintf(" The same is true in %d other places.", more)
		case more == 1:
			message += " The same is true in another place."
		}
		c.warn(key.file, places.first, "%s", message)
	}
	c.ineffective = nil
}

// checkIneffective warns about the members of an object that have no effect. at has the tokens of the object's pointer.
func (c *compiler) checkIneffective(file string, at []string, kind objectKind, object map[string]any, is30 bool) {
	has := func(name string) bool {
		switch value := object[name].(type) {
		case map[string]any:
			return len(value) > 0
		case string:
			return true
		}
		return false
	}
	warn := func(name, message string) {
		c.warnIneffective(file, pointer(at...)+pointer(name), message)
	}
	switch kind {
	case documentObject:
		if has("webhooks") {
			warn("webhooks", "Webhooks have no effect: their requests go from the API to its users, and not through the "+
				"gateway.")
		}
		if has("jsonSchemaDialect") && !isKnownDialect(object["jsonSchemaDialect"]) {
			warn("jsonSchemaDialect", otherDialect)
		}
		if has("$self") && hasReference(object, isFileReference) {
			warn("$self", "References in this file are relative to the file, and $self does not change that. Write the "+
				"references relative to the file, or remove $self.")
		}
	case operationObject:
		if has("callbacks") {
			warn("callbacks", "Callbacks have no effect: their requests go from the API to its users, and not through the "+
				"gateway.")
		}
	case responseObject:
		if has("links") {
			warn("links", "Links have no effect at the gateway: it adds none to responses or tools. They are for readers of "+
				"the description.")
		}
	case schemaObject:
		if has("$schema") && !isKnownDialect(object["$schema"]) {
			warn("$schema", otherDialect)
		}
		if !is30 { // the schema of OpenAPI 3.0 refuses unknown keywords
			for name, value := range object {
				if message := unknownKeyword(name, len(c.ineffective) < maxIneffective); message != "" {
					warn(name, message)
				}
				if needed := neededValue(name, value); needed != "" {
					warn(name, fmt.Sprintf("%s has no effect, because its value is not %s. Correct it.", quote(name), needed))
				}
			}
		}
	default:
	}
}

// otherDialect is the warning about a dialect of schemas that the gateway does not know.
const otherDialect = "This dialect has no effect: the gateway reads schemas as JSON Schema 2020-12 with the keywords " +
	"of OpenAPI. Write them in this dialect."

// isKnownDialect reports whether a text is the URL of the dialect of OpenAPI, or of JSON Schema 2020-12.
func isKnownDialect(value any) bool {
	url, _ := value.(string)
	return strings.HasPrefix(url, "https://spec.openapis.org/oas/3.") ||
		strings.TrimSuffix(url, "#") == "https://json-schema.org/draft/2020-12/schema"
}

// isFileReference reports whether a reference leads to another file.
func isFileReference(reference string) bool { return !strings.HasPrefix(reference, "#") }

// sharedKeywords returns the keywords of schemas in OpenAPI 3.1 and 3.2. They do not change.
var sharedKeywords = sync.OnceValue(newKnownKeywords)

// replacedKeywords are keywords of other dialects, with what to write in their place.
var replacedKeywords = map[string]string{
	"nullable":        `Write the type as a list, such as ["string", "null"].`,
	"additionalItems": "Write prefixItems for the first items, and items for all others.",
	"dependencies":    "Write dependentRequired or dependentSchemas.",
	"id":              "Write $id, or remove it.",
}

// unknownKeyword returns a warning about a keyword that schemas of OpenAPI 3.1 and 3.2 do not have. It returns "" for
// one that they have, and for extensions. If suggests is set, the warning names a similar keyword.
func unknownKeyword(name string, suggests bool) string {
	const text = "Schemas of OpenAPI 3.1 and later have no keyword %s, so it has no effect. %s"
	if advice, replaced := replacedKeywords[name]; replaced {
		return fmt.Sprintf(text, quote(name), advice)
	}
	keywords := sharedKeywords()
	if keywords.known[name] || strings.HasPrefix(name, "x-") {
		return ""
	}
	const longestTypo = 40 // no keyword is so long
	if suggests && len(name) <= longestTypo {
		if near := keywords.near(name); near != "" {
			return fmt.Sprintf(text, quote(name), "Did you mean "+near+"?")
		}
	}
	return fmt.Sprintf(text, quote(name), "Correct its name, remove it, or write x- before the name of an extension.")
}

// hasReference reports whether a value contains a $ref that matches.
func hasReference(value any, matches func(reference string) bool) bool {
	switch v := value.(type) {
	case map[string]any:
		if reference, ok := v["$ref"].(string); ok && matches(reference) {
			return true
		}
		for _, child := range v {
			if hasReference(child, matches) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(child any) bool { return hasReference(child, matches) })
	}
	return false
}
