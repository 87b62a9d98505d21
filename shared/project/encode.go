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

// ErrFormat is what Decode answers for an artifact of a format that this release does not read. It is
// a *FormatError.
var ErrFormat = errors.New("project: the artifact has another format")

// FormatError tells which format an artifact has that this release does not read.
type FormatError struct{ Format int }

func (e *FormatError) Error() string {
	return fmt.Sprintf("%v: %d, and this release reads %d to %d", ErrFormat, e.Format, OldestFormat, ArtifactFormat)
}

// Is makes it an ErrFormat.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }

// Newer reports whether a newer release has written it: then there is nothing wrong with it, and that
// release serves it. An older one has to be built again.
func (e *FormatError) Newer() bool { return e.Format > ArtifactFormat }

// Readable answers a *FormatError for a format that this release does not read.
func Readable(format int) error {
	if format < OldestFormat || format > ArtifactFormat {
		return &FormatError{format}
	}
	return nil
}

// MaxArtifactBytes is the largest artifact that is read. The one of the GitHub REST API's 1,223
// operations has 0.5 MB.
const MaxArtifactBytes = 64 << 20

// envelope is an artifact in format 2.
type envelope struct {
	Format int `json:"format"`
	// Deflated is the JSON of format 1, compressed (RFC 1951).
	Deflated []byte `json:"deflated"`
}

// Encode writes an artifact in a format that this release reads, and gives a digest of its content and
// format, in hexadecimal digits: the same for the same artifact, of which the bytes may differ between
// releases.
//
// Format 1 is the artifact's JSON. Format 2 is that, compressed: a seventeenth of the size for large projects.
func Encode(a *Artifact, format int) (data []byte, digest string, err error) {
	if err := Readable(format); err != nil {
		return nil, "", fmt.Errorf("encode an artifact: %w", err)
	}
	its := *a
	its.Format = format
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(&its); err != nil {
		return nil, "", fmt.Errorf("encode artifact: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	digest = hex.EncodeToString(sum[:])
	if format == 1 {
		return b.Bytes(), digest, nil
	}
	data, err = deflated(format, b.Bytes())
	return data, digest, err
}

func deflated(format int, text []byte) ([]byte, error) {
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

var errDamaged = errors.New("project: the artifact is damaged")

// Decode reads what Encode wrote, in any format that this release reads. Its errors hold nothing of the
// content.
func Decode(data []byte) (*Artifact, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, errDamaged
	}
	if err := Readable(head.Format); err != nil {
		return nil, err
	}
	if head.Format > 1 {
		var err error
		if data, err = inflated(data); err != nil {
			return nil, errDamaged
		}
	}
	a := &Artifact{}
	if err := json.Unmarshal(data, a); err != nil {
		return nil, errDamaged
	}
	a.Format = ArtifactFormat
	return a, nil
}

func inflated(data []byte) ([]byte, error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(e.Deflated)), MaxArtifactBytes+1))
	if err == nil && len(text) > MaxArtifactBytes {
		err = errDamaged
	}
	return text, err
}
