package project

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrFormat is what Decode answers for an artifact of another format: the
// project has to be deployed again.
var ErrFormat = errors.New("project: the artifact has another format")

// Encode writes an artifact, the same one always in the same bytes, and gives
// the SHA-256 of them in lower-case hexadecimal digits, its name in the bucket.
func Encode(a *Artifact) (data []byte, digest string, err error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(a); err != nil {
		return nil, "", fmt.Errorf("encode artifact: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	return b.Bytes(), hex.EncodeToString(sum[:]), nil
}

// Decode reads what Encode wrote. Its errors hold nothing of the content.
func Decode(data []byte) (*Artifact, error) {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, errors.New("project: the artifact is damaged")
	}
	if head.Format != ArtifactFormat {
		return nil, fmt.Errorf("%w: %d, not %d", ErrFormat, head.Format, ArtifactFormat)
	}
	a := &Artifact{}
	if err := json.Unmarshal(data, a); err != nil {
		return nil, errors.New("project: the artifact is damaged")
	}
	return a, nil
}
