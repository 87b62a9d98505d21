package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// callTool is the method of most messages.
const callTool = "tools/call"

// handleDirectly handles a call of a known tool without a session of the SDK. The SDK would make a session for each
// request and decode the message ten times, each time with a buffer of 32 KiB: several times the cost of the
// request that the tool makes. It returns nil for all requests that the SDK has to handle, including invalid ones.
func (s *Server) handleDirectly(r *http.Request, m *envelope, version string) *http.Response {
	if m.Method != callTool || s.setup.RequestsInput {
		return nil
	}
	var params, meta map[string]json.RawMessage
	var name string
	if json.Unmarshal(m.Params, &params) != nil || json.Unmarshal(params["name"], &name) != nil {
		return nil
	}
	if raw, ok := params["_meta"]; ok && json.Unmarshal(raw, &meta) != nil ||
		!hasRequiredMetadata(r.Header, meta, name, version) {
		return nil
	}
	handler, exists := s.directHandlers[name]
	ctx := context.WithValue(r.Context(), callKey{}, &call{ctx: r.Context(), version: version})
	if !exists || !allows(ctx, s.setup.ToolExists, name) {
		return nil
	}
	result, err := s.callDirectly(ctx, handler,
		&mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: name, Arguments: params["arguments"]}})
	if err == nil {
		var body []byte
		if body, err = s.encodeResult(m.ID, result, version); err == nil {
			return (&recorder{
				header: http.Header{"Content-Type": {"application/json"}},
				body:   *bytes.NewBuffer(body),
			}).response()
		}
	}
	refused := &messageError{status: http.StatusOK, code: codeInternal, id: m.ID}
	if rpcErr, ok := errors.AsType[*jsonrpc.Error](s.clientError(ctx, err)); ok {
		refused.text, refused.code = rpcErr.Message, int(rpcErr.Code)
		if len(rpcErr.Data) > 0 {
			refused.data = rpcErr.Data
		}
		if version == Version20260728 &&
			(rpcErr.Code == codeInvalidParams || rpcErr.Code == mcp.CodeMissingRequiredClientCapabilities) {
			refused.status = http.StatusBadRequest
		}
	}
	return refusal(refused)
}

// hasRequiredMetadata reports whether the call of a tool has the metadata that its protocol version requires. version
// is the version in the header, and name is the tool's name. In 2026-07-28, the message has to contain the version and
// the client's capabilities, and the header has to contain the method and the tool (SEP-2575 and SEP-2243). In earlier
// versions, the message must not contain a version.
func hasRequiredMetadata(h http.Header, meta map[string]json.RawMessage, name, version string) bool {
	declared, declares := meta[mcp.MetaKeyProtocolVersion]
	if version != Version20260728 {
		return !declares
	}
	_, hasClientInfo := meta[mcp.MetaKeyClientInfo]
	var capabilities mcp.ClientCapabilities
	var info mcp.Implementation
	return string(declared) == `"`+Version20260728+`"` && h.Get("Mcp-Method") == callTool && h.Get("Mcp-Name") == name &&
		bytes.HasPrefix(meta[mcp.MetaKeyClientCapabilities], []byte("{")) &&
		json.Unmarshal(meta[mcp.MetaKeyClientCapabilities], &capabilities) == nil &&
		(!hasClientInfo || json.Unmarshal(meta[mcp.MetaKeyClientInfo], &info) == nil)
}

// encodeResult encodes a result for a protocol version. Since 2026-07-28 a result names the server and says
// that it is complete. It concatenates JSON that is already valid: encoding it again would double the time.
func (s *Server) encodeResult(id json.RawMessage, result *mcp.CallToolResult, version string) ([]byte, error) {
	if version == Version20260728 {
		result.Meta = mcp.Meta{mcp.MetaKeyServerInfo: s.info}
	}
	encoded, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(encoded)+len(id)+64)
	out = append(append(append(out, `{"jsonrpc":"2.0","id":`...), id...), `,"result":`...)
	if version == Version20260728 {
		out, encoded = append(out, `{"resultType":"complete",`...), encoded[1:]
	}
	return append(append(out, encoded...), '}'), nil
}

// callDirectly calls a tool and converts a panic to a result, like guard.
func (s *Server) callDirectly(
	ctx context.Context, handler mcp.ToolHandler, req *mcp.CallToolRequest,
) (result *mcp.CallToolResult, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			result, err = Refusal(s.setup.ReportFailure(ctx, cause)), nil
		}
	}()
	return handler(ctx, req)
}
