package keys_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
)

func TestKeyFormats(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: "forgetful", Unretrievable: true}))
	for _, test := range []struct {
		bucket string
		format keys.Format
		want   func(text string) string
	}{
		{bucket, keys.None, func(string) string { return "" }},
		{bucket, keys.Visible, func(text string) string { return text }},
		{bucket, keys.Masked, func(text string) string { return "****" + text[len(text)-8:] }},
		{bucket, "", func(text string) string { return "****" + text[len(text)-8:] }},
		{"forgetful", keys.Visible, func(text string) string { return "****" + text[len(text)-8:] }},
		{"forgetful", keys.None, func(string) string { return "" }},
	} {
		t.Run(fmt.Sprintf("%s %s", test.bucket, test.format), func(t *testing.T) {
			name := "c-" + string(test.format)
			made := must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(test.bucket), keys.NewConsumer{Name: name, WithKey: true}))
			at := keys.ConsumerAt{BucketAt: in(test.bucket), Consumer: name}
			k := made.Keys[0]
			if !credential.WellFormed(credential.ConsumerKey, k.Text) {
				t.Fatal("the creation does not show the key")
			}
			read := must[keys.Key](t)(w.keys.ReadKey(w.Context(), at, k.ID, test.format))
			list, _, _, err := w.keys.ListKeys(w.Context(), at, all, test.format)
			must0(t, err)
			c := must[keys.Consumer](t)(w.keys.ReadConsumer(w.Context(), at, keys.Include{Keys: true, Format: test.format}))
			cs, _, _, err := w.keys.ListConsumers(w.Context(), in(test.bucket), keys.Filter{}, store.Page{Limit: 9}, keys.Include{Keys: true, Format: test.format})
			must0(t, err)
			i := slices.IndexFunc(cs, func(c keys.Consumer) bool { return c.Name == name })
			for _, got := range []keys.Key{read, list[0], c.Keys[0], cs[i].Keys[0]} {
				if got.Text != test.want(k.Text) {
					t.Errorf("got %q of %q", got.Text, k.Text)
				}
			}
		})
	}
}

func TestCustomKeyIsUniqueAndReplaceable(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	first := w.key("alice", keys.NewKey{Text: "first-custom-key!"})
	_, err := w.keys.CreateKey(w.request(), of("alice"), keys.NewKey{Text: "first-custom-key!"})
	wantFault(t, err, fault.Conflict)
	second := w.key("alice", keys.NewKey{})
	_, err = w.keys.UpdateKey(w.request(), of("alice"), second.ID, keys.KeyPatch{Text: "first-custom-key!"})
	wantFault(t, err, fault.Conflict)
	got := must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), first.ID, keys.KeyPatch{Text: "other-custom-key!", Description: store.PatchTo("new")}))
	if got.Text != "****tom-key!" || got.Description != "new" {
		t.Fatalf("got %+v", got)
	}
	w.wantOpen(false, first)
	w.wantOpen(true, keys.Key{Text: "other-custom-key!"}, second)
	// The text that was given up may be taken again.
	must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), second.ID, keys.KeyPatch{Text: "first-custom-key!"}))
	w.wantOpen(false, second)
	w.wantOpen(true, first)
}

func TestDeletedKeyIsRefusedAndGone(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	k, other := w.key("alice", keys.NewKey{}), w.key("alice", keys.NewKey{})
	must0(t, w.keys.DeleteKey(w.request(), of("alice"), k.ID))
	w.wantOpen(false, k)
	w.wantOpen(true, other)
	_, err := w.keys.ReadKey(w.Context(), of("alice"), k.ID, keys.None)
	wantFault(t, err, fault.NotFound)
	wantFault(t, w.keys.DeleteKey(w.request(), of("alice"), k.ID), fault.NotFound)
	wantFault(t, w.keys.DeleteKey(w.request(), of("alice"), "not-an-id"), fault.NotFound)
	if got := w.list("alice"); len(got) != 1 || got[0].ID != other.ID {
		t.Fatalf("got %+v", got)
	}
}

func TestKeysAreListedNewestFirst(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	var want []string
	for i := range 7 {
		// A clock that goes back, as another instance's may.
		w.clock.add(time.Duration(3-i) * time.Second)
		want = append(want, w.key("alice", keys.NewKey{}).ID)
	}
	slices.Reverse(want)
	got, _, total, err := w.keys.ListKeys(w.Context(), of("alice"), store.Page{Limit: 3, Offset: 2}, keys.None)
	must0(t, err)
	var have []string
	for _, k := range got {
		have = append(have, k.ID)
	}
	if total != 7 || !slices.Equal(have, want[2:5]) {
		t.Fatalf("got %d: %v, want %v", total, have, want[2:5])
	}
}

// TestNothingInTheTableGivesAKeyAway looks for the texts of keys and tokens in
// everything that is stored, audit records and operations too.
func TestNothingInTheTableGivesAKeyAway(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: "forgetful", Unretrievable: true}))
	var texts []string
	for _, name := range []string{bucket, "forgetful"} {
		b := must[keys.Bucket](t)(w.keys.ReadBucket(w.Context(), in(name)))
		at := keys.ConsumerAt{BucketAt: in(name), Consumer: "alice"}
		made := must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(name), keys.NewConsumer{Name: "alice", WithKey: true}))
		custom := must[keys.Key](t)(w.keys.CreateKey(w.request(), at, keys.NewKey{Text: "chosen-by-its-owner-" + name}))
		must[keys.Key](t)(w.keys.UpdateKey(w.request(), at, custom.ID, keys.KeyPatch{Text: "chosen-once-more-" + name}))
		for _, k := range must[[]keys.Key](t)(w.keys.CreateKeys(w.request(), at, make([]keys.NewKey, 60))) {
			texts = append(texts, k.Text)
		}
		texts = append(texts, b.Token, made.Keys[0].Text, "chosen-by-its-owner-"+name, "chosen-once-more-"+name)
	}
	for key, item := range w.memory.Items() {
		stored := spelled(t, item)
		for _, text := range texts {
			// All but the last 8 characters, which a mask shows.
			if strings.Contains(stored, text[:len(text)-8]) {
				t.Errorf("%s %s holds the text of a key", key.PK, key.SK)
			}
		}
		if _, sealed := item["sealed"]; sealed && strings.Contains(key.PK, "/forgetful/") {
			t.Errorf("%s %s keeps a text that is to be forgotten", key.PK, key.SK)
		}
	}
}

// spelled is every text of a stored value, and every run of bytes as it is.
func spelled(t *testing.T, item store.Item) string {
	t.Helper()
	var out strings.Builder
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case string:
			raw, _ := base64.StdEncoding.DecodeString(v) // how JSON has bytes
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
	must0(t, json.Unmarshal(must[[]byte](t)(json.Marshal(item)), &decoded))
	visit(decoded)
	return out.String()
}
