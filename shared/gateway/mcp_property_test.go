package gateway_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAnyArgumentComesAsItIsOrNotAtAll: whatever a model writes, the upstream reads that very value where it belongs,
// or nothing is sent.
func TestAnyArgumentComesAsItIsOrNotAtAll(t *testing.T) {
	w := newMCPWorld(t)
	hostile := rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("./\\;%?#&=2eE5fF+ \r\n\x00ä{}[]:@,\"")), 0, 12, -1))
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
		before := w.count()
		_, answer := w.tool(t, "/mcp", "readItem", arguments(map[string]any{"id": id, "item": item}))
		if answer.Error == nil {
			path := strings.Split(w.last(t).Target, "/")
			if len(path) != 5 || path[1] != "todos" || path[3] != "items" || unescaped(rt, path[2]) != id || unescaped(rt, path[4]) != item {
				rt.Errorf("%q %q came as %q", id, item, w.last(t).Target)
			}
		} else if answer.Error.Code != -32602 || w.count() != before {
			rt.Errorf("%q %q: %+v, and %d requests", id, item, answer.Error, w.count()-before)
		}
		_, answer = w.tool(t, "/mcp", "readTodo", arguments(map[string]any{"id": "1", "expand": expand, "X-Locale": locale}))
		if answer.Error != nil {
			if !strings.ContainsFunc(locale, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				rt.Errorf("%q %q: %+v", expand, locale, answer.Error)
			}
			return
		}
		got := w.last(t)
		_, query, _ := strings.Cut(got.Target, "?")
		values, err := url.ParseQuery(query)
		if err != nil || len(values) > 1 || strings.Join(values["$expand"], "\x1f") != strings.Join(expand, "\x1f") {
			rt.Errorf("%q came as %s: %v", expand, got.Target, err)
		}
		if sent := strings.Trim(locale, " \t"); got.Header.Get("X-Locale") != sent {
			rt.Errorf("%q came as %q", locale, got.Header.Get("X-Locale"))
		}
	})
}

func unescaped(t *rapid.T, text string) string {
	t.Helper()
	out, err := url.PathUnescape(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
