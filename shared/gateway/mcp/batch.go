package mcp

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// batch answers several calls of one body, one after the other. The server's route has let the first of them
// in; each other one passes its policies too, or ten calls would count as one for its limits.
func (s *Server) batch(x *pipeline.Exchange, calls []envelope, version string) (*http.Response, error) {
	answers := make([]json.RawMessage, len(calls))
	for i := range calls {
		m := &calls[i]
		var response *http.Response
		err := refuseMethod(m, version)
		if err == nil {
			response, err = s.ofBatch(x, m, version, i == 0)
		}
		switch refused := (*messageError)(nil); {
		case err == nil:
			answers[i] = answerOf(m, response)
		case errors.As(err, &refused):
			answers[i] = encodeError(refused)
		default:
			return nil, err
		}
	}
	return answerJSON(http.StatusOK, answers)
}

// ofBatch has a call answered in one piece.
func (s *Server) ofBatch(x *pipeline.Exchange, m *envelope, version string, first bool) (*http.Response, error) {
	if first {
		return s.one(x, m, version, false)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	inner := x.Inner()
	inner.Route, inner.Method, inner.Path, inner.Written, inner.Params = x.Route, x.Method, x.Path, x.Written, x.Params
	inner.SetQuery(x.Query)
	inner.Header["Accept"] = []string{"application/json"}
	setBody(inner, "application/json", string(body))
	return x.Route.Run(inner), nil
}

// maxBatchedBytes bounds the answer to one call of a batch: a text of maxAnswerBytes, twice and escaped.
const maxBatchedBytes = 16 << 20

// answerOf reads the answer to a call: a JSON-RPC response, or what a policy of the route refuses it with.
func answerOf(m *envelope, response *http.Response) json.RawMessage {
	defer func() { _ = response.Body.Close() }()
	var said envelope
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBatchedBytes+1))
	if err == nil && len(body) <= maxBatchedBytes && json.Unmarshal(body, &said) == nil && said.Version == "2.0" {
		return body
	}
	return encodeError(&messageError{
		text: "The server's route refused this call: it answered " + strconv.Itoa(response.StatusCode) + ".", code: codeTransport, id: m.ID,
		data: map[string]any{"status": response.StatusCode},
	})
}
