package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// maxBatchedBytes bounds the answer to a whole batch, but for what says that there is no more room. Base64, in which a
// Lambda's answer may be, makes it 5.6 MB of the 6 MB that one can send. An answer to one call alone has up to 12 MiB:
// a text of maxAnswerBytes, twice and escaped.
const maxBatchedBytes = 4 << 20

// batch answers several calls of one body, one after the other. What stands before the server has let the first of
// them in; each other one passes it too, or ten calls would count as one for its limits. Where an answer has no
// room beside those before it, the calls after it are not made: nobody would hear of what they did.
func (s *Server) batch(r *http.Request, calls []envelope, version string) (*http.Response, error) {
	w := &recorder{header: http.Header{"Content-Type": {"application/json"}}}
	r = r.WithContext(sharesWork(r.Context()))
	full := false
	for i := range calls {
		m := &calls[i]
		answer := noRoom(m, "This one was not made.")
		if !full {
			of, err := s.answerOf(r, m, version, i == 0)
			if err != nil {
				return nil, err
			}
			if answer = readAnswer(m, of, maxBatchedBytes-w.body.Len()); answer == nil {
				full, answer = true, noRoom(m, "This one was made, and its answer has no room.")
			}
		}
		w.body.WriteByte("[,"[min(i, 1)])
		w.body.Write(answer)
	}
	w.body.WriteByte(']')
	return w.response(), nil
}

// noRoom is the answer to a call whose own has no room.
func noRoom(m *envelope, made string) json.RawMessage {
	return encodeError(&messageError{
		text: "Send fewer calls at once: the answers to a batch have " + strconv.Itoa(maxBatchedBytes) + " bytes together. " + made,
		code: codeInternal, id: m.ID,
	})
}

// answerOf makes a call.
func (s *Server) answerOf(r *http.Request, m *envelope, version string, first bool) (*http.Response, error) {
	err := s.refuseMethod(m, version)
	if err == nil {
		var response *http.Response
		if response, err = s.ofBatch(r, m, version, first); err == nil {
			return response, nil
		}
	}
	if refused, ok := errors.AsType[*messageError](err); ok {
		return refusal(refused), nil
	}
	return nil, err
}

// ofBatch has a call answered in one piece.
func (s *Server) ofBatch(r *http.Request, m *envelope, version string, first bool) (*http.Response, error) {
	if first || s.setup.Again == nil {
		return s.one(r, m, version, false)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return s.setup.Again(r.Context(), body), nil
}

// readAnswer reads the answer to a call, nil for one of more than room bytes: a JSON-RPC response, or what stands
// before the server refuses it with.
func readAnswer(m *envelope, response *http.Response, room int) json.RawMessage {
	defer func() { _ = response.Body.Close() }()
	if response.ContentLength > int64(room) {
		return nil
	}
	var said envelope
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(room)+1))
	switch {
	case err == nil && len(body) > room:
		return nil
	case err == nil && json.Unmarshal(body, &said) == nil && said.Version == "2.0":
		return bytes.TrimSpace(body)
	}
	return encodeError(&messageError{
		text: "The server's route refused this call: it answered " + strconv.Itoa(response.StatusCode) + ".", code: codeTransport, id: m.ID,
		data: map[string]any{"status": response.StatusCode},
	})
}
