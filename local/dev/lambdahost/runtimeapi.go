package lambdahost

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// maxErrorBytes is the maximum size of an error that a function reports.
const maxErrorBytes = 256 << 10

// api returns the Runtime API of one process.
func (p *process) api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", p.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", p.response)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", p.failure)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", p.initFailure)
	mux.HandleFunc("POST /2020-01-01/extension/register", p.register)
	mux.HandleFunc("GET /2020-01-01/extension/event/next", neverRespond)
	return mux
}

// register registers an extension, which receives no events. A process with
// an extension receives SIGTERM before it is killed (process.shutDown).
func (p *process) register(w http.ResponseWriter, _ *http.Request) {
	p.hasExtension.Store(true)
	w.Header().Set("Lambda-Extension-Identifier", p.f.spec.Name)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "{}")
}

// neverRespond blocks the request of an extension for its next event, because there are no events for extensions.
func neverRespond(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// next waits for a call and responds with its event.
func (p *process) next(w http.ResponseWriter, r *http.Request) {
	select {
	case p.polled <- struct{}{}:
	default: // polled already has a value, of a request that was canceled
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

// response accepts the response to the current call.
func (p *process) response(w http.ResponseWriter, r *http.Request) {
	call, ok := p.currentCall(r.PathValue("id"))
	if !ok {
		writeError(w, http.StatusBadRequest, "InvalidRequestID", "The id is not that of the call under way.")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxResponseBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		call.finish(outcome{err: &FunctionError{typeTooLarge, "The answer is larger than 6 MB."}})
		writeError(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "The answer is larger than 6 MB.")
		return
	}
	// A function that fails in the middle of its response reports this in a trailer.
	if err != nil || r.Trailer.Get("Lambda-Runtime-Function-Error-Type") != "" {
		call.finish(outcome{err: &FunctionError{typeExit, "The answer broke off."}})
		writeError(w, http.StatusBadRequest, "InvalidResponse", "The answer broke off.")
		return
	}
	call.finish(outcome{response: body})
	writeAccepted(w)
}

// failure accepts the error of the current call.
func (p *process) failure(w http.ResponseWriter, r *http.Request) {
	call, ok := p.currentCall(r.PathValue("id"))
	if !ok {
		writeError(w, http.StatusBadRequest, "InvalidRequestID", "The id is not that of the call under way.")
		return
	}
	call.finish(outcome{err: readError(r)})
	writeAccepted(w)
}

// initFailure accepts the error of a process that fails to initialize.
func (p *process) initFailure(w http.ResponseWriter, r *http.Request) {
	select {
	case p.initFailed <- outcome{err: readError(r)}:
	default:
	}
	writeAccepted(w)
}

// readError reads the error from a request. The type of the error is in a header or in the body.
func readError(r *http.Request) *FunctionError {
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

func writeAccepted(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"status":"OK"}`)
}

func writeError(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(FunctionError{kind, message})
}
