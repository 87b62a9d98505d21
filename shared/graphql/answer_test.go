package graphql

import (
	"fmt"
	"strings"
	"testing"
)

// TestAnswersAreReadAsFarAsTheyGo, and as their clients get them: cut anywhere, or not quite JSON.
func TestAnswersAreReadAsFarAsTheyGo(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for name, test := range map[string]struct{ text, want string }{
		"an error":                      {`{"errors":[{"extensions":{"code":"A"}}]}`, `[["A"]] false`},
		"none":                          {`{"errors":[],"data":{}}`, `[[]] false`},
		"no list":                       {`{"errors":null,"data":{}}`, `[[]] false`},
		"one that is cut":               {`{"errors":[{"message":"` + long, `[[""]] false`},
		"a second one that is cut":      {`{"errors":[{"extensions":{"code":"A"}},{"message":"` + long, `[["A"]] false`},
		"a cut after the first":         {`{"errors":[{"extensions":{"code":"A"}},`, `[["A"]] false`},
		"a cut before them":             {`{"data":{"a":"` + long + `,"errors"`, `[[]] false`},
		"data that is no UTF-8":         {"{\"data\":{\"a\":\"caf\xe9\"},\"errors\":[{\"message\":\"\xe9\",\"extensions\":{\"code\":\"A\"}}]}", `[["A"]] false`},
		"a name twice":                  {`{"data":{"a":1,"a":2},"errors":[{"message":"","message":"","extensions":{"code":"A"}}]}`, `[["A"]] false`},
		"a mark before it":              {"\ufeff" + `{"errors":[{"extensions":{"code":"A"}}]}`, `[["A"]] false`},
		"codes that are no texts":       {`{"errors":[{"extensions":{"code":7}},{"extensions":[]},7,null]}`, `[["" "" "" ""]] false`},
		"a batch":                       {`[{"data":{}},{"errors":[{}]}]`, `[[] [""]] true`},
		"a batch, cut in its first":     {`[{"errors":[{"extensions":{"code":"A"}}],"data":"` + long, `[["A"]] true`},
		"what is no answer":             {`"errors"`, `[] false`},
		"more errors than anybody asks": {`{"errors":[` + strings.Repeat("{},", 200) + `{}]}`, `[[` + strings.TrimSpace(strings.Repeat(`"" `, maxCodes)) + `]] false`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, batch := ReadAnswers([]byte(test.text))
			codes := make([][]string, len(all))
			for i, a := range all {
				codes[i] = a.Codes
			}
			if got := fmt.Sprintf("%q %t", codes, batch); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
