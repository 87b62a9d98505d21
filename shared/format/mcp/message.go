package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// Bounds of client messages.
const (
	// maxMessageBytes is the maximum size of a body.
	maxMessageBytes = 1 << 20
	// maxMessageDepth is the maximum nesting of a body. Arguments
	// usually have five or ten levels, and the SDK fails at a thousand.
	maxMessageDepth = 128
	// maxBatch is the maximum number of messages in one body. Only 2025-03-26 allows more than one.
	maxBatch = 10
	// maxMessageValues is the maximum number of values in a body, as for a
	// GraphQL request. Checking [1,1,1,…] takes memory of twenty times its size.
	maxMessageValues = 50_000
	// maxIDBytes is the maximum length of a message's id.
	maxIDBytes = 256
)

// The codes of errors (JSON-RPC 2.0, section 5.1, and MCP).
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeTransport          = -32000 // for errors in the HTTP request, such as a header field or the origin
	codeResourceNotFound   = -32002 // in versions up to 2025-11-25
	codeHeaderMismatch     = -32020
	codeUnsupportedVersion = -32022
)

// methods returns the methods that the server supports in a version of the protocol. With Setup.AllMethods, it
// includes the methods of features that the server does not offer, except completion/complete, which needs
// Setup.Complete. The protocol's remaining methods need a session or an open stream, so no server supports them:
// logging/setLevel, resources/subscribe, subscriptions/listen.
func (s *Server) methods(version string) []string {
	var all []string
	if s.setup.AllMethods || s.capabilities.Tools != nil {
		all = append(all, "tools/list", callTool)
	}
	if s.setup.AllMethods || s.capabilities.Prompts != nil {
		all = append(all, "prompts/list", "prompts/get")
	}
	if s.setup.AllMethods || s.capabilities.Resources != nil {
		all = append(all, "resources/list", "resources/read", "resources/templates/list")
	}
	if s.setup.Complete != nil {
		all = append(all, "completion/complete")
	}
	if version == Version20260728 {
		return append(all, "server/discover")
	}
	return append(all, "initialize", "ping")
}

// envelope is one JSON-RPC message. A call has an ID and a Method, a notification only a Method.
type envelope struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// isCall reports whether the message is a call, which needs a response.
func (e *envelope) isCall() bool { return len(e.ID) > 0 && e.Method != "" }

// messageError is the reason why a message is refused.
type messageError struct {
	status, code int
	text         string
	id           json.RawMessage
	data         any
	// acceptEncoding has the content codings that the server accepts (RFC 9110, section
	// 12.5.3), if the error is an unsupported content coding. It is "" for other errors.
	acceptEncoding string
	// retryAfter is the number of seconds after which the client can send the same message again, or "" if that would not
	// help.
	retryAfter string
}

// Error implements error.
func (e *messageError) Error() string { return e.text }

// readBody reads the body of a message, and refuses a body above the maximum size. length is the declared length of the
// body, or -1.
func readBody(ctx context.Context, body io.Reader, length int64) ([]byte, error) {
	all, err := bodies.Read(ctx, body, length, maxMessageBytes)
	if err == nil {
		return all, nil
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, &messageError{
			status: http.StatusRequestEntityTooLarge,
			text:   "Send a body of at most " + strconv.Itoa(maxMessageBytes) + " bytes.", code: codeInvalidRequest,
		}
	}
	if status, detail := bodies.Refusal(err); status != 0 {
		refused := &messageError{status: status, text: detail, code: codeTransport}
		if status == http.StatusServiceUnavailable {
			refused.retryAfter = bodies.RetryAfterSeconds()
		}
		return nil, refused
	}
	return nil, &messageError{
		status: http.StatusBadRequest, text: "The body broke off before its end. Send all of it.",
		code: codeParse,
	}
}

// readMessages reads the messages of a body: one message, or several in a list (batch). It leaves out responses. It
// refuses duplicate names in an object: another parser reads the message again and could choose the other value.
func readMessages(body []byte) (messages []envelope, batch bool, err error) {
	if err := CheckJSON(body); err != nil {
		return nil, false, err
	}
	trimmed := bytes.TrimSpace(body)
	parts := []json.RawMessage{trimmed}
	if batch = trimmed[0] == '['; batch {
		parts = nil // otherwise the first part would overwrite the body
		if json.Unmarshal(trimmed, &parts) != nil || len(parts) == 0 || len(parts) > maxBatch {
			return nil, true, &messageError{
				status: http.StatusBadRequest,
				text:   "Send 1 to " + strconv.Itoa(maxBatch) + " messages at once.", code: codeInvalidRequest,
			}
		}
	}
	ids := map[any]bool{}
	for _, part := range parts {
		m, isMessage, err := readMessage(part)
		if err != nil {
			return nil, batch, err
		}
		if !isMessage {
			continue
		}
		if batch && m.isCall() {
			id := m.readID()
			if ids[id] {
				return nil, batch, &messageError{
					status: http.StatusBadRequest,
					text:   "Write an id of its own for each call of a batch.", code: codeInvalidRequest,
				}
			}
			ids[id] = true
		}
		messages = append(messages, m)
	}
	return messages, batch, nil
}

// readMessage reads one message. It returns false for a response,
// which the caller ignores: the server sends no requests.
func readMessage(part json.RawMessage) (envelope, bool, error) {
	invalid := func(text string) (envelope, bool, error) {
		return envelope{}, false, &messageError{status: http.StatusBadRequest, text: text, code: codeInvalidRequest}
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(part, &members) != nil || members == nil {
		return invalid("Send a JSON-RPC message: an object.")
	}
	text := func(name string) string {
		var s string
		if json.Unmarshal(members[name], &s) != nil {
			return ""
		}
		return s
	}
	m := envelope{Version: text("jsonrpc"), Method: text("method"), ID: members["id"], Params: members["params"]}
	if m.Version != "2.0" {
		return invalid(`Send JSON-RPC 2.0, and say so: "jsonrpc": "2.0".`)
	}
	_, hasMethod := members["method"]
	_, hasResult := members["result"]
	_, hasError := members["error"]
	switch {
	case !hasMethod && (hasResult || hasError):
		return envelope{}, false, nil
	case m.Method == "":
		return invalid(`Name the method that is called: "method".`)
	case len(m.ID) > 0 && !isID(m.ID):
		return invalid("Write the id as a text of at most " + strconv.Itoa(maxIDBytes) + " bytes, or as a whole number.")
	case len(m.Params) > 0 && m.Params[0] != '{':
		if string(m.Params) != "null" {
			return invalid("Make params an object: MCP has parameters by name.")
		}
		m.Params = nil
	}
	return m, true, nil
}

// isID reports whether an id is a string or an integer that fits 54 bits,
// and has at most maxIDBytes. Clients get such an id back unchanged.
func isID(raw json.RawMessage) bool {
	if len(raw) > maxIDBytes {
		return false
	}
	if raw[0] == '"' {
		return true
	}
	_, err := strconv.ParseInt(string(raw), 10, 54)
	return err == nil
}

// readID returns a call's id in a form that does not depend on its
// spelling, to compare ids: "\u0061" becomes "a", and -0 equals 0.
func (e *envelope) readID() any {
	var id any
	if json.Unmarshal(e.ID, &id) != nil {
		return string(e.ID) // does not happen: the id is valid JSON
	}
	return id
}

// CheckJSON refuses invalid JSON, duplicate names in an object, more than one value, too many levels or values within
// it, and numbers that are too long or too large. Callers can use it for messages from any source.
func CheckJSON(body []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	documents, values := 0, 0
	for {
		token, err := dec.ReadToken()
		switch {
		case errors.Is(err, io.EOF) && documents > 0:
			return nil
		case err != nil:
			text := "The body is no JSON."
			if errors.Is(err, jsontext.ErrDuplicateName) {
				text = "The body has a name twice in one object. Send each once."
			}
			return &messageError{status: http.StatusBadRequest, text: text, code: codeParse}
		case token.Kind() == '0' && !schema.IsSafeNumber(token.String()):
			return &messageError{
				status: http.StatusBadRequest,
				text: "Write numbers of at most " + strconv.Itoa(schema.MaxNumberBytes) +
					" characters, between -1e308 and 1e308.",
				code: codeInvalidRequest,
			}
		case dec.StackDepth() > maxMessageDepth:
			return &messageError{
				status: http.StatusBadRequest,
				text:   "Send JSON of at most " + strconv.Itoa(maxMessageDepth) + " levels.", code: codeInvalidRequest,
			}
		}
		if isValue(dec, token) {
			if values++; values > maxMessageValues {
				return &messageError{status: http.StatusBadRequest, text: "Send JSON of at most " + strconv.Itoa(maxMessageValues) +
					" values: fewer at once.", code: codeInvalidRequest}
			}
		}
		if dec.StackDepth() == 0 {
			if documents++; documents > 1 {
				return &messageError{
					status: http.StatusBadRequest, text: "The body goes on after its JSON. Send one message.",
					code: codeParse,
				}
			}
		}
	}
}

// isValue reports whether the last token begins a value: it is not the end of a value or the name of a member.
func isValue(dec *jsontext.Decoder, token jsontext.Token) bool {
	kind := token.Kind()
	if kind == '"' {
		container, index := dec.StackIndex(dec.StackDepth())
		return container != '{' || index%2 == 0
	}
	return kind != '}' && kind != ']'
}

// checkMethod returns an error if the server does not support a method.
func (s *Server) checkMethod(m *envelope, version string) error {
	supported := s.methods(version)
	if slices.Contains(supported, m.Method) {
		return nil
	}
	return &messageError{status: http.StatusOK, text: "This server has no such method. It has " +
		strings.Join(supported, ", ") + ".", code: codeMethodNotFound, id: m.ID}
}

// checkParams refuses params that the SDK cannot read: the SDK's
// error would contain the params and the names of Go types.
func checkParams(m *envelope, version string) error {
	var params any
	switch m.Method {
	case "initialize":
		params = &mcp.InitializeParams{}
	case "tools/list":
		params = &mcp.ListToolsParams{}
	case callTool:
		params = &mcp.CallToolParamsRaw{}
	case "prompts/list":
		params = &mcp.ListPromptsParams{}
	case "prompts/get":
		params = &mcp.GetPromptParams{}
	case "resources/list":
		params = &mcp.ListResourcesParams{}
	case "resources/read":
		params = &mcp.ReadResourceParams{}
	case "resources/templates/list":
		params = &mcp.ListResourceTemplatesParams{}
	case "completion/complete":
		params = &mcp.CompleteParams{}
	default: // ping and server/discover have only _meta
		params = &mcp.PingParams{}
	}
	if json.Unmarshal(m.Params, params) == nil {
		return nil
	}
	refused := &messageError{
		status: http.StatusOK,
		text:   "The params are none of " + m.Method + ". Compare them with the protocol.", code: codeInvalidParams, id: m.ID,
	}
	if version == Version20260728 {
		refused.status = http.StatusBadRequest
	}
	return refused
}

// wantsProgress reports whether a call requests progress notifications.
func (e *envelope) wantsProgress() bool {
	var params struct {
		Meta struct {
			Token any `json:"progressToken"`
		} `json:"_meta"`
	}
	return json.Unmarshal(e.Params, &params) == nil && params.Meta.Token != nil
}
