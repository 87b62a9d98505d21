package mcp

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
)

// The fields that say what the query may say too.
const (
	readOnlyField = "X-MCP-Readonly"
	toolsetsField = "X-MCP-Toolsets"
	confirmField  = "X-MCP-Confirm"
	// fieldPrefix is theirs, in the canonical form.
	fieldPrefix = "X-Mcp-"
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
// wanted less to be possible. A field that is there twice, or is empty, is refused as a parameter is: whoever is on the
// way may have added the other one, and what was meant to rule something out would rule out nothing. Fault: Invalid.
func (s *server) readView(in *messageIn, header http.Header) (view, error) {
	v := view{readOnly: in.ReadOnly, confirm: in.Confirm}
	if err := knownFields(header); err != nil {
		return v, err
	}
	for _, flag := range []struct {
		name string
		on   *bool
	}{{readOnlyField, &v.readOnly}, {confirmField, &v.confirm}} {
		switch value, err := single(header, flag.name); {
		case err != nil:
			return v, err
		case value == "true":
			*flag.on = true
		case value != "" && value != "false":
			return v, fault.InvalidField("header."+flag.name, "has to be true or false")
		}
	}
	listed, err := single(header, toolsetsField)
	if err != nil {
		return v, err
	}
	for _, list := range []struct{ at, names string }{{"query.toolsets", in.Toolsets}, {"header." + toolsetsField, listed}} {
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

// knownFields refuses fields with this server's prefix that it does not know: other servers have more of them, and who sends
// one wants less to be possible than is. Fault: Invalid.
func knownFields(header http.Header) error {
	known := []string{readOnlyField, toolsetsField, confirmField}
	for _, name := range slices.Sorted(maps.Keys(header)) { // the same answer each time
		if strings.HasPrefix(name, fieldPrefix) && !slices.ContainsFunc(known, func(k string) bool { return http.CanonicalHeaderKey(k) == name }) {
			return fault.InvalidField("header."+name, "is no field of this server; there are %s", strings.Join(known, ", "))
		}
	}
	return nil
}

// single is the one value of a field, "" where the field is not there.
func single(header http.Header, name string) (string, error) {
	values := header.Values(name)
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", fault.InvalidField("header."+name, "is given more than once; give it one value")
	case strings.TrimSpace(values[0]) == "":
		return "", fault.InvalidField("header."+name, "is empty; give it a value or leave it out")
	}
	return values[0], nil
}

// toolsets reads a list of toolsets, "" for none; a list that is there names one at least, or it would leave all of them.
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
	if list != "" && len(names) == 0 {
		return nil, fault.InvalidField(at, "names no toolset; there are %s", strings.Join(known, ", "))
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
func may(p auth.Principal, t *apitools.Tool) bool {
	return t.Scope == "" || p.Allows(auth.Scope(t.Scope))
}

// caller is who sends the running message.
type caller struct {
	server    *server
	principal auth.Principal
	view      view
	// authorization is of the message's header: calls are made by the same key.
	authorization string
}

type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}
