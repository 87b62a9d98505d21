package owncert

import (
	"context"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"strings"

	"golang.org/x/crypto/acme/autocert"
)

// Folder keeps files for their owner alone. A reader, and whoever comes after a power cut, finds all of what was
// written last or all of what was there before.
type Folder interface {
	// Read gives a file's content; the error wraps fs.ErrNotExist for none.
	Read(name string) ([]byte, error)
	Write(name string, content []byte) error
}

// kept is what autocert keeps in a Folder: the account's key and certificates. Answers to challenges stay in
// memory, so that nobody who asks for one has files looked for by names of his own.
//
// autocert's own folder is not synced, so that a power cut leaves an empty key, with which it never gets another
// certificate; and it says nothing of a certificate that could not be written, which is asked for anew at each start.
type kept struct {
	folder Folder
	log    *slog.Logger
}

var _ autocert.Cache = kept{}

// accountKey is autocert's name for it.
const accountKey = "acme_account+key"

// inMemory reports whether a name is that of an answer to a challenge.
func inMemory(name string) bool {
	return strings.HasSuffix(name, "+token") || strings.HasSuffix(name, "+http-01")
}

// Get implements autocert.Cache.
func (k kept) Get(ctx context.Context, name string) ([]byte, error) {
	if inMemory(name) {
		return nil, autocert.ErrCacheMiss
	}
	content, err := k.folder.Read(name)
	switch block, _ := pem.Decode(content); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, autocert.ErrCacheMiss
	case err == nil && name == accountKey && block == nil:
		k.log.WarnContext(ctx, "the key of the account with the authority is no good, another account is made", "file", name)
		return nil, autocert.ErrCacheMiss
	}
	return content, err
}

// Put implements autocert.Cache. Where it cannot, what was obtained is served until the process ends.
func (k kept) Put(ctx context.Context, name string, content []byte) error {
	if inMemory(name) {
		return nil
	}
	err := k.folder.Write(name, content)
	if err != nil {
		k.log.ErrorContext(ctx, "what an authority gave cannot be kept and is asked for again at the next start, of which authorities allow few a week", "file", name, "error", err)
	}
	return err
}

// Delete implements autocert.Cache, which asks for it of answers to challenges alone.
func (kept) Delete(context.Context, string) error { return nil }
