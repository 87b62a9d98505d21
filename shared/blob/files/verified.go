package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// verified reads a file and tells at its end whether it is what was stored: a
// damaged disk is an error, and no other content.
type verified struct {
	*os.File
	note   note
	digest hash.Hash
	read   int64
}

func newVerified(file *os.File, n note) *verified {
	return &verified{File: file, note: n, digest: sha256.New()}
}

// errDamaged ends the reading of a file whose content is not what was stored.
var errDamaged = errors.New("the file of an object is damaged: restore the last backup")

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.File.Read(p)
	v.digest.Write(p[:n])
	v.read += int64(n)
	if v.read > v.note.Size || errors.Is(err, io.EOF) && (v.read != v.note.Size || hex.EncodeToString(v.digest.Sum(nil)) != v.note.Digest) {
		return n, fmt.Errorf("read %s: %w", v.Name(), errDamaged)
	}
	return n, err
}
