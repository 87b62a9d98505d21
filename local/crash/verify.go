package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// found is a consumer or a key in a list.
type found struct {
	Name        string  `json:"name"`
	Description string  `json:"description"`
	APIKeys     []found `json:"apiKeys"`
}

// verify compares what is there with what the writers know, and settles the
// writes that got no answer: they may have happened or not.
func (c client) verify(ctx context.Context, writers []*writer, out *report) error {
	times := map[string]int{} // of each consumer, and of each of its keys
	const page = 1000
	for offset := 0; ; offset += page {
		status, answer, err := c.do(ctx, http.MethodGet, consumers+"?include-api-keys=true&key-format=none&limit="+strconv.Itoa(page)+"&offset="+strconv.Itoa(offset), nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d: %s", status, answer)
		}
		var list struct {
			Data []found `json:"data"`
		}
		if err == nil {
			err = json.Unmarshal(answer, &list)
		}
		if err != nil {
			return fmt.Errorf("list the consumers: %w", err)
		}
		for _, consumer := range list.Data {
			times[consumer.Name]++
			for _, key := range consumer.APIKeys {
				times[consumer.Name+" "+key.Description]++
			}
		}
		if len(list.Data) < page {
			break
		}
	}
	for _, w := range writers {
		w.settle(times)
		w.compare(times, out)
	}
	return nil
}

// settle finds out what became of the write without an answer.
func (w *writer) settle(times map[string]int) {
	if w.pending == nil {
		return
	}
	a := *w.pending
	w.pending = nil
	there := times[a.consumer] > 0
	if a.kind == "key" {
		there = times[a.consumer+" "+a.key] > 0
	}
	if there != (a.kind == "delete") {
		w.apply(a)
	}
}

func (w *writer) compare(times map[string]int, out *report) {
	note := func(what string, n int) {
		switch {
		case n == 0:
			out.lost = append(out.lost, what)
		case n > 1:
			out.twice = append(out.twice, what)
		}
	}
	for name, keys := range w.consumers {
		note(name, times[name])
		for key := range keys {
			note(name+" "+key, times[name+" "+key])
		}
	}
	for name := range w.deleted {
		if times[name] > 0 {
			out.lost = append(out.lost, "the deletion of "+name)
		}
	}
}
