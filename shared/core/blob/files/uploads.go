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

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/blob"
)

// maxUploadBytes limits an upload (specification, "Deployments": 100 MiB).
const maxUploadBytes = 100 << 20

// PresignPut returns a URL to which any client can PUT one body, once, without
// credentials, for blob.UploadValidity. The URL is a secret. Unlike S3, Uploads
// refuses a second upload, a concurrent upload, and an upload of more than 100 MiB.
func (b *Bucket) PresignPut(ctx context.Context, key string) (string, error) {
	if address, ok := blob.DryRunURL(ctx, key); ok {
		return address, nil
	}
	expires := strconv.FormatInt(b.o.Now().Add(blob.UploadValidity).Unix(), 10)
	signature, err := b.o.Sign(ctx, signedText(key, expires))
	if err != nil {
		return "", fmt.Errorf("presign an upload: %w", err)
	}
	return strings.TrimSuffix(b.o.Address, "/") + (&url.URL{
		Path:     "/" + key,
		RawQuery: url.Values{"expires": {expires}, "signature": {signature}}.Encode(),
	}).String(), nil
}

func signedText(key, expires string) string { return http.MethodPut + "\n" + key + "\n" + expires }

// Uploads returns the handler of the URLs of PresignPut, whose paths begin with blob.UploadKey(""). Before it reads
// the body of a request, it checks the method, the signature and the expiry, and that the URL was not used yet.
func (b *Bucket) Uploads() http.Handler { return http.HandlerFunc(b.upload) }

func (b *Bucket) upload(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/")
	if _, ok := blob.UploadID(key); !ok {
		b.o.RespondError(w, r, http.StatusNotFound, "There is no upload at this path. Use the URL as it was issued.")
		return
	}
	if r.Method != http.MethodPut {
		w.Header().Set("Allow", http.MethodPut)
		b.o.RespondError(w, r, http.StatusMethodNotAllowed, "This path takes uploads alone. Send the archive by PUT.")
		return
	}
	query := r.URL.Query()
	valid, err := b.verifySignature(r.Context(), signedText(key, query.Get("expires")), query.Get("signature"))
	if err != nil {
		b.o.Log.ErrorContext(r.Context(), "an upload's signature cannot be checked", "error", err)
		b.o.RespondError(w, r, http.StatusInternalServerError, "The upload's signature cannot be checked now. Try again.")
		return
	}
	expires, _ := strconv.ParseInt(query.Get("expires"), 10, 64)
	switch {
	case !valid:
		b.o.RespondError(w, r, http.StatusForbidden, "The upload's signature is not right. Use the URL as it was issued.")
		return
	case !b.o.Now().Before(time.Unix(expires, 0)):
		b.o.RespondError(w, r, http.StatusForbidden, "The upload's URL has expired. Ask for another one.")
		return
	case r.ContentLength > maxUploadBytes:
		b.o.RespondError(w, r, http.StatusRequestEntityTooLarge, tooLarge)
		return
	}
	if !b.beginUpload(key) {
		b.o.RespondError(w, r, http.StatusConflict,
			"An upload to this URL is under way. Wait for its end, or half a minute if it has broken off.")
		return
	}
	defer b.endUpload(key)
	used, err := b.o.Notes.Note(uploadedNote + key)
	if err == nil && used != nil {
		err = errExists
	}
	if err != nil {
		b.respondError(w, r, err)
		return
	}
	body := &bodyReader{body: http.MaxBytesReader(w, r.Body, maxUploadBytes)}
	o, err := b.store(r.Context(), blob.Object{Key: key, Modified: b.o.Now()}, body,
		map[string][]byte{uploadedNote + key: []byte(query.Get("expires"))})
	if err != nil {
		b.respondError(w, r, errors.Join(body.err, err))
		return
	}
	w.Header().Set("Etag", `"`+o.ETag+`"`)
	w.WriteHeader(http.StatusOK)
	if b.o.OnUpload != nil {
		b.o.OnUpload(o)
	}
}

const tooLarge = "An archive has at most 100 MiB. Leave out what the project does not need."

func (b *Bucket) respondError(w http.ResponseWriter, r *http.Request, err error) {
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		b.o.RespondError(w, r, http.StatusRequestEntityTooLarge, tooLarge)
	case errors.Is(err, errIncompleteBody) && errors.Is(err, os.ErrDeadlineExceeded):
		b.o.RespondError(w, r, http.StatusRequestTimeout,
			"The archive stalled before its end. Send it again, at once: the URL is not used.")
	case errors.Is(err, errIncompleteBody):
		b.o.RespondError(w, r, http.StatusBadRequest,
			"The archive could not be read to its end. Send it again: the URL is not used.")
	case errors.Is(err, errExists):
		b.o.RespondError(w, r, http.StatusConflict, "The upload's URL was used before. Ask for another one.")
	default:
		b.o.Log.ErrorContext(r.Context(), "an upload could not be stored", "path", telemetry.Text(r.URL.Path), "error", err)
		b.o.RespondError(w, r, http.StatusInternalServerError, "The archive could not be stored. Send it again.")
	}
}

// errIncompleteBody means that the client or the network ended the request before the end of its body.
var errIncompleteBody = errors.New("files: the body has no end")

// bodyReader is a body that remembers a read error, to distinguish it from errors of the store.
type bodyReader struct {
	body io.Reader
	err  error
}

func (r *bodyReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = fmt.Errorf("%w: %w", errIncompleteBody, err)
	}
	return n, err
}

// beginUpload reports whether the upload may begin, and records that it has begun. It may if no other request is
// uploading to the key. So a client with a URL can store one archive on the disk, but not one for each connection.
func (b *Bucket) beginUpload(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, active := b.uploading[key]; active {
		return false
	}
	b.uploading[key] = struct{}{}
	return true
}

func (b *Bucket) endUpload(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.uploading, key)
}

// DeleteExpiredNotes deletes the notes of URLs that were used and have expired. It can be called at any time; once an hour is enough.
func (b *Bucket) DeleteExpiredNotes() error {
	var expired []string
	err := b.o.Notes.EachNote(uploadedNote, func(key string, value []byte) (bool, error) {
		if expires, err := strconv.ParseInt(string(value), 10, 64); err != nil || b.o.Now().After(time.Unix(expires, 0)) {
			expired = append(expired, key)
		}
		return true, nil
	})
	if err != nil || len(expired) == 0 {
		return err
	}
	return b.o.Notes.SetNotes(nil, expired...)
}

// verifySignature reports, in constant time, whether a text has the signature.
func (b *Bucket) verifySignature(ctx context.Context, text, signature string) (bool, error) {
	if b.o.Verify != nil {
		return b.o.Verify(ctx, text, signature)
	}
	want, err := b.o.Sign(ctx, text)
	return hmac.Equal([]byte(want), []byte(signature)), err
}
