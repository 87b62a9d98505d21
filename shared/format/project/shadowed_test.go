package project_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestOnlyHiddenPatternsWarn checks which URL patterns get the warning that no request reaches them.
func TestOnlyHiddenPatternsWarn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		patterns string // with their methods, in the order of the document
		want     string // the path of the warning, or ""
	}{
		{"/a/*:get,post", ""},
		{"/a/b:get /a/*:get", ""},
		{"/a/*:get /a/b:get", "/paths/~1a~1b/get"},
		{"/a/*:get /a/b:post", "/paths/~1a~1b/post"},
		{"/a/*:get /ab:get", ""},
		{"/a/*:get /a:get", ""},
		{"/a/:x(b)/*:get /a/c/d:get", ""},
		{"/*:get /a/:x:get", "/paths/~1a~1:x/get"},
	} {
		var paths []string
		for pattern := range strings.FieldsSeq(tt.patterns) {
			at := strings.LastIndex(pattern, ":")
			var operations []string
			for method := range strings.SplitSeq(pattern[at+1:], ",") {
				operations = append(operations, fmt.Sprintf("%q: %s", method, forwarded("", "")))
			}
			paths = append(paths, fmt.Sprintf(`%q: {"x-gateway-path": {"pathMode": "url-pattern"}, %s}`, pattern[:at],
				strings.Join(operations, ", ")))
		}
		_, result := described(t, "3.1.0", `"paths": {`+strings.Join(paths, ", ")+`}`)
		wantProblem(t, "Compile("+tt.patterns+") errors", result.Errors, "", "")
		wantProblem(t, "Compile("+tt.patterns+") warnings", result.Warnings, tt.want, "never reached")
	}
}
