package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// writer creates consumers and keys and deletes some, one write after another, and remembers which writes were acknowledged. No other
// writer changes its consumers.
type writer struct {
	number int
	random *rand.Rand
	chosen int // the number of calls of choose; the name of a new object ends with this number

	// consumers are the consumers that must exist, with the descriptions of their keys.
	consumers map[string]map[string]bool
	// deleted are the consumers that must not exist.
	deleted map[string]bool
	// pending is the write that may have happened or not: it got no response, or the status 500. It is nil if there is no
	// such write.
	pending *attempt

	acknowledged, unacknowledged int
	failure                      error
}

// attempt is one write.
type attempt struct {
	kind          string // "create", "key" or "delete"
	consumer, key string
}

func newWriter(number int, random *rand.Rand) *writer {
	return &writer{number: number, random: random, consumers: map[string]map[string]bool{}, deleted: map[string]bool{}}
}

// write writes until ctx ends, until it is unknown whether a write has happened, or until a response has an unexpected
// status (failure).
func (w *writer) write(ctx context.Context, c *manager) {
	for w.failure == nil && ctx.Err() == nil {
		a := w.choose()
		method, path, body, want := a.request()
		// A write that has started is not canceled when ctx ends.
		status, response, err := c.Request(context.WithoutCancel(ctx), c.turns.Next(), method, path, body)
		switch {
		case err != nil:
			w.pending = &a
			w.unacknowledged++
			return
		case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
			time.Sleep(busyDelay) // nothing was written
		case status == http.StatusInternalServerError: // the write can have happened
			w.pending = &a
			w.unacknowledged++
			return
		case status != want:
			w.failure = fmt.Errorf("%s %s: status %d, want %d: %s", method, path, status, want, response)
		default:
			w.apply(a)
			w.acknowledged++
		}
	}
}

// busyDelay is how long a writer waits before it retries after the status 429 or 503.
const busyDelay = 20 * time.Millisecond

// choose returns the next write.
func (w *writer) choose() attempt {
	w.chosen++
	name := fmt.Sprintf("w%d-%d", w.number, w.chosen)
	consumer, ok := w.randomConsumer()
	switch n := w.random.IntN(10); {
	case !ok || n < 4:
		return attempt{kind: "create", consumer: name}
	case n < 9:
		return attempt{kind: "key", consumer: consumer, key: name}
	}
	return attempt{kind: "delete", consumer: consumer}
}

// randomConsumer returns a random consumer. It returns false if it finds none.
func (w *writer) randomConsumer() (string, bool) {
	for range w.chosen {
		name := fmt.Sprintf("w%d-%d", w.number, w.random.IntN(w.chosen)+1)
		if _, ok := w.consumers[name]; ok {
			return name, true
		}
	}
	return "", false
}

// request returns the request that does the write, and the status of its success.
func (a attempt) request() (method, path, body string, want int) {
	switch a.kind {
	case "create":
		return http.MethodPost, bucketOf("crash") + "/consumers", fmt.Sprintf(`{"name":%q}`, a.consumer), http.StatusOK
	case "key":
		return http.MethodPost, bucketOf("crash") + "/consumers/" + a.consumer + "/keys",
			fmt.Sprintf(`{"description":%q}`, a.key), http.StatusOK
	}
	return http.MethodDelete, bucketOf("crash") + "/consumers/" + a.consumer, "", http.StatusNoContent
}

// apply records a write that has happened.
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

// storedObject is a consumer or a key in a list.
type storedObject struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	APIKeys     []storedObject `json:"apiKeys"`
}

// verify compares the consumers and keys in the product with those that the writers expect, and adds the differences to
// out. A pending write may or may not have happened, so verify first finds out whether it has.
func (m *manager) verify(ctx context.Context, writers []*writer, out *crashResult) error {
	times := map[string]int{} // how often each consumer and each of its keys is listed
	for offset := 0; ; offset += pageSize {
		var list struct {
			Data []storedObject `json:"data"`
		}
		path := fmt.Sprintf("%s/consumers?include-api-keys=true&key-format=none&limit=%d&offset=%d", bucketOf("crash"),
			pageSize, offset)
		if err := m.do(ctx, http.MethodGet, path, "", http.StatusOK, &list); err != nil {
			return fmt.Errorf("list the consumers: %w", err)
		}
		for _, consumer := range list.Data {
			times[consumer.Name]++
			for _, key := range consumer.APIKeys {
				times[consumer.Name+" "+key.Description]++
			}
		}
		if len(list.Data) < pageSize {
			break
		}
	}
	for _, w := range writers {
		w.settle(times)
		w.compare(times, out)
	}
	return nil
}

// settle applies the pending write if it has happened.
func (w *writer) settle(times map[string]int) {
	if w.pending == nil {
		return
	}
	a := *w.pending
	w.pending = nil
	exists := times[a.consumer] > 0
	if a.kind == "key" {
		exists = times[a.consumer+" "+a.key] > 0
	}
	if exists != (a.kind == "delete") {
		w.apply(a)
	}
}

// compare adds to out the objects and deletions that the product has lost, and the objects that it lists more than
// once. times says how often each object is listed.
func (w *writer) compare(times map[string]int, out *crashResult) {
	record := func(object string, n int) {
		switch {
		case n == 0:
			out.lost = append(out.lost, object)
		case n > 1:
			out.duplicates = append(out.duplicates, object)
		}
	}
	for name, keys := range w.consumers {
		record(name, times[name])
		for key := range keys {
			record(name+" "+key, times[name+" "+key])
		}
	}
	for name := range w.deleted {
		if times[name] > 0 {
			out.lost = append(out.lost, "the deletion of "+name)
		}
	}
}
