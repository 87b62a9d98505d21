package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/bodies"
)

// Bounds of what a client sends.
const (
	// maxMessageBytes bounds a body.
	maxMessageBytes = 1 << 20
	// maxMessageDepth bounds its levels: arguments have five or ten, and the SDK gives up at a thousand.
	maxMessageDepth = 128
	// maxBatch bounds the messages of one body, which 2025-03-26 alone may have more than one of.
	maxBatch = 10
	// maxMessageValues bounds its values, as for a GraphQL request: [1,1,1,…] takes twenty times its size to be checked.
	maxMessageValues = 50_000
	// maxNumberBytes bounds a number, and 308 its exponent: the exact value of 1e999999999, with which
	// schemas are checked, fills the memory.
	maxNumberBytes = 64
	// maxIDBytes bounds the id of a message.
	maxIDBytes = 256
)

// The codes of errors (JSON-RPC 2.0, section 5.1, and MCP).
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeTransport          = -32000 // of what HTTP has wrong: the headers, the origin
	codeResourceNotFound   = -32002 // until 2025-11-25
	codeHeaderMismatch     = -32020
	codeUnsupportedVersion = -32022
)

// methods are those that are answered in a version of the protocol: those of what is offered, or all. What else there is of it
// needs a session, or a stream that is held open: logging/setLevel, resources/subscribe, subscriptions/listen.
func (s *Server) methods(version string) []string {
	var all []string
	if s.setup.EveryMethod || s.offered.Tools != nil {
		all = append(all, "tools/list", callTool)
	}
	if s.setup.EveryMethod || s.offered.Prompts != nil {
		all = append(all, "prompts/list", "prompts/get")
	}
	if s.setup.EveryMethod || s.offered.Resources != nil {
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

// envelope is one JSON-RPC message. A call has ID and Method, a notification a method alone.
type envelope struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// isCall reports whether somebody waits for an answer.
func (m *envelope) isCall() bool { return len(m.ID) > 0 && m.Method != "" }

// messageError is why a message is not taken.
type messageError struct {
	status, code int
	text         string
	id           json.RawMessage
	data         any
	// codings are those of a body that would be taken (RFC 9110, section 12.5.3), "" where it is not about them.
	codings string
	// retryAfter is the number of seconds after which the client may send the same message again, or "" if that would not help.
	retryAfter string
}

// Error implements error.
func (e *messageError) Error() string { return e.text }

// readBody reads a message's body, within its bound.
func readBody(ctx context.Context, body io.Reader, length int64) ([]byte, error) {
	all, err := bodies.Read(ctx, body, length, maxMessageBytes)
	if err == nil {
		return all, nil
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &messageError{status: http.StatusRequestEntityTooLarge, text: "Send a body of at most " + strconv.Itoa(maxMessageBytes) + " bytes.", code: codeInvalidRequest}
	}
	if status, detail := bodies.Refusal(err); status != 0 {
		refused := &messageError{status: status, text: detail, code: codeTransport}
		if status == http.StatusServiceUnavailable {
			refused.retryAfter = bodies.RetryAfterSeconds()
		}
		return nil, refused
	}
	return nil, &messageError{status: http.StatusBadRequest, text: "The body broke off before its end. Send all of it.", code: codeParse}
}

// readMessages reads what a body holds: one message, or several where it is a list. Each object may have a
// name once, in its one spelling: what is checked here is read again by others.
func readMessages(body []byte) (messages []envelope, batch bool, err error) {
	if err := CheckJSON(body); err != nil {
		return nil, false, err
	}
	trimmed := bytes.TrimSpace(body)
	parts := []json.RawMessage{trimmed}
	if batch = trimmed[0] == '['; batch {
		parts = nil // or the first part would be written over the body
		if json.Unmarshal(trimmed, &parts) != nil || len(parts) == 0 || len(parts) > maxBatch {
			return nil, true, &messageError{status: http.StatusBadRequest, text: "Send 1 to " + strconv.Itoa(maxBatch) + " messages at once.", code: codeInvalidRequest}
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
				return nil, batch, &messageError{status: http.StatusBadRequest, text: "Write an id of its own for each call of a batch.", code: codeInvalidRequest}
			}
			ids[id] = true
		}
		messages = append(messages, m)
	}
	return messages, batch, nil
}

// readMessage reads one message; it answers false for a response, of which a server that asks nothing has no use.
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

// isID reports whether an id is one that comes back as it was sent.
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

// readID is a call's id as clients compare it, whatever way it is written: "a" is "\u0061", and 0 is -0.
func (m *envelope) readID() any {
	var id any
	if json.Unmarshal(m.ID, &id) != nil {
		return string(m.ID) // which is JSON: it has been read
	}
	return id
}

// CheckJSON refuses what is no JSON, has a name twice in an object, or too many levels or values: what a message may
// not have, wherever it comes from.
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
		case token.Kind() == '0' && !isModest(token.String()):
			return &messageError{status: http.StatusBadRequest, text: "Write numbers of at most " + strconv.Itoa(maxNumberBytes) + " characters, between -1e308 and 1e308.", code: codeInvalidRequest}
		case dec.StackDepth() > maxMessageDepth:
			return &messageError{status: http.StatusBadRequest, text: "Send JSON of at most " + strconv.Itoa(maxMessageDepth) + " levels.", code: codeInvalidRequest}
		}
		if isValue(dec, token) {
			if values++; values > maxMessageValues {
				return &messageError{status: http.StatusBadRequest, text: "Send JSON of at most " + strconv.Itoa(maxMessageValues) + " values: fewer at once.", code: codeInvalidRequest}
			}
		}
		if dec.StackDepth() == 0 {
			if documents++; documents > 1 {
				return &messageError{status: http.StatusBadRequest, text: "The body goes on after its JSON. Send one message.", code: codeParse}
			}
		}
	}
}

// isValue reports whether the token that was just read begins a value: it is no end, and no name of a member.
func isValue(dec *jsontext.Decoder, token jsontext.Token) bool {
	kind := token.Kind()
	if kind == '"' {
		in, read := dec.StackIndex(dec.StackDepth())
		return in != '{' || read%2 == 0
	}
	return kind != '}' && kind != ']'
}

// isModest reports whether a number is one to calculate with.
func isModest(number string) bool {
	if len(number) > maxNumberBytes {
		return false
	}
	value, err := strconv.ParseFloat(number, 64)
	return err == nil && !math.IsInf(value, 0) && (value != 0 || !strings.ContainsAny(number, "eE"))
}

// refuseMethod says that a method is none of the server's, nil for one that is.
func (s *Server) refuseMethod(m *envelope, version string) error {
	known := s.methods(version)
	if slices.Contains(known, m.Method) {
		return nil
	}
	return &messageError{status: http.StatusOK, text: "This server has no such method. It has " + strings.Join(known, ", ") + ".", code: codeMethodNotFound, id: m.ID}
}

// checkParams refuses params that the SDK cannot read: it would answer with all of them, and with the names of its
// types.
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
	default: // ping and server/discover have _meta alone
		params = &mcp.PingParams{}
	}
	if json.Unmarshal(m.Params, params) == nil {
		return nil
	}
	refused := &messageError{status: http.StatusOK, text: "The params are none of " + m.Method + ". Compare them with the protocol.", code: codeInvalidParams, id: m.ID}
	if version == Version20260728 {
		refused.status = http.StatusBadRequest
	}
	return refused
}

// wantsProgress reports whether a call asks to be told how it goes on.
func (m *envelope) wantsProgress() bool {
	var params struct {
		Meta struct {
			Token any `json:"progressToken"`
		} `json:"_meta"`
	}
	return json.Unmarshal(m.Params, &params) == nil && params.Meta.Token != nil
}
