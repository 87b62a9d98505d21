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

// broken is a body that ends in an error.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// An upload that breaks off is the client's fault, leaves nothing, and its URL
// works still.
func TestBrokenUploadCanBeSentAgain(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{io.ErrUnexpectedEOF, http.StatusBadRequest},
		{errors.New("invalid byte in chunk length"), http.StatusBadRequest},
		{fmt.Errorf("stalled: %w", os.ErrDeadlineExceeded), http.StatusRequestTimeout},
	} {
		w := newWorld(t)
		address := w.issue(t, "id")
		if code := w.send(t, http.MethodPut, address, io.MultiReader(strings.NewReader("half"), broken{test.err})); code != test.want {
			t.Errorf("%v: it is answered %d", test.err, code)
		}
		if found := w.stored(t); len(found)+w.log.Len() != 0 {
			t.Errorf("%v: it left %v and %s", test.err, found, &w.log)
		}
		if code := w.send(t, http.MethodPut, address, strings.NewReader("whole")); code != http.StatusOK {
			t.Errorf("%v: sent again it is answered %d", test.err, code)
		}
	}
}

// What cannot be stored is told to the operator, without the URL, which is a secret.
func TestUploadThatCannotBeStoredIsTold(t *testing.T) {
	w := newWorld(t)
	address := w.issue(t, "id")
	if err := os.RemoveAll(filepath.Join(w.options.Dir, "unfinished")); err != nil {
		t.Fatal(err)
	}
	if code := w.send(t, http.MethodPut, address, strings.NewReader("body")); code != http.StatusInternalServerError {
		t.Errorf("it is answered %d", code)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if said := w.log.String(); !strings.Contains(said, "no such file") || strings.Contains(said, u.Query().Get("signature")) {
		t.Errorf("it says %s", said)
	}
}

// Who has a URL takes the disk for one archive, however many connections he has.
func TestOneUploadAtATime(t *testing.T) {
	w := newWorld(t)
	address := w.issue(t, "id")
	body, sender := io.Pipe()
	code := make(chan int)
	go func() { code <- w.send(t, http.MethodPut, address, body) }()
	if _, err := io.WriteString(sender, "half"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if code := w.send(t, http.MethodPut, address, strings.NewReader("another")); code != http.StatusConflict {
			t.Errorf("beside one that is under way it is answered %d", code)
		}
	}
	if found := w.stored(t); len(found) != 1 {
		t.Errorf("there are %v", found)
	}
	if code := w.send(t, http.MethodPut, w.issue(t, "other"), strings.NewReader("another")); code != http.StatusOK {
		t.Errorf("another URL is answered %d", code)
	}
	_ = sender.CloseWithError(io.ErrUnexpectedEOF)
	if code := <-code; code != http.StatusBadRequest {
		t.Errorf("the first one is answered %d", code)
	}
	if code := w.send(t, http.MethodPut, address, strings.NewReader("another")); code != http.StatusOK {
		t.Errorf("after its end it is answered %d", code)
	}
}
