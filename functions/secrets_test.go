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

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/store"
)

// secretFields are the fields of requests and answers whose texts open
// something: an API key, a variable's value, what connects to a bucket, an
// address that takes an upload.
func secretFields() []string { return []string{"key", "value", "token", "uploadUrl"} }

// sounds are parts of names of fields that hold what opens something.
var sounds = regexp.MustCompile(`(?i)secret|token|passw|passphrase|private|credential|sealed|hash|cipher|signature|\bpin\b|^key$|apikey$|url$`)

// secretFormat marks a field of a request or an answer that holds a secret: that is
// how a tool knows what it masks.
const secretFormat = "password"

// TestFieldsThatSoundSecretAreMarked: an answer gets a field that opens something
// by intention, and then tools mask it and TestNoSecretIsKept follows what it holds.
func TestFieldsThatSoundSecretAreMarked(t *testing.T) {
	known := []string{
		"isSecret",          // whether a value is one
		"hash", "signature", // what proves an audit record, and is in files for others
		"url", "repositoryUrl", "logUrl", // addresses that anybody may know
	}
	_, schemas := requests(t)
	for name, s := range schemas {
		for field, of := range s.Properties {
			marked := of.Format == secretFormat
			if sounds.MatchString(field) && !marked && !slices.Contains(known, field) {
				t.Errorf(`%s.%s sounds secret: leave it out, mark it with format:"password", or list it here`, name, field)
			}
			if marked && !slices.Contains(secretFields(), field) {
				t.Errorf("%s.%s is marked as a secret: list it in secretFields", name, field)
			}
		}
	}
}

// TestNothingSealedIsAnswered: what the table holds as bytes is sealed or hashed,
// and is nobody's to read.
func TestNothingSealedIsAnswered(t *testing.T) {
	p := newPopulated(t)
	each(t, every, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			w, a, _ := p.good(t, d, r)
			for key, item := range w.Items.Snapshot() {
				for name, value := range item {
					for _, text := range spellings(t, value) {
						if strings.Contains(a.Body, text) {
							t.Errorf("it answers the %s of %s %s", name, key.PK, key.SK)
						}
					}
				}
			}
		}
	})
}

// spellings are how an answer could show an attribute of bytes, none for any
// other. It is known by its type's name: the SDK that has it stays in store.
func spellings(t *testing.T, attribute any) []string {
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
		base64.StdEncoding.EncodeToString(b.Value), base64.RawURLEncoding.EncodeToString(b.Value), hex.EncodeToString(b.Value),
	}
}

// visit calls seen for every field of a decoded JSON text, and for every text
// in it, whose field has no name in a list.
func visit(v any, seen func(name, text string)) {
	switch v := v.(type) {
	case []any:
		for _, each := range v {
			visit(each, seen)
		}
	case map[string]any:
		for name, each := range v {
			if text, ok := each.(string); ok {
				seen(name, text)
			} else {
				visit(each, seen)
			}
		}
	case string:
		seen("", v)
	}
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// secretsIn gives the secrets of a body.
func secretsIn(t *testing.T, body string) (found []string) {
	t.Helper()
	visit(decoded(t, body), func(name, text string) {
		if slices.Contains(secretFields(), name) && text != "" && !strings.HasPrefix(text, "****") {
			found = append(found, text)
		}
	})
	return found
}

// texts are those of a record of the table, bytes among them.
func texts(t *testing.T, item store.Item) (found []string) {
	t.Helper()
	record, err := json.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	visit(decoded(t, string(record)), func(_, text string) {
		found = append(found, text)
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
			found = append(found, string(raw))
		}
	})
	return found
}

// TestNoSecretIsKept: what an operation takes or answers that opens something
// is neither in the table, audit records included, nor in the log; nor is the
// account key that it was asked with.
func TestNoSecretIsKept(t *testing.T) {
	p := newPopulated(t)
	met := map[string]bool{}
	each(t, private, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			w, n := p.Copy(t), maps.Clone(p.names)
			if err := p.book.Steps(w.Client(p.key), n, r.After); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			w.Parts.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			w.Restart()
			path, body := target(t, d, r, n)
			a := w.Call(p.key, d.Method, path, body)
			if log.Len() == 0 {
				t.Fatal("the request has no line in the log")
			}
			for _, secret := range append(append(secretsIn(t, body), secretsIn(t, a.Body)...), p.key) {
				met[secret] = true
				if strings.Contains(log.String(), secret) {
					t.Errorf("the log holds %q: %s", secret, log.String())
				}
				for key, item := range w.Items.Snapshot() {
					if slices.ContainsFunc(texts(t, item), func(text string) bool { return strings.Contains(text, secret) }) {
						t.Errorf("%s %s holds %q", key.PK, key.SK, secret)
					}
				}
			}
		}
	})
	if only(t) == "" && len(met) < 2 {
		t.Error("no request has a secret: see secretFields")
	}
}
