package files_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// brokenBody is a body whose reads fail with err.
type brokenBody struct{ err error }

func (b brokenBody) Read([]byte) (int, error) { return 0, b.err }

// TestIncompleteUploadCanBeRetried checks that an upload whose body ends too early is
// reported as an error of the client and leaves no files, and that its URL still works.
func TestIncompleteUploadCanBeRetried(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{io.ErrUnexpectedEOF, http.StatusBadRequest},
		{errors.New("invalid byte in chunk length"), http.StatusBadRequest},
		{fmt.Errorf("stalled: %w", os.ErrDeadlineExceeded), http.StatusRequestTimeout},
	} {
		fx := newFixture(t)
		address := fx.presign(t, "id")
		if code := fx.send(t, http.MethodPut, address,
			io.MultiReader(strings.NewReader("half"), brokenBody{test.err})); code != test.want {
			t.Errorf("PUT with a body that fails with %v: status = %d, want %d", test.err, code, test.want)
		}
		if found := fx.stored(t); len(found)+fx.log.Len() != 0 {
			t.Errorf("PUT with a body that fails with %v leaves the files %v and the log %s, want none", test.err, found,
				&fx.log)
		}
		if code := fx.send(t, http.MethodPut, address, strings.NewReader("whole")); code != http.StatusOK {
			t.Errorf("PUT again after %v: status = %d, want %d", test.err, code, http.StatusOK)
		}
	}
}

// TestFailedUploadIsLogged checks that an upload that fails on the server is logged for the operator.
// The log must not contain the signature of the URL, which is a secret.
func TestFailedUploadIsLogged(t *testing.T) {
	fx := newFixture(t)
	address := fx.presign(t, "id")
	if err := os.RemoveAll(filepath.Join(fx.options.Dir, "unfinished")); err != nil {
		t.Fatal(err)
	}
	if code := fx.send(t, http.MethodPut, address, strings.NewReader("body")); code != http.StatusInternalServerError {
		t.Errorf("PUT without the folder \"unfinished\": status = %d, want %d", code, http.StatusInternalServerError)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if logged := fx.log.String(); !strings.Contains(logged, "no such file") ||
		strings.Contains(logged, u.Query().Get("signature")) {
		t.Errorf("log = %s, want \"no such file\" without the signature", logged)
	}
}

// TestConcurrentUploadIsRefused checks that a client with one URL can store only
// one file on the disk, no matter how many connections the client has.
func TestConcurrentUploadIsRefused(t *testing.T) {
	fx := newFixture(t)
	address := fx.presign(t, "id")
	body, sender := io.Pipe()
	code := make(chan int)
	go func() { code <- fx.send(t, http.MethodPut, address, body) }()
	if _, err := io.WriteString(sender, "half"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if code := fx.send(t, http.MethodPut, address, strings.NewReader("another")); code != http.StatusConflict {
			t.Errorf("PUT during another PUT: status = %d, want %d", code, http.StatusConflict)
		}
	}
	if found := fx.stored(t); len(found) != 1 {
		t.Errorf("files during a PUT = %v, want one", found)
	}
	if code := fx.send(t, http.MethodPut, fx.presign(t, "other"), strings.NewReader("another")); code != http.StatusOK {
		t.Errorf("PUT to another URL: status = %d, want %d", code, http.StatusOK)
	}
	_ = sender.CloseWithError(io.ErrUnexpectedEOF)
	if code := <-code; code != http.StatusBadRequest {
		t.Errorf("first PUT, which fails: status = %d, want %d", code, http.StatusBadRequest)
	}
	if code := fx.send(t, http.MethodPut, address, strings.NewReader("another")); code != http.StatusOK {
		t.Errorf("PUT after the first PUT failed: status = %d, want %d", code, http.StatusOK)
	}
}
