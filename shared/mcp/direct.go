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

// callTool is the method of most messages by far.
const callTool = "tools/call"

// direct answers a call of a tool that there is, without a session of the SDK's: it makes one for each request,
// decodes the message ten times with a buffer of 32 KiB each, and costs several times what the route's own request
// does. It answers nil for what the SDK is to answer, which is all that is not as it should be.
func (s *Server) direct(r *http.Request, m *envelope, version string) *http.Response {
	if m.Method != callTool || s.setup.Asks {
		return nil
	}
	var params, meta map[string]json.RawMessage
	var name string
	if json.Unmarshal(m.Params, &params) != nil || json.Unmarshal(params["name"], &name) != nil {
		return nil
	}
	if raw, ok := params["_meta"]; ok && json.Unmarshal(raw, &meta) != nil || !agrees(r.Header, meta, name, version) {
		return nil
	}
	handler, known := s.short[name]
	ctx := context.WithValue(r.Context(), callKey{}, &call{ctx: r.Context(), version: version})
	if !known || !holds(ctx, s.setup.Has, name) {
		return nil
	}
	result, err := s.callDirectly(ctx, handler, &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: name, Arguments: params["arguments"]}})
	if err == nil {
		var body []byte
		if body, err = s.encodeResult(m.ID, result, version); err == nil {
			return (&recorder{header: http.Header{"Content-Type": {"application/json"}}, body: *bytes.NewBuffer(body)}).response()
		}
	}
	refused := &messageError{status: http.StatusOK, code: codeInternal, id: m.ID}
	if wire, ok := errors.AsType[*jsonrpc.Error](s.told(ctx, err)); ok {
		refused.text, refused.code = wire.Message, int(wire.Code)
		if len(wire.Data) > 0 {
			refused.data = wire.Data
		}
		if version == Version20260728 && (wire.Code == codeInvalidParams || wire.Code == mcp.CodeMissingRequiredClientCapabilities) {
			refused.status = http.StatusBadRequest
		}
	}
	return refusal(refused)
}

// agrees reports whether header and message say the same of the protocol. In 2026-07-28 both have to (SEP-2575
// and SEP-2243), before it neither may speak of that version.
func agrees(h http.Header, meta map[string]json.RawMessage, name, version string) bool {
	said, has := meta[mcp.MetaKeyProtocolVersion]
	if version != Version20260728 {
		return !has
	}
	_, named := meta[mcp.MetaKeyClientInfo]
	var capabilities mcp.ClientCapabilities
	var info mcp.Implementation
	return string(said) == `"`+Version20260728+`"` && h.Get("Mcp-Method") == callTool && h.Get("Mcp-Name") == name &&
		bytes.HasPrefix(meta[mcp.MetaKeyClientCapabilities], []byte("{")) && json.Unmarshal(meta[mcp.MetaKeyClientCapabilities], &capabilities) == nil &&
		(!named || json.Unmarshal(meta[mcp.MetaKeyClientInfo], &info) == nil)
}

// encodeResult writes a result as a version has it: since 2026-07-28 a result says who answers, and that it is
// complete. It is put together from JSON that is valid: to encode it once more would take as long as the rest.
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

// callDirectly calls a tool as guard does.
func (s *Server) callDirectly(ctx context.Context, handler mcp.ToolHandler, req *mcp.CallToolRequest) (result *mcp.CallToolResult, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			result, err = Refusal(s.setup.Failed(ctx, cause)), nil
		}
	}()
	return handler(ctx, req)
}
