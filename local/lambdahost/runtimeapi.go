package lambdahost

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// maxErrorBytes bounds what a function says of its failure.
const maxErrorBytes = 256 << 10

// api is the Runtime API of one process.
func (p *process) api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", p.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", p.response)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", p.failure)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", p.initFailure)
	mux.HandleFunc("POST /2020-01-01/extension/register", p.register)
	mux.HandleFunc("GET /2020-01-01/extension/event/next", silence)
	return mux
}

// register takes in an extension that asks for no events: with it a process hears of its end (process.end).
func (p *process) register(w http.ResponseWriter, _ *http.Request) {
	p.extended.Store(true)
	w.Header().Set("Lambda-Extension-Identifier", p.f.spec.Name)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}

// silence is what an extension hears that has asked for no events.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// next answers when there is a call.
func (p *process) next(w http.ResponseWriter, r *http.Request) {
	select {
	case p.polled <- struct{}{}:
	default: // an earlier poll was given up
	}
	select {
	case call := <-p.calls:
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Lambda-Runtime-Aws-Request-Id", call.id)
		h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(call.deadline.UnixMilli(), 10))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", p.f.arn())
		h.Set("Lambda-Runtime-Trace-Id", call.trace)
		_, _ = w.Write(call.event)
	case <-r.Context().Done():
	}
}

// response takes the answer to the call that is under way.
func (p *process) response(w http.ResponseWriter, r *http.Request) {
	call, ok := p.called(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusBadRequest, "InvalidRequestID", "The id is not that of the call under way.")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxAnswerBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		call.end(outcome{err: &FunctionError{typeTooLarge, "The answer is larger than 6 MB."}})
		refuse(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "The answer is larger than 6 MB.")
		return
	}
	// A function says in a trailer that it failed in the middle of its answer.
	if err != nil || r.Trailer.Get("Lambda-Runtime-Function-Error-Type") != "" {
		call.end(outcome{err: &FunctionError{typeExit, "The answer broke off."}})
		refuse(w, http.StatusBadRequest, "InvalidResponse", "The answer broke off.")
		return
	}
	call.end(outcome{answer: body})
	accept(w)
}

// failure takes the error that the call under way ended with.
func (p *process) failure(w http.ResponseWriter, r *http.Request) {
	call, ok := p.called(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusBadRequest, "InvalidRequestID", "The id is not that of the call under way.")
		return
	}
	call.end(outcome{err: errorOf(r)})
	accept(w)
}

// initFailure takes the reason why the process cannot start.
func (p *process) initFailure(w http.ResponseWriter, r *http.Request) {
	select {
	case p.failed <- outcome{err: errorOf(r)}:
	default:
	}
	accept(w)
}

// errorOf reads the error of a request, whose type is in a header or the body.
func errorOf(r *http.Request) *FunctionError {
	e := &FunctionError{Type: typeUnreadable}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxErrorBytes))
	if err != nil || json.Unmarshal(body, e) != nil {
		e.Message = "The function reported an error that cannot be read."
	}
	if e.Type == "" || e.Type == typeUnreadable {
		if t := r.Header.Get("Lambda-Runtime-Function-Error-Type"); t != "" {
			e.Type = t
		}
	}
	return e
}

func accept(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"status":"OK"}`)
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(FunctionError{kind, message})
}
