package servercert

import (
	"context"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"strings"

	"golang.org/x/crypto/acme/autocert"
)

// Folder keeps files for their owner only. Writes are atomic: a reader sees either the previous or the new
// content, also after a power failure.
type Folder interface {
	// Read returns a file's content. The error wraps fs.ErrNotExist if there is no such file.
	Read(name string) ([]byte, error)
	Write(name string, content []byte) error
}

// folderCache stores the data of autocert in a Folder: the account's key and the certificates. Responses to
// challenges are only in memory, so that clients cannot make the process look for files with names of their choice.
//
// folderCache replaces autocert.DirCache, which does not sync its files. After a power failure, the file of the
// account's key can be empty, and autocert then never gets another certificate. autocert also ignores the error if a
// certificate cannot be written, and requests that certificate again at each start.
type folderCache struct {
	folder Folder
	log    *slog.Logger
}

var _ autocert.Cache = folderCache{}

// accountKey is autocert's name of the account's key.
const accountKey = "acme_account+key"

// isChallenge reports whether a name belongs to a response to a challenge.
func isChallenge(name string) bool {
	return strings.HasSuffix(name, "+token") || strings.HasSuffix(name, "+http-01")
}

// Get implements autocert.Cache.
func (f folderCache) Get(ctx context.Context, name string) ([]byte, error) {
	if isChallenge(name) {
		return nil, autocert.ErrCacheMiss
	}
	content, err := f.folder.Read(name)
	switch block, _ := pem.Decode(content); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, autocert.ErrCacheMiss
	case err == nil && name == accountKey && block == nil:
		f.log.WarnContext(ctx, "the key of the account with the authority is no good, another account is made", "file", name)
		return nil, autocert.ErrCacheMiss
	}
	return content, err
}

// Put implements autocert.Cache. If Put fails, it logs the error,
// and the certificate is served only until the process ends.
func (f folderCache) Put(ctx context.Context, name string, content []byte) error {
	if isChallenge(name) {
		return nil
	}
	err := f.folder.Write(name, content)
	if err != nil {
		f.log.ErrorContext(ctx, "what an authority gave cannot be kept and is asked for again at the next start, of which "+
			"authorities allow few a week", "file", name, "error", err)
	}
	return err
}

// Delete implements autocert.Cache. autocert calls it only for responses to challenges.
func (folderCache) Delete(context.Context, string) error { return nil }
