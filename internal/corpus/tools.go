package corpus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/client/scaffold"
	"github.com/gatewright/gatewright/internal/samples"
	"github.com/gatewright/gatewright/shared/format/project"
)

const (
	// serversFile has the MCP servers that the check adds to the project. Their paths begin with serverPath.
	serversFile = "config/tools.oas.json"
	serverPath  = "/gatewright-corpus-tools"
	// toolsAtOnce is the number of operations that one server offers.
	toolsAtOnce = 400
	// maxTools is the maximum number of operations of one description that are offered. Each server is a build of its own,
	// and one description has 11,422 operations.
	maxTools = 3000
	// fewTools is the number of operations that are not divided further.
	fewTools = 20
	// maxBuilds is the maximum number of builds for a group of operations. Each build leaves out the operations that the
	// previous build has refused.
	maxBuilds = 4
)

// buildAll builds the project with a server that offers all operations. It returns nil if the build has errors, or if
// there are more operations than a server can offer.
func (k *check) buildAll(ctx context.Context) (*project.Artifact, error) {
	var routes []project.Route
	for _, o := range k.document.Operations() {
		routes = append(routes, project.Route{Method: o.Method, Path: o.Path})
	}
	if len(routes) > toolsAtOnce {
		return nil, nil
	}
	artifact, _, err := k.buildWith(ctx, routes)
	return artifact, err
}

// buildWith builds the project with a server that offers routes.
func (k *check) buildWith(
	ctx context.Context, routes []project.Route,
) (*project.Artifact, []project.Problem, error) {
	text, err := server(routes)
	if err != nil {
		return nil, nil, err
	}
	files := maps.Clone(k.files)
	files[serversFile] = text
	return k.build(ctx, files)
}

// callTools offers the routes as tools, at most maxTools, and calls each tool.
func (k *check) callTools(ctx context.Context, routes []project.Route) error {
	var described []project.Route
	for _, r := range routes {
		if r.Handler.Export == forwardHandler {
			described = append(described, r)
		}
	}
	described = described[:min(len(described), maxTools)]
	for chunk := range slices.Chunk(described, toolsAtOnce) {
		if err := k.offer(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// offer builds the project with a server that offers routes, and calls the tools. If the build refuses some of the
// routes, offer tries again without them. If the routes are too large together, offer divides them into two groups.
func (k *check) offer(ctx context.Context, routes []project.Route) error {
	for range maxBuilds {
		if len(routes) == 0 {
			return nil
		}
		artifact, problems, err := k.buildWith(ctx, routes)
		if err != nil {
			return err
		}
		if artifact != nil {
			s, err := k.upstream.serve(artifact)
			if err != nil {
				return err
			}
			return k.callOffered(ctx, s)
		}
		isTooLarge := slices.ContainsFunc(problems, func(p project.Problem) bool {
			return strings.Contains(p.Message, `"artifact"`) || strings.Contains(p.Message, "the build takes longer")
		})
		if isTooLarge && len(routes) > fewTools {
			half := len(routes) / 2
			return errors.Join(k.offer(ctx, routes[:half]), k.offer(ctx, routes[half:]))
		}
		before := len(routes)
		routes = k.withoutRefused(routes, problems)
		if len(routes) == before {
			k.refusals.add(StageOffer, problems[0].Message, problems[0].Path)
			return nil
		}
	}
	k.refusals.add(StageOffer, "the build refuses still more operations", title(routes[0]))
	return nil
}

// withoutRefused returns the routes without problems, and records the refusals of the others.
func (k *check) withoutRefused(routes []project.Route, problems []project.Problem) (accepted []project.Route) {
	for _, r := range routes {
		i := slices.IndexFunc(problems, func(p project.Problem) bool {
			return p.File == r.Source.File && (p.Path == r.Source.Pointer || strings.HasPrefix(p.Path, r.Source.Pointer+"/"))
		})
		if i < 0 {
			accepted = append(accepted, r)
			continue
		}
		k.refusals.add(StageOffer, problems[i].Message, title(r))
	}
	return accepted
}

// server returns a routes file with an MCP server that offers routes.
func server(routes []project.Route) ([]byte, error) {
	type operation struct {
		File   string `json:"file"`
		Method string `json:"method"`
		Path   string `json:"path"`
	}
	var all []operation
	for _, r := range routes {
		all = append(all, operation{scaffold.RoutesFile, r.Method, r.Path})
	}
	type object = map[string]any
	text, err := json.Marshal(object{
		"openapi": "3.1.0", "info": object{"title": "Tools", "version": "1"},
		"paths": object{serverPath: object{"post": object{
			"responses": object{"200": object{"description": ""}},
			"x-gateway-route": object{"handler": object{
				"export": project.MCPServerHandler, "module": "$import(@gatewright/runtime)",
				"options": object{"operations": all},
			}},
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("write a server: %w", err)
	}
	return text, nil
}

// callOffered calls each tool of the server in an artifact.
func (k *check) callOffered(ctx context.Context, s *site) error {
	indexes := map[string]int{}
	for i, r := range s.artifact.Routes {
		if r.MCPOperation != nil {
			indexes[r.MCPOperation.Name] = i
		}
	}
	k.result.Tools += len(indexes)
	cursor := ""
	for {
		var page struct {
			Tools []struct {
				Name        string
				InputSchema json.RawMessage
			}
			NextCursor string
		}
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		if reason, err := s.callMethod(ctx, "tools/list", params, &page); err != nil || reason != "" {
			k.refusals.add(StageTool, "tools/list: "+reason, serverPath)
			return err
		}
		for _, tool := range page.Tools {
			i, known := indexes[tool.Name]
			if !known {
				k.refusals.add(StageTool, "the list has a tool that is not offered", tool.Name)
				continue
			}
			delete(indexes, tool.Name)
			if err := k.callTool(ctx, s, s.artifact.Routes[i], i, tool.InputSchema); err != nil {
				return err
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	for name := range indexes {
		k.refusals.add(StageTool, "the tool is missing in the list", name)
	}
	return nil
}

// callTool calls one tool with arguments that its schema allows.
func (k *check) callTool(ctx context.Context, s *site, r project.Route, index int, schema []byte) error {
	arguments, err := samples.Value(schema)
	if errors.Is(err, samples.ErrNoSample) {
		k.refusals.add(StageSample, "tool: "+err.Error(), title(r))
		return nil
	}
	if err != nil {
		return err
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	reason, err := s.callMethod(ctx, "tools/call", map[string]any{"name": r.MCPOperation.Name, "arguments": arguments},
		&result)
	if err != nil {
		return err
	}
	text := ""
	if len(result.Content) > 0 {
		text = result.Content[0].Text
	}
	switch {
	case reason != "":
		k.refusals.add(StageTool, reason, title(r))
	case result.IsError:
		k.refusals.add(StageTool, "error: "+toolReason(text), title(r))
	case r.Method != http.MethodHead && !strings.Contains(text, strconv.Quote(strconv.Itoa(index))):
		k.refusals.add(StageTool, "another route served the call", title(r))
	}
	return nil
}

// toolReason returns the reason in the text of a tool's error, which can be a problem.
func toolReason(text string) string {
	if start := strings.IndexByte(text, '{'); start >= 0 && json.Valid([]byte(text[start:])) {
		return reasonOf([]byte(text[start:]))
	}
	return text
}

// callMethod calls a method of the MCP server and reads its result. It returns the reason of a refusal.
func (s *site) callMethod(ctx context.Context, method string, params, result any) (reason string, err error) {
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return "", fmt.Errorf("write a message: %w", err)
	}
	request := samples.Request{Method: http.MethodPost, Target: serverPath, Header: s.credentials.Clone(), Body: message}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("MCP-Protocol-Version", "2025-06-18")
	response, err := s.send(ctx, request.Bytes(host))
	if err != nil {
		return "", err
	}
	var out struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	isJSON := json.Unmarshal(response.body.Bytes(), &out) == nil
	switch {
	case !isJSON:
		return fmt.Sprintf("%d without JSON", response.status), nil
	case out.Error != nil:
		return "error of the protocol: " + out.Error.Message, nil
	case out.Result == nil:
		return fmt.Sprintf("%d %s", response.status, reasonOf(response.body.Bytes())), nil
	}
	if err := json.Unmarshal(out.Result, result); err != nil {
		return "", fmt.Errorf("read the result of %s: %w", method, err)
	}
	return "", nil
}
