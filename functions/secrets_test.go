package functions_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

// secretFields returns the names of fields that contain a secret: a key, the value of a variable, a token, or an upload
// address.
func secretFields() []string { return []string{"key", "value", "token", "uploadUrl"} }

// secretName matches names of fields that sound like secrets.
var secretName = regexp.MustCompile(
	`(?i)secret|token|passw|passphrase|private|credential|sealed|hash|cipher|signature|\bpin\b|^key$|apikey$|url$`)

// secretFormat is the format of fields that contain a secret. Tools mask such fields.
const secretFormat = "password"

// TestFieldsWithSecretNamesAreMarked checks that fields whose names sound like a secret have the secret format. So
// tools mask them, and TestSecretsAreNotStoredInClear searches for their values.
func TestFieldsWithSecretNamesAreMarked(t *testing.T) {
	exempt := []string{
		"isSecret",          // a flag
		"hash", "signature", // public proofs of an audit record
		"url", "repositoryUrl", "logUrl", // public addresses
	}
	_, schemas := readOpenAPI(t)
	for name, s := range schemas {
		for field, property := range s.Properties {
			marked := property.Format == secretFormat
			if secretName.MatchString(field) && !marked && !slices.Contains(exempt, field) {
				t.Errorf(`%s.%s has the name of a secret, want format:"password", no such field or an exemption`, name, field)
			}
			if marked && !slices.Contains(secretFields(), field) {
				t.Errorf("%s.%s is marked as a secret, want it in secretFields", name, field)
			}
		}
	}
}

// TestResponsesContainNoSealedBytes checks that no response contains a byte value of the table, in base64 or
// hexadecimal, because byte values are sealed or hashed. It ignores values that are shorter than 8 bytes.
func TestResponsesContainNoSealedBytes(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, anyOperation, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			fx, resp, _ := p.sendValid(t, d, r)
			for key, item := range fx.Items.Snapshot() {
				for name, value := range item {
					for _, text := range encodings(t, value) {
						if strings.Contains(resp.Body, text) {
							t.Errorf("the response contains %s of %s %s, want no sealed bytes", name, key.PK, key.SK)
						}
					}
				}
			}
		}
	})
}

// encodings returns the possible encodings of a byte value in a response, and none for other attributes. It recognizes
// byte values by the name of their type, because this package does not import the AWS SDK, which declares the type.
func encodings(t *testing.T, attribute any) []string {
	t.Helper()
	if fmt.Sprintf("%T", attribute) != "*types.AttributeValueMemberB" {
		return nil
	}
	raw, err := json.Marshal(attribute)
	if err != nil {
		t.Fatal(err)
	}
	var b struct{ Value []byte }
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	if len(b.Value) < 8 {
		return nil
	}
	return []string{
		base64.StdEncoding.EncodeToString(b.Value), base64.RawURLEncoding.EncodeToString(b.Value),
		hex.EncodeToString(b.Value),
	}
}

// visitTexts calls f with every string in decoded JSON, and with the name of its field. For strings in a list, the name
// is "".
func visitTexts(v any, f func(name, text string)) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			visitTexts(element, f)
		}
	case map[string]any:
		for name, element := range v {
			if text, ok := element.(string); ok {
				f(name, text)
			} else {
				visitTexts(element, f)
			}
		}
	case string:
		f("", v)
	}
}

func decodeJSON(t *testing.T, text string) (v any) {
	t.Helper()
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("JSON error = %v, want none: %s", err, text)
	}
	return v
}

// secretTexts returns the secrets in a body.
func secretTexts(t *testing.T, body string) (found []string) {
	t.Helper()
	visitTexts(decodeJSON(t, body), func(name, text string) {
		if slices.Contains(secretFields(), name) && text != "" && !strings.HasPrefix(text, "****") {
			found = append(found, text)
		}
	})
	return found
}

// recordTexts returns all strings and byte values of a record as texts.
func recordTexts(t *testing.T, item store.Item) (found []string) {
	t.Helper()
	record, err := json.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	visitTexts(decodeJSON(t, string(record)), func(_, text string) {
		found = append(found, text)
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
			found = append(found, string(raw))
		}
	})
	return found
}

// TestSecretsAreNotStoredInClear checks that secrets in requests and responses, and the account key of the request, are
// neither in the table, including audit records, nor in the log.
func TestSecretsAreNotStoredInClear(t *testing.T) {
	p := newPopulatedFixture(t)
	secrets := map[string]bool{}
	forEachOperation(t, needsKey, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			fx, n := p.Copy(t), maps.Clone(p.values)
			if err := p.sampleSet.RunSteps(fx.Client(p.key), n, r.Prerequisites); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			fx.Parts.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			fx.Restart()
			path, body := requestTarget(t, d, r, n)
			resp := fx.Call(p.key, d.Method, path, body)
			if log.Len() == 0 {
				t.Fatal("the log is empty, want a line for the request")
			}
			for _, secret := range append(append(secretTexts(t, body), secretTexts(t, resp.Body)...), p.key) {
				secrets[secret] = true
				if strings.Contains(log.String(), secret) {
					t.Errorf("the log contains %q, want no secret: %s", secret, log.String())
				}
				for key, item := range fx.Items.Snapshot() {
					if slices.ContainsFunc(recordTexts(t, item), func(text string) bool { return strings.Contains(text, secret) }) {
						t.Errorf("%s %s contains %q, want no secret in clear", key.PK, key.SK, secret)
					}
				}
			}
		}
	})
	if onlyGroup(t) == "" && len(secrets) < 2 {
		t.Errorf("secrets in requests and responses = %d, want 2 or more: see secretFields", len(secrets))
	}
}
