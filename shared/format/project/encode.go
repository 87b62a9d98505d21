package project

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrFormat is the error for an artifact in a format that this release does not
// read. Functions return a *FormatError, for which errors.Is(err, ErrFormat) is true.
var ErrFormat = errors.New("project: the artifact has another format")

// FormatError is the error for an artifact in a format that this release does not read. Format is the artifact's
// format.
type FormatError struct{ Format int }

func (e *FormatError) Error() string {
	return fmt.Sprintf("%v: %d, and this release reads %d to %d", ErrFormat, e.Format, OldestFormat, ArtifactFormat)
}

// Is reports whether target is ErrFormat.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

// IsNewer reports whether a newer release wrote the artifact. The newer release can
// serve such an artifact. An artifact in an older format must be built again.
func (e *FormatError) IsNewer() bool { return e.Format > ArtifactFormat }

// CheckFormat returns a *FormatError for a format that this release does not read.
func CheckFormat(format int) error {
	if format < OldestFormat || format > ArtifactFormat {
		return &FormatError{format}
	}
	return nil
}

// MaxReadArtifactBytes is the maximum size of an artifact that is read. Package artifacts refuses a larger stored
// artifact, and Decode refuses an artifact in format 2 that decompresses to more. Builds have a smaller bound
// (maxArtifactBytes). The artifact of the GitHub REST API with its 1,223 operations has 0.5 MB.
const MaxReadArtifactBytes = 64 << 20

// envelope is an artifact in format 2.
type envelope struct {
	Format int `json:"format"`
	// Deflated is the JSON of format 1, compressed (RFC 1951).
	Deflated []byte `json:"deflated"`
}

// Encode encodes an artifact in a format that this release reads. It also returns a digest
// of content and format, in hexadecimal digits. The digest of an artifact in a format is
// the same in every release, although the compressed bytes can differ between releases.
//
// Format 1 is the artifact's JSON. Format 2 is an envelope with the compressed JSON. For large projects it has a
// seventeenth of the size.
func Encode(a *Artifact, format int) (data []byte, digest string, err error) {
	if err := CheckFormat(format); err != nil {
		return nil, "", fmt.Errorf("encode an artifact: %w", err)
	}
	versioned := *a
	versioned.Format = format
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(&versioned); err != nil {
		return nil, "", fmt.Errorf("encode artifact: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	digest = hex.EncodeToString(sum[:])
	if format == 1 {
		return b.Bytes(), digest, nil
	}
	data, err = deflate(format, b.Bytes())
	return data, digest, err
}

func deflate(format int, text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compress an artifact: %w", err)
	}
	_, err = w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress an artifact: %w", err)
	}
	return json.Marshal(envelope{format, b.Bytes()})
}

var errCorrupt = errors.New("project: the artifact is damaged")

// Decode reads an artifact that Encode wrote, in any format that
// this release reads. Its errors contain no part of the artifact.
func Decode(data []byte) (*Artifact, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, errCorrupt
	}
	if err := CheckFormat(head.Format); err != nil {
		return nil, err
	}
	if head.Format > 1 {
		var err error
		if data, err = inflate(data); err != nil {
			return nil, errCorrupt
		}
	}
	a := &Artifact{}
	if err := json.Unmarshal(data, a); err != nil {
		return nil, errCorrupt
	}
	a.Format = ArtifactFormat
	return a, nil
}

func inflate(data []byte) ([]byte, error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(e.Deflated)), MaxReadArtifactBytes+1))
	if err == nil && len(text) > MaxReadArtifactBytes {
		err = errCorrupt
	}
	return text, err
}
