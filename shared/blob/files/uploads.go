package files

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// maxUploadBytes bounds an upload (specification, "Deployments": 100 MiB).
const maxUploadBytes = 100 << 20

// PresignPut makes a URL to which any client may PUT one body, once, for
// blob.UploadValidity, without credentials. The URL is a secret. Unlike S3 it is
// refused the second time, while another one is under way, and beyond 100 MiB.
func (b *Bucket) PresignPut(ctx context.Context, key string) (string, error) {
	if address, ok := blob.Nowhere(ctx, key); ok {
		return address, nil
	}
	expires := strconv.FormatInt(b.o.Now().Add(blob.UploadValidity).Unix(), 10)
	signature, err := b.o.Sign(ctx, signed(key, expires))
	if err != nil {
		return "", fmt.Errorf("presign an upload: %w", err)
	}
	return strings.TrimSuffix(b.o.Address, "/") + (&url.URL{Path: "/" + key, RawQuery: url.Values{"expires": {expires}, "signature": {signature}}.Encode()}).String(), nil
}

func signed(key, expires string) string { return http.MethodPut + "\n" + key + "\n" + expires }

// Uploads answers the requests to the URLs of PresignPut, whose paths begin with
// blob.UploadKey(""). It answers before a body is read where it refuses.
func (b *Bucket) Uploads() http.Handler { return http.HandlerFunc(b.upload) }

func (b *Bucket) upload(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/")
	if _, ok := blob.UploadID(key); !ok {
		b.o.Refuse(w, r, http.StatusNotFound, "There is no upload at this path. Use the URL as it was issued.")
		return
	}
	if r.Method != http.MethodPut {
		w.Header().Set("Allow", http.MethodPut)
		b.o.Refuse(w, r, http.StatusMethodNotAllowed, "This path takes uploads alone. Send the archive by PUT.")
		return
	}
	query := r.URL.Query()
	ours, err := b.ours(r.Context(), signed(key, query.Get("expires")), query.Get("signature"))
	if err != nil {
		b.o.Log.ErrorContext(r.Context(), "an upload's signature cannot be checked", "error", err)
		b.o.Refuse(w, r, http.StatusInternalServerError, "The upload's signature cannot be checked now. Try again.")
		return
	}
	expires, _ := strconv.ParseInt(query.Get("expires"), 10, 64)
	switch {
	case !ours:
		b.o.Refuse(w, r, http.StatusForbidden, "The upload's signature is not right. Use the URL as it was issued.")
		return
	case !b.o.Now().Before(time.Unix(expires, 0)):
		b.o.Refuse(w, r, http.StatusForbidden, "The upload's URL has expired. Ask for another one.")
		return
	case r.ContentLength > maxUploadBytes:
		b.o.Refuse(w, r, http.StatusRequestEntityTooLarge, tooLarge)
		return
	}
	if !b.begin(key) {
		b.o.Refuse(w, r, http.StatusConflict, "An upload to this URL is under way. Wait for its end, or half a minute if it has broken off.")
		return
	}
	defer b.end(key)
	used, err := b.o.Notes.Note(uploadedNote + key)
	if err == nil && used != nil {
		err = errThere
	}
	if err != nil {
		b.refused(w, r, err)
		return
	}
	body := &received{from: http.MaxBytesReader(w, r.Body, maxUploadBytes)}
	o, err := b.store(r.Context(), blob.Object{Key: key, Modified: b.o.Now()}, body,
		map[string][]byte{uploadedNote + key: []byte(query.Get("expires"))})
	if err != nil {
		b.refused(w, r, errors.Join(body.err, err))
		return
	}
	w.Header().Set("Etag", `"`+o.ETag+`"`)
	w.WriteHeader(http.StatusOK)
	if b.o.Uploaded != nil {
		b.o.Uploaded(o)
	}
}

const tooLarge = "An archive has at most 100 MiB. Leave out what the project does not need."

func (b *Bucket) refused(w http.ResponseWriter, r *http.Request, err error) {
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		b.o.Refuse(w, r, http.StatusRequestEntityTooLarge, tooLarge)
	case errors.Is(err, errBrokenOff) && errors.Is(err, os.ErrDeadlineExceeded):
		b.o.Refuse(w, r, http.StatusRequestTimeout, "The archive stalled before its end. Send it again, at once: the URL is not used.")
	case errors.Is(err, errBrokenOff):
		b.o.Refuse(w, r, http.StatusBadRequest, "The archive could not be read to its end. Send it again: the URL is not used.")
	case errors.Is(err, errThere):
		b.o.Refuse(w, r, http.StatusConflict, "The upload's URL was used before. Ask for another one.")
	default:
		b.o.Log.ErrorContext(r.Context(), "an upload could not be stored", "path", telemetry.Text(r.URL.Path), "error", err)
		b.o.Refuse(w, r, http.StatusInternalServerError, "The archive could not be stored. Send it again.")
	}
}

// errBrokenOff is the client's fault, or that of the network to it.
var errBrokenOff = errors.New("files: the body has no end")

// received is a body that remembers why it has no end: what cannot be stored is
// another's fault.
type received struct {
	from io.Reader
	err  error
}

func (r *received) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = fmt.Errorf("%w: %w", errBrokenOff, err)
	}
	return n, err
}

// begin reports whether nobody else sends to the URL of key now: who has a URL may
// fill the disk with one archive, and not with one on each connection.
func (b *Bucket) begin(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, under := b.under[key]; under {
		return false
	}
	b.under[key] = struct{}{}
	return true
}

func (b *Bucket) end(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.under, key)
}

// Forget removes the notes of URLs that have expired and were used. It may be
// called at any time; once an hour is enough.
func (b *Bucket) Forget() error {
	var old []string
	err := b.o.Notes.EachNote(uploadedNote, func(key string, value []byte) (bool, error) {
		if expires, err := strconv.ParseInt(string(value), 10, 64); err != nil || b.o.Now().After(time.Unix(expires, 0)) {
			old = append(old, key)
		}
		return true, nil
	})
	if err != nil || len(old) == 0 {
		return err
	}
	return b.o.Notes.SetNotes(nil, old...)
}

// ours reports, in constant time, whether a text has the signature.
func (b *Bucket) ours(ctx context.Context, text, signature string) (bool, error) {
	if b.o.Signed != nil {
		return b.o.Signed(ctx, text, signature)
	}
	want, err := b.o.Sign(ctx, text)
	return hmac.Equal([]byte(want), []byte(signature)), err
}
