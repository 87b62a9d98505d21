package project

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPointerRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		in := rapid.SliceOf(rapid.StringOf(rapid.SampledFrom([]rune("a/~01é#")))).Draw(rt, "tokens")
		if got := tokens(pointer(in...)); !slices.Equal(got, in) {
			rt.Fatalf("tokens(%s) = %q, want %q", pointer(in...), got, in)
		}
	})
}

// TestResolvedPointersMapToFile removes and keeps random elements of nested lists: the
// pointer of each remaining element must map to the element's pointer in the file.
func TestResolvedPointersMapToFile(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := 0
		var draw func(depth int) any
		draw = func(depth int) any {
			switch rapid.IntRange(0, 3).Draw(rt, "kind") {
			case 0:
				return "$env(UNSET)"
			case 1:
				if depth < 3 {
					list := []any{}
					for range rapid.IntRange(0, 4).Draw(rt, "length") {
						list = append(list, draw(depth+1))
					}
					return list
				}
			case 2:
				if depth < 3 {
					return map[string]any{"a/b": draw(depth + 1), "c": draw(depth + 1)}
				}
			}
			n++
			return fmt.Sprintf("leaf %d", n)
		}
		source := map[string]any{"options": draw(0)}
		var r report
		res := (&environment{report: &r}).resolve("f", "", source)
		walkLeaves("", res.value, func(at, leaf string) {
			value := any(source)
			for _, token := range tokens(res.filePointer(at)) {
				switch v := value.(type) {
				case map[string]any:
					value = v[token]
				case []any:
					var i int
					if _, err := fmt.Sscan(token, &i); err != nil {
						rt.Fatal(err)
					}
					value = v[i]
				}
			}
			if value != leaf {
				rt.Fatalf("filePointer(%s) = %s with the value %v, want %s", at, res.filePointer(at), value, leaf)
			}
		})
		if text, err := json.Marshal(res.value); err != nil || strings.Contains(string(text), "$env") {
			rt.Fatalf("resolved value = %s, %v, want no $env", text, err)
		}
	})
}

func walkLeaves(at string, value any, visit func(at, leaf string)) {
	switch v := value.(type) {
	case map[string]any:
		for name, child := range v {
			walkLeaves(at+pointer(name), child, visit)
		}
	case []any:
		for i, child := range v {
			walkLeaves(at+pointer(fmt.Sprint(i)), child, visit)
		}
	case string:
		visit(at, v)
	}
}

func TestPatternVariables(t *testing.T) {
	variables := map[string]string{"HOST": "h", "PATH_PART": "p", "OTHER": "o"}
	for _, tt := range []struct {
		pattern  string
		used     []string
		problems int
		warnings int
	}{
		{"https://${env.HOST}/x", []string{"HOST"}, 0, 0},
		{"${ env.HOST }/x", []string{"HOST"}, 0, 0},
		{"https://x/${encodeURIComponent(env.PATH_PART)}", []string{"PATH_PART"}, 0, 0},
		{"https://x/${params.env}/${request.env.HOST}/env.HOST", nil, 0, 0},
		{"https://${env.HOST}.${env.OTHER}:80", []string{"HOST", "OTHER"}, 0, 0},
		{"https://${env.UNSET}/x", nil, 1, 0},
		{"${env.UNSET}", nil, 1, 0},
		{"https://x.example.com:${env.UNSET}/", nil, 1, 0},
		{"https://x/${env.UNSET}", nil, 0, 1},
		{"https://x?y=${env.UNSET}", nil, 0, 1},
	} {
		var r report
		used := map[string]string{}
		env := &environment{variables: variables, report: &r}
		env.checkPatternFields("f", "", map[string]any{"rewritePattern": tt.pattern}, used)
		want := map[string]string{}
		for _, name := range tt.used {
			want[name] = variables[name]
		}
		if !reflect.DeepEqual(used, want) || r.problems.len() != tt.problems || r.warnings.len() != tt.warnings {
			t.Errorf("%s: used %v, problems %v, warnings %v, want used %v, %d problems, %d warnings",
				tt.pattern, used, r.problems, r.warnings, want, tt.problems, tt.warnings)
		}
	}
}

func TestLongestValueIsRedactedFirst(t *testing.T) {
	var r report
	r.redact("secret", "$env(A)")
	r.redact("secret-and-more", "$env(B)")
	r.redact("abc", "$env(SHORT)")
	r.fail("f", "", "secret-and-more is no secret abc")
	if got, want := r.errors()[0].Message, "$env(B) is no $env(A) abc"; got != want {
		t.Errorf("message of the error = %q, want %q", got, want)
	}
}
