package openapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// encodeStyle writes a list or an object of texts in a style, as OpenAPI describes it. names are the names of an object's
// properties, or nil for a list.
func encodeStyle(style string, explode bool, names, values []string) string {
	separator := map[string]string{
		"simple": ",", "label": ",", "matrix": ",", "form": ",", "spaceDelimited": "%20",
		"pipeDelimited": "%7C",
	}[style]
	begin, pair := map[string]string{
		"label": ".", "matrix": ";color=", "form": "color=", "spaceDelimited": "color=",
		"pipeDelimited": "color=",
	}[style], ""
	if explode {
		separator = map[string]string{"simple": ",", "label": ".", "matrix": ";", "form": "&", "deepObject": "&"}[style]
		begin = map[string]string{"label": ".", "matrix": ";"}[style]
		if style == "matrix" || style == "form" {
			pair = "color="
		}
	}
	var parts []string
	for i, value := range values {
		value = strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		if style == "label" {
			value = strings.ReplaceAll(value, ".", "%2E")
		}
		switch {
		case names == nil:
			parts = append(parts, pair+value)
		case style == "deepObject":
			parts = append(parts, "color%5B"+names[i]+"%5D="+value)
		case explode:
			parts = append(parts, names[i]+"="+value)
		default:
			parts = append(parts, names[i], value)
		}
	}
	return begin + strings.Join(parts, separator)
}

// TestEncodedValuesAreReadAgain encodes generated lists and objects in all styles, and checks the texts with a schema that
// has the value as const.
func TestEncodedValuesAreReadAgain(t *testing.T) {
	t.Parallel()
	styles := []struct{ in, style string }{
		{"path", "simple"},
		{"path", "label"},
		{"path", "matrix"},
		{"query", "form"},
		{"query", "spaceDelimited"},
		{"query", "pipeDelimited"},
		{"query", "deepObject"},
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(styles).Draw(rt, "style")
		explode := s.style == "deepObject" || rapid.Bool().Draw(rt, "explode") && !strings.HasSuffix(s.style, "Delimited")
		values := rapid.SliceOfN(rapid.String(), 1, 4).Draw(rt, "values")
		for i := range values {
			values[i] = "v" + strings.ToValidUTF8(values[i], "")
			if strings.HasSuffix(s.style, "Delimited") {
				values[i] = strings.NewReplacer(" ", "", "|", "").Replace(values[i]) // they cannot be written
			}
		}
		var names []string
		var value any = values
		if s.style == "deepObject" || rapid.Bool().Draw(rt, "object") {
			object := map[string]string{}
			for i, v := range values {
				names = append(names, fmt.Sprintf("n%d", i))
				object[names[i]] = v
			}
			value = object
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			rt.Fatal(err)
		}
		q := compile(t, "", fmt.Sprintf(`{"parameters":[{"in":%q,"name":"color","style":%q,"explode":%t,"required":true,`+
			`"schema":%s}]}`, s.in, s.style, explode, exactly(string(encoded))))
		text := encodeStyle(s.style, explode, names, values)
		if r := q.checkText(s.in, text); !r.IsValid() {
			rt.Fatalf("%s explode=%t: %s = %s, want %s", s.style, explode, text, r.text(), encoded)
		}
	})
}
