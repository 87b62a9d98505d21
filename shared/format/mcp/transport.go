package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The header fields and media type of the transport, in canonical form.
const (
	fieldVersion = "Mcp-Protocol-Version"
	eventStream  = "text/event-stream"
)

// Handle handles one request of an MCP client: a POST with one message, or with several if the
// protocol version has batches. A refusal has an HTTP status, and a JSON-RPC error in its body,
// because clients read that. The names of the request's header fields must be in canonical
// form. The caller has to close the body of the response; after that, no call is running.
//
// The server refuses invalid requests before the SDK sees them: the SDK refuses in plain text,
// and many clients do not meet its requirements for Accept and Content-Type (contract 4.3).
func (s *Server) Handle(r *http.Request) *http.Response {
	if r.Method != http.MethodPost {
		response := refusal(&messageError{
			status: http.StatusMethodNotAllowed,
			text:   "Send a POST: this server holds no stream open, and has no sessions to end.", code: codeTransport,
		})
		response.Header.Set("Allow", http.MethodPost)
		return response
	}
	response, err := s.handle(r)
	if err != nil {
		var refused *messageError
		if !errors.As(err, &refused) {
			refused = &messageError{
				status: http.StatusInternalServerError,
				text:   "The server failed on this request. Quote the request id when you report it.", code: codeInternal,
			}
		}
		return refusal(refused)
	}
	return response
}

// handle handles a POST request. Its error is a *messageError if the request is refused.
func (s *Server) handle(r *http.Request) (*http.Response, error) {
	if s.setup.CheckOrigin != nil && !s.setup.CheckOrigin(r) {
		return nil, &messageError{status: http.StatusForbidden, text: "Pages of this origin may not call the server. " +
			s.setup.ForeignOrigin, code: codeTransport}
	}
	if !acceptsContentType(r.Header["Content-Type"]) {
		return nil, &messageError{
			status: http.StatusUnsupportedMediaType,
			text:   "Send JSON in UTF-8, as one Content-Type: application/json.", code: codeTransport,
		}
	}
	if hasContentCoding(r.Header["Content-Encoding"]) {
		return nil, &messageError{
			status: http.StatusUnsupportedMediaType,
			text:   "This server takes no compressed messages. Send the body as it is, without Content-Encoding.",
			code:   codeTransport, acceptEncoding: "identity",
		}
	}
	acceptsJSON, acceptsStream := accepts(r.Header["Accept"])
	if !acceptsJSON {
		return nil, &messageError{
			status: http.StatusNotAcceptable, text: "Send Accept: application/json, text/event-stream.",
			code: codeTransport,
		}
	}
	for _, name := range []string{fieldVersion, "Mcp-Method", "Mcp-Name"} {
		if len(r.Header[name]) > 1 { // a proxy could use another value than this server
			return nil, &messageError{
				status: http.StatusBadRequest,
				text:   "Send MCP-Protocol-Version, Mcp-Method and Mcp-Name once each.", code: codeHeaderMismatch,
			}
		}
	}
	version := r.Header.Get(fieldVersion)
	body, err := readBody(r.Context(), r.Body, r.ContentLength)
	if err != nil {
		return nil, err
	}
	messages, batch, err := readMessages(body)
	if err != nil {
		return nil, err
	}
	calls := slices.DeleteFunc(messages, func(m envelope) bool { return !m.isCall() })
	if version != "" && !slices.Contains(Versions(), version) {
		refused := unsupportedVersion(version)
		if !batch && len(calls) == 1 { // otherwise the client does not know which call the error is about
			refused.id = calls[0].ID
		}
		return nil, refused
	}
	if err := s.checkCalls(calls, batch, version); err != nil {
		return nil, err
	}
	if len(calls) == 0 { // only notifications, and responses to requests that the server never sent
		return &http.Response{StatusCode: http.StatusAccepted, Header: http.Header{}, Body: http.NoBody}, nil
	}
	if batch {
		return s.batch(r, calls, version)
	}
	return s.handleCall(r, &calls[0], version, acceptsStream && !s.setup.NoStreaming && calls[0].wantsProgress())
}

// handleCall handles one call: without the SDK if that is possible (handleDirectly), and otherwise with the SDK.
func (s *Server) handleCall(r *http.Request, m *envelope, version string, stream bool) (*http.Response, error) {
	if !stream {
		if response := s.handleDirectly(r, m, version); response != nil {
			return response, nil
		}
	}
	return s.callSDK(r, m, version, stream)
}

// checkCalls refuses a batch in a protocol version that has none, and initialize in a batch. It refuses a method that
// the server does not support, except in a batch.
func (s *Server) checkCalls(calls []envelope, batch bool, version string) error {
	if batch && version != "" && version != Version20250326 {
		return &messageError{
			status: http.StatusBadRequest,
			text:   "Send one message: " + Version20250326 + " alone has batches.", code: codeInvalidRequest,
		}
	}
	for i := range calls {
		if batch && calls[i].Method == "initialize" {
			return &messageError{status: http.StatusBadRequest, text: "Send initialize by itself.", code: codeInvalidRequest}
		}
		if batch {
			continue // batch checks each call before it makes the call
		}
		if err := s.checkMethod(&calls[i], version); err != nil {
			var refused *messageError
			if errors.As(err, &refused) && version == Version20260728 {
				refused.status = http.StatusNotFound
			}
			return err
		}
	}
	return nil
}

func unsupportedVersion(version string) *messageError {
	return &messageError{
		status: http.StatusBadRequest, text: "This server does not speak that version of the protocol. Send one of " +
			strings.Join(Versions(), ", ") + " as MCP-Protocol-Version.",
		code: codeUnsupportedVersion,
		data: map[string]any{"supported": Versions(), "requested": version},
	}
}

// callSDK passes a call to the SDK and returns its response.
func (s *Server) callSDK(r *http.Request, m *envelope, version string, stream bool) (*http.Response, error) {
	if m.Params == nil { // so that the SDK's error names the missing member of params
		m.Params = json.RawMessage("{}")
	}
	if err := checkParams(m, version); err != nil {
		return nil, err
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, " + eventStream}}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "Mcp-") && name != "Mcp-Session-Id" {
			header[name] = values
		}
	}
	caller := &call{ctx: r.Context(), version: version}
	request := (&http.Request{
		Method: http.MethodPost, URL: r.URL, Host: r.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body)),
	}).WithContext(context.WithValue(r.Context(), callKey{}, caller))
	if stream {
		return s.streamCall(request, caller), nil
	}
	w := &recorder{header: http.Header{}}
	s.jsonHandler.ServeHTTP(w, request)
	if w.status >= http.StatusBadRequest && !strings.HasPrefix(w.header.Get("Content-Type"), "application/json") {
		// A plain-text refusal of the SDK. The checks above catch all known causes.
		return nil, &messageError{
			status: w.status, text: strings.TrimSpace(w.body.String()), code: codeInvalidRequest,
			id: m.ID,
		}
	}
	return w.response(), nil
}

// acceptsContentType reports whether the server reads a body with these values of Content-Type as
// JSON in UTF-8. Several content types are refused, since a proxy on the path could use another
// one. A body without a content type is read as JSON. A body with the content type of a form is
// also read as JSON: curl -d sends this type by default, and the product's own examples set none.
func acceptsContentType(values []string) bool {
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return true
	}
	if len(values) > 1 {
		return false
	}
	mediaType, parameters, err := mime.ParseMediaType(values[0])
	charset, hasCharset := parameters["charset"]
	return err == nil && (!hasCharset || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")) &&
		(mediaType == "application/json" || strings.HasPrefix(mediaType, "application/") &&
			strings.HasSuffix(mediaType, "+json") ||
			mediaType == "application/x-www-form-urlencoded")
}

// hasContentCoding reports whether a body has a content coding other than identity.
func hasContentCoding(values []string) bool {
	return slices.ContainsFunc(values, func(coding string) bool {
		return !strings.EqualFold(strings.TrimSpace(coding), "identity")
	})
}

// accepts reports whether a client accepts a JSON response, and whether it accepts events. A client without an Accept
// field accepts both.
func accepts(values []string) (acceptsJSON, acceptsStream bool) {
	if len(values) == 0 {
		return true, true
	}
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			mediaType, parameters, _ := strings.Cut(part, ";")
			if refusesByQuality(parameters) {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(mediaType)) {
			case "application/json", "application/*":
				acceptsJSON = true
			case eventStream, "text/*":
				acceptsStream = true
			case "*/*":
				acceptsJSON, acceptsStream = true, true
			}
		}
	}
	return acceptsJSON, acceptsStream
}

// refusesByQuality reports whether the parameters of a media type contain "q=0", which refuses the type.
func refusesByQuality(parameters string) bool {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if quality, err := strconv.ParseFloat(value, 64); strings.EqualFold(name, "q") && err == nil && quality == 0 {
			return true
		}
	}
	return false
}

// refusal returns the response for an error.
func refusal(e *messageError) *http.Response {
	w := &recorder{header: http.Header{"Content-Type": {"application/json"}}, status: e.status}
	if e.acceptEncoding != "" {
		w.header.Set("Accept-Encoding", e.acceptEncoding)
	}
	if e.retryAfter != "" {
		w.header.Set("Retry-After", e.retryAfter)
	}
	w.body.Write(encodeError(e))
	return w.response()
}

// encodeError encodes an error as a JSON-RPC response.
func encodeError(e *messageError) json.RawMessage {
	problem := map[string]any{"code": e.code, "message": e.text}
	if e.data != nil {
		problem["data"] = e.data
	}
	var id any
	if len(e.id) > 0 {
		id = e.id
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": problem})
	if err != nil {
		panic("mcp: encode an error: " + err.Error()) // strings and numbers can always be encoded
	}
	return body
}

// recorder is an http.ResponseWriter that keeps the response in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

var _ http.ResponseWriter = (*recorder)(nil)

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// response returns the recorded response. It sets the header fields that all responses in one piece have.
func (r *recorder) response() *http.Response {
	r.WriteHeader(http.StatusOK)
	delete(r.header, "Connection")
	r.header.Set("Cache-Control", "no-store")
	r.header.Set("Content-Length", strconv.Itoa(r.body.Len()))
	return &http.Response{
		StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: r.header,
		ContentLength: int64(r.body.Len()), Body: io.NopCloser(bytes.NewReader(r.body.Bytes())),
	}
}
