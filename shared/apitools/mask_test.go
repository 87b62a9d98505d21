package apitools_test

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
)

// secretTool answers a page of keys, of which each has some, beside data of the caller's own.
func secretTool(t testing.TB) apitools.Tool {
	t.Helper()
	const document = `{"openapi": "3.1.0", "paths": {"/keys": {"get": {"operationId": "Keys_list", "x-effect": "reads", "responses": {"200": {"description": "d",
		"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Page"}}}}}}}}, "components": {"schemas": {
		"Page": {"type": "object", "properties": {"data": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/Key"}},
			"byName": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Key"}}, "limit": {"type": "integer"}}},
		"Key": {"type": "object", "properties": {"id": {"type": "string"}, "key": {"type": "string", "format": "password"},
			"either": {"oneOf": [{"type": "string", "format": "password"}, {"type": "null"}]}, "pair": {"type": "array", "prefixItems": [{"format": "password"}]},
			"metadata": {"type": "object", "additionalProperties": true}, "tags": {"type": "object", "additionalProperties": {"type": "string"}}}}}}}`
	tools, err := apitools.Make([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return tools[0]
}

// TestSecretsAreMasked: wherever the schema has them, and wherever their names are where the answer has another form; all else is
// as it was.
func TestSecretsAreMasked(t *testing.T) {
	const long, shown = "gone-in-all-answers-01234567", "****01234567"
	tool := secretTool(t)
	account := credential.New(credential.AccountKey, ids.NewSource(rand.Reader, time.Now))
	for name, tt := range map[string]struct{ body, want string }{
		"in a list":               {`{"data":[{"id":"a","key":"LONG"},{"id":"b","key":"LONG"}],"limit":2}`, `{"data":[{"id":"a","key":"SHOWN"},{"id":"b","key":"SHOWN"}],"limit":2}`},
		"in a map":                {`{"byName":{"LONG":{"key":"LONG"}}}`, `{"byName":{"LONG":{"key":"SHOWN"}}}`},
		"of two kinds":            {`{"data":[{"either":"LONG"},{"either":null}]}`, `{"data":[{"either":"SHOWN"},{"either":null}]}`},
		"as an entry":             {`{"data":[{"pair":["LONG"]}]}`, `{"data":[{"pair":["SHOWN"]}]}`},
		"short":                   {`{"data":[{"key":"0123456789abcde"}]}`, `{"data":[{"key":"****"}]}`},
		"cut within a character":  {`{"data":[{"key":"012345678ééééé"}]}`, `{"data":[{"key":"****éééé"}]}`},
		"cut inside a character":  {`{"data":[{"key":"0123456789éééé1"}]}`, `{"data":[{"key":"****"}]}`},
		"escaped":                 {`{"data":[{"k\u0065y":"\u0067one-in-all-answers-01234567"}]}`, `{"data":[{"k\u0065y":"SHOWN"}]}`},
		"of another type":         {`{"data":[{"key":1},{"key":["LONG"]},{"key":{"a":"LONG"}},{"key":true}]}`, `{"data":[{"key":"****"},{"key":"****"},{"key":"****"},{"key":"****"}]}`},
		"begins like a masked":    {`{"data":[{"key":"****0123456789abcdef"}]}`, `{"data":[{"key":"****89abcdef"}]}`},
		"twice":                   {`{"data":[{"key":"LONG","key":"LONG"}]}`, `{"data":[{"key":"SHOWN","key":"SHOWN"}]}`},
		"one for a list":          {`{"data":{"key":"LONG"}}`, `{"data":{"key":"SHOWN"}}`},
		"a list for one":          {`[{"data":[[{"key":"LONG","id":1}]]}]`, `[{"data":[[{"key":"SHOWN","id":1}]]}]`},
		"a text for an object":    {`{"data":["LONG"],"byName":"LONG"}`, `{"data":["****"],"byName":"****"}`},
		"a text for all":          {`"LONG"`, `"****"`},
		"beside the schema":       {`{"items":[{"deep":{"key":"LONG"}}],"title":"Conflict"}`, `{"items":[{"deep":{"key":"SHOWN"}}],"title":"Conflict"}`},
		"a problem":               {`{"status":500,"detail":"It was ACCOUNT.","errors":[{"key":"LONG"}]}`, `{"status":500,"detail":"It was withheld.","errors":[{"key":"SHOWN"}]}`},
		"ours among the caller's": {`{"data":[{"metadata":{"a":"ACCOUNT"}}]}`, `{"data":[{"metadata":{"a":"withheld"}}]}`},
		"no JSON":                 {`LONG`, `"****"`},
		"cut off":                 {`{"data":[{"key":"LONG`, `"****"`},
		"two answers":             {`{} {"key":"LONG"}`, `"****"`},
		"something after it":      {`{} LONG`, `"****"`},
		"a number for an object":  {`{"data":[1234567890123456]}`, `{"data":["****"]}`},
		"an entry of one":         {`{"data":{"pair":["LONG"]}}`, `{"data":{"pair":["SHOWN"]}}`},
		"an entry deep down":      {`{"data":[[{"pair":["LONG"]}]]}`, `{"data":[[{"pair":["SHOWN"]}]]}`},
		"no text":                 {"{\"data\":[{\"key\":\"LONG\xff\"}]}", `"****"`},
	} {
		t.Run(name, func(t *testing.T) {
			filled := strings.NewReplacer("LONG", long, "SHOWN", shown, "ACCOUNT", account)
			got, hidden := tool.Mask([]byte(filled.Replace(tt.body)))
			if string(got) != filled.Replace(tt.want) || !hidden {
				t.Errorf("it is %s, hidden %t, want %s", got, hidden, filled.Replace(tt.want))
			}
		})
	}
	for _, body := range []string{
		"", " \n", "null", `{"data":null,"byName":null}`, `{"data":[{"key":null},{"key":""},{"key":"****01234567"},{"key":"****"}]}`,
		`{"z":1,"a":12345678901234567890.1234567890,"e":1E400,"t":"<\u00e9\/>"}`,
		`{"data":[{"metadata":{"key":"the caller's own","deep":{"key":["x"],"deeper":{"deepest":{"key":"x"}}}},"tags":{"key":"a"}}]}`,
	} {
		if got, hidden := tool.Mask([]byte(body)); string(got) != body || hidden {
			t.Errorf("%s becomes %s, hidden %t", body, got, hidden)
		}
	}
	none := apitools.Tool{}
	for body, want := range map[string]string{`no JSON`: `no JSON`, `{"a": 1}`: `{"a": 1}`, `{"a":"` + account + `"}`: `{"a":"withheld"}`, account: `"****"`} {
		if got, hidden := none.Mask([]byte(body)); string(got) != want || hidden != (body != want) {
			t.Errorf("without secrets %s becomes %s, hidden %t", body, got, hidden)
		}
	}
}

// TestSecretsAreFoundInEveryForm of a schema, and by their names where the answer has another one.
func TestSecretsAreFoundInEveryForm(t *testing.T) {
	const document = `{"openapi": "3.1.0", "paths": {"/things": {"get": {"operationId": "Things_list", "x-effect": "reads", "responses": {"200": {"description": "d",
		"content": {"application/json": {"schema": {"type": "object", "properties": {
			"all": {"allOf": [{"type": "object", "properties": {"a": {"format": "password"}}}, {"type": "object", "properties": {"b": {"format": "password"}}}]},
			"any": {"anyOf": [{"type": "array", "items": {"format": "password"}}, {"type": "array", "items": {"type": "string"}}]},
			"later": {"anyOf": [{"type": "object", "properties": {"c": {}}}, {"type": "array", "items": {"format": "password"}}]},
			"map": {"anyOf": [{"type": "object", "properties": {"d": {}}}, {"type": "object", "additionalProperties": {"format": "password"}}]},
			"either": {"anyOf": [{"type": "object", "properties": {"e": {"format": "password"}}}, {"type": "object", "properties": {"e": {"type": "object", "additionalProperties": true}}}]},
			"second": {"type": "array", "prefixItems": [{}, {"format": "password"}]},
			"mixed": {"type": "object", "properties": {"f": {"format": "password"}}, "additionalProperties": true},
			"listed": {"type": "array", "items": {"type": "object", "properties": {"g": {"format": "password"}}}},
			"mapped": {"type": "object", "additionalProperties": {"type": "object", "properties": {"h": {"format": "password"}}}}}}}}}}}}}}`
	tools, err := apitools.Make([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"all":{"a":"SECRET","b":"SECRET"}}`, `{"any":["SECRET"]}`, `{"later":["SECRET"]}`, `{"map":{"x":"SECRET"}}`, `{"either":{"e":"SECRET"}}`,
		`{"second":[null,"SECRET"]}`, `{"mixed":{"f":"SECRET"}}`, `{"listed":[{"g":"SECRET"}]}`, `{"mapped":{"x":{"h":"SECRET"}}}`,
		`{"elsewhere":{"a":"SECRET","b":"SECRET","e":"SECRET","f":"SECRET","g":"SECRET","h":"SECRET"}}`,
	} {
		const secret, shown = "gone-in-all-answers-01234567", "****01234567"
		got, hidden := tools[0].Mask([]byte(strings.ReplaceAll(body, "SECRET", secret)))
		if want := strings.ReplaceAll(body, "SECRET", shown); string(got) != want || !hidden {
			t.Errorf("it is %s, hidden %t, want %s", got, hidden, want)
		}
	}
}

// TestNoSecretGetsThrough: whatever the form of the answer, what stands below the name of a secret is not in what comes out, which is
// JSON that masking leaves alone.
func TestNoSecretGetsThrough(t *testing.T) {
	tool := secretTool(t)
	const secret = "SECRET-of-more-than-sixteen"
	rapid.Check(t, func(t *rapid.T) {
		var value func(depth int, name, within string) any
		names := []string{"data", "byName", "key", "either", "id", "limit", "else"}
		value = func(depth int, name, within string) any {
			kind := rapid.IntRange(0, 4).Draw(t, "kind")
			switch {
			case within != "byName" && (name == "key" || name == "either" && kind > 1): // in a map, names are the caller's
				return []any{secret, secret, map[string]any{"id": secret}, []any{secret}, nil}[kind]
			case depth > 5 || kind == 0:
				return "text"
			case kind == 1:
				return 1.5
			case kind == 2:
				return []any{value(depth+1, name, within), value(depth+1, name, within)}
			}
			object := map[string]any{}
			for range kind {
				of := rapid.SampledFrom(names).Draw(t, "name")
				object[of] = value(depth+1, of, name)
			}
			return object
		}
		body, err := json.Marshal(value(0, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		got, hidden := tool.Mask(body)
		if strings.Contains(string(got), secret) || !json.Valid(got) {
			t.Fatalf("%s becomes %s", body, got)
		}
		if strings.Contains(string(body), secret) && !hidden {
			t.Fatalf("%s becomes %s, and it is said that nothing was hidden", body, got)
		}
		if again, hidden := tool.Mask(got); string(again) != string(got) || hidden {
			t.Fatalf("%s becomes %s", got, again)
		}
	})
}

// TestArgumentsAreMasked: a key of the caller's own choice is a secret before it is one here.
func TestArgumentsAreMasked(t *testing.T) {
	for _, tool := range load(t) {
		if tool.Name != "ApiKeyKeysService_create" {
			continue
		}
		const given = `{"accountName":"acme","key":"chosen-by-acme-0123456789","tag":{"tag.key":"a"}}`
		got, hidden := tool.MaskArguments([]byte(given))
		if want := strings.Replace(given, "chosen-by-acme-0123456789", "****23456789", 1); string(got) != want || !hidden {
			t.Errorf("%s becomes %s", given, got)
		}
		return
	}
	t.Error("there is no such tool")
}
