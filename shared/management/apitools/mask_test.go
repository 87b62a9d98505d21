package apitools_test

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// toolWithSecrets returns a tool whose result is a page of keys with secrets and with the caller's own data.
func toolWithSecrets(t testing.TB) apitools.Tool {
	t.Helper()
	const document = `{"openapi": "3.1.0", "paths": {"/keys": {"get": {"operationId": "Keys_list", "x-effect": "reads",
		"responses": {"200": {"description": "d",
		"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Page"}}}}}}}}, "components": {"schemas": {
		"Page": {"type": "object", "properties": {
			"data": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/Key"}},
			"byName": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Key"}},
			"limit": {"type": "integer"}}},
		"Key": {"type": "object", "properties": {"id": {"type": "string"}, "key": {"type": "string", "format": "password"},
			"either": {"oneOf": [{"type": "string", "format": "password"}, {"type": "null"}]},
			"pair": {"type": "array", "prefixItems": [{"format": "password"}]},
			"metadata": {"type": "object", "additionalProperties": true},
			"tags": {"type": "object", "additionalProperties": {"type": "string"}}}}}}}`
	tools, err := apitools.Make([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return tools[0]
}

// maskedResponses are responses with secrets, and their masked forms. LONG stands
// for a secret, SHOWN for its masked form, and ACCOUNT for an account key.
var maskedResponses = map[string]struct{ body, want string }{
	"a secret in a list": {
		`{"data":[{"id":"a","key":"LONG"},{"id":"b","key":"LONG"}],"limit":2}`,
		`{"data":[{"id":"a","key":"SHOWN"},{"id":"b","key":"SHOWN"}],"limit":2}`,
	},
	"a secret in a map": {`{"byName":{"LONG":{"key":"LONG"}}}`, `{"byName":{"LONG":{"key":"SHOWN"}}}`},
	"a secret or null": {
		`{"data":[{"either":"LONG"},{"either":null}]}`,
		`{"data":[{"either":"SHOWN"},{"either":null}]}`,
	},
	"a secret in a tuple (prefixItems)": {`{"data":[{"pair":["LONG"]}]}`, `{"data":[{"pair":["SHOWN"]}]}`},
	"a short secret":                    {`{"data":[{"key":"0123456789abcde"}]}`, `{"data":[{"key":"****"}]}`},
	"a suffix that begins between characters": {
		`{"data":[{"key":"012345678ééééé"}]}`, `{"data":[{"key":"****éééé"}]}`,
	},
	"a suffix that begins inside a character": {`{"data":[{"key":"0123456789éééé1"}]}`, `{"data":[{"key":"****"}]}`},
	"an escaped name and secret": {
		`{"data":[{"k\u0065y":"\u0067one-in-all-answers-01234567"}]}`,
		`{"data":[{"k\u0065y":"SHOWN"}]}`,
	},
	"secrets of other types": {
		`{"data":[{"key":1},{"key":["LONG"]},{"key":{"a":"LONG"}},{"key":true}]}`,
		`{"data":[{"key":"****"},{"key":"****"},{"key":"****"},{"key":"****"}]}`,
	},
	"a secret that begins with asterisks": {
		`{"data":[{"key":"****0123456789abcdef"}]}`, `{"data":[{"key":"****89abcdef"}]}`,
	},
	"a secret whose name occurs twice": {
		`{"data":[{"key":"LONG","key":"LONG"}]}`, `{"data":[{"key":"SHOWN","key":"SHOWN"}]}`,
	},
	"an object instead of a list": {`{"data":{"key":"LONG"}}`, `{"data":{"key":"SHOWN"}}`},
	"a list instead of an object": {
		`[{"data":[[{"key":"LONG","id":1}]]}]`, `[{"data":[[{"key":"SHOWN","id":1}]]}]`,
	},
	"texts instead of objects":       {`{"data":["LONG"],"byName":"LONG"}`, `{"data":["****"],"byName":"****"}`},
	"a text instead of the response": {`"LONG"`, `"****"`},
	"a secret outside the schema": {
		`{"items":[{"deep":{"key":"LONG"}}],"title":"Conflict"}`,
		`{"items":[{"deep":{"key":"SHOWN"}}],"title":"Conflict"}`,
	},
	"a problem": {
		`{"status":500,"detail":"It was ACCOUNT.","errors":[{"key":"LONG"}]}`,
		`{"status":500,"detail":"It was withheld.","errors":[{"key":"SHOWN"}]}`,
	},
	"an account key in a caller's metadata": {
		`{"data":[{"metadata":{"a":"ACCOUNT"}}]}`, `{"data":[{"metadata":{"a":"withheld"}}]}`,
	},
	"invalid JSON":                  {`LONG`, `"****"`},
	"truncated JSON":                {`{"data":[{"key":"LONG`, `"****"`},
	"two responses":                 {`{} {"key":"LONG"}`, `"****"`},
	"text after the response":       {`{} LONG`, `"****"`},
	"a number instead of an object": {`{"data":[1234567890123456]}`, `{"data":["****"]}`},
	"a secret in a tuple of an object instead of a list": {`{"data":{"pair":["LONG"]}}`, `{"data":{"pair":["SHOWN"]}}`},
	"a tuple of a list instead of an object": {
		`{"data":[[{"pair":["LONG"]}]]}`,
		`{"data":[[{"pair":["SHOWN"]}]]}`,
	},
	"invalid UTF-8": {"{\"data\":[{\"key\":\"LONG\xff\"}]}", `"****"`},
}

// TestSecretsAreMasked checks that Mask masks secrets where the schema declares them. If the result does not match the
// schema, Mask finds them by their names. Account keys must be withheld, and a result that is not JSON must be masked
// as a whole. All other parts of a result must stay the same.
func TestSecretsAreMasked(t *testing.T) {
	const secret, masked = "gone-in-all-answers-01234567", "****01234567"
	tool := toolWithSecrets(t)
	account := credential.New(credential.AccountKey, ids.NewSource(rand.Reader, time.Now))
	for name, tt := range maskedResponses {
		t.Run(name, func(t *testing.T) {
			placeholders := strings.NewReplacer("LONG", secret, "SHOWN", masked, "ACCOUNT", account)
			got, hidden := tool.Mask([]byte(placeholders.Replace(tt.body)))
			if string(got) != placeholders.Replace(tt.want) || !hidden {
				t.Errorf("Mask() = %s, %t, want %s, true", got, hidden, placeholders.Replace(tt.want))
			}
		})
	}
	for _, body := range []string{ // without secrets, or with masked secrets only
		"", " \n", "null", `{"data":null,"byName":null}`,
		`{"data":[{"key":null},{"key":""},{"key":"****01234567"},{"key":"****"}]}`,
		`{"z":1,"a":12345678901234567890.1234567890,"e":1E400,"t":"<\u00e9\/>"}`,
		`{"data":[{"metadata":{"key":"the caller's own","deep":{"key":["x"],"deeper":{"deepest":{"key":"x"}}}},` +
			`"tags":{"key":"a"}}]}`,
	} {
		if got, hidden := tool.Mask([]byte(body)); string(got) != body || hidden {
			t.Errorf("Mask(%s) = %s, %t, want no change, false", body, got, hidden)
		}
	}
	withoutSecrets := apitools.Tool{}
	for body, want := range map[string]string{
		`no JSON`: `no JSON`, `{"a": 1}`: `{"a": 1}`,
		`{"a":"` + account + `"}`: `{"a":"withheld"}`, account: `"****"`,
	} {
		if got, hidden := withoutSecrets.Mask([]byte(body)); string(got) != want || hidden != (body != want) {
			t.Errorf("Mask(%s) of a tool without secrets = %s, %t, want %s, %t", body, got, hidden, want, body != want)
		}
	}
}

// TestSecretsAreFoundInEverySchemaForm checks that secrets are found in every form of a schema.
// If the result has another form than its schema, secrets must be found by their names.
func TestSecretsAreFoundInEverySchemaForm(t *testing.T) {
	const document = `{"openapi": "3.1.0", "paths": {"/things": {"get": {"operationId": "Things_list", "x-effect": "reads",
		"responses": {"200": {"description": "d",
		"content": {"application/json": {"schema": {"type": "object", "properties": {
			"all": {"allOf": [{"type": "object", "properties": {"a": {"format": "password"}}},
				{"type": "object", "properties": {"b": {"format": "password"}}}]},
			"any": {"anyOf": [{"type": "array", "items": {"format": "password"}},
				{"type": "array", "items": {"type": "string"}}]},
			"later": {"anyOf": [{"type": "object", "properties": {"c": {}}},
				{"type": "array", "items": {"format": "password"}}]},
			"map": {"anyOf": [{"type": "object", "properties": {"d": {}}},
				{"type": "object", "additionalProperties": {"format": "password"}}]},
			"either": {"anyOf": [{"type": "object", "properties": {"e": {"format": "password"}}},
				{"type": "object", "properties": {"e": {"type": "object", "additionalProperties": true}}}]},
			"second": {"type": "array", "prefixItems": [{}, {"format": "password"}]},
			"mixed": {"type": "object", "properties": {"f": {"format": "password"}}, "additionalProperties": true},
			"listed": {"type": "array", "items": {"type": "object", "properties": {"g": {"format": "password"}}}},
			"mapped": {"type": "object", "additionalProperties": {
				"type": "object", "properties": {"h": {"format": "password"}}}}}}}}}}}}}}`
	tools, err := apitools.Make([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"all":{"a":"SECRET","b":"SECRET"}}`, `{"any":["SECRET"]}`, `{"later":["SECRET"]}`, `{"map":{"x":"SECRET"}}`,
		`{"either":{"e":"SECRET"}}`,
		`{"second":[null,"SECRET"]}`, `{"mixed":{"f":"SECRET"}}`, `{"listed":[{"g":"SECRET"}]}`,
		`{"mapped":{"x":{"h":"SECRET"}}}`,
		`{"elsewhere":{"a":"SECRET","b":"SECRET","e":"SECRET","f":"SECRET","g":"SECRET","h":"SECRET"}}`,
	} {
		const secret, masked = "gone-in-all-answers-01234567", "****01234567"
		got, hidden := tools[0].Mask([]byte(strings.ReplaceAll(body, "SECRET", secret)))
		if want := strings.ReplaceAll(body, "SECRET", masked); string(got) != want || !hidden {
			t.Errorf("Mask(%s) with a secret = %s, %t, want %s, true", body, got, hidden, want)
		}
	}
}

// TestMaskNeverLeaksSecrets checks that, for any form of a result, the output contains no value of a member with the
// name of a secret, except in a map, because the caller chooses the names in a map. The output must be JSON, and
// masking the output again must not change it.
func TestMaskNeverLeaksSecrets(t *testing.T) {
	tool := toolWithSecrets(t)
	const secret = "SECRET-of-more-than-sixteen"
	rapid.Check(t, func(t *rapid.T) {
		var value func(depth int, name, parent string) any
		names := []string{"data", "byName", "key", "either", "id", "limit", "else"}
		value = func(depth int, name, parent string) any {
			kind := rapid.IntRange(0, 4).Draw(t, "kind")
			switch {
			case parent != "byName" && (name == "key" || name == "either" && kind > 1): // in a map, the caller chooses the names
				return []any{secret, secret, map[string]any{"id": secret}, []any{secret}, nil}[kind]
			case depth > 5 || kind == 0:
				return "text"
			case kind == 1:
				return 1.5
			case kind == 2:
				return []any{value(depth+1, name, parent), value(depth+1, name, parent)}
			}
			object := map[string]any{}
			for range kind {
				child := rapid.SampledFrom(names).Draw(t, "name")
				object[child] = value(depth+1, child, name)
			}
			return object
		}
		body, err := json.Marshal(value(0, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		got, hidden := tool.Mask(body)
		if strings.Contains(string(got), secret) || !json.Valid(got) {
			t.Fatalf("Mask(%s) = %s, want valid JSON without the secret", body, got)
		}
		if strings.Contains(string(body), secret) && !hidden {
			t.Fatalf("Mask(%s) = %s, false, want true", body, got)
		}
		if second, hidden := tool.Mask(got); string(second) != string(got) || hidden {
			t.Fatalf("Mask(%s), already masked, = %s, %t, want no change, false", got, second, hidden)
		}
	})
}

// TestArgumentsAreMasked checks that secrets in arguments are masked, such as a key that the caller chooses.
func TestArgumentsAreMasked(t *testing.T) {
	for _, tool := range load(t) {
		if tool.Name != "ApiKeyKeysService_create" {
			continue
		}
		const arguments = `{"accountName":"acme","key":"chosen-by-acme-0123456789","tag":{"tag.key":"a"}}`
		got, hidden := tool.MaskArguments([]byte(arguments))
		if want := strings.Replace(arguments, "chosen-by-acme-0123456789", "****23456789", 1); string(got) != want ||
			!hidden {
			t.Errorf("MaskArguments(%s) = %s, %t, want %s, true", arguments, got, hidden, want)
		}
		return
	}
	t.Error("tool ApiKeyKeysService_create is missing, want it")
}
