package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
)

// TestListWithoutAnEndIsLeft has cursors lead round in a circle, whose pages would fill the memory.
func TestListWithoutAnEndIsLeft(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) > 9 {
			w.WriteHeader(http.StatusTeapot) // of a list that goes on
			return
		}
		_, _ = fmt.Fprintf(w, `{"data":[{"name":"a"}],"total":9,"next":"%d"}`, n.Load()%3)
	})
	_, err := api.List(t.Context(), "ApiKeyConsumersService_list", map[string]any{"bucketName": "b"})
	if err == nil || !strings.Contains(err.Error(), "after itself") || n.Load() != 4 {
		t.Errorf("it ends with %v after %d requests", err, n.Load())
	}
	var at call.Cursor
	for page := range 2 {
		if err = at.Next(600<<20, fmt.Sprint(page)); page == 0 && err != nil {
			t.Errorf("a list that is long: %v", err)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "1024 MiB") {
		t.Errorf("a list that is longer than memory: %v", err)
	}
}

// stalled is a connection on which an answer begins, drips a while, and goes on no more.
type stalled struct{ asked int }

func (s *stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked++
	out, in := io.Pipe()
	go func() {
		for range 5 {
			_, _ = in.Write([]byte("{"))
			time.Sleep(50 * time.Second)
		}
		<-r.Context().Done()
		_ = in.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: out, Request: r}, nil
}

func TestAnswerThatStopsInTheMiddleIsLeft(t *testing.T) {
	t.Parallel()
	api, _, _ := asked(t, nil)
	synctest.Test(t, func(t *testing.T) {
		line := &stalled{}
		api := &call.API{Access: api.Access, HTTP: &http.Client{Transport: line}, Sleep: call.Sleep}
		ctx, stop := context.WithTimeout(t.Context(), 24*time.Hour)
		defer stop()
		_, err := api.Do(ctx, tool(t, "AccountService_list"), map[string]json.RawMessage{})
		if exit.Of(err) != exit.Failure || !strings.Contains(err.Error(), "in the middle of its answer") || line.asked != 5 {
			t.Errorf("it ends with %v after %d requests", err, line.asked)
		}
	})
}

// TestChangeThatMayBeMadeIsTold has the answers of changes be lost: who runs the command again may make another.
func TestChangeThatMayBeMadeIsTold(t *testing.T) {
	t.Parallel()
	const unknown = "whether the change was made is not known"
	for operation, told := range map[string]bool{"AccountService_list": false, "ApiKeyBucketsService_create": true, "ApiKeyBucketsService_delete": true} {
		api, _, _ := asked(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		do := func(ctx context.Context) error {
			_, err := api.Do(ctx, tool(t, operation), map[string]json.RawMessage{"bucketName": text(t, "b"), "name": text(t, "b")})
			return err
		}
		if err := do(t.Context()); exit.Of(err) != exit.Failure || strings.Contains(err.Error(), unknown) != told {
			t.Errorf("%s: %v", operation, err)
		}
		ctx, end := context.WithCancelCause(t.Context())
		api.Sleep = func(context.Context, time.Duration) error { end(exit.ErrInterrupted); return context.Cause(ctx) }
		if err := do(ctx); !errors.Is(err, exit.ErrInterrupted) || strings.Contains(err.Error(), unknown) != told {
			t.Errorf("%s, interrupted between two tries: %v", operation, err)
		}
	}
	ctx, end := context.WithCancelCause(t.Context())
	api, _, _ := asked(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // without which nobody notices that the client goes
		end(exit.ErrInterrupted)
		<-r.Context().Done()
	})
	_, err := api.Do(ctx, tool(t, "ApiKeyBucketsService_create"), map[string]json.RawMessage{"name": text(t, "b")})
	if !errors.Is(err, exit.ErrInterrupted) || !strings.Contains(err.Error(), unknown) {
		t.Errorf("interrupted while it is asked: %v", err)
	}
}

// TestHugeProblemIsToldByItsBeginning has a problem fill a terminal. Letters that stand in no column of their own are told as little.
func TestHugeProblemIsToldByItsBeginning(t *testing.T) {
	t.Parallel()
	for _, long := range []string{strings.Repeat("y", 5<<20), strings.Repeat("\u0301", 2<<20), strings.Repeat("\x1b", 1<<20)} {
		api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			field := map[string]string{"location": "body.name", "message": long[:len(long)/100]}
			fields := make([]any, 300)
			for i := range fields {
				fields[i] = field
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"title": "T", "detail": long, "errors": fields})
		})
		_, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
		if exit.Of(err) != exit.Invalid || !strings.Contains(err.Error(), "and 250 more") {
			t.Fatalf("it ends with %.100v", err)
		}
		if n := len(err.Error()); n > 4<<20 { // of 50 fields and the whole
			t.Errorf("%.8q: a person is told %d bytes", long, n)
		}
	}
}

// TestAnswerOfAnotherKindIsToldInASentence has an API answer what it does not declare: no error is of this program's own types.
func TestAnswerOfAnotherKindIsToldInASentence(t *testing.T) {
	t.Parallel()
	for body, says := range map[string]string{
		`[1,"x"]`: "the kind array", `7`: "the kind number", `"x"`: "the kind string", ``: "it is no document",
		`{"data":{"a":1}}`: "in data", `{"data":[],"total":"x"}`: "in total", `{"data":[],"next":5}`: "in next",
		strings.Repeat("[", 300) + strings.Repeat("]", 300): "no JSON", `{} {}`: "no JSON", `<html>`: "no JSON",
	} {
		api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		_, err := api.List(t.Context(), "ApiKeyConsumersService_list", map[string]any{"bucketName": "b"})
		if exit.Of(err) != exit.Failure || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "the address of a management API") || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%.40s: %v", body, err)
		}
	}
}

// TestTotalIsThatOfThePages: those of the audit log have it in a place of its own, and the whole list said that there is nothing.
func TestTotalIsThatOfThePages(t *testing.T) {
	t.Parallel()
	for _, page := range []string{`{"data":[{}],"total":7}`, `{"data":[{}],"pagination":{"total":7}}`} {
		api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })
		if list, err := api.List(t.Context(), "AuditLogsService_list", nil); err != nil || string(list) != `{"data":[{}],"total":7}` {
			t.Errorf("%s: %s, %v", page, list, err)
		}
	}
}
