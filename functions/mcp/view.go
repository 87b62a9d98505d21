package mcp

import (
	"context"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
)

// view is what a caller has asked to see.
type view struct {
	readOnly bool
	// toolsets are the slugs of groups, none for all.
	toolsets []string
	// confirm says that a person confirms what destroys.
	confirm bool
}

// readView reads a caller's view. Query and header add to each other's strictness: whoever has put one of them there
// wanted less to be possible. Fault: Invalid.
func (s *server) readView(in *messageIn) (view, error) {
	v := view{readOnly: in.ReadOnly, confirm: in.Confirm}
	for _, flag := range []struct {
		name, value string
		on          *bool
	}{{"X-MCP-Readonly", in.HeaderReadOnly, &v.readOnly}, {"X-MCP-Confirm", in.HeaderConfirm, &v.confirm}} {
		switch flag.value {
		case "true":
			*flag.on = true
		case "", "false":
		default:
			return v, fault.InvalidField("header."+flag.name, "has to be true or false")
		}
	}
	for _, list := range []struct{ at, names string }{{"query.toolsets", in.Toolsets}, {"header.X-MCP-Toolsets", in.HeaderToolsets}} {
		names, err := s.toolsets(list.at, list.names)
		switch {
		case err != nil:
			return v, err
		case len(names) == 0:
		case len(v.toolsets) == 0:
			v.toolsets = names
		default:
			v.toolsets = slices.DeleteFunc(v.toolsets, func(name string) bool { return !slices.Contains(names, name) })
			if len(v.toolsets) == 0 {
				return v, fault.InvalidField(list.at, "has none of the toolsets that the query names; name them in one place")
			}
		}
	}
	return v, nil
}

// toolsets reads a list of toolsets.
func (s *server) toolsets(at, list string) (names []string, err error) {
	known := s.catalogue().toolsets
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !slices.Contains(known, name) {
			return nil, fault.InvalidField(at, "names a toolset that there is not; there are %s", strings.Join(known, ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

// toolset is what the tools of a group are called together: key-buckets for Key buckets.
func toolset(group string) string { return strings.ToLower(strings.Join(strings.Fields(group), "-")) }

// has reports whether a caller's view has a tool.
func (v view) has(t *apitools.Tool) bool {
	return (t.ReadOnly || !v.readOnly) && (len(v.toolsets) == 0 || slices.Contains(v.toolsets, toolset(t.Group)))
}

// may reports whether a key may call a tool.
func may(p auth.Principal, t *apitools.Tool) bool { return t.Scope == "" || p.Allows(t.Scope) }

// caller is who sends the running message.
type caller struct {
	principal auth.Principal
	view      view
	// authorization and agent are of the message's header: calls are made by the same key.
	authorization, agent string
}

type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}
