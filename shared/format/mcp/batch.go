package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// maxBatchedBytes is the maximum size of all responses to a batch, not counting the errors
// of calls whose responses do not fit. Lambda allows 6 MB for a response and can require
// Base64: maxBatchedBytes become 5.6 MB in Base64. The response to a single call has up to
// 12 MiB: it contains a text of maxResponseBytes (package gateway/mcp) twice, with escapes.
const maxBatchedBytes = 4 << 20

// batch responds to several calls of one body, one after another. The middleware before the server has already admitted
// the first call. Each other call passes that middleware too; otherwise ten calls would count as one for its limits. If
// a response does not fit together with those before it, batch does not make the remaining calls, since their results
// could not be returned.
func (s *Server) batch(r *http.Request, calls []envelope, version string) (*http.Response, error) {
	w := &recorder{header: http.Header{"Content-Type": {"application/json"}}}
	r = r.WithContext(withSharedWork(r.Context()))
	full := false
	for i := range calls {
		m := &calls[i]
		response := batchTooLarge(m, "This one was not made.")
		if !full {
			resp, err := s.respond(r, m, version, i == 0)
			if err != nil {
				return nil, err
			}
			if response = readResponse(m, resp, maxBatchedBytes-w.body.Len()); response == nil {
				full, response = true, batchTooLarge(m, "This one was made, and its answer has no room.")
			}
		}
		w.body.WriteByte("[,"[min(i, 1)]) // a bracket before the first response, a comma before the others
		w.body.Write(response)
	}
	w.body.WriteByte(']')
	return w.response(), nil
}

// batchTooLarge returns the error of a call whose response does not fit. detail says whether the call was made.
func batchTooLarge(m *envelope, detail string) json.RawMessage {
	return encodeError(&messageError{
		text: "Send fewer calls at once: the answers to a batch have " +
			strconv.Itoa(maxBatchedBytes) + " bytes together. " + detail,
		code: codeInternal, id: m.ID,
	})
}

// respond makes a call and returns its response. first reports whether the call is the first of its batch.
func (s *Server) respond(r *http.Request, m *envelope, version string, first bool) (*http.Response, error) {
	err := s.checkMethod(m, version)
	if err == nil {
		var response *http.Response
		if response, err = s.callInBatch(r, m, version, first); err == nil {
			return response, nil
		}
	}
	if refused, ok := errors.AsType[*messageError](err); ok {
		return refusal(refused), nil
	}
	return nil, err
}

// callInBatch makes a call and returns its response in one piece.
func (s *Server) callInBatch(r *http.Request, m *envelope, version string, first bool) (*http.Response, error) {
	if first || s.setup.HandleBatched == nil {
		return s.handleCall(r, m, version, false)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return s.setup.HandleBatched(r.Context(), body), nil
}

// readResponse reads the response to a call: a JSON-RPC response, or a refusal of the
// middleware before the server. It returns nil for a response of more than maxBytes bytes.
func readResponse(m *envelope, response *http.Response, maxBytes int) json.RawMessage {
	defer func() { _ = response.Body.Close() }()
	if response.ContentLength > int64(maxBytes) {
		return nil
	}
	var msg envelope
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(maxBytes)+1))
	switch {
	case err == nil && len(body) > maxBytes:
		return nil
	case err == nil && json.Unmarshal(body, &msg) == nil && msg.Version == "2.0":
		return bytes.TrimSpace(body)
	}
	return encodeError(&messageError{
		text: "The server's route refused this call: it answered " + strconv.Itoa(response.StatusCode) + ".",
		code: codeTransport, id: m.ID,
		data: map[string]any{"status": response.StatusCode},
	})
}
