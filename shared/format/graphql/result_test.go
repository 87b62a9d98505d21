package graphql

import (
	"fmt"
	"strings"
	"testing"
)

// TestReadResultsOfTruncatedResponse checks responses that are truncated at
// any place, and responses that are not valid JSON but that clients accept.
func TestReadResultsOfTruncatedResponse(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for name, test := range map[string]struct{ text, want string }{
		"an error":                 {`{"errors":[{"extensions":{"code":"A"}}]}`, `[["A"]] false`},
		"no errors":                {`{"errors":[],"data":{}}`, `[[]] false`},
		"errors of null":           {`{"errors":null,"data":{}}`, `[[]] false`},
		"a truncated error":        {`{"errors":[{"message":"` + long, `[[""]] false`},
		"a truncated second error": {`{"errors":[{"extensions":{"code":"A"}},{"message":"` + long, `[["A"]] false`},
		"a response truncated after the first error": {`{"errors":[{"extensions":{"code":"A"}},`, `[["A"]] false`},
		"a response truncated before the errors":     {`{"data":{"a":"` + long + `,"errors"`, `[[]] false`},
		"invalid UTF-8": {
			"{\"data\":{\"a\":\"caf\xe9\"},\"errors\":[{\"message\":\"\xe9\",\"extensions\":{\"code\":\"A\"}}]}",
			`[["A"]] false`,
		},
		"a repeated name": {
			`{"data":{"a":1,"a":2},"errors":[{"message":"","message":"","extensions":{"code":"A"}}]}`, `[["A"]] false`,
		},
		"a byte order mark": {"\ufeff" + `{"errors":[{"extensions":{"code":"A"}}]}`, `[["A"]] false`},
		"codes that are not strings": {
			`{"errors":[{"extensions":{"code":7}},{"extensions":[]},7,null]}`, `[["" "" "" ""]] false`,
		},
		"a batch": {`[{"data":{}},{"errors":[{}]}]`, `[[] [""]] true`},
		"a batch truncated in the first response": {
			`[{"errors":[{"extensions":{"code":"A"}}],"data":"` + long, `[["A"]] true`,
		},
		"a string": {`"errors"`, `[] false`},
		"more errors than the limit": {
			`{"errors":[` + strings.Repeat("{},", 200) + `{}]}`,
			`[[` + strings.TrimSpace(strings.Repeat(`"" `, maxCodes)) + `]] false`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, batch := ReadResults([]byte(test.text))
			codes := make([][]string, len(all))
			for i, a := range all {
				codes[i] = a.Codes
			}
			if got := fmt.Sprintf("%q %t", codes, batch); got != test.want {
				t.Errorf("ReadResults() = %s, want the codes and batch = %s", got, test.want)
			}
		})
	}
}
