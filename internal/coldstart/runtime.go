package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// runtime is a Runtime API that hands out a number of requests and then none.
type runtime struct {
	address string
	// polled gets the time of the first poll.
	polled chan time.Time
	// done gets nil once the function polls after its last answer, or what was
	// wrong with an answer.
	done chan error

	server *http.Server

	mu    sync.Mutex
	polls int
	left  int
	event []byte
}

func listen(ctx context.Context, requests int) (*runtime, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	event, err := json.Marshal(withoutKey())
	if err != nil {
		return nil, fmt.Errorf("encode the event: %w", err)
	}
	r := &runtime{
		address: l.Addr().String(),
		polled:  make(chan time.Time, 1),
		done:    make(chan error, 1),
		left:    requests,
		event:   event,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", r.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", r.response)
	mux.HandleFunc("POST /2018-06-01/runtime/", r.failure)
	r.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: startTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *runtime) close() { _ = r.server.Close() }

// withoutKey is a request of who-am-i that says nothing of its caller.
func withoutKey() events.APIGatewayProxyRequest {
	return events.APIGatewayProxyRequest{
		Resource: "/v1/who-am-i", Path: "/v1/who-am-i", HTTPMethod: http.MethodGet,
		Headers:           map[string]string{"Accept": "application/json", "Host": "api.example.com"},
		MultiValueHeaders: map[string][]string{"Accept": {"application/json"}, "Host": {"api.example.com"}},
		RequestContext: events.APIGatewayProxyRequestContext{
			RequestID: "9f3c1c2e-0000-4000-8000-000000000000", HTTPMethod: http.MethodGet, Path: "/v1/who-am-i", Stage: "v1",
		},
	}
}

func (r *runtime) next(w http.ResponseWriter, request *http.Request) {
	at := time.Now()
	r.mu.Lock()
	r.polls++
	poll, left := r.polls, r.left
	r.left--
	r.mu.Unlock()
	if poll == 1 {
		r.polled <- at
	}
	if left <= 0 {
		r.end(nil)
		<-request.Context().Done() // as Lambda does while there is nothing to do
		return
	}
	w.Header().Set("Lambda-Runtime-Aws-Request-Id", strconv.Itoa(poll))
	w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(at.Add(startTimeout).UnixMilli(), 10))
	w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-west-1:000000000000:function:none")
	_, _ = w.Write(r.event)
}

// response takes an answer, which is a problem document: the path is
// unknown to most groups, and the caller to all.
func (r *runtime) response(w http.ResponseWriter, request *http.Request) {
	var answer events.APIGatewayProxyResponse
	err := json.NewDecoder(request.Body).Decode(&answer)
	if err == nil && (answer.StatusCode < 400 || answer.StatusCode >= 500 || !strings.Contains(answer.Body, `"title"`)) {
		err = fmt.Errorf("status %d is no refusal", answer.StatusCode)
	}
	if err != nil {
		r.end(fmt.Errorf("read an answer: %w", err))
	}
	w.WriteHeader(http.StatusAccepted)
}

func (r *runtime) failure(w http.ResponseWriter, request *http.Request) {
	text, _ := io.ReadAll(io.LimitReader(request.Body, 1<<10))
	r.end(fmt.Errorf("the function reports a failure: %s", text))
	w.WriteHeader(http.StatusAccepted)
}

// end tells the first outcome; later ones don't matter.
func (r *runtime) end(err error) {
	select {
	case r.done <- err:
	default:
	}
}
