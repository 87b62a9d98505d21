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

// The fields of the transport that are read here, in canonical form.
const (
	fieldVersion = "Mcp-Protocol-Version"
	eventStream  = "text/event-stream"
)

// Answer answers one request of an MCP client: a POST with a message, or with several where the protocol
// has batches. Errors of HTTP itself are statuses with a JSON-RPC error beside them, since that is where
// clients look. The names of header fields are canonical. The body of the answer is the caller's to close; calls have
// ended when that is done.
//
// What is refused is decided before the SDK sees the request: its own refusals are plain text, and it asks more of
// Accept and Content-Type than many clients send (contract 4.3).
func (s *Server) Answer(r *http.Request) *http.Response {
	if r.Method != http.MethodPost {
		response := refusal(&messageError{status: http.StatusMethodNotAllowed, text: "Send a POST: this server holds no stream open, and has no sessions to end.", code: codeTransport})
		response.Header.Set("Allow", http.MethodPost)
		return response
	}
	response, err := s.answer(r)
	if err != nil {
		var refused *messageError
		if !errors.As(err, &refused) {
			refused = &messageError{status: http.StatusInternalServerError, text: "The server failed on this request. Quote the request id when you report it.", code: codeInternal}
		}
		return refusal(refused)
	}
	return response
}

func (s *Server) answer(r *http.Request) (*http.Response, error) {
	if s.setup.MayAsk != nil && !s.setup.MayAsk(r) {
		return nil, &messageError{status: http.StatusForbidden, text: "Pages of this origin may not call the server. " + s.setup.ForeignOrigin, code: codeTransport}
	}
	if !takesBody(r.Header["Content-Type"]) {
		return nil, &messageError{status: http.StatusUnsupportedMediaType, text: "Send JSON in UTF-8, as one Content-Type: application/json.", code: codeTransport}
	}
	if isCoded(r.Header["Content-Encoding"]) {
		return nil, &messageError{status: http.StatusUnsupportedMediaType, text: "This server takes no compressed messages. Send the body as it is, without Content-Encoding.", code: codeTransport, codings: "identity"}
	}
	whole, stream := accepts(r.Header["Accept"])
	if !whole {
		return nil, &messageError{status: http.StatusNotAcceptable, text: "Send Accept: application/json, text/event-stream.", code: codeTransport}
	}
	for _, name := range []string{fieldVersion, "Mcp-Method", "Mcp-Name"} {
		if len(r.Header[name]) > 1 { // whoever is on the way may go by the other one
			return nil, &messageError{status: http.StatusBadRequest, text: "Send MCP-Protocol-Version, Mcp-Method and Mcp-Name once each.", code: codeHeaderMismatch}
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
		refused := unsupported(version)
		if !batch && len(calls) == 1 { // or the client does not know which of its calls it is about
			refused.id = calls[0].ID
		}
		return nil, refused
	}
	if err := s.checkCalls(calls, batch, version); err != nil {
		return nil, err
	}
	if len(calls) == 0 { // notifications, and answers to what nobody asked
		return &http.Response{StatusCode: http.StatusAccepted, Header: http.Header{}, Body: http.NoBody}, nil
	}
	if batch {
		return s.batch(r, calls, version)
	}
	return s.one(r, &calls[0], version, stream && !s.setup.Whole && calls[0].wantsProgress())
}

// one answers one call.
func (s *Server) one(r *http.Request, m *envelope, version string, stream bool) (*http.Response, error) {
	if !stream {
		if response := s.direct(r, m, version); response != nil {
			return response, nil
		}
	}
	return s.ask(r, m, version, stream)
}

// checkCalls refuses calls that the SDK is not to see.
func (s *Server) checkCalls(calls []envelope, batch bool, version string) error {
	if batch && version != "" && version != Version20250326 {
		return &messageError{status: http.StatusBadRequest, text: "Send one message: " + Version20250326 + " alone has batches.", code: codeInvalidRequest}
	}
	for i := range calls {
		if batch && calls[i].Method == "initialize" {
			return &messageError{status: http.StatusBadRequest, text: "Send initialize by itself.", code: codeInvalidRequest}
		}
		if batch {
			continue // each is answered for itself
		}
		if err := s.refuseMethod(&calls[i], version); err != nil {
			var refused *messageError
			if errors.As(err, &refused) && version == Version20260728 {
				refused.status = http.StatusNotFound
			}
			return err
		}
	}
	return nil
}

func unsupported(version string) *messageError {
	return &messageError{
		status: http.StatusBadRequest, text: "This server does not speak that version of the protocol. Send one of " + strings.Join(Versions(), ", ") + " as MCP-Protocol-Version.",
		code: codeUnsupportedVersion,
		data: map[string]any{"supported": Versions(), "requested": version},
	}
}

// ask hands a call to the SDK and returns its answer.
func (s *Server) ask(r *http.Request, m *envelope, version string, stream bool) (*http.Response, error) {
	if m.Params == nil { // which some methods cannot be without: what is missing in it is said of it
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
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}).WithContext(context.WithValue(r.Context(), callKey{}, caller))
	if stream {
		return s.streamed(request, caller), nil
	}
	w := &recorder{header: http.Header{}}
	s.whole.ServeHTTP(w, request)
	if w.status >= http.StatusBadRequest && !strings.HasPrefix(w.header.Get("Content-Type"), "application/json") {
		// A refusal of the SDK's in plain text: what leads to one is refused before, as far as is known.
		return nil, &messageError{status: w.status, text: strings.TrimSpace(w.body.String()), code: codeInvalidRequest, id: m.ID}
	}
	return w.response(), nil
}

// takesBody reports whether a body is JSON in UTF-8 by its content type: by one, since whoever is on the way may go by
// another. Without one it is read as JSON, and so is what curl -d calls a form unless it is told otherwise: the product's
// own examples have no content type.
func takesBody(values []string) bool {
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return true
	}
	if len(values) > 1 {
		return false
	}
	mediaType, parameters, err := mime.ParseMediaType(values[0])
	charset, has := parameters["charset"]
	return err == nil && (!has || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8")) &&
		(mediaType == "application/json" || strings.HasPrefix(mediaType, "application/") && strings.HasSuffix(mediaType, "+json") ||
			mediaType == "application/x-www-form-urlencoded")
}

// isCoded reports whether a body is another one once it is decoded.
func isCoded(values []string) bool {
	return slices.ContainsFunc(values, func(coding string) bool { return !strings.EqualFold(strings.TrimSpace(coding), "identity") })
}

// accepts reports whether a client takes an answer in JSON, and one by events. One that says nothing takes both.
func accepts(values []string) (whole, stream bool) {
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
				whole = true
			case eventStream, "text/*":
				stream = true
			case "*/*":
				whole, stream = true, true
			}
		}
	}
	return whole, stream
}

// refusesByQuality reports whether a media type stands there to be refused: "q=0".
func refusesByQuality(parameters string) bool {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		if quality, err := strconv.ParseFloat(value, 64); strings.EqualFold(name, "q") && err == nil && quality == 0 {
			return true
		}
	}
	return false
}

// refusal answers an error.
func refusal(e *messageError) *http.Response {
	w := &recorder{header: http.Header{"Content-Type": {"application/json"}}, status: e.status}
	if e.codings != "" {
		w.header.Set("Accept-Encoding", e.codings)
	}
	if e.retryAfter != "" {
		w.header.Set("Retry-After", e.retryAfter)
	}
	w.body.Write(encodeError(e))
	return w.response()
}

// encodeError writes an error as a JSON-RPC response.
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
		panic("mcp: encode an error: " + err.Error()) // texts and numbers always encode
	}
	return body
}

// recorder is a response that is kept in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

var _ http.ResponseWriter = (*recorder)(nil)

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

func (w *recorder) response() *http.Response {
	w.WriteHeader(http.StatusOK)
	delete(w.header, "Connection")
	w.header.Set("Cache-Control", "no-store")
	w.header.Set("Content-Length", strconv.Itoa(w.body.Len()))
	return &http.Response{
		StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		ContentLength: int64(w.body.Len()), Body: io.NopCloser(bytes.NewReader(w.body.Bytes())),
	}
}
