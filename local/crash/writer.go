package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/local/instance"
)

// writer makes consumers and keys and deletes some, one write after another,
// and remembers what was acknowledged. Nobody else touches its consumers.
type writer struct {
	number int
	random *rand.Rand
	next   int

	// consumers that are there for certain, with the descriptions of their keys.
	consumers map[string]map[string]bool
	// deleted are the consumers that are gone for certain.
	deleted map[string]bool
	// pending is the write that got no answer, if one did not.
	pending *attempt

	acknowledged, unanswered int
	failure                  error
}

// attempt is one write.
type attempt struct {
	kind          string // "create", "key" or "delete"
	consumer, key string
}

func newWriter(number int, random *rand.Rand) *writer {
	return &writer{number: number, random: random, consumers: map[string]map[string]bool{}, deleted: map[string]bool{}}
}

// write writes until the product does not answer any more, or ctx ends.
func (w *writer) write(ctx context.Context, c client) {
	for w.failure == nil && ctx.Err() == nil {
		a := w.choose()
		method, path, body, want := a.request()
		// The end of ctx is no reason to cut a write off.
		status, answer, err := c.do(context.WithoutCancel(ctx), method, path, body)
		switch {
		case err != nil:
			w.pending = &a
			w.unanswered++
			return
		case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
			time.Sleep(busyPause) // nothing was written
		case status == http.StatusInternalServerError: // it may have been written
			w.pending = &a
			w.unanswered++
			return
		case status != want:
			w.failure = fmt.Errorf("%s answered %d: %s", a.kind, status, answer)
		default:
			w.apply(a)
			w.acknowledged++
		}
	}
}

// busyPause is how long a writer waits that was told to come back.
const busyPause = 20 * time.Millisecond

// choose decides what to write next.
func (w *writer) choose() attempt {
	w.next++
	name := fmt.Sprintf("w%d-%d", w.number, w.next)
	some, ok := w.some()
	switch n := w.random.IntN(10); {
	case !ok || n < 4:
		return attempt{kind: "create", consumer: name}
	case n < 9:
		return attempt{kind: "key", consumer: some, key: name}
	}
	return attempt{kind: "delete", consumer: some}
}

// some returns one of the consumers: the one whose name is next to a random one.
func (w *writer) some() (string, bool) {
	for range w.next {
		name := fmt.Sprintf("w%d-%d", w.number, w.random.IntN(w.next)+1)
		if _, ok := w.consumers[name]; ok {
			return name, true
		}
	}
	return "", false
}

func (a attempt) request() (method, path string, body any, want int) {
	switch a.kind {
	case "create":
		return http.MethodPost, consumers, map[string]string{"name": a.consumer}, http.StatusOK
	case "key":
		return http.MethodPost, consumers + "/" + a.consumer + "/keys", map[string]string{"description": a.key}, http.StatusOK
	}
	return http.MethodDelete, consumers + "/" + a.consumer, nil, http.StatusNoContent
}

// apply remembers a write that has happened.
func (w *writer) apply(a attempt) {
	switch a.kind {
	case "create":
		w.consumers[a.consumer] = map[string]bool{}
	case "key":
		w.consumers[a.consumer][a.key] = true
	case "delete":
		delete(w.consumers, a.consumer)
		w.deleted[a.consumer] = true
	}
}

// The resources that are written to.
const (
	buckets   = "/v1/accounts/demo/key-buckets"
	bucket    = "crash-test"
	consumers = buckets + "/" + bucket + "/consumers"
)

// client calls the management API.
type client struct {
	api   string
	turns *instance.Turns
	http  *http.Client
}

// do makes a request and reads its answer to the end: only then is a write
// acknowledged.
func (c client) do(ctx context.Context, method, path string, body any) (status int, answer []byte, err error) {
	var content []byte
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return 0, nil, fmt.Errorf("encode the body: %w", err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.api+path, bytes.NewReader(content))
	if err != nil {
		return 0, nil, fmt.Errorf("make a request: %w", err)
	}
	// Repeats would hide what happened to the first try.
	request.GetBody = nil
	request.Header.Set("Authorization", "Bearer "+c.turns.Next())
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

func (c client) createBucket(ctx context.Context) error {
	status, answer, err := c.do(ctx, http.MethodPost, buckets, map[string]string{"name": bucket})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, answer)
	}
	if err != nil {
		return fmt.Errorf("create the bucket: %w", err)
	}
	return nil
}
