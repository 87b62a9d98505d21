// Package artifacts stores compiled projects (artifacts) in the bucket. Gateways load them
// from there. Artifacts are encrypted, because they can contain the values of variables.
//
// An artifact belongs to one deployment, and its name is a keyed hash of its content. So storing the
// same artifact again changes nothing, and the name does not reveal whether a guess at the artifact's
// secrets is right. The name ends with the artifact's format, unless this is 1. So the format is known without
// reading the artifact, and releases that know nothing of formats keep it, because they keep the name.
//
// The package does not decide which artifact is served (package deployments does) or when an
// artifact is deleted (package builds does). The rules are those of design, sections 5 and 7.
package artifacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/format/project"
)

// maxBytes is the maximum size of a sealed artifact that is read.
const maxBytes = project.MaxReadArtifactBytes

// Objects is the bucket.
type Objects interface {
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error)
}

var (
	_ Objects = (*blob.Bucket)(nil)
	_ Objects = (*blob.Memory)(nil)
)

// Sealer encrypts. context binds a sealed value to its artifact's name.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, context string) ([]byte, error)
}

// Hasher computes keyed hashes, for the purpose "artifact".
type Hasher interface {
	Hash(ctx context.Context, text string) (string, error)
}

// Store stores artifacts. It is safe for concurrent use.
type Store struct {
	objects Objects
	sealer  Sealer
	hasher  Hasher
	// format is the format that Put writes.
	format int
}

// hashPurpose is the purpose of the hashes in artifacts' names, so
// that they differ from all other hashes. It must never change.
const hashPurpose = "artifact"

// Open returns the Store of an installation.
func Open(p installation.Parts) *Store { return New(p.Bucket, p.Sealer(), p.Hasher(hashPurpose)) }

// New returns a Store in a bucket.
func New(objects Objects, sealer Sealer, hasher Hasher) *Store {
	return &Store{objects: objects, sealer: sealer, hasher: hasher, format: project.WrittenFormat}
}

// WithFormat returns a copy of the Store that writes another format, as a later release may.
func (s *Store) WithFormat(format int) *Store {
	out := *s
	out.format = format
	return &out
}

// Format returns the format that Put writes.
func (s *Store) Format() int { return s.format }

// FormatOf returns the format of the artifact with a name. Names without a format
// have format 1. The result for an invalid format is 0, which no release reads.
func FormatOf(name string) int {
	_, suffix, ok := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ".")
	if !ok {
		return 1
	}
	format, err := strconv.Atoi(suffix)
	if err != nil {
		return 0
	}
	return format
}

// Put stores an artifact of a deployment and returns its name. Equal artifacts of a deployment have the same name.
func (s *Store) Put(ctx context.Context, deployment string, a *project.Artifact) (name string, err error) {
	data, digest, err := project.Encode(a, s.format)
	if err != nil {
		return "", err
	}
	hash, err := s.hasher.Hash(ctx, digest)
	if err != nil {
		return "", fmt.Errorf("name an artifact: %w", err)
	}
	name = deployment + "/" + hash
	if s.format > 1 {
		name += "." + strconv.Itoa(s.format)
	}
	sealed, err := s.sealer.Seal(ctx, data, sealContext(name))
	if err != nil {
		return "", fmt.Errorf("seal an artifact: %w", err)
	}
	if err := s.objects.Put(ctx, blob.ArtifactKey(name), bytes.NewReader(sealed)); err != nil {
		return "", fmt.Errorf("store an artifact: %w", err)
	}
	return name, nil
}

// Get loads an artifact by its name. It returns blob.ErrNotFound if the artifact does not exist. For a
// format that this release does not read, it returns a *project.FormatError without reading the bucket.
func (s *Store) Get(ctx context.Context, name string) (*project.Artifact, error) {
	if err := project.CheckFormat(FormatOf(name)); err != nil {
		return nil, err
	}
	r, _, err := s.objects.Get(ctx, blob.ArtifactKey(name), "", maxBytes)
	if err != nil {
		return nil, fmt.Errorf("load an artifact: %w", err)
	}
	sealed, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("load an artifact: %w", err)
	}
	data, err := s.sealer.Open(ctx, sealed, sealContext(name))
	if err != nil {
		return nil, fmt.Errorf("open an artifact: %w", err)
	}
	return project.Decode(data)
}

// Renewer renews values that were sealed under another root key.
type Renewer interface {
	Renew(ctx context.Context, sealed []byte, context string) (renewed []byte, changed bool, err error)
}

// Prefix returns the prefix of artifacts in the bucket.
func Prefix() string { return blob.ArtifactKey("") }

// Renew seals the artifact at a key of the bucket again if it is not sealed under the current root key, and reports
// whether it did so. isInUse reports whether the artifact with a name is still in use: if its deployment was deleted
// meanwhile, Renew deletes the artifact. ok is false if no root key opens the artifact; the artifact then stays
// unchanged.
func Renew(
	ctx context.Context, bucket installation.Bucket, sealer Renewer, key string,
	isInUse func(ctx context.Context, name string) (bool, error),
) (renewed, ok bool, err error) {
	name := strings.TrimPrefix(key, Prefix())
	r, o, err := bucket.Get(ctx, key, "", maxBytes)
	if errors.Is(err, blob.ErrNotFound) {
		return false, true, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("load an artifact: %w", err)
	}
	sealed, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return false, false, fmt.Errorf("load an artifact: %w", err)
	}
	resealed, changed, err := sealer.Renew(ctx, sealed, sealContext(name))
	switch {
	case errors.Is(err, seal.ErrSealed):
		return false, false, nil
	case err != nil, !changed:
		return false, true, err
	}
	// Put would not change an existing object, because an artifact's name depends only on its content.
	switch err := bucket.Replace(ctx, key, o.ETag, bytes.NewReader(resealed)); {
	case errors.Is(err, blob.ErrNotFound):
		return false, true, nil
	case err != nil: // also if the object was changed meanwhile: the step is then repeated
		return false, false, fmt.Errorf("store an artifact: %w", err)
	}
	if inUse, err := isInUse(ctx, name); err != nil || inUse {
		return true, true, err
	}
	return true, true, bucket.Delete(ctx, key)
}

// CanOpen reports whether a root key of the sealer opens the content of an object at a key of the bucket.
func CanOpen(ctx context.Context, sealer Sealer, key string, object io.Reader) (bool, error) {
	sealed, err := io.ReadAll(io.LimitReader(object, maxBytes+1))
	if err != nil {
		return false, fmt.Errorf("load an artifact: %w", err)
	}
	switch _, err := sealer.Open(ctx, sealed, sealContext(strings.TrimPrefix(key, Prefix()))); {
	case errors.Is(err, seal.ErrSealed):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("open an artifact: %w", err)
	}
	return true, nil
}

func sealContext(name string) string { return "artifact/" + name }
