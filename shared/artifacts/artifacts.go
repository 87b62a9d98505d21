// Package artifacts stores compiled projects in the bucket, from which gateways
// load them. They are encrypted: an artifact may hold the values of variables.
//
// An artifact belongs to one deployment and is named by a keyed hash of its
// content. So storing the same one again changes nothing, and a name does not
// even say whether a guess at the secrets in it is right. The name ends in the
// artifact's format, which so is known without a look at it, and is as lasting as the
// name: releases that know nothing of formats pass it on.
//
// What it is not: it decides nothing about what is served (package deployments
// does) and removes nothing (package builds does). The rules are those of
// design, sections 5 and 7.
package artifacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/seal"
)

// maxBytes is the largest sealed artifact that is read.
const maxBytes = project.MaxArtifactBytes

// Objects is the bucket.
type Objects interface {
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	Get(ctx context.Context, key, etag string, limit int64) (io.ReadCloser, blob.Object, error)
}

var (
	_ Objects = (*blob.Bucket)(nil)
	_ Objects = (*blob.Memory)(nil)
)

// Sealer encrypts; context ties a sealed value to its artifact's name.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, context string) ([]byte, error)
}

// Hasher makes keyed hashes, for the purpose "artifact".
type Hasher interface {
	Hash(ctx context.Context, text string) (string, error)
}

// Store keeps artifacts. It is safe for concurrent use.
type Store struct {
	objects Objects
	sealer  Sealer
	hasher  Hasher
	// format is the one that Put writes.
	format int
}

// hashPurpose keeps the names of artifacts apart from all other hashes. It never
// changes.
const hashPurpose = "artifact"

// Open makes the Store of an installation.
func Open(p installation.Parts) *Store { return New(p.Bucket, p.Sealer(), p.Hasher(hashPurpose)) }

// New makes a Store in a bucket.
func New(objects Objects, sealer Sealer, hasher Hasher) *Store {
	return &Store{objects: objects, sealer: sealer, hasher: hasher, format: project.WrittenFormat}
}

// Writing gives a Store of the same that writes another format: what a later release does.
func (s *Store) Writing(format int) *Store {
	out := *s
	out.format = format
	return &out
}

// Written is the format that Put writes.
func (s *Store) Written() int { return s.format }

// FormatOf is the format of the artifact of a name. Names without one are of format 1.
func FormatOf(name string) int {
	_, suffix, ok := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ".")
	if !ok {
		return 1
	}
	format, err := strconv.Atoi(suffix)
	if err != nil {
		return 0 // which nobody reads
	}
	return format
}

// Put stores an artifact of a deployment and answers its name, which is the
// same for the same content.
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

// Get loads an artifact by its name. It answers blob.ErrNotFound for one that is
// not there and a *project.FormatError for one of a format that this release does not read,
// without a look into the bucket.
func (s *Store) Get(ctx context.Context, name string) (*project.Artifact, error) {
	if err := project.Readable(FormatOf(name)); err != nil {
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

// Renewer is a Sealer that renews what was sealed under another root key.
type Renewer interface {
	Renew(ctx context.Context, sealed []byte, context string) (renewed []byte, other bool, err error)
}

// Prefix is where artifacts are in the bucket.
func Prefix() string { return blob.ArtifactKey("") }

// Renew stores the artifact at a key of the bucket again where it is sealed under another root key than the one that writes. needed says
// whether the artifact of a name is in use still: one whose deployment was deleted meanwhile is deleted with it. Not ok is one
// that no root key opens, which stays as it is.
func Renew(ctx context.Context, bucket installation.Bucket, sealer Renewer, key string, needed func(ctx context.Context, name string) (bool, error)) (renewed, ok bool, err error) {
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
	again, other, err := sealer.Renew(ctx, sealed, sealContext(name))
	switch {
	case errors.Is(err, seal.ErrSealed):
		return false, false, nil
	case err != nil, !other:
		return false, true, err
	}
	// Put leaves what is there: an artifact's name is of its content, which stays.
	switch err := bucket.Replace(ctx, key, o.ETag, bytes.NewReader(again)); {
	case errors.Is(err, blob.ErrNotFound):
		return false, true, nil
	case err != nil: // of one that was changed meanwhile as well: the step is repeated
		return false, false, fmt.Errorf("store an artifact: %w", err)
	}
	if still, err := needed(ctx, name); err != nil || still {
		return true, true, err
	}
	return true, true, bucket.Delete(ctx, key)
}

// Opens reports whether what an object at a key of the bucket holds opens under a root key of the sealer's.
func Opens(ctx context.Context, sealer Sealer, key string, object io.Reader) (bool, error) {
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
