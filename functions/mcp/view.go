package mcp

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// The headers that can contain the same settings as the query.
const (
	readOnlyHeader = "X-MCP-Readonly"
	toolsetsHeader = "X-MCP-Toolsets"
	confirmHeader  = "X-MCP-Confirm"
	// headerPrefix is the prefix of these headers in canonical form.
	headerPrefix = "X-Mcp-"
)

// view is the caller's selection of tools, and whether calls of these tools need a confirmation.
type view struct {
	readOnly bool
	// toolsets are the slugs of the visible groups. If it is empty, all groups are visible.
	toolsets []string
	// confirm is true if a person must confirm destructive calls.
	confirm bool
}

// readView reads the caller's view from the query and the headers. If both have a setting, the stricter value applies:
// for toolsets, only the names in both. readView refuses a header that is empty or repeated, as the API does for
// parameters. Otherwise a value that a proxy has added could replace the client's, and the client's restriction would
// have no effect. Fault: Invalid.
func (s *server) readView(in *messageIn, header http.Header) (view, error) {
	v := view{readOnly: in.ReadOnly, confirm: in.Confirm}
	if err := checkHeaders(header); err != nil {
		return v, err
	}
	for _, flag := range []struct {
		name   string
		target *bool
	}{{readOnlyHeader, &v.readOnly}, {confirmHeader, &v.confirm}} {
		switch value, err := singleHeader(header, flag.name); {
		case err != nil:
			return v, err
		case value == "true":
			*flag.target = true
		case value != "" && value != "false":
			return v, fault.InvalidField("header."+flag.name, "has to be true or false")
		}
	}
	toolsets, err := singleHeader(header, toolsetsHeader)
	if err != nil {
		return v, err
	}
	for _, setting := range []struct{ location, list string }{
		{"query.toolsets", in.Toolsets},
		{"header." + toolsetsHeader, toolsets},
	} {
		names, err := s.parseToolsets(setting.location, setting.list)
		switch {
		case err != nil:
			return v, err
		case len(names) == 0:
		case len(v.toolsets) == 0:
			v.toolsets = names
		default:
			v.toolsets = slices.DeleteFunc(v.toolsets, func(name string) bool { return !slices.Contains(names, name) })
			if len(v.toolsets) == 0 {
				return v, fault.InvalidField(setting.location,
					"has none of the toolsets that the query names; name them in one place")
			}
		}
	}
	return v, nil
}

// checkHeaders refuses unknown headers with the prefix X-Mcp-. Other MCP servers have more such headers, and a client
// that sends one expects a restriction that this server does not enforce. Fault: Invalid.
func checkHeaders(header http.Header) error {
	known := []string{readOnlyHeader, toolsetsHeader, confirmHeader}
	for _, name := range slices.Sorted(maps.Keys(header)) { // report the same error each time
		if strings.HasPrefix(name, headerPrefix) && !slices.ContainsFunc(known, func(k string) bool {
			return http.CanonicalHeaderKey(k) == name
		}) {
			return fault.InvalidField("header."+name, "is no field of this server; there are %s", strings.Join(known, ", "))
		}
	}
	return nil
}

// singleHeader returns the value of a header, or "" if the header is missing. It refuses a header that is repeated or
// empty. Fault: Invalid.
func singleHeader(header http.Header, name string) (string, error) {
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

// parseToolsets parses a comma-separated list of toolsets. It refuses unknown names. It also refuses a list such as ","
// without any name, because a view without toolsets shows all tools. location names the field in errors. Fault:
// Invalid.
func (s *server) parseToolsets(location, list string) (names []string, err error) {
	known := s.catalog().toolsets
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !slices.Contains(known, name) {
			return nil, fault.InvalidField(location, "names a toolset that there is not; there are %s",
				strings.Join(known, ", "))
		}
		names = append(names, name)
	}
	if list != "" && len(names) == 0 {
		return nil, fault.InvalidField(location, "names no toolset; there are %s", strings.Join(known, ", "))
	}
	return names, nil
}

// toolset returns the slug of a group: key-buckets for Key buckets.
func toolset(group string) string { return strings.ToLower(strings.Join(strings.Fields(group), "-")) }

// includes reports whether a tool is in the view.
func (v view) includes(t *apitools.Tool) bool {
	return (t.ReadOnly || !v.readOnly) && (len(v.toolsets) == 0 || slices.Contains(v.toolsets, toolset(t.Group)))
}

// canCall reports whether the key of a principal has the scope that a tool needs.
func canCall(p auth.Principal, t *apitools.Tool) bool {
	return t.Scope == "" || p.Allows(auth.Scope(t.Scope))
}

// caller is the sender of a message. The context of a call contains it (callerOf).
type caller struct {
	server    *server
	principal auth.Principal
	view      view
	// authorization is the Authorization header of the message. The request of a call has the same header.
	authorization string
}

type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}
