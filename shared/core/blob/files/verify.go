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

// verifyingReader reads a file, and checks at the end of the file
// whether its content has the digest. So a damaged disk causes an error. It does not
// embed the file, whose WriteTo would be promoted: io.Copy would use it, and verify nothing.
type verifyingReader struct {
	file   *os.File
	note   note
	digest hash.Hash
	read   int64
}

func newVerifyingReader(file *os.File, n note) *verifyingReader {
	return &verifyingReader{file: file, note: n, digest: sha256.New()}
}

// errDamaged is the error for a file whose content is not what was stored.
var errDamaged = errors.New("the file of an object is damaged: restore the last backup")

func (v *verifyingReader) Read(p []byte) (int, error) {
	n, err := v.file.Read(p)
	v.digest.Write(p[:n])
	v.read += int64(n)
	if v.read > v.note.Size || errors.Is(err, io.EOF) &&
		(v.read != v.note.Size || hex.EncodeToString(v.digest.Sum(nil)) != v.note.Digest) {
		return n, fmt.Errorf("read %s: %w", v.file.Name(), errDamaged)
	}
	return n, err
}

// Close implements io.Closer.
func (v *verifyingReader) Close() error { return v.file.Close() }
