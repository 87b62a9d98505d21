package consumers_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestNoInputIsAnInternalError sends requests with random paths, random queries and random JSON bodies, most of them
// with random values in the declared fields. No response may have a status of 500 or more, and every error must be a
// problem document.
func TestNoInputIsAnInternalError(outer *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"", "alice", "csmr_000000000000000000000000", "key_000000000000000000000000", "2026-01-01T00:00:00Z",
		"9999-12-31T23:59:59-23:59",
		"0000-01-01T00:00:00Z", "a@example.com", "\x00", "%", "../..", "$bulk",
		"gwk_0123456789abcdef0123456789abcdef_00000000", strings.Repeat("x", 5000),
	}))
	var value *rapid.Generator[any]
	value = rapid.Custom(func(t *rapid.T) any {
		switch rapid.IntRange(0, 7).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.Float64Range(-1e300, 1e300).Draw(t, "number")
		case 3:
			return rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return value }), 0, 3).Draw(t, "list")
		case 4:
			return rapid.MapOfN(text, rapid.Deferred(func() *rapid.Generator[any] { return value }), 0, 7).Draw(t, "object")
		}
		return text.Draw(t, "text")
	})
	fields := rapid.SampledFrom([]string{
		"name", "description", "tags", "metadata", "managers", "expiresOn", "key", "email", "sub", "id", "createdOn", "other",
	})
	parameters := rapid.SampledFrom([]string{
		"limit", "offset", "include-api-keys", "include-managers", "include-manager-invites", "key-format", "manager-email",
		"with-api-key", "tag", "tag.", "tag.org",
	})
	fx := newFixture(outer)
	rapid.Check(outer, func(t *rapid.T) {
		segment := func(values ...string) string {
			if rapid.IntRange(0, 2).Draw(t, "known") > 0 {
				return rapid.SampledFrom(values).Draw(t, "segment")
			}
			return url.PathEscape(text.Draw(t, "segment"))
		}
		path := consumersPath
		switch rapid.IntRange(0, 5).Draw(t, "depth") {
		case 1:
			path += "/" + segment("alice")
		case 2:
			path += "/" + segment("alice") + "/" + segment("keys", "roll-key", "managers")
		case 3:
			path += "/" + segment("alice") + "/keys/" + segment("$bulk", "%24bulk", "key_000000000000000000000000")
		case 4:
			path += "/" + segment("alice") + "/managers/" + segment("eusr_0")
		}
		query := url.Values{}
		for range rapid.IntRange(0, 2).Draw(t, "parameters") {
			query.Add(parameters.Draw(t, "parameter"), text.Draw(t, "value"))
		}
		var body any = rapid.MapOfN(fields, value, 0, 6).Draw(t, "body")
		if rapid.IntRange(0, 3).Draw(t, "whole") == 0 {
			body = value.Draw(t, "body")
		}
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		method := rapid.SampledFrom([]string{"GET", "POST", "PATCH", "DELETE", "PUT"}).Draw(t, "method")
		got := fx.Call(fx.fullKey, method, path+"?"+query.Encode(), string(encoded))
		if got.Status >= http.StatusInternalServerError {
			t.Fatalf("%s %s with %s = %d %s, want a status below 500", method, path, encoded, got.Status, got.Body)
		}
		if got.Status >= http.StatusBadRequest && got.Header.Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%s %s = %d %s, want application/problem+json", method, path, got.Status, got.Body)
		}
	})
}
