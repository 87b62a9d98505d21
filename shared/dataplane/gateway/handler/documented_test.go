package handler

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/mcp"
)

// TestHandlersAreDocumented checks that docs/projects.md names every handler and its options. It does not check the
// fields of options that are objects.
func TestHandlersAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/projects.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "### Handlers")
	if !found {
		t.Fatal("the documentation has no section Handlers, want one")
	}
	section, _, _ = strings.Cut(section, "\n##")
	var names []string
	for name := range constructors() {
		names = append(names, name)
	}
	for _, options := range []any{forwardOptions{}, rewriteOptions{}, mcp.Options{}} {
		for field := range reflect.TypeOf(options).Fields() {
			names = append(names, field.Tag.Get("json"))
		}
	}
	for _, name := range names {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("%s is not in the section Handlers, want all handlers and options", name)
		}
	}
}
