package project

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// kindObjects has the objects of the specification for each kind of object of the walker.
var kindObjects = map[objectKind][]string{
	documentObject: {"OpenAPI"}, infoObject: {"Info"}, componentsObject: {"Components"}, pathItemObject: {"Path Item"},
	operationObject: {"Operation"}, parameterObject: {"Parameter", "Header"}, requestBodyObject: {"Request Body"},
	mediaTypeObject: {"Media Type"}, encodingObject: {"Encoding"}, responseObject: {"Response"},
}

// groupOf returns the declaration of a keyword, nil if there is none.
func groupOf(object, name string) *KeywordGroup {
	for _, g := range Keywords() {
		if g.Object == object && slices.Contains(g.Names, name) {
			return &g
		}
	}
	return nil
}

// TestWalkerKnowsDeclaredKeywords checks that each member that the walker visits is a declared keyword.
func TestWalkerKnowsDeclaredKeywords(t *testing.T) {
	for kind, named := range members {
		for name := range named {
			for _, object := range kindObjects[kind] {
				if groupOf(object, name) == nil {
					t.Errorf("keyword %s of the object %s = not declared, want declared: the walker visits it", name, object)
				}
			}
		}
		if len(kindObjects[kind]) == 0 {
			t.Errorf("kindObjects[%d] is empty, want the objects of the kind", kind)
		}
	}
	for _, method := range methods {
		if g := groupOf("Path Item", method); g == nil || !g.Has(EffectRoutes) {
			t.Errorf("keyword %s of path items = %+v, want the effect %s", method, g, EffectRoutes)
		}
	}
}

// TestConversionsKnowDeclaredKeywords compares the declared effects of the keywords of schemas with the keywords that the
// conversions for tools and for validation policies keep.
func TestConversionsKnowDeclaredKeywords(t *testing.T) {
	for _, g := range Keywords() {
		if g.Object != SchemaKeywords {
			continue
		}
		for _, name := range g.Names {
			// The conversions replace nullable and discriminator by other keywords.
			isOffered := keywordKind(name) != 0 || name == "nullable" || name == "discriminator"
			if want := g.Has(EffectTools) || g.Has(EffectPassedOn); isOffered != want {
				t.Errorf("tools have the keyword %s = %t, want %t: its effects are %s", name, isOffered, want, g.Effects)
			}
			isAnnotation := slices.Contains(annotations[:], name) && name != keywordReadOnly && name != keywordWriteOnly
			if isAnnotation && !g.Has(EffectPassedOn) {
				t.Errorf("effects of the annotation %s = %s, want %s", name, g.Effects, EffectPassedOn)
			}
			if isUnsupported := slices.Contains(unsupportedReferences[:], name); isUnsupported && !g.Has(EffectWarned) {
				t.Errorf("effects of the reference %s = %s, want %s", name, g.Effects, EffectWarned)
			}
			isStructure := schemaMember(name).kind == schemaObject && keywordKind(name) == 0
			if want := g.Has(EffectStructure) && !strings.HasPrefix(name, "$a") && !strings.HasPrefix(name, "$dynamicA") &&
				name != "$ref"; want && !isStructure {
				t.Errorf("walker visits the schemas of %s = false, want true", name)
			}
		}
	}
	for _, name := range slices.Concat(annotations[:], unsupportedReferences[:], inPlaceLists[:]) {
		if groupOf(SchemaKeywords, name) == nil {
			t.Errorf("keyword %s of schemas = not declared, want declared", name)
		}
	}
}

// TestKeywordsNeedTheirValues checks which values the keywords of schemas can have. A keyword with another value has no
// effect, and the build warns about it.
func TestKeywordsNeedTheirValues(t *testing.T) {
	for _, tt := range []struct{ keywords, valid, invalid string }{
		{"not items additionalProperties", `{}; true; false`, `null; []; "a"; 1`},
		{"allOf anyOf oneOf prefixItems", `[{}]; [true, {}]`, `[]; {}; [1]; [{}, null]; null`},
		{"properties patternProperties dependentSchemas", `{}; {"a": {}}; {"a": true}`, `[]; {"a": 1}; {"a": {}, "b": null}`},
		{"type", `"string"; ["null", "integer"]`, `"text"; []; ["string", "text"]; null; {}; ["string", 1]`},
		{"$ref format pattern contentEncoding", `"a"; ""`, `1; null; ["a"]`},
		{"maximum exclusiveMinimum", `0; -1.5; 1e3`, `"1"; true; null`},
		{"multipleOf", `1; 0.01; 1e-9; 2E3`, `0; -1; 0.0; 0e5; "1"; -0`},
		{"maxLength minLength maxItems minContains maxProperties", `0; 12`, `-1; 1.5; "1"; null; 1e2`},
		{"uniqueItems readOnly writeOnly", `true; false`, `1; "true"; null`},
		{"required", `[]; ["a"]`, `true; "a"; [1]; ["a", null]`},
		{"enum", `[]; [1, null]`, `1; {}; null`},
		{"dependentRequired", `{}; {"a": ["b"]}`, `[]; {"a": "b"}; {"a": [1]}; {"a": ["b"], "c": true}`},
		{"discriminator", `{"propertyName": "a"}`, `{}; "a"; {"propertyName": ""}; {"propertyName": 1}; []`},
		{"const default unknown", `1; null; {}`, ``},
	} {
		for keyword := range strings.FieldsSeq(tt.keywords) {
			for wanted, values := range map[bool]string{true: tt.valid, false: tt.invalid} {
				for text := range strings.SplitSeq(values, "; ") {
					if text == "" {
						continue
					}
					var value any
					decoder := json.NewDecoder(strings.NewReader(text))
					decoder.UseNumber()
					if err := decoder.Decode(&value); err != nil {
						t.Fatal(err)
					}
					if needed := neededValue(keyword, value); (needed == "") != wanted {
						t.Errorf("neededValue(%s, %s) = %q, want none: %t", keyword, text, needed, wanted)
					}
				}
			}
		}
	}
}
