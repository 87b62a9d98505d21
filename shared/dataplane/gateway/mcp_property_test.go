package gateway_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMCPArgumentsArriveUnchangedOrAreRefused checks for generated arguments that the upstream receives
// exactly the values that a model has sent, or no request. Only spaces around a header's value are removed.
func TestMCPArgumentsArriveUnchangedOrAreRefused(t *testing.T) {
	fx := newMCPFixture(t)
	hostile := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("./\\;%?#&=2eE5fF+ \r\n\x00ä{}[]:@,\"")),
		0, 12, -1))
	rapid.Check(t, func(rt *rapid.T) {
		id, item := hostile.Draw(rt, "id"), hostile.Draw(rt, "item")
		expand := rapid.SliceOfN(hostile, 0, 3).Draw(rt, "expand")
		locale := hostile.Draw(rt, "locale")
		arguments := func(all map[string]any) string {
			raw, err := json.Marshal(all)
			if err != nil {
				rt.Fatal(err)
			}
			return string(raw)
		}
		before := fx.count()
		_, reply := fx.tool(t, "/mcp", "readItem", arguments(map[string]any{"id": id, "item": item}))
		if reply.Error == nil {
			path := strings.Split(fx.last(t).Target, "/")
			if len(path) != 5 || path[1] != "todos" || path[3] != "items" {
				rt.Fatalf("readItem(%q, %q): target = %q, want /todos/ID/items/ITEM", id, item, fx.last(t).Target)
			}
			if unescaped(rt, path[2]) != id || unescaped(rt, path[4]) != item {
				rt.Errorf("readItem(%q, %q): target = %q, want the arguments escaped", id, item, fx.last(t).Target)
			}
		} else if reply.Error.Code != -32602 || fx.count() != before {
			rt.Errorf("readItem(%q, %q): error = %+v, %d requests, want error -32602 and no request",
				id, item, reply.Error, fx.count()-before)
		}
		before = fx.count()
		_, reply = fx.tool(t, "/mcp", "readTodo", arguments(map[string]any{"id": "1", "expand": expand, "X-Locale": locale}))
		if reply.Error != nil {
			if !strings.ContainsFunc(locale, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				rt.Errorf("readTodo(%q, %q): error = %+v, want none without control characters", expand, locale, reply.Error)
			}
			if n := fx.count() - before; n != 0 {
				rt.Errorf("readTodo(%q, %q): error = %+v, %d requests, want no request", expand, locale, reply.Error, n)
			}
			return
		}
		got := fx.last(t)
		_, query, _ := strings.Cut(got.Target, "?")
		values, err := url.ParseQuery(query)
		if err != nil || len(values) > 1 || strings.Join(values["$expand"], "\x1f") != strings.Join(expand, "\x1f") {
			rt.Errorf("readTodo(%q): target = %s, %v, want the values as $expand and no other parameter",
				expand, got.Target, err)
		}
		if sent := strings.Trim(locale, " \t"); got.Header.Get("X-Locale") != sent {
			rt.Errorf("readTodo(X-Locale %q): X-Locale at the upstream = %q, want %q", locale, got.Header.Get("X-Locale"), sent)
		}
	})
}

// unescaped returns the unescaped text of a path segment.
func unescaped(t *rapid.T, text string) string {
	t.Helper()
	out, err := url.PathUnescape(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
