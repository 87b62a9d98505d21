package keys_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

func TestKeyFormats(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner,
		keys.NewBucket{Name: "unretrievable", Unretrievable: true}))
	for _, test := range []struct {
		bucket string
		format keys.Format
		want   func(text string) string
	}{
		{bucket, keys.None, func(string) string { return "" }},
		{bucket, keys.Visible, func(text string) string { return text }},
		{bucket, keys.Masked, func(text string) string { return "****" + text[len(text)-8:] }},
		{bucket, "", func(text string) string { return "****" + text[len(text)-8:] }},
		{"unretrievable", keys.Visible, func(text string) string { return "****" + text[len(text)-8:] }},
		{"unretrievable", keys.None, func(string) string { return "" }},
	} {
		t.Run(fmt.Sprintf("%s %s", test.bucket, test.format), func(t *testing.T) {
			name := "c-" + string(test.format)
			created := must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(test.bucket),
				keys.NewConsumer{Name: name, WithKey: true}))
			at := keys.ConsumerLocator{BucketLocator: bucketAt(test.bucket), Consumer: name}
			k := created.Keys[0]
			if !credential.WellFormed(credential.ConsumerKey, k.Text) {
				t.Fatalf("CreateConsumer() key = %q, want a complete key", k.Text)
			}
			read := must[keys.Key](t)(fx.keys.ReadKey(fx.Context(), at, k.ID, test.format))
			list, _, _, err := fx.keys.ListKeys(fx.Context(), at, all, test.format)
			noError(t, err)
			c := must[keys.Consumer](t)(fx.keys.ReadConsumer(fx.Context(), at, keys.Include{Keys: true, Format: test.format}))
			cs, _, _, err := fx.keys.ListConsumers(fx.Context(), bucketAt(test.bucket), keys.Filter{}, store.Page{Limit: 9},
				keys.Include{Keys: true, Format: test.format})
			noError(t, err)
			i := slices.IndexFunc(cs, func(c keys.Consumer) bool { return c.Name == name })
			for call, got := range map[string]keys.Key{
				"ReadKey": read, "ListKeys": list[0], "ReadConsumer": c.Keys[0], "ListConsumers": cs[i].Keys[0],
			} {
				if got.Text != test.want(k.Text) {
					t.Errorf("%s() text = %q, want %q", call, got.Text, test.want(k.Text))
				}
			}
		})
	}
}

func TestCustomKeyIsUniqueAndReplaceable(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	first := fx.createKey("alice", keys.NewKey{Text: "first-custom-key!"})
	_, err := fx.keys.CreateKey(fx.requestContext(), consumerAt("alice"), keys.NewKey{Text: "first-custom-key!"})
	wantFault(t, err, fault.Conflict)
	second := fx.createKey("alice", keys.NewKey{})
	_, err = fx.keys.UpdateKey(fx.requestContext(), consumerAt("alice"), second.ID,
		keys.KeyPatch{Text: "first-custom-key!"})
	wantFault(t, err, fault.Conflict)
	got := must[keys.Key](t)(fx.keys.UpdateKey(fx.requestContext(), consumerAt("alice"), first.ID,
		keys.KeyPatch{Text: "other-custom-key!", Description: store.PatchTo("new")}))
	if got.Text != "****tom-key!" || got.Description != "new" {
		t.Fatalf("UpdateKey() = %+v, want the masked text ****tom-key! and description new", got)
	}
	fx.checkAccepted(false, first)
	fx.checkAccepted(true, keys.Key{Text: "other-custom-key!"}, second)
	// A text that was replaced can be used for another key.
	must[keys.Key](t)(fx.keys.UpdateKey(fx.requestContext(), consumerAt("alice"), second.ID,
		keys.KeyPatch{Text: "first-custom-key!"}))
	fx.checkAccepted(false, second)
	fx.checkAccepted(true, first)
}

func TestDeletedKeyIsRefusedAndNotFound(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	k, other := fx.createKey("alice", keys.NewKey{}), fx.createKey("alice", keys.NewKey{})
	noError(t, fx.keys.DeleteKey(fx.requestContext(), consumerAt("alice"), k.ID))
	fx.checkAccepted(false, k)
	fx.checkAccepted(true, other)
	_, err := fx.keys.ReadKey(fx.Context(), consumerAt("alice"), k.ID, keys.None)
	wantFault(t, err, fault.NotFound)
	wantFault(t, fx.keys.DeleteKey(fx.requestContext(), consumerAt("alice"), k.ID), fault.NotFound)
	wantFault(t, fx.keys.DeleteKey(fx.requestContext(), consumerAt("alice"), "not-an-id"), fault.NotFound)
	if got := fx.listKeys("alice"); len(got) != 1 || got[0].ID != other.ID {
		t.Fatalf("ListKeys() = %+v, want only %s", got, other.ID)
	}
}

func TestKeysAreListedNewestFirst(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	var want []string
	for i := range 7 {
		// The clock advances less and less, and is then set back, as if an instance with a slower clock created the key.
		fx.clock.add(time.Duration(3-i) * time.Second)
		want = append(want, fx.createKey("alice", keys.NewKey{}).ID)
	}
	slices.Reverse(want)
	got, _, total, err := fx.keys.ListKeys(fx.Context(), consumerAt("alice"), store.Page{Limit: 3, Offset: 2}, keys.None)
	noError(t, err)
	var gotIDs []string
	for _, k := range got {
		gotIDs = append(gotIDs, k.ID)
	}
	if total != 7 || !slices.Equal(gotIDs, want[2:5]) {
		t.Fatalf("ListKeys() = %v, total %d, want %v, total 7", gotIDs, total, want[2:5])
	}
}

// TestTableContainsNoPlaintextKeys searches the whole table, including audit records and operations, for the texts of
// keys and tokens.
func TestTableContainsNoPlaintextKeys(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner,
		keys.NewBucket{Name: "unretrievable", Unretrievable: true}))
	var texts []string
	for _, name := range []string{bucket, "unretrievable"} {
		b := must[keys.Bucket](t)(fx.keys.ReadBucket(fx.Context(), bucketAt(name)))
		at := keys.ConsumerLocator{BucketLocator: bucketAt(name), Consumer: "alice"}
		created := must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(name),
			keys.NewConsumer{Name: "alice", WithKey: true}))
		custom := must[keys.Key](t)(fx.keys.CreateKey(fx.requestContext(), at,
			keys.NewKey{Text: "chosen-by-its-owner-" + name}))
		must[keys.Key](t)(fx.keys.UpdateKey(fx.requestContext(), at, custom.ID,
			keys.KeyPatch{Text: "chosen-once-more-" + name}))
		for _, k := range must[[]keys.Key](t)(fx.keys.CreateKeys(fx.requestContext(), at, make([]keys.NewKey, 60))) {
			texts = append(texts, k.Text)
		}
		texts = append(texts, b.Token, created.Keys[0].Text, "chosen-by-its-owner-"+name, "chosen-once-more-"+name)
	}
	for key, item := range fx.memory.Items() {
		stored := plainText(t, item)
		for _, text := range texts {
			// Search for the text without its last 8 characters, because masked keys show these.
			if strings.Contains(stored, text[:len(text)-8]) {
				t.Errorf("item %s %s contains the text of a key, want only its hash", key.PK, key.SK)
			}
		}
		if _, sealed := item["sealed"]; sealed && strings.Contains(key.PK, "/unretrievable/") {
			t.Errorf("item %s %s of a bucket that stores no keys has a sealed text, want none", key.PK, key.SK)
		}
	}
}

// plainText returns all strings and all byte sequences of an item as one text.
func plainText(t *testing.T, item store.Item) string {
	t.Helper()
	var out strings.Builder
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			raw, _ := base64.StdEncoding.DecodeString(v) // the JSON form of bytes
			out.WriteString(v + "\n" + string(raw) + "\n")
		case map[string]any:
			for name, part := range v {
				visit(name)
				visit(part)
			}
		case []any:
			for _, part := range v {
				visit(part)
			}
		}
	}
	var decoded any
	noError(t, json.Unmarshal(must[[]byte](t)(json.Marshal(item)), &decoded))
	visit(decoded)
	return out.String()
}
